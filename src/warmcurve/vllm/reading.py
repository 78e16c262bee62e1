"""Reads another program's files, within limits. If anything is wrong with a file, a `FactorError` names it."""

import os
import stat
import struct
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from warmcurve.errors import FactorError
from warmcurve.outcome import Reason

# The longest header that the safetensors format allows: https://github.com/huggingface/safetensors#format
# All headers of a model together are shorter: 10 MB for the 163 shards of DeepSeek-V3.
MOST_BYTES: Final = 100_000_000
MOST_FILES: Final = 10_000

# What parsers of the standard library and msgspec raise for bytes that are not what they should be.
DAMAGE: Final = (
    OSError,
    ValueError,
    ArithmeticError,
    EOFError,
    LookupError,
    NotImplementedError,
    RecursionError,
    RuntimeError,
    struct.error,
    zipfile.BadZipFile,
    msgspec.MsgspecError,
)


class Reading:
    """Reads files for one factor: at most `bytes_left` from all of them together."""

    def __init__(self, factor: str, bytes_left: int = MOST_BYTES) -> None:
        self.factor = factor
        self.bytes_left = bytes_left

    def unknown(self, problem: str) -> FactorError:
        return FactorError(Reason.FACTOR_UNKNOWN, self.factor, problem)

    def names(self, directory: Path) -> list[str]:
        """The names in a directory, in order."""
        try:
            with os.scandir(directory) as entries:
                names = [entry.name for entry in islice(entries, MOST_FILES + 1)]
        except OSError as error:
            raise self.unknown(f"{directory}: {error.strerror}") from error
        if len(names) > MOST_FILES:
            raise self.unknown(f"{directory} has more than {MOST_FILES} files")
        return sorted(names)

    @contextmanager
    def opened(self, path: Path) -> Iterator["File"]:
        """Open a regular file. If reading it fails because it is damaged, this factor is unknown."""
        try:
            # Opening a pipe waits for its writer, unless told not to.
            with open(path, "rb", buffering=0, opener=_without_waiting) as file:
                status = os.fstat(file.fileno())
                if not stat.S_ISREG(status.st_mode):
                    raise ValueError("not a regular file")
                yield File(file, status.st_size, self)
        except FactorError:
            raise
        except DAMAGE as error:
            problem = error.strerror if isinstance(error, OSError) and error.strerror else error
            raise self.unknown(f"{path}: {problem}") from error

    def whole(self, path: Path) -> bytes:
        """All bytes of a file."""
        with self.opened(path) as file:
            return file.exactly(file.size)


class File:
    """An open file, as far as readers need it (`zipfile` among them)."""

    def __init__(self, file: BinaryIO, size: int, reading: Reading) -> None:
        self.size = size
        self._file = file
        self._reading = reading
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable

    def read(self, count: int = -1) -> bytes:
        """Like `read` of any file: it returns fewer bytes at the end."""
        left = max(0, self.size - self._file.tell())
        count = left if count < 0 else min(count, left)
        if count > self._reading.bytes_left:
            raise ValueError("needs more bytes than are read for one factor")
        self._reading.bytes_left -= count
        return self._file.read(count)

    def exactly(self, count: int) -> bytes:
        """Exactly `count` bytes."""
        if len(data := self.read(count)) != count:
            raise ValueError("ends too early")
        return data


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
