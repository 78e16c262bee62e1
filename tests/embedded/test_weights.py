"""The reader of safetensors, and products in blocks."""

import json
from pathlib import Path

import numpy as np
import pytest

from warmcurve.embedded.model import HERE
from warmcurve.embedded.weights import Matrix, read


def file(path: Path, tensors, dtype="F16") -> Path:
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    body = b""
    for name, tensor in tensors.items():
        data = tensor.astype(np.float16).tobytes()
        header[name] = {"dtype": dtype, "shape": tensor.shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + body)
    return path


def test_tensors_are_read_as_they_were_written(tmp_path):
    """Names, shapes and values come back, as float32."""
    tensors = {"a": np.arange(6.0).reshape(2, 3), "b.c": np.array([-0.5])}
    found = read(file(tmp_path / "x.safetensors", tensors))
    assert found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert found[name].dtype == np.float32
        np.testing.assert_array_equal(found[name], tensor)


def test_other_types_are_refused(tmp_path):
    """A file of anything but fp16 says so by name."""
    with pytest.raises(ValueError, match="a is BF16"):
        read(file(tmp_path / "x.safetensors", {"a": np.zeros(2)}, "BF16"))


@pytest.mark.parametrize("inner", [32, 192, 384, 768])
@pytest.mark.parametrize("rows", [2, 3, 40])
def test_a_product_in_blocks_is_the_product(inner, rows):
    """Blocks of columns and parts of the inner dimension add up to the product."""
    draw = np.random.default_rng(inner + rows)
    x, matrix = (draw.standard_normal(shape).astype(np.float32) for shape in ((rows, inner), (inner, 128)))
    np.testing.assert_allclose(Matrix(matrix)(x), x @ matrix, atol=1e-3)
    out = np.empty((rows, 128), np.float32)
    assert Matrix(matrix)(x, out) is out


def test_the_shipped_weights_are_small():
    """Both files together stay below what a repository can bear."""
    assert sum(path.stat().st_size for path in HERE.glob("*.safetensors")) < 12_000_000
