"""Reading weights: the safetensors format, as far as fp16 needs it, and the layout that products are fast in."""

import json
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

BLOCK: Final = 64
"""Columns of a block of a matrix. A BLAS repacks a matrix at every call once a product is large; blocks stay below."""
INNER: Final = 384
"""The longest inner dimension of a product: a longer sum may be split differently for different numbers of rows."""


def read(path: Path) -> dict[str, Floats]:
    """Tensors by name, as float32. Raises `ValueError` for a file that is not safetensors of fp16."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    body = memoryview(data)[8 + length :]
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        if entry["dtype"] != "F16":
            raise ValueError(f"{path.name}: {name} is {entry['dtype']}, only F16 is read")
        begin, end = entry["data_offsets"]
        tensors[name] = np.frombuffer(body[begin:end], "<f2").astype(np.float32).reshape(entry["shape"])
    return tensors


class Matrix:
    """A matrix [inner, columns] for `x @ matrix`, stored as blocks [parts, columns / 64, inner / parts, 64]."""

    def __init__(self, matrix: Floats) -> None:
        inner, columns = matrix.shape
        parts = -(-inner // INNER)
        self.columns = columns
        blocks = matrix.reshape(parts, inner // parts, columns // BLOCK, BLOCK).swapaxes(1, 2)
        self._parts = np.ascontiguousarray(blocks)

    def __call__(self, x: Floats, out: Floats | None = None) -> Floats:
        """x [rows, inner] @ matrix, into `out` [rows, columns] where given; the same bits for any rows from 2 on."""
        rows = len(x)
        result = np.empty((rows, self.columns), np.float32) if out is None else out
        blocks = result.reshape(rows, -1, BLOCK).swapaxes(0, 1)
        width = self._parts.shape[2]
        np.matmul(x[:, :width], self._parts[0], out=blocks)
        for part in range(1, len(self._parts)):
            blocks += np.matmul(x[:, part * width : (part + 1) * width], self._parts[part])
        return result
