"""Ranks that vote, as threads of one process."""

import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from warmcurve.errors import VoteError

T = TypeVar("T")


class MemoryKeyValue:
    """A key-value store (`warmcurve.ranks.register.KeyValue`) that all threads share.

    With `fails` set, every call asks it first: `fails(operation, key)` says whether this one raises `VoteError`.
    """

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.fails: Callable[[str, str], bool] = _never
        self._lock = threading.Lock()

    def set(self, key: str, value: bytes) -> None:
        self._check("set", key)
        with self._lock:
            self.values[key] = value

    def get(self, key: str) -> bytes | None:
        self._check("get", key)
        with self._lock:
            return self.values.get(key)

    def compare_set(self, key: str, value: bytes) -> bytes:
        self._check("compare_set", key)
        with self._lock:
            return self.values.setdefault(key, value)

    def close(self) -> None:
        pass

    def _check(self, operation: str, key: str) -> None:
        if self.fails(operation, key):
            raise VoteError(f"{operation} {key}: planted")


def _never(operation: str, key: str) -> bool:  # noqa: ARG001
    return False


def together(ranks: Sequence[Callable[[], T]]) -> list[T | Exception]:
    """Run each of these in its own thread. Returns what each of them returned or raised."""
    results: dict[int, T | Exception] = {}

    def run(rank: int) -> None:
        try:
            results[rank] = ranks[rank]()
        except Exception as error:  # noqa: BLE001  handed to the caller
            results[rank] = error

    threads = [threading.Thread(target=run, args=(rank,), daemon=True) for rank in range(len(ranks))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [results[rank] for rank in range(len(ranks))]
