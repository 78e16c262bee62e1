"""An entry read and checked, from a store or from any file. Reading never changes anything."""

import os
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from warmcurve.errors import EntryError, StoreError, WarmcurveError
from warmcurve.outcome import Reason
from warmcurve.storage.entry import MAX_BYTES, Entry, decode
from warmcurve.storage.files import kind_in_words, twice
from warmcurve.storage.store import DirectoryStore, check_digest


class Inspection(NamedTuple):
    """Either `entry` or `error`. `digest` is the one that the name or else the entry says, if any does; `checksum` the
    SHA-256 of the bytes, where they could be read.
    """

    path: Path
    digest: str | None
    entry: Entry | None = None
    error: WarmcurveError | None = None
    checksum: str | None = None

    @property
    def state(self) -> str:
        return "ok" if self.error is None else str(self.error.reason)

    @property
    def detail(self) -> str | None:
        """What was met, without the path that stands beside it."""
        return None if self.error is None else self.error.detail.removeprefix(str(self.path)).lstrip(": ")

    def located(self) -> WarmcurveError:
        """The error as one that names the path; only where there is one."""
        assert self.error is not None
        return type(self.error)(self.error.reason, f"{self.path}: {self.detail}")


def inspect_entry(store: DirectoryStore, digest: str) -> Inspection | None:
    """None where there is no such entry. Raises `StoreError` where the store itself cannot be read."""
    path = Path(store.describe(digest))
    try:
        data = store.get(digest)
    except StoreError as error:
        if error.reason is Reason.STORE_UNAVAILABLE:
            raise
        return Inspection(path, digest, error=error)
    return None if data is None else _inspect(path, digest, data)


def inspect_file(path: Path) -> Inspection:
    """A file anywhere: only its content is judged, not who may write it."""
    digest = _digest_of_name(path.name)
    try:
        data = read_file(path, MAX_BYTES)
    except StoreError as error:
        return Inspection(path, digest, error=error)
    return _inspect(path, digest, data)


def _inspect(path: Path, digest: str | None, data: bytes) -> Inspection:
    checksum = sha256(data).hexdigest()
    try:
        entry = decode(data, digest)
    except EntryError as error:
        return Inspection(path, digest, error=error, checksum=checksum)
    return Inspection(path, entry.digest, entry, checksum=checksum)


def _digest_of_name(name: str) -> str | None:
    try:
        return check_digest(name.removesuffix(".jsonl")) if name.endswith(".jsonl") else None
    except ValueError:
        return None


def read_file(path: Path, limit: int) -> bytes:
    """At most limit + 1 bytes of a regular file, or `StoreError`."""

    def attempt() -> bytes:
        # Without O_NONBLOCK, opening a pipe would wait for a writer.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            if kind := kind_in_words(os.fstat(file.fileno())):
                raise StoreError(Reason.ENTRY_UNREADABLE, kind)
            return file.read(limit + 1)

    try:
        return twice(attempt)
    except StoreError:
        raise
    except OSError as error:
        raise StoreError(Reason.ENTRY_UNREADABLE, str(error.strerror)) from error
