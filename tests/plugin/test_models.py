"""Who a model is: by the content of its files, wherever they lie and however they are cut."""

import json
import os
import pickle
import struct
import zipfile
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmcurve.errors import FactorError
from warmcurve.outcome import Reason
from warmcurve.storage.fingerprint import fingerprint
from warmcurve.vllm import reading
from warmcurve.vllm.weights.models import EXCLUDED, identity

LOAD = SimpleNamespace(load_format="auto", download_dir=None)


def load(form: str) -> Any:
    return SimpleNamespace(load_format=form, download_dir=None)


def model(path: Path | str, **changes: Any) -> Any:
    """As much of a `ModelConfig` as is asked."""
    given = {"revision": None, "code_revision": None, "hf_config_path": None, "trust_remote_code": False}
    return SimpleNamespace(model=str(path), **given | changes)


def who(path: Path | str, form: str = "auto", **changes: Any) -> dict[str, Any]:
    return identity(model(path, **changes), load(form), "target.model")


def problem(path: Path | str, form: str = "auto", **changes: Any) -> str:
    with pytest.raises(FactorError) as caught:
        who(path, form, **changes)
    assert caught.value.reason is Reason.FACTOR_UNKNOWN
    assert caught.value.factor.startswith("target.model.")
    return caught.value.detail


def header(tensors: dict[str, Any], fill: int = 0) -> bytes:
    """A safetensors file with this header and 64 weights."""
    text = json.dumps(tensors).encode()
    return struct.pack("<Q", len(text)) + text + bytes([fill]) * 64


def shard(number: int, count: int) -> str:
    return f"model-{number:05}-of-{count:05}.safetensors"


def write(directory: Path, *shards: dict[str, Any], config: Any = None, fill: int = 0) -> Path:
    """A model of safetensors files with these headers and zeros (or `fill`) for weights."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps({"hidden_size": 64} if config is None else config))
    for number, tensors in enumerate(shards, 1):
        (directory / shard(number, len(shards))).write_bytes(header(tensors, fill))
    return directory


def tensor(dtype: str = "BF16", shape: tuple[int, ...] = (4, 8), at: int = 0) -> dict[str, Any]:
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + 64]}


A = {"a": tensor()}
B = {"b": tensor("F8_E4M3")}


def test_the_same_content_is_the_same_model(tmp_path: Path) -> None:
    """Moved, linked file by file as in a hub's cache, fine-tuned to other values of the same shapes: one identity."""
    one = write(tmp_path / "one", A, B)
    two = write(tmp_path / "elsewhere" / "two", A, B, fill=255)
    (tmp_path / "link").symlink_to(one)
    blobs, snapshot = tmp_path / "hub" / "blobs", tmp_path / "hub" / "snapshots" / "0123"
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    for number, path in enumerate(sorted(one.iterdir())):
        (blobs / str(number)).write_bytes(path.read_bytes())
        (snapshot / path.name).symlink_to(Path("../../blobs") / str(number))
    assert who(one) == who(two) == who(tmp_path / "link") == who(snapshot)


def test_how_tensors_are_cut_into_files_is_no_part_of_it(tmp_path: Path) -> None:
    """One file, shards with and without an index, in another order and at other places: one identity."""
    single = write(tmp_path / "single")
    (single / "model.safetensors").write_bytes(header({"a": tensor(at=64), "b": tensor("F8_E4M3")}))
    cut, turned, indexed = write(tmp_path / "cut", A, B), write(tmp_path / "turned", B, A), write(tmp_path / "i", A, B)
    index(indexed, {"a": shard(1, 2), "b": shard(2, 2)})
    assert who(single) == who(cut) == who(turned) == who(indexed)
    assert who(single)["weights"]["tensors"] == {"BF16": 1, "F8_E4M3": 1}


def index(directory: Path, weight_map: dict[str, str], name: str = "model.safetensors.index.json") -> None:
    (directory / name).write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))


def test_other_types_shapes_names_or_configuration_are_another_model(tmp_path: Path) -> None:
    """A quantised variant, another shape or name, more tensors, torchao's metadata, another configuration."""
    models = [
        write(tmp_path / "plain", A),
        write(tmp_path / "quantised", {"a": tensor("F8_E4M3")}),
        write(tmp_path / "shape", {"a": tensor(shape=(8, 4))}),
        write(tmp_path / "name", {"z": tensor()}),
        write(tmp_path / "more", A, B),
        write(tmp_path / "torchao", A | {"__metadata__": {"a": "Int4Tensor"}}),
        write(tmp_path / "config", A, config={"hidden_size": 65}),
        write(tmp_path / "nested", A, config={"hidden_size": 64, "text_config": {"rope_theta": 1.5}}),
    ]
    assert len({fingerprint(who(one)) for one in models}) == len(models)


def test_what_wrote_a_file_is_no_part_of_it(tmp_path: Path) -> None:
    """The excluded entries at any depth, the order of entries, numbers written otherwise, the library's name."""
    one = write(tmp_path / "one", A, config={"hidden_size": 64, "text_config": {"eps": 1e-05, "limit": float("inf")}})
    said = dict.fromkeys(EXCLUDED, "other")
    two = write(tmp_path / "two", A | {"__metadata__": {"format": "pt"}})
    text = {"text_config": {"limit": float("inf"), "eps": 0.00001} | said, "hidden_size": 64} | said
    (two / "config.json").write_text(json.dumps(text, indent=4))
    assert who(one) == who(two)


@pytest.mark.parametrize("name", ["quantize_config.json", "hf_quant_config.json", "quantization_config.json"])
def test_a_quantiser_file_beside_the_configuration_counts(name: str, tmp_path: Path) -> None:
    """A file of a quantiser, and each change of it, is another model; a tokenizer's file is none."""
    plain, quantised = write(tmp_path / "plain", A), write(tmp_path / "quantised", A)
    (plain / "tokenizer_config.json").write_text("{}")
    digests = {fingerprint(who(plain))}
    for bits in (4, 8):
        (quantised / name).write_text(json.dumps({"bits": bits}))
        digests.add(fingerprint(who(quantised)))
    assert len(digests) == 3


def test_an_index_leaves_out_what_it_does_not_name(tmp_path: Path) -> None:
    """A stale shard that the index does not name is not the model's; a missing one that it names makes it unknown."""
    clean = write(tmp_path / "clean", A, B)
    stale = write(tmp_path / "stale", A, B)
    (stale / "old.safetensors").write_bytes(header({"a": tensor("I8")}))
    index(stale, {"a": shard(1, 2), "b": shard(2, 2)})
    assert who(clean) == who(stale)
    index(stale, {"a": shard(1, 2), "b": "gone.safetensors"})
    assert "gone.safetensors is missing" in problem(stale)


def test_a_tensor_that_two_files_tell_differently_is_unknown(tmp_path: Path) -> None:
    """Which of the two vLLM loads depends on the order of the files; the same tensor twice does no harm."""
    assert "tensor 'a' is in another file" in problem(write(tmp_path / "two", A, {"a": tensor("I8")}))
    assert who(write(tmp_path / "same", A, A)) == who(write(tmp_path / "once", A))


def test_mistrals_own_format(tmp_path: Path) -> None:
    """Consolidated files come before others, as in vLLM, and params.json is a configuration, too."""
    mistral = write(tmp_path / "mistral", B)
    (mistral / "config.json").unlink()
    (mistral / "params.json").write_text(json.dumps({"dim": 64}))
    (mistral / "consolidated.safetensors").write_bytes(header(A))
    assert who(mistral)["weights"] == who(mistral, "mistral")["weights"] == who(write(tmp_path / "a", A))["weights"]
    assert who(mistral, "safetensors")["weights"]["tensors"] == {"BF16": 1, "F8_E4M3": 1}
    assert list(who(mistral)["configuration"]) == ["params.json"]


def test_files_that_are_no_model_files_do_not_count(tmp_path: Path) -> None:
    """A Mac's dot files, another format further down, a readme."""
    one, two = write(tmp_path / "one", A), write(tmp_path / "two", A)
    (two / "._model.safetensors").write_bytes(b"no header")
    (two / "pytorch_model.bin").write_bytes(b"no archive")
    (two / "original").mkdir()
    (two / "original" / "consolidated.safetensors").write_bytes(b"no header")
    assert who(one) == who(two)


def saved(path: Path, state: dict[str, Any], member: str = "archive/data.pkl", **options: Any) -> Path:
    """As `torch.save` lays it out: the pickled dictionary and a member for each storage."""
    path.parent.mkdir(exist_ok=True)
    (path.parent / "config.json").write_text("{}")
    with zipfile.ZipFile(path, "w", **options) as archive:
        archive.writestr(member, pickle.dumps(state))
        archive.writestr("archive/data/0", bytes(64))
    return path.parent


class Bomb:
    def __reduce__(self) -> Any:
        return pytest.fail, ("a pickle was loaded",)


def test_torchs_own_files_are_told_without_unpickling(tmp_path: Path) -> None:
    """The pickled names, types and shapes are hashed, never loaded; what is no model of torch is unknown."""
    one = saved(tmp_path / "one" / "pytorch_model.bin", {"a": ["BFloat16Storage", (4, 8), Bomb()]})
    two = saved(tmp_path / "two" / "moved.bin", {"a": ["BFloat16Storage", (4, 8), Bomb()]})
    (two / "training_args.bin").write_bytes(b"no archive")
    other = saved(tmp_path / "other" / "pytorch_model.bin", {"a": ["HalfStorage", (4, 8), Bomb()]})
    assert who(one) == who(two)
    assert (
        who(one)
        == who(one, "npcache")
        == who(saved(tmp_path / "pt" / "a.pt", {"a": ["BFloat16Storage", (4, 8), Bomb()]}), "pt")
    )
    assert fingerprint(who(one)) != fingerprint(who(other))
    (one / "pytorch_model.bin").write_bytes(pickle.dumps({"a": 1}))
    assert "pytorch_model.bin" in problem(one)
    assert "pytorch_model.bin" in problem(saved(other / "pytorch_model.bin", {}, member="data"))
    assert "compressed" in problem(saved(other / "pytorch_model.bin", {}, compression=zipfile.ZIP_DEFLATED))


@pytest.mark.parametrize("form", ["tensorizer", "runai_streamer", "sharded_state", "ipc_cache", "modelexpress", "mine"])
def test_a_load_format_that_gets_weights_elsewhere_is_unknown(form: str, tmp_path: Path) -> None:
    """Files that happen to lie there are not what is loaded."""
    assert problem(write(tmp_path / "a", A), form) == (
        f"target.model.weights: weights of the load format {form!r} are not read"
    )


def test_object_storage_is_unknown(tmp_path: Path) -> None:
    """An address is no directory, and is not printed: it may hold a secret."""
    assert problem("s3://key:secret@bucket/model") == "target.model.configuration: files of s3:// are not read"


def test_modelscope_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """vLLM would load from another cache than the hub's."""
    monkeypatch.setenv("VLLM_USE_MODELSCOPE", "True")
    assert "ModelScope" in problem("org/name")


def test_random_weights_need_no_file(tmp_path: Path) -> None:
    """A model that vLLM fills with random weights is told by its configuration, and is not the one with weights."""
    none, some = write(tmp_path / "none"), write(tmp_path / "some", A)
    assert who(none, "dummy") == who(some, "dummy") != who(some)
    assert fingerprint(who(none, "dummy")) != fingerprint(who(write(tmp_path / "c", config={"x": 1}), "dummy"))


def test_trusted_code_counts(tmp_path: Path) -> None:
    """The model's Python files and those of a repository that it names count where they are trusted, and only there."""
    plain = write(tmp_path / "plain", A)
    coded = write(tmp_path / "coded", A)
    (coded / "modeling.py").write_text("x = 1")
    assert who(plain) == who(coded)
    trusted = [who(plain, trust_remote_code=True), who(coded, trust_remote_code=True)]
    (coded / "modeling.py").write_text("x = 2")
    trusted.append(who(coded, trust_remote_code=True))
    other = tmp_path / "other"
    other.mkdir()
    classes = {"AutoConfig": f"{other}--configuration.Class", "AutoTokenizer": [f"{other}--t.Slow", None]}
    naming = write(tmp_path / "naming", A, config={"hidden_size": 64, "auto_map": classes})
    for text in ("y = 1", "y = 2"):
        (other / "configuration.py").write_text(text)
        trusted.append(who(naming, trust_remote_code=True))
    assert len({fingerprint(found) for found in trusted}) == len(trusted)


def test_a_configuration_elsewhere(tmp_path: Path) -> None:
    """`hf_config_path` is where the configuration is read from; the weights stay the model's."""
    one, two = write(tmp_path / "one", A), write(tmp_path / "two", B, config={"hidden_size": 65})
    found = who(one, hf_config_path=str(two))
    assert found["configuration"] == who(two)["configuration"]
    assert found["weights"] == who(one)["weights"]


BROKEN = {
    "empty": b"",
    "cut": b"\x05",
    "short": struct.pack("<Q", 50) + b"{}",
    "absurd": b"\xff" * 16,
    "longer than read": struct.pack("<Q", reading.MOST_BYTES + 1) + b"{}",
    "not JSON": struct.pack("<Q", 4) + b"{no}",
    "not text": struct.pack("<Q", 2) + b"\xff\xfe",
    "a list": struct.pack("<Q", 2) + b"[]",
    "no tensor": struct.pack("<Q", 2) + b"{}",
    "no type": header({"a": {"shape": [1]}}),
    "no shape": header({"a": {"dtype": "F32", "shape": "wide"}}),
    "a strange type": header({"a": tensor("F32 ")}),
    "too many types": header({str(i): tensor(f"T{i}") for i in range(65)}),
    "metadata that is no text": header({"a": tensor(), "__metadata__": {"x": 1}}),
    "nested": struct.pack("<Q", 40_000) + b'{"a":{"x":' + b"[" * 19_980 + b"]" * 10_010,
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_damaged_header_is_unknown(name: str, tmp_path: Path) -> None:
    """Whatever stands in the header, the error names the factor, and no other error escapes."""
    broken = write(tmp_path / "model")
    (broken / "model.safetensors").write_bytes(BROKEN[name])
    assert problem(broken).startswith("target.model.weights: ")


def test_a_header_beyond_the_bound_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound is on all files of a model together."""
    two = write(tmp_path / "two", A, B)
    size = len(header(A)) - 64
    monkeypatch.setattr(reading.Reading.__init__, "__defaults__", (size + 20,))
    assert "needs more bytes than are read" in problem(two)


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_else(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    """Random bytes as a header, a configuration, an index, an archive or a GGUF file: a factor unknown, or told."""
    place = write(tmp_path_factory.mktemp("random"), A)
    for name in (shard(1, 1), "config.json", "hf_quant_config.json"):
        before = (place / name).read_bytes() if (place / name).exists() else b"{}"
        (place / name).write_bytes(data)
        _known_or_unknown(place)
        (place / name).write_bytes(before)
    (place / "other.safetensors").write_bytes(header(B))
    index(place, {})
    (place / "model.safetensors.index.json").write_bytes(data)
    _known_or_unknown(place)
    (place / "m.pt").write_bytes(data)
    _known_or_unknown(place, "pt")
    (place / "m.gguf").write_bytes(b"GGUF" + data)
    _known_or_unknown(place / "m.gguf")


def _known_or_unknown(path: Path, form: str = "auto") -> None:
    with suppress(FactorError):
        who(path, form)


DAMAGED = {
    "config.json": ["{", "[" * 100_000, '{"a": ' + "1" * 5000 + "}"],
    "hf_quant_config.json": ["nothing"],
    "model.safetensors.index.json": ["{}", '{"weight_map": 1}', '{"weight_map": {"a": 1}}'],
}


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in DAMAGED.items() for text in texts])
def test_a_damaged_file_beside_the_weights_is_unknown(name: str, text: str, tmp_path: Path) -> None:
    """A configuration or an index that cannot be read is never left out."""
    broken = write(tmp_path / "model", A)
    (broken / "other.safetensors").write_bytes(header(B))
    (broken / name).write_text(text)
    assert name in problem(broken)


def test_files_that_are_none(tmp_path: Path) -> None:
    """No weights, no configuration, a directory or a pipe of a file's name, a circle of links: all unknown."""
    assert "no *.safetensors" in problem(write(tmp_path / "none"))
    bare = write(tmp_path / "bare", A)
    (bare / "config.json").unlink()
    assert "neither config.json nor params.json" in problem(bare)
    (bare / "config.json").symlink_to("config.json")
    assert "config.json" in problem(bare)
    directory, pipe = write(tmp_path / "directory"), write(tmp_path / "pipe")
    (directory / "model.safetensors").mkdir()
    assert "model.safetensors" in problem(directory)
    os.mkfifo(pipe / "model.safetensors")
    assert "not a regular file" in problem(pipe)


def test_an_input_error_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that fails in the middle of a header, a file without permission, and a directory of too many files."""
    broken = write(tmp_path / "model", A)

    def fail(*_: Any) -> Any:
        raise OSError(5, "Input/output error")

    def refuse(*_: Any) -> Any:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(reading.File, "read", fail)
        assert "Input/output error" in problem(broken)
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        assert "config.json: Permission denied" in problem(broken)
    monkeypatch.setattr(reading, "MOST_FILES", 1)
    assert "more than 1 files" in problem(broken)
