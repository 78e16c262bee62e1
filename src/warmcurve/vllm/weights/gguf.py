"""Reads the header of a GGUF file: metadata, and names, types and shapes of its tensors.

The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

import hashlib
import re
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from warmcurve.storage.fingerprint import Value
from warmcurve.vllm.reading import File, Reading
from warmcurve.vllm.weights.headers import Headers, Tensor

_VERSIONS: Final = (2, 3)
_STRING: Final = 8
_ARRAY: Final = 9
# Type of a value → its bytes. Integers and floats of 8, 16, 32 and 64 bits, and booleans.
_WIDTHS: Final = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_MOST_DIMENSIONS: Final = 8
# The header's length stands nowhere. A vocabulary of 150,000 words with its merges takes 6 MB, a later shard has none.
_FIRST_READ: Final = 2**16
_GROWTH: Final = 8

EXCLUDED: Final = {
    r"tokenizer\..*": "words cost nothing; how many there are is a shape of the embedding",
    r"general\.(?!architecture$|file_type$|quantization_version$|alignment$).*": "names, authors, licences, sources",
    r"split\..*": "how many files the tensors are cut into",
    r"quantize\.imatrix\..*": "how the quantisation was found",
}
"""Metadata that counts for nothing, and why."""
_EXCLUDED: Final = re.compile("|".join(EXCLUDED))

_SHARD: Final = re.compile(r"(.*)-\d{5}-of-(\d{5})\.gguf")


def shards(path: Path, names: Iterable[str]) -> list[Path]:
    """The file. If its name says that the model is cut into several files, all of them."""
    cut = _SHARD.fullmatch(path.name)
    if cut is None:
        return [path]
    return [
        path.with_name(name)
        for name in names
        if (other := _SHARD.fullmatch(name)) is not None and other.groups() == cut.groups()
    ]


def identity(files: Iterable[Path], reading: Reading) -> dict[str, Value]:
    """Identity of the files of one model."""
    headers = Headers()
    for path in files:
        with reading.opened(path) as file:
            headers.add(*_header(file, reading))
    return headers.identity(reading)


def _header(file: File, reading: Reading) -> tuple[dict[str, Tensor], list[tuple[str, str]]]:
    data, step = b"", _FIRST_READ
    while True:
        piece = file.read(min(step, reading.bytes_left))
        data, step = data + piece, step * _GROWTH
        try:
            return _Parser(data).header()
        except (struct.error, OverflowError):
            if not piece:
                raise


class _Parser:
    """Walks over the header's bytes. Raises `struct.error` if they end too early."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def header(self) -> tuple[dict[str, Tensor], list[tuple[str, str]]]:
        magic, version = struct.unpack("<4sI", self._bytes(8))
        if magic != b"GGUF":
            raise ValueError("has no GGUF header")
        if version not in _VERSIONS:
            raise ValueError(f"GGUF version {version} is not known")
        tensors, values = self._number("<Q"), self._number("<Q")
        metadata = [self._value() for _ in range(values)]
        return dict(self._tensor() for _ in range(tensors)), [value for value in metadata if value]

    def _value(self) -> tuple[str, str] | None:
        name = self._text()
        start = self._at
        kind = self._number("<I")
        if kind == _ARRAY:
            self._array()
        elif kind == _STRING:
            self._bytes(self._number("<Q"))
        else:
            self._bytes(_width(kind))
        if _EXCLUDED.fullmatch(name):
            return None
        return name, hashlib.sha256(self._data[start : self._at]).hexdigest()

    def _array(self) -> None:
        kind, count = self._number("<I"), self._number("<Q")
        if kind != _STRING:
            self._bytes(count * _width(kind))
            return
        # Hundreds of thousands of words, each with its length before it.
        data, at, length = self._data, self._at, struct.Struct("<Q").unpack_from
        for _ in range(count):
            at += 8 + length(data, at)[0]
        self._at = at
        self._bytes(0)

    def _tensor(self) -> tuple[str, Tensor]:
        name = self._text()
        dimensions = self._number("<I")
        if dimensions > _MOST_DIMENSIONS:
            raise ValueError(f"a tensor of {dimensions} dimensions")
        shape = struct.unpack(f"<{dimensions}Q", self._bytes(8 * dimensions))
        kind, _ = struct.unpack("<IQ", self._bytes(12))
        return name, Tensor(f"ggml_{kind}", shape)

    def _text(self) -> str:
        return self._bytes(self._number("<Q")).decode()

    def _number(self, form: str) -> int:
        return int(struct.unpack(form, self._bytes(struct.calcsize(form)))[0])

    def _bytes(self, count: int) -> bytes:
        start, self._at = self._at, self._at + count
        if self._at > len(self._data):
            raise struct.error("ends within its header")
        return self._data[start : self._at]


def _width(kind: int) -> int:
    if kind not in _WIDTHS:
        raise ValueError(f"values of type {kind} are not known")
    return _WIDTHS[kind]
