"""Who a model is, by content: its configuration and the headers of its weights.

Costs depend on shapes, types and quantisation, all of which stand there, and not on the values of the weights. So
fine-tunes of one architecture share their curves, and a model keeps its identity when its files move.
"""

import hashlib
import struct
from pathlib import Path
from typing import Any

from warmcurve.errors import FactorError
from warmcurve.fingerprint import Value
from warmcurve.outcome import Reason

# The bound of the safetensors format: https://github.com/huggingface/safetensors#format
_LONGEST_HEADER = 100_000_000


def identity(model: Any, load: Any, factor: str) -> dict[str, Value]:
    """Identity of a vLLM `ModelConfig`, given the `LoadConfig`. Raises `FactorError` named after `factor`."""
    directory = _directory(model, load, factor)
    weights = _weights(directory)
    if weights is None and load.load_format != "dummy":
        raise _unknown(f"{factor}.weights", f"no safetensors file in {directory}")
    try:
        config = hashlib.sha256((directory / "config.json").read_bytes()).hexdigest()
    except OSError as error:
        raise _unknown(f"{factor}.config", f"{directory / 'config.json'}: {error.strerror}") from error
    return {"config": config, "weights": weights, "files": len(list(directory.glob("*.safetensors")))}


def _directory(model: Any, load: Any, factor: str) -> Path:
    if Path(model.model).is_dir():
        return Path(model.model)
    # A hub name: the files lie in a snapshot of the local cache. Nothing is downloaded here.
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(
        model.model, "config.json", cache_dir=load.download_dir, revision=model.revision or "main"
    )
    if not isinstance(found, str):
        raise _unknown(f"{factor}.config", f"{model.model} is neither a directory nor in the hub's local cache")
    return Path(found).parent


def _weights(directory: Path) -> str | None:
    files = sorted(directory.glob("*.safetensors"))
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.name} {hashlib.sha256(_header(file)).hexdigest()}\n".encode())
    return digest.hexdigest() if files else None


def _header(file: Path) -> bytes:
    try:
        with file.open("rb") as opened:
            (length,) = struct.unpack("<Q", opened.read(8))
            if length <= _LONGEST_HEADER and len(header := opened.read(length)) == length:
                return header
    except (OSError, struct.error) as error:
        raise _unknown("weights", f"{file}: {error}") from error
    raise _unknown("weights", f"{file} has no safetensors header")


def _unknown(factor: str, problem: str) -> FactorError:
    return FactorError(Reason.FACTOR_UNKNOWN, factor, problem)
