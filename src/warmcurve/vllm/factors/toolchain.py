"""What compiles kernels while an engine runs: whether FlashInfer can, and which CUDA compiler is found."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from warmcurve.vllm.reading import Reading

NAME: Final = "runtime.toolchain"
_EVERYONES: Final = "/usr/local/cuda"


def factors(variables: Mapping[str, str]) -> dict[str, Any]:
    """No program is run for this: the toolkit's own file says its version."""
    return {"flashinfer": _flashinfer(), "nvcc": nvcc(variables)}


def nvcc(variables: Mapping[str, str], everyones: str = _EVERYONES) -> str | None:
    """The version of the CUDA compiler: "unknown" if it does not say, None if there is no compiler.

    It is searched for in the same places as FlashInfer and vLLM do (vllm/utils/flashinfer.py).
    """
    found = shutil.which("nvcc", path=variables.get("PATH"))
    by_path = str(Path(found).parent.parent) if found else everyones
    home = Path(variables.get("CUDA_HOME") or variables.get("CUDA_PATH") or by_path)
    if not os.access(home / "bin" / "nvcc", os.X_OK):
        return None
    versions = home / "version.json"
    if not versions.is_file():
        return "unknown"
    parts = msgspec.json.decode(Reading(NAME).whole(versions), type=dict[str, Any])
    for part in ("cuda_nvcc", "cuda"):
        if isinstance(version := parts.get(part, {}).get("version"), str):
            return version
    return "unknown"


def _flashinfer() -> bool | None:
    """Whether vLLM says that FlashInfer is usable: installed, with kernels or with a compiler for them."""
    try:
        from vllm.utils.flashinfer import has_flashinfer
    except ImportError:
        return None
    return bool(has_flashinfer())
