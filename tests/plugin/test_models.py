"""Who a model is: by the content of its files, wherever they lie."""

import json
import struct
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from warmcurve.errors import FactorError
from warmcurve.outcome import Reason
from warmcurve.vllm.models import identity

LOAD = SimpleNamespace(load_format="auto", download_dir=None)


def write(directory: Path, *shards: dict[str, Any], config: Any = None, fill: int = 0) -> Path:
    """A model of safetensors files with these headers and zeros (or `fill`) for weights."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps(config or {"hidden_size": 64}))
    for number, header in enumerate(shards, 1):
        text = json.dumps(header).encode()
        name = f"model-{number:05}-of-{len(shards):05}.safetensors"
        (directory / name).write_bytes(struct.pack("<Q", len(text)) + text + bytes([fill]) * 64)
    return directory


def who(directory: Path | str, load: Any = LOAD) -> dict[str, Any]:
    return identity(SimpleNamespace(model=str(directory), revision=None), load, "target.model")


A = {"a": {"dtype": "BF16", "shape": [4, 8], "data_offsets": [0, 64]}}
B = {"a": {"dtype": "F8_E4M3", "shape": [4, 8], "data_offsets": [0, 64]}}


def test_the_same_content_is_the_same_model(tmp_path: Path) -> None:
    """Moved, linked, or fine-tuned to other values of the same shapes: one identity."""
    one = write(tmp_path / "one", A, B)
    two = write(tmp_path / "elsewhere" / "two", A, B, fill=255)
    (tmp_path / "link").symlink_to(one)
    assert who(one) == who(two) == who(tmp_path / "link")


def test_other_types_shapes_or_configuration_are_another_model(tmp_path: Path) -> None:
    """A quantised variant, another number of shards, another configuration: all different."""
    models = [
        write(tmp_path / "plain", A),
        write(tmp_path / "quantised", B),
        write(tmp_path / "shards", A, B),
        write(tmp_path / "order", B, A),
        write(tmp_path / "config", A, config={"hidden_size": 65}),
    ]
    assert len({json.dumps(who(model)) for model in models}) == len(models)


def problem(directory: Path | str, load: Any = LOAD) -> str:
    with pytest.raises(FactorError) as caught:
        who(directory, load)
    assert caught.value.reason is Reason.FACTOR_UNKNOWN
    return caught.value.detail


def test_what_cannot_be_read_is_unknown(tmp_path: Path) -> None:
    """No weights, no configuration, a cut or an absurd header: an error that names the factor and the file."""
    none = write(tmp_path / "none")
    assert problem(none).startswith("target.model.weights: no safetensors file")
    bare = write(tmp_path / "bare", A)
    (bare / "config.json").unlink()
    assert problem(bare).startswith("target.model.config: ")
    for name, content in {"cut": b"\x05", "short": struct.pack("<Q", 50) + b"{}", "long": b"\xff" * 16}.items():
        broken = write(tmp_path / name)
        (broken / "model.safetensors").write_bytes(content)
        assert "model.safetensors" in problem(broken)


def test_random_weights_need_no_file(tmp_path: Path) -> None:
    """A model that vLLM fills with random weights is told by its configuration."""
    dummy = SimpleNamespace(load_format="dummy", download_dir=None)
    assert who(write(tmp_path / "none"), dummy)["weights"] is None
