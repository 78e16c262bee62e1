"""Stores in memory: a perfect one, and one that fails when told."""

from collections.abc import Callable

from warmcurve.errors import StoreError
from warmcurve.storage.history import History
from warmcurve.storage.store import check_digest


class MemoryStore:
    """The reference for other stores. `aside` has what was set aside, by digest, oldest first."""

    def __init__(self) -> None:
        self.entries: dict[str, bytes] = {}
        self.aside: dict[str, list[bytes]] = {}

    def get(self, digest: str) -> bytes | None:
        return self.entries.get(check_digest(digest))

    def put(self, digest: str, data: bytes) -> None:
        self.entries[check_digest(digest)] = bytes(data)

    def list(self) -> tuple[str, ...]:
        return tuple(sorted(self.entries))

    def delete(self, digest: str) -> bool:
        return self.entries.pop(check_digest(digest), None) is not None

    def set_aside(self, digest: str) -> bool:
        data = self.entries.pop(check_digest(digest), None)
        if data is None:
            return False
        self.aside.setdefault(digest, []).append(data)
        return True

    def describe(self, digest: str) -> str:
        return f"memory:{check_digest(digest)}"

    def whereabouts(self, enough: Callable[[], bool] = lambda: False) -> str:  # noqa: ARG002  nothing is searched
        return "looked in memory"


class FaultStore(MemoryStore):
    """Raises `errors[operation]` from the operation of that name (`get`, `put`, `list`, `delete`), while it is there.

    A `StoreError` stands for a store that refuses. Any other exception stands for a store that is broken.
    """

    def __init__(self, **errors: Exception) -> None:
        super().__init__()
        self.errors: dict[str, Exception] = dict(errors)

    def _fail(self, operation: str) -> None:
        if error := self.errors.get(operation):
            raise error

    def get(self, digest: str) -> bytes | None:
        self._fail("get")
        return super().get(digest)

    def put(self, digest: str, data: bytes) -> None:
        self._fail("put")
        super().put(digest, data)

    def list(self) -> tuple[str, ...]:
        self._fail("list")
        return super().list()

    def delete(self, digest: str) -> bool:
        self._fail("delete")
        return super().delete(digest)

    def set_aside(self, digest: str) -> bool:
        # A store that cannot be written cannot move anything aside, and says so by the contract's false.
        if isinstance(self.errors.get("put"), StoreError):
            return False
        return super().set_aside(digest)


class MemoryHistories:
    """The histories of one machine, by digest. Writing raises `error`, while there is one."""

    def __init__(self, machine: str = "machine") -> None:
        self.machine = machine
        self.kept: dict[str, History] = {}
        self.error: StoreError | None = None

    def read(self, digest: str) -> History:
        return self.kept.get(digest, History(self.machine))

    def write(self, digest: str, history: History) -> None:
        if self.error:
            raise self.error
        self.kept[digest] = history
