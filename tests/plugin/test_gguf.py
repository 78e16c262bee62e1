"""A GGUF model by its header: metadata that prices something, and its tensors."""

import struct
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from warmcurve.errors import FactorError
from warmcurve.storage.fingerprint import fingerprint
from warmcurve.vllm.weights.models import identity

F32, Q4_K, Q6_K = 0, 12, 14


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def words(*values: str) -> bytes:
    return struct.pack("<IIQ", 9, 8, len(values)) + b"".join(map(text, values))


def word(value: str) -> bytes:
    return struct.pack("<I", 8) + text(value)


def number(value: int) -> bytes:
    return struct.pack("<II", 4, value)


def numbers(*values: float) -> bytes:
    return struct.pack("<IIQ", 9, 6, len(values)) + struct.pack(f"<{len(values)}f", *values)


METADATA = {
    "general.architecture": word("llama"),
    "general.name": word("A model"),
    "llama.block_count": number(2),
    "llama.rope.factors": numbers(1.0, 2.0),
    "tokenizer.ggml.tokens": words("a", "b"),
}
TENSORS = {"token_embd.weight": (Q4_K, (256, 32)), "output_norm.weight": (F32, (256,))}


def write(path: Path, tensors: dict[str, Any], metadata: dict[str, bytes] = METADATA, version: int = 3) -> Path:
    """A GGUF file: its header, and 64 bytes of weights."""
    data = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(metadata))
    data += b"".join(text(name) + value for name, value in metadata.items())
    for name, (kind, shape) in tensors.items():
        data += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, 0)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data + bytes(64))
    return path


def who(path: Path | str, form: str = "gguf") -> dict[str, Any]:
    model = SimpleNamespace(
        model=str(path), revision=None, code_revision=None, hf_config_path=None, trust_remote_code=False
    )
    return identity(model, SimpleNamespace(load_format=form, download_dir=None), "draft.model")


def test_a_file_is_its_header(tmp_path: Path) -> None:
    """Moved, renamed, cut into shards, with other words and another name: one identity, without a configuration."""
    one = who(write(tmp_path / "model-Q4_K_M.gguf", TENSORS))
    other = METADATA | {"general.name": word("Another"), "tokenizer.ggml.tokens": words(*"cdefg")}
    assert one == who(write(tmp_path / "b" / "x.gguf", dict(reversed(TENSORS.items())), other), "auto")
    for number_, name in enumerate(TENSORS, 1):
        split = {"split.no": number(number_), **METADATA}
        write(tmp_path / "c" / f"m-0000{number_}-of-00002.gguf", {name: TENSORS[name]}, split)
    write(tmp_path / "c" / "n-00001-of-00002.gguf", {"other": (F32, (1,))})
    assert one == who(tmp_path / "c" / "m-00001-of-00002.gguf")
    assert one["weights"]["tensors"] == {"ggml_0": 1, "ggml_12": 1}
    assert one["configuration"] == {}


def test_other_types_shapes_and_metadata_are_another_model(tmp_path: Path) -> None:
    """Another quantisation, shape, architecture, number of layers, array or type of a value."""
    others = [
        write(tmp_path / "0.gguf", TENSORS),
        write(tmp_path / "1.gguf", TENSORS | {"token_embd.weight": (Q6_K, (256, 32))}),
        write(tmp_path / "2.gguf", TENSORS | {"token_embd.weight": (Q4_K, (256, 33))}),
        write(tmp_path / "3.gguf", TENSORS, METADATA | {"general.architecture": word("qwen")}),
        write(tmp_path / "4.gguf", TENSORS, METADATA | {"llama.block_count": number(3)}),
        write(tmp_path / "5.gguf", TENSORS, METADATA | {"llama.block_count": struct.pack("<Ii", 5, 2)}),
        write(tmp_path / "6.gguf", TENSORS, METADATA | {"llama.rope.factors": numbers(1.0, 3.0)}),
        write(tmp_path / "7.gguf", TENSORS, METADATA | {"llama.rope.factors": words("1", "2")}),
    ]
    assert len({fingerprint(who(path)) for path in others}) == len(others)


def test_a_quantisation_in_a_directory(tmp_path: Path) -> None:
    """`directory:quantisation` is the file that vLLM's plugin would take; the configuration beside it counts."""
    write(tmp_path / "model-Q6_K.gguf", TENSORS | {"token_embd.weight": (Q6_K, (256, 32))})
    write(tmp_path / "model-q4_k_m.gguf", TENSORS)
    (tmp_path / "config.json").write_text("{}")
    found = who(f"{tmp_path}:Q4_K_M")
    assert found["weights"] == who(write(tmp_path / "other" / "a.gguf", TENSORS))["weights"]
    assert list(found["configuration"]) == ["config.json"]
    with pytest.raises(FactorError, match=r"draft\.model\.configuration: no file of Q8_0"):
        who(f"{tmp_path}:Q8_0")
    with pytest.raises(FactorError, match="neither a directory nor in the hub"):
        who(f"{tmp_path}/none:Q8_0")


def test_a_long_header_is_read_to_its_end(tmp_path: Path) -> None:
    """A vocabulary of megabytes lies before the tensors, and is skipped."""
    vocabulary = words(*(f"word {number}" for number in range(200_000)))
    long = write(tmp_path / "long.gguf", TENSORS, METADATA | {"tokenizer.ggml.tokens": vocabulary})
    assert long.stat().st_size > 3_000_000
    assert who(long) == who(write(tmp_path / "short.gguf", TENSORS))


HEAD = b"GGUF" + struct.pack("<I", 3)
BROKEN = {
    "empty": b"",
    "another format": b"PK" + bytes(60),
    "the first version": b"GGUF" + struct.pack("<IQQ", 1, 0, 0),
    "the other byte order": b"GGUF" + struct.pack(">IQQ", 3, 0, 0),
    "no tensors": HEAD + struct.pack("<QQ", 0, 0),
    "countless tensors": HEAD + struct.pack("<QQ", 2**64 - 1, 0),
    "countless values": HEAD + struct.pack("<QQ", 1, 2**64 - 1),
    "a long name": HEAD + struct.pack("<QQQ", 1, 0, 2**64 - 1),
    "a name that is no text": HEAD + struct.pack("<QQQ", 0, 1, 2) + b"\xff\xfe" + number(1),
    "a value of no type": HEAD + struct.pack("<QQ", 0, 1) + text("a") + struct.pack("<II", 99, 0),
    "an array of arrays": HEAD + struct.pack("<QQ", 0, 1) + text("a") + struct.pack("<IIQ", 9, 9, 1) + bytes(64),
    "a long array": HEAD + struct.pack("<QQ", 0, 1) + text("a") + struct.pack("<IIQ", 9, 4, 2**63),
    "an array of long words": HEAD + struct.pack("<QQ", 0, 1) + text("a") + struct.pack("<IIQQ", 9, 8, 2, 2**64 - 1),
    "many dimensions": HEAD + struct.pack("<QQ", 1, 0) + text("a") + struct.pack("<I", 2**32 - 1) + bytes(99),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_damaged_header_is_unknown(name: str, tmp_path: Path) -> None:
    """Whatever stands in the header, the error names the factor, and no other error escapes."""
    (tmp_path / "model.gguf").write_bytes(BROKEN[name])
    with pytest.raises(FactorError, match=r"^factor_unknown: draft\.model\.weights: "):
        who(tmp_path / "model.gguf")


def test_every_cut_is_unknown(tmp_path: Path) -> None:
    """A file that ends anywhere within its header is damaged."""
    data = write(tmp_path / "model.gguf", TENSORS).read_bytes()[:-64]
    for length in range(len(data)):
        (tmp_path / "model.gguf").write_bytes(data[:length])
        with pytest.raises(FactorError):
            who(tmp_path / "model.gguf")
    (tmp_path / "model.gguf").write_bytes(data)
    assert who(tmp_path / "model.gguf")
