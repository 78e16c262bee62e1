"""Finds the files of a model's weights, by the rules of vLLM's loader (`DefaultModelLoader`) and of its GGUF plugin.

A load format that gets its weights elsewhere (tensorizer, sharded states, a weight cache, object storage) is unknown.
"""

import glob
import os
import re
from fnmatch import filter as matching
from pathlib import Path
from typing import Any, Final

import msgspec

from warmcurve.vllm.reading import Reading
from warmcurve.vllm.weights import gguf
from warmcurve.vllm.weights.hub import directory

TORCH: Final = ("*.bin", "*.pt")
_PATTERNS: Final = {
    "auto": ("*.safetensors", *TORCH),
    "hf": ("*.safetensors", *TORCH),
    "safetensors": ("*.safetensors",),
    "fastsafetensors": ("*.safetensors",),
    "instanttensor": ("*.safetensors",),
    "mistral": ("consolidated*.safetensors",),
    "npcache": TORCH,
    "pt": ("*.pt",),
}
"""Load format → its files, of which the first pattern with any counts."""
_SHARD: Final = re.compile(r"(.*)-\d{5}-of-(\d{5})\.safetensors")
_NOT_WEIGHTS: Final = ("training_args.bin", "optimizer.bin", "optimizer.pt", "scheduler.pt", "scaler.pt")


def files(place: Path, load: Any, reading: Reading) -> tuple[str, list[Path]]:
    """The pattern of the load format that has files here, and those files."""
    # As a glob: files whose names begin with a dot are not the model's.
    names = [name for name in reading.names(place) if not name.startswith(".")]
    form = load.load_format
    if form == "auto" and matching(names, *_PATTERNS["mistral"]):
        form = "mistral"
    if form not in _PATTERNS:
        raise reading.unknown(f"weights of the load format {form!r} are not read")
    for pattern in _PATTERNS[form]:
        if found := [name for name in matching(names, pattern) if not name.endswith(_NOT_WEIGHTS)]:
            index = "consolidated.safetensors.index.json" if form == "mistral" else "model.safetensors.index.json"
            if pattern not in TORCH and index in names and not _is_one_series(found):
                found = _indexed(place / index, found, reading)
            return pattern, [place / name for name in found]
    raise reading.unknown(f"no {' or '.join(_PATTERNS[form])} in {place}")


def _is_one_series(names: list[str]) -> bool:
    """Whether these are all the shards of one model, whose index (megabytes) would only say so."""
    shards = {cut.groups() if (cut := _SHARD.fullmatch(name)) else ("", "0") for name in names}
    (_, count), *others = shards
    return not others and len(names) == int(count)


class _Index(msgspec.Struct):
    weight_map: dict[str, str]


_INDEX: Final = msgspec.json.Decoder(_Index)


def _indexed(index: Path, names: list[str], reading: Reading) -> list[str]:
    """The files that the index names. Other files beside it have another format, or are left over."""
    with reading.opened(index) as file:
        wanted = set(_INDEX.decode(file.exactly(file.size)).weight_map.values())
        if missing := wanted.difference(names):
            raise ValueError(f"{min(missing)} is missing")
    return [name for name in names if name in wanted]


def is_gguf(model: Any, load: Any) -> bool:
    return load.load_format == "gguf" or str(model.model).endswith(".gguf")


def gguf_files(model: Any, load: Any, reading: Reading) -> list[Path]:
    """A file, `org/name/file`, `directory:quantisation` or `org/name:quantisation`, and the other shards of it.

    The plugin: https://github.com/vllm-project/vllm-gguf-plugin
    """
    name = str(model.model)
    if os.path.isfile(name):  # noqa: PTH113  see hub.py
        path = Path(name)
    elif name.endswith(".gguf"):
        repository, _, file = name.rpartition("/")
        path = directory(repository, None, None, reading) / file
    else:
        repository, _, quantisation = name.rpartition(":")
        place = directory(repository, model.revision, load.download_dir, reading)
        found = [
            name
            for form in map(glob.escape, {quantisation, quantisation.upper(), quantisation.lower()})
            for pattern in (f"*[.-]{form}.gguf", f"*[.-]{form}-*.gguf")
            for name in matching(reading.names(place), pattern)
        ]
        if not found:
            raise reading.unknown(f"no file of {quantisation} in {place}")
        path = place / min(found, key=lambda name: (name.count("-"), name))
    return gguf.shards(path, reading.names(path.parent))
