"""Where entries are kept: bytes by digest.

    <directory>/v1/<64 hex digits>.jsonl           an entry
    <directory>/v1/<64 hex digits>.jsonl.bad-<8>   one found damaged, moved aside once and never read again
    <directory>/reports/                           boot reports (`report.py`)
    <directory>/history/                           what became of entries, by machine (`history.py`)

A store does not interpret these bytes. `entry.py` checks them at every read.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

from warmcurve.storage.elsewhere import misplaced
from warmcurve.storage.entry import MAX_BYTES, SCHEMA
from warmcurve.storage.files import Directory

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_SUFFIX: Final = ".jsonl"


class Store(Protocol):
    """What a boot needs of a store. `warmcurve.testing.StoreContract` holds every implementation to it."""

    def get(self, digest: str) -> bytes | None:
        """The bytes that were last put under this digest, or None. Raises `StoreError` if they cannot be read."""

    def put(self, digest: str, data: bytes) -> str | None:
        """Replace what was there, all at once. If it raises `StoreError`, the old bytes stay.

        Returns None. If a loss of power may undo it, it returns the reason in words.
        """

    def list(self) -> tuple[str, ...]:
        """The digests that have bytes, in order. Raises `StoreError`."""

    def delete(self, digest: str) -> bool:
        """Delete the bytes of a digest. Returns whether there were any. A loss of power may undo it. Raises
        `StoreError`.
        """

    def set_aside(self, digest: str) -> bool:
        """Move a damaged entry aside and keep it for inspection. Returns false if that is not possible.

        It never raises `StoreError`: a damaged entry is a miss in any case.
        """

    def describe(self, digest: str) -> str:
        """Where the entry is, or where it would be, in words."""

    def whereabouts(self, enough: Callable[[], bool]) -> str:
        """Where a boot looks for entries, and where there are entries that it does not look at, in words.

        It searches until `enough()` is true. It never raises `StoreError`.
        """


class DirectoryStore:
    """Entries as files of one directory, private to its user: mode 0600 in directories of mode 0700.

    A directory or file that untrusted users may write to is refused (`STORE_UNSAFE`). Owner and mode decide this.
    `trust_group` trusts the members of its group. Nothing is created before the first `put`.
    """

    def __init__(self, directory: Path, *, trust_group: bool = False) -> None:
        self.directory = directory
        self._entries = Directory(directory, f"v{SCHEMA}", trust_group=trust_group)

    def get(self, digest: str) -> bytes | None:
        return self._entries.read(_name(digest), MAX_BYTES)

    def put(self, digest: str, data: bytes) -> str | None:
        return self._entries.publish(_name(digest), data)

    def list(self) -> tuple[str, ...]:
        digests = (name.removesuffix(_SUFFIX) for name in self._entries.names() if name.endswith(_SUFFIX))
        return tuple(digest for digest in digests if _DIGEST.fullmatch(digest))

    def delete(self, digest: str) -> bool:
        return self._entries.remove(_name(digest))

    def set_aside(self, digest: str) -> bool:
        # A writer may have replaced the damaged entry meanwhile; then a good one is set aside and calibrated again: a
        # boot's time, never a wrong curve.
        return self._entries.set_aside(_name(digest))

    def describe(self, digest: str) -> str:
        return str(self._entries.path / _name(digest))

    def whereabouts(self, enough: Callable[[], bool] = lambda: False) -> str:
        elsewhere = ", ".join(str(path) for path in misplaced(self._entries.path, enough, beside=False))
        return f"looked in {self._entries.path}{elsewhere and f'; entries lie in {elsewhere}, where no boot looks'}"

    def misplaced(self) -> tuple[Path, ...]:
        """The directories with entries that no boot looks at, such as a copy at the wrong level."""
        return misplaced(self._entries.path)


def check_digest(digest: str) -> str:
    """Return the digest. Raises ValueError for anything but 64 hexadecimal digits, such as a path."""
    if not _DIGEST.fullmatch(digest):
        raise ValueError(f"not a digest: {digest!r:.80}")
    return digest


def _name(digest: str) -> str:
    return check_digest(digest) + _SUFFIX
