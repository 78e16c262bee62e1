"""The headers of a model's weights: names, types and shapes of its tensors. The weights are not read.

All files of a model make one list of tensors. So the number of its shards does not count. The `format` of a safetensors
file is the name of the library that wrote it, and does not count. Its other metadata counts, because torchao describes
its quantised tensors there.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from warmcurve.storage.fingerprint import Value
from warmcurve.vllm.reading import File, Reading

_TYPE: Final = re.compile(r"[A-Za-z0-9_]{1,32}")
_MOST_TYPES: Final = 64


class Tensor(msgspec.Struct, frozen=True, gc=False):
    """A tensor as a header describes it, without its place in the file."""

    dtype: str = ""
    shape: tuple[int, ...] = ()


class Headers(msgspec.Struct, frozen=True):
    """Tensors by name, and the metadata of the files."""

    tensors: dict[str, Tensor] = {}
    metadata: set[tuple[str, str]] = set()

    def add(self, tensors: Mapping[str, Tensor], metadata: Iterable[tuple[str, str]] = ()) -> None:
        """Add another file. Raises `ValueError` if one of its tensors is already there with another type or shape: an
        engine would load one or the other, by the order in which it finds the files.
        """
        if not self.tensors.keys().isdisjoint(tensors):
            for name in sorted(self.tensors.keys() & tensors.keys()):
                if self.tensors[name] != tensors[name]:
                    raise ValueError(f"tensor {name!r} is in another file, too, and differs")
        self.tensors.update(tensors)
        self.metadata.update(metadata)

    def identity(self, reading: Reading) -> dict[str, Value]:
        """A digest. Also the number of tensors of each type, for a person who compares two models."""
        types = Counter(tensor.dtype for tensor in self.tensors.values())
        if not types or len(types) > _MOST_TYPES or not all(map(_TYPE.fullmatch, types)):
            raise reading.unknown("no tensors, or tensors of no known type")
        # Sorted here: msgspec would sort the fields of each tensor, too, which takes longer than all the rest.
        names = sorted(self.tensors)
        digest = hashlib.sha256(msgspec.json.encode(names))
        digest.update(msgspec.json.encode([self.tensors[name] for name in names]))
        digest.update(msgspec.json.encode(sorted(self.metadata)))
        return {"digest": digest.hexdigest(), "tensors": dict(sorted(types.items()))}


class _Metadata(msgspec.Struct):
    values: dict[str, str] = msgspec.field(name="__metadata__", default_factory=dict)


# Most files say no more than this; looking for more would read them twice.
_USUAL: Final = b'{"__metadata__":{"format":"pt"},'
_TENSORS: Final = msgspec.json.Decoder(dict[str, Tensor])
_METADATA: Final = msgspec.json.Decoder(_Metadata)


def safetensors(files: Iterable[Path], reading: Reading) -> dict[str, Value]:
    """Identity of safetensors files: https://github.com/huggingface/safetensors#format"""
    headers = Headers()
    for path in files:
        with reading.opened(path) as file:
            header = _header(file)
            metadata = {} if header.startswith(_USUAL) else _METADATA.decode(header).values
            metadata.pop("format", None)
            tensors = _TENSORS.decode(header)
            tensors.pop("__metadata__", None)
            headers.add(tensors, metadata.items())
    return headers.identity(reading)


def _header(file: File) -> bytes:
    length = int.from_bytes(file.exactly(8), "little")
    if length > file.size - 8:
        raise ValueError(f"has no header of {length} bytes")
    return file.exactly(length)
