"""What the identity of a model costs: headers of as many shards and tensors as real models have.

usage: python bench/model_identity.py        (needs warmcurve alone)

Writes sparse files (headers and holes) to a temporary directory, so what is read lies in the page cache, as it does
right after vLLM has loaded a model.
"""

import json
import os
import struct
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from types import SimpleNamespace

from warmcurve.vllm.weights.models import identity

ROUNDS = 7
# Shards and tensors: a dense model of 100 shards, Llama 3.1 405B, a mixture of experts, DeepSeek-V3.
MODELS = ((100, 1_200), (191, 1_138), (100, 20_000), (163, 91_991))


def write(directory: Path, shards: int, tensors: int) -> None:
    names = [f"model.layers.{i // 800}.mlp.experts.{i // 3 % 256}.{i % 3}_proj.weight_{i}" for i in range(tensors)]
    weight_map = {}
    for shard in range(shards):
        file = f"model-{shard + 1:05}-of-{shards:05}.safetensors"
        header, at = {"__metadata__": {"format": "pt"}}, 0
        for name in names[shard::shards]:
            header[name] = {"dtype": "F8_E4M3", "shape": [7168, 2048], "data_offsets": [at, at + 7168 * 2048]}
            at += 7168 * 2048
            weight_map[name] = file
        text = json.dumps(header).encode()
        with (directory / file).open("wb") as written:
            written.write(struct.pack("<Q", len(text)) + text)
            os.truncate(written.fileno(), 8 + len(text) + at)
    (directory / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    (directory / "config.json").write_text(json.dumps({"hidden_size": 7168}))


def main() -> None:
    load = SimpleNamespace(load_format="auto", download_dir=None)
    for shards, tensors in MODELS:
        with tempfile.TemporaryDirectory(prefix="warmcurve-") as name:
            write(Path(name), shards, tensors)
            model = SimpleNamespace(
                model=name, revision=None, code_revision=None, hf_config_path=None, trust_remote_code=False
            )
            took, computed = [], []
            for _ in range(ROUNDS):
                begin, began = time.perf_counter(), time.process_time()
                identity(model, load, "target.model")
                took.append((time.perf_counter() - begin) * 1000)
                computed.append((time.process_time() - began) * 1000)
        line = {
            "shards": shards,
            "tensors": tensors,
            "ms": round(median(took), 1),
            "cpu_ms": round(median(computed), 1),
        }
        sys.stdout.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
