"""Where entries are kept: bytes by digest.

    <directory>/v1/<64 hex digits>.jsonl           an entry
    <directory>/v1/<64 hex digits>.jsonl.bad-<8>   one found damaged, moved aside once and never read again
    <directory>/reports/                           boot reports (`report.py`)
    <directory>/history/                           what became of entries, by machine (`history.py`)

A store never interprets what it keeps: `entry.py` checks the bytes at every read.
"""

import os
import re
import secrets
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Final, Protocol

from warmcurve.errors import StoreError
from warmcurve.outcome import Reason
from warmcurve.storage import files
from warmcurve.storage.entry import MAX_BYTES, SCHEMA

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_SUFFIX: Final = ".jsonl"
_ASIDE: Final = ".jsonl.bad-"
KEPT_ASIDE: Final = 16
"""Damaged files of a store that are kept for inspection: whatever damages one at each boot must not fill a disk."""


class Store(Protocol):
    """What a boot needs of a store. `warmcurve.testing.StoreContract` holds every implementation to it."""

    def get(self, digest: str) -> bytes | None:
        """The bytes last put under this digest, or None. Raises `StoreError` where they cannot be had."""

    def put(self, digest: str, data: bytes) -> None:
        """Replace whatever was there, all at once. Raises `StoreError`, and what was there stays."""

    def list(self) -> tuple[str, ...]:
        """The digests that hold something, in order. Raises `StoreError`."""

    def delete(self, digest: str) -> bool:
        """Whether there was something to delete. Raises `StoreError`."""

    def set_aside(self, digest: str) -> bool:
        """Take a damaged entry out of the way, kept for inspection; false where that cannot be done. Never raises
        `StoreError`: a damaged entry is a miss with or without it.
        """

    def describe(self, digest: str) -> str:
        """Where the entry is or would be, for a person."""


class DirectoryStore:
    """Entries as files of one directory, private to its user: mode 0600 in directories of mode 0700.

    A directory or file that untrusted users may write, by owner or by mode, is refused (`STORE_UNSAFE`);
    `trust_group` trusts the members of its group. Nothing is created before the first `put`.
    """

    def __init__(self, directory: Path, *, trust_group: bool = False) -> None:
        self.directory = directory
        self._entries = directory / f"v{SCHEMA}"
        self._trust_group = trust_group

    def _open(self, *, create: bool = False) -> AbstractContextManager[int]:
        return files.open_nested(self.directory, self._entries, trust_group=self._trust_group, create=create)

    def get(self, digest: str) -> bytes | None:
        name = _name(digest)
        try:
            with self._open() as entries:
                return files.read(entries, name, self._entries, MAX_BYTES, trust_group=self._trust_group)
        except FileNotFoundError:
            return None
        except StoreError:
            raise
        except OSError as error:
            raise _unavailable(self._entries, error) from error

    def put(self, digest: str, data: bytes) -> None:
        name = _name(digest)
        try:
            with self._open(create=True) as entries:
                try:
                    files.publish(entries, name, data)
                except (IsADirectoryError, NotADirectoryError):
                    # rename replaces files, links and pipes, but no directory.
                    _move_aside(entries, name)
                    files.publish(entries, name, data)
        except StoreError:
            raise
        except OSError as error:
            raise files.write_error(self._entries / name, error) from error

    def list(self) -> tuple[str, ...]:
        try:
            with self._open() as entries:
                names = os.listdir(entries)
        except FileNotFoundError:
            return ()
        except StoreError:
            raise
        except OSError as error:
            raise _unavailable(self._entries, error) from error
        digests = (name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX))
        return tuple(sorted(digest for digest in digests if _DIGEST.fullmatch(digest)))

    def delete(self, digest: str) -> bool:
        name = _name(digest)
        try:
            with self._open() as entries:
                os.unlink(name, dir_fd=entries)
                files.sync(entries)
                return True
        except FileNotFoundError:
            return False
        except StoreError:
            raise
        except OSError as error:
            raise files.write_error(self._entries / name, error) from error

    def set_aside(self, digest: str) -> bool:
        name = _name(digest)
        with suppress(OSError), self._open() as entries:
            # A writer may have replaced the damaged entry meanwhile; then a good one is set aside and calibrated
            # again: a boot's time, never a wrong curve.
            _move_aside(entries, name)
            return True
        return False

    def describe(self, digest: str) -> str:
        return str(self._entries / _name(digest))


def check_digest(digest: str) -> str:
    """The digest itself. Raises ValueError for anything that is not 64 hexadecimal digits, such as a path."""
    if not _DIGEST.fullmatch(digest):
        raise ValueError(f"not a digest: {digest!r:.80}")
    return digest


def _name(digest: str) -> str:
    return check_digest(digest) + _SUFFIX


def _move_aside(directory: int, name: str) -> None:
    aside = f"{name.removesuffix(_SUFFIX)}{_ASIDE}{secrets.token_hex(4)}"
    os.rename(name, aside, src_dir_fd=directory, dst_dir_fd=directory)
    with suppress(OSError):
        files.keep_newest(directory, [other for other in os.listdir(directory) if _ASIDE in other], KEPT_ASIDE, aside)


def _unavailable(path: Path, error: OSError) -> StoreError:
    return StoreError(Reason.STORE_UNAVAILABLE, f"{path}: {error.strerror}")
