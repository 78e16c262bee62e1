"""An operating system whose n-th call fails."""

import os
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import pytest

from warmcurve.storage import files

CALLS = ("open", "close", "read", "write", "fsync", "fstat", "stat", "rename", "unlink", "listdir", "mkdir")


class FaultySystem:
    """While entered, `fail(name)` is called in place of the n-th of the system's calls that the library makes; with
    `lasting`, of every one from there on. `calls` holds the names of all calls so far.
    """

    def __init__(self, nth: int, fail: Callable[[str], None], *, lasting: bool = False) -> None:
        self._nth = nth
        self._fail = fail
        self._lasting = lasting
        self._patch = pytest.MonkeyPatch()
        self.calls: list[str] = []

    @property
    def reached(self) -> bool:
        return len(self.calls) >= self._nth

    @property
    def failed(self) -> list[str]:
        return self.calls[self._nth - 1 :] if self._lasting else self.calls[self._nth - 1 : self._nth]

    def __getattr__(self, name: str):
        return self._counted(name, getattr(os, name)) if name in CALLS else getattr(os, name)

    def _counted(self, name: str, call: Callable[..., Any]):
        def counted(*positional, **named):
            self.calls.append(name)
            if len(self.calls) == self._nth or (self._lasting and self.reached):
                if name == "close":
                    # The kernel gives the descriptor back before close reports an error.
                    call(*positional, **named)
                self._fail(name)
            return call(*positional, **named)

        return counted

    def __enter__(self) -> Self:
        self._patch.setattr(files, "os", self)
        # pathlib makes directories itself.
        self._patch.setattr(os, "mkdir", self._counted("mkdir", os.mkdir))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._patch.undo()


def raising(number: int) -> Callable[[str], None]:
    """What fails with this errno."""

    def fail(name: str) -> None:
        raise OSError(number, os.strerror(number))

    return fail
