"""Performs the operations of a vote on a key-value store. Every wait has a limit."""

from typing import Protocol

from warmcurve.ranks.vote import Await, Heard, Operation, Post, Reply

FIRST_PAUSE_S = 0.0002
LONGEST_PAUSE_S = 0.02


class KeyValue(Protocol):
    """The key-value store that all ranks of a vote share. Its namespace is fresh for each calibration.

    Every call returns soon. It raises `VoteError` if the store fails. A key that was written is not forgotten.
    """

    def set(self, key: str, value: bytes) -> None: ...

    def get(self, key: str) -> bytes | None:
        """What the key holds, or None. It does not wait for a value."""

    def compare_set(self, key: str, value: bytes) -> bytes:
        """Write the value if the key holds none, atomically. Returns what the key then holds."""

    def close(self) -> None:
        """No call follows."""


class Clock(Protocol):
    def monotonic_ns(self) -> int: ...

    def sleep(self, seconds: float) -> None: ...


class Register:
    """Performs the operations of one rank in one calibration.

    A round waits at most `timeout_s` times the patience that is asked for, from its first wait on.
    """

    def __init__(self, store: KeyValue, clock: Clock, timeout_s: float) -> None:
        self._store = store
        self._clock = clock
        self._timeout_s = timeout_s
        self._began: dict[int, int] = {}
        self.waited_ns = 0

    def perform(self, operation: Operation) -> Reply:
        """Raises `VoteError`."""
        started = self._clock.monotonic_ns()
        try:
            if isinstance(operation, Post):
                self._store.set(operation.key, operation.value)
                return None
            if isinstance(operation, Await):
                return self._wait(operation)
            return Heard(operation.key, self._store.compare_set(operation.key, operation.value))
        finally:
            self.waited_ns += self._clock.monotonic_ns() - started

    def _wait(self, operation: Await) -> Reply:
        began = self._began.setdefault(operation.round, self._clock.monotonic_ns())
        deadline = began + self._timeout_s * operation.patience * 1e9
        pause = FIRST_PAUSE_S
        while True:
            # The clock first: whatever is there at the deadline was looked for after it.
            late = self._clock.monotonic_ns() >= deadline
            for key in operation.keys:
                value = self._store.get(key)
                if value is not None:
                    return Heard(key, value)
            if late:
                return None
            self._clock.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_S)
