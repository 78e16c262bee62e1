"""Votes over the key-value store of torch's default process group.

Every rank of the group can reach this store. Rank 0 or the launcher serves it. This file needs torch.
"""

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Final, TypeVar

from torch.distributed import PrefixStore, Store, distributed_c10d

from warmcurve.errors import VoteError

T = TypeVar("T")
ANSWER_S: Final = 5.0
"""A call is answered in far less than a millisecond; after this long the store counts as failed."""
MAX_BYTES: Final = 4 << 20
"""torch's server closes the connection, which is the engine's own, at a value of more than 8 MiB
(TCPStoreLibUvBackend.cpp of torch 2.13; measured).
"""


class DefaultStore:
    """A key-value store (`register.KeyValue`) in a fresh namespace for each calibration.

    The n-th store that a rank opens has the namespace of the other ranks' n-th. Ranks count in the store itself. A rank
    that has counted fewer meets a namespace whose decisions are made, without its vote. A rank that has counted more
    meets nobody. Both calibrate.

    The group's connection is shared. A copy (`Store.clone`) would need a new connection. If names cannot be looked up,
    the server answered nobody for 5 s while it accepted one. Calls run on a thread that can be left behind, because a
    TCPStore waits for its server without a limit (TCPStore.cpp, `recv`).

    Raises `VoteError`, here and from every method.
    """

    def __init__(self, rank: int, answer_s: float = ANSWER_S) -> None:
        self._answer_s = answer_s
        self._broken: str | None = None
        self._calls: SimpleQueue[Callable[[], None]] = SimpleQueue()
        threading.Thread(target=self._work, name="warmcurve-vote", daemon=True).start()
        try:
            self._store = self._call(lambda: _namespace(distributed_c10d._get_default_store(), rank))  # noqa: SLF001
        except VoteError:
            self.close()
            raise

    def set(self, key: str, value: bytes) -> None:
        _check(key, value)
        self._call(lambda: self._store.set(key, value.decode()))

    def get(self, key: str) -> bytes | None:
        # `get` waits for a key that is not there.
        return self._call(lambda: self._store.get(key) if self._store.check([key]) else None)

    def compare_set(self, key: str, value: bytes) -> bytes:
        _check(key, value)
        # An empty expectation stands for a key that is not there, for all kinds of stores.
        return bytes(self._call(lambda: self._store.compare_set(key, "", value.decode())))

    def _call(self, function: Callable[[], T]) -> T:
        if self._broken:
            raise VoteError(self._broken)
        answers: SimpleQueue[tuple[T | None, Exception | None]] = SimpleQueue()

        def call() -> None:
            try:
                answers.put((function(), None))
            except Exception as error:  # noqa: BLE001  stores of different kinds raise different errors
                answers.put((None, error))

        self._calls.put(call)
        try:
            value, error = answers.get(timeout=self._answer_s)
        except Empty:
            self._broken = f"the process group's store did not answer within {self._answer_s:g} s"
            raise VoteError(self._broken) from None
        if error is not None:
            raise VoteError(f"{type(error).__name__}: {error}") from error
        return value  # type: ignore[return-value]

    def close(self) -> None:
        """No call may follow."""
        self._broken = "closed"
        self._calls.put(_stop)

    def _work(self) -> None:
        while True:
            call = self._calls.get()
            if call is _stop:
                return
            call()


def _stop() -> None: ...


def _namespace(store: Store, rank: int) -> PrefixStore:
    opened = store.add(f"warmcurve/opened/{rank}", 1)
    return PrefixStore(f"warmcurve/{opened}", store)


def _check(key: str, value: bytes) -> None:
    if len(value) > MAX_BYTES:
        raise VoteError(f"{key} has {len(value)} bytes, at most {MAX_BYTES}")
