"""How far a long command is: one line on stderr that is written over, only where stderr is a terminal."""

import sys
from collections.abc import Callable
from time import monotonic
from types import TracebackType
from typing import Final, Self, TextIO

_EVERY_S: Final = 0.2
_ERASE: Final = "\r\x1b[K"


class Progress:
    """Of `total` entries, or of an unknown number. It is erased before anything else is printed, and at the end."""

    def __init__(
        self, total: int | None = None, *, stream: TextIO | None = None, clock: Callable[[], float] = monotonic
    ) -> None:
        self._total = total
        self._stream = stream or sys.stderr
        self._clock = clock
        self._active = self._stream.isatty()
        self._written = clock()
        self._visible = False
        self._done = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.erase()

    def step(self) -> bool:
        """One more entry is done. False, so that it can stand where a survey asks whether it has enough."""
        self._done += 1
        if self._active and self._clock() - self._written >= _EVERY_S:
            self._written = self._clock()
            self._visible = True
            count = f"{self._done} entries" if self._total is None else f"{self._done} of {self._total} entries"
            self._stream.write(f"\r{count}")
            self._stream.flush()
        return False

    def erase(self) -> None:
        """Before a line is printed."""
        if self._visible:
            self._visible = False
            self._stream.write(_ERASE)
            self._stream.flush()
