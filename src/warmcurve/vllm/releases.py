"""Which vLLM this is, told by the syntax trees of the functions that the seam replaces or reads.

A version number says little: builds from source carry any, and a local patch leaves it as it is. What must hold is
that the hooked functions do what they did when the seam was written and run against them.
"""

from importlib import import_module
from typing import Final

from warmcurve.vllm.syntax import digest

MANAGER: Final = "vllm.v1.worker.gpu.spec_decode.adaptive_verification"
TIMING: Final = "vllm.v1.worker.gpu.async_utils"
RUNNER: Final = "vllm.v1.worker.gpu.model_runner"
BATCH: Final = "vllm.v1.worker.gpu.input_batch"

_HOOKED: Final = {
    MANAGER: (
        "AdaptiveVerificationManager.batches_to_profile",
        "AdaptiveVerificationManager.set_initial_cost_curves",
        "AdaptiveVerificationManager.set_cost_curves",
        "build_cost_tables_from_curves",
    ),
    TIMING: ("StepTimingSample", "StepTimingEvents", "StepTimingCollector"),
    RUNNER: ("GPUModelRunner.capture_model", "GPUModelRunner.profile_cudagraph_memory"),
}
# What decides what a dummy run does, beside the hooked functions: part of the fingerprint, not of the gate.
_MEASURED: Final = {
    RUNNER: ("GPUModelRunner._dummy_run", "GPUModelRunner.execute_model"),
    BATCH: ("set_dummy_context",),
}

KNOWN: Final[dict[str, tuple[str, ...]]] = {
    "0.29.0": ("1f2581fd5e4f19a0", "807f74038c886e7c", "041f8d02553dea7a"),
    "0.30.0": ("1f2581fd5e4f19a0", "807f74038c886e7c", "85433a7d03851d2f"),
    "0.31.0": ("1f2581fd5e4f19a0", "807f74038c886e7c", "85433a7d03851d2f"),
    "0.32.0": ("1f2581fd5e4f19a0", "807f74038c886e7c", "b0da6720db5e10f1"),
    "0.33.0": ("1f2581fd5e4f19a0", "807f74038c886e7c", "6c9686371cf88573"),
}
"""Release → the digests of its hooked functions, by module as above. Each release booted cold and warm: see
docs/compatibility.md."""


def hooked() -> tuple[str, ...]:
    """The digests of the hooked functions. Raises LookupError, SyntaxError or OSError where they cannot be read."""
    return _digests(_HOOKED)


def measured() -> list[str]:
    """The digests of everything that decides what a dummy run does and what is timed of it."""
    return [*_digests(_HOOKED), *_digests(_MEASURED)]


def known(digests: tuple[str, ...]) -> tuple[str, ...]:
    """The releases whose hooked functions are these; empty for a release that is not known."""
    return tuple(release for release, own in KNOWN.items() if own == digests)


def strangers(digests: tuple[str, ...]) -> tuple[str, ...]:
    """The modules whose hooked functions are those of no known release."""
    columns = zip(*KNOWN.values(), strict=True)
    return tuple(module for module, own, column in zip(_HOOKED, digests, columns, strict=True) if own not in column)


def _digests(names: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(digest(import_module(module), wanted)[:16] for module, wanted in names.items())
