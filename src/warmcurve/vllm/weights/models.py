"""Identifies a model by content: its configuration, the headers of its weights, and its own code if it is trusted.

Costs depend on shapes, types and quantisation. All of these are in the headers and the configuration. Costs do not
depend on the values of the weights. So fine-tunes of one architecture share their curves, and a model keeps its
identity when its files are moved or cut into other shards.
"""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from warmcurve.storage.fingerprint import Value
from warmcurve.vllm.reading import File, Reading
from warmcurve.vllm.weights import archive, checkpoint, gguf, headers
from warmcurve.vllm.weights.hub import directory

# Mistral's own format has params.json; quantisers write a file beside config.json under one of these names.
_CONFIGURATION: Final = ("config.json", "params.json", "joint_head_config.json")
_QUANTIZATION: Final = ("quant_config.json", "quantize_config.json", "quantization_config.json")
_LONGEST_CONFIGURATION: Final = 16_000_000

EXCLUDED: Final = {
    "_commit_hash": "which revision, not what is in it",
    "_name_or_path": "where the files once lay",
    "bos_token_id": "which token begins a text; dummy runs have no text",
    "eos_token_id": "which token ends a text; dummy runs have no text",
    "pad_token_id": "which token fills a batch up; the engine's batches are flat",
    "transformers_version": "which program wrote the file",
}
"""Entries of a configuration file, at any depth, that price nothing, and why."""


def identity(model: Any, load: Any, factor: str) -> dict[str, Value]:
    """The identity of a vLLM `ModelConfig` with its `LoadConfig`. Raises `FactorError` with the name `factor`."""
    reading = Reading(f"{factor}.configuration")
    place = _place(model, load, reading)
    return {
        "configuration": _configuration(place, reading, needed=not checkpoint.is_gguf(model, load)),
        "code": _code(model, place, Reading(f"{factor}.code")) if model.trust_remote_code else None,
        "weights": _weights(model, load, Reading(f"{factor}.weights")),
    }


def _place(model: Any, load: Any, reading: Reading) -> Path:
    """Where the configuration lies. vLLM keeps only weights in `download_dir`."""
    if getattr(model, "hf_config_path", None):
        revision = getattr(model, "_hf_config_revision", None) or model.revision
        return directory(model.hf_config_path, revision, None, reading)
    if checkpoint.is_gguf(model, load):
        return checkpoint.gguf_files(model, load, reading)[0].parent
    return directory(model.model, model.revision, None, reading)


def _configuration(place: Path, reading: Reading, *, needed: bool) -> Value:
    found: dict[str, Value] = {}
    for name in reading.names(place):
        if name in _CONFIGURATION or name.endswith(_QUANTIZATION):
            found[name] = _digest(place / name, reading)
    if needed and found.keys().isdisjoint(("config.json", "params.json")):
        raise reading.unknown(f"neither config.json nor params.json in {place}")
    return found


def _digest(path: Path, reading: Reading) -> str:
    with reading.opened(path) as file:
        return hashlib.sha256(json.dumps(_priced(_json(file)), sort_keys=True).encode()).hexdigest()


def _json(file: File) -> Any:
    """As transformers reads it, which allows infinities."""
    if file.size > _LONGEST_CONFIGURATION:
        raise ValueError(f"is too large, with {file.size} bytes")
    return json.loads(file.exactly(file.size))


def _priced(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _priced(item) for key, item in value.items() if key not in EXCLUDED}
    return [_priced(item) for item in value] if isinstance(value, list) else value


def _code(model: Any, place: Path, reading: Reading) -> Value:
    """The Python files of the model, and of the repositories that its `auto_map` names (`org/name--module.Class`)."""
    revision = model.code_revision
    if revision:
        place = directory(model.hf_config_path or model.model, revision, None, reading)
    places = {"": place}
    if "config.json" in reading.names(place):
        with reading.opened(place / "config.json") as file:
            classes = list(_classes(_json(file)))
        for repository in {name.partition("--")[0] for name in classes if "--" in name}:
            places[f"{repository}--"] = directory(repository, revision, None, reading)
    return {
        f"{prefix}{name}": hashlib.sha256(reading.whole(where / name)).hexdigest()
        for prefix, where in sorted(places.items())
        for name in reading.names(where)
        if name.endswith(".py")
    }


def _classes(configuration: Any) -> Iterator[str]:
    classes = configuration.get("auto_map") if isinstance(configuration, dict) else None
    for names in classes.values() if isinstance(classes, dict) else ():
        yield from map(str, names if isinstance(names, list) else [names])


def _weights(model: Any, load: Any, reading: Reading) -> Value:
    if load.load_format == "dummy":
        # vLLM fills the shapes of the configuration with random numbers.
        return {"format": "dummy"}
    if checkpoint.is_gguf(model, load):
        return {"format": "gguf", **gguf.identity(checkpoint.gguf_files(model, load, reading), reading)}
    place = directory(model.model, model.revision, load.download_dir, reading)
    pattern, files = checkpoint.files(place, load, reading)
    if pattern in checkpoint.TORCH:
        return {"format": "torch", **archive.identity(files, reading)}
    return {"format": "safetensors", **headers.safetensors(files, reading)}
