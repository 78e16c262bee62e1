"""Where entries are kept: bytes by digest.

    <directory>/v1/<64 hex digits>.jsonl           an entry
    <directory>/v1/<64 hex digits>.jsonl.bad-<8>   one found damaged, moved aside once and never read again
    <directory>/reports/                           boot reports (`report.py`)
    <directory>/history/                           what became of entries, by machine (`history.py`)

A store never interprets what it keeps: `entry.py` checks the bytes at every read.
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
        """The bytes last put under this digest, or None. Raises `StoreError` where they cannot be had."""

    def put(self, digest: str, data: bytes) -> str | None:
        """Replace whatever was there, all at once. Raises `StoreError`, and what was there stays.

        Gives None, or in words why what is stored now may not outlive a loss of power.
        """

    def list(self) -> tuple[str, ...]:
        """The digests that hold something, in order. Raises `StoreError`."""

    def delete(self, digest: str) -> bool:
        """Whether there was something to delete. A loss of power may undo it. Raises `StoreError`."""

    def set_aside(self, digest: str) -> bool:
        """Take a damaged entry out of the way, kept for inspection; false where that cannot be done. Never raises
        `StoreError`: a damaged entry is a miss with or without it.
        """

    def describe(self, digest: str) -> str:
        """Where the entry is or would be, for a person."""

    def whereabouts(self, enough: Callable[[], bool]) -> str:
        """Where entries are looked for, and where some lie that are not looked at, for a person. It searches only until
        there is `enough`, and never raises `StoreError`.
        """


class DirectoryStore:
    """Entries as files of one directory, private to its user: mode 0600 in directories of mode 0700.

    A directory or file that untrusted users may write, by owner or by mode, is refused (`STORE_UNSAFE`);
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
        elsewhere = ", ".join(str(path) for path in self.misplaced(enough))
        return f"looked in {self._entries.path}{elsewhere and f'; entries lie in {elsewhere}, where no boot looks'}"

    def misplaced(self, enough: Callable[[], bool] = lambda: False) -> tuple[Path, ...]:
        """Where entries lie that no boot looks at, as after a copy to the wrong level."""
        return misplaced(self._entries.path, enough)


def check_digest(digest: str) -> str:
    """The digest itself. Raises ValueError for anything that is not 64 hexadecimal digits, such as a path."""
    if not _DIGEST.fullmatch(digest):
        raise ValueError(f"not a digest: {digest!r:.80}")
    return digest


def _name(digest: str) -> str:
    return check_digest(digest) + _SUFFIX
