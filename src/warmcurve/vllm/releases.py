"""Which vLLM this is, told by the syntax trees of what calibrates: the functions that the seam replaces or reads, and
the loop that calls them.

A version number says little: builds from source carry any, and a local patch leaves it as it is. What must hold is
that the calibration does what it did when the seam was written and run against it. What stands around it does not
count here.
"""

from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Final, NamedTuple

from warmcurve.vllm.loop import RUNNER as RUNNER_CLASS
from warmcurve.vllm.loop import Loop, find
from warmcurve.vllm.syntax import digest, tree_of

MANAGER: Final = "vllm.v1.worker.gpu.spec_decode.adaptive_verification"
TIMING: Final = "vllm.v1.worker.gpu.async_utils"
RUNNER: Final = "vllm.v1.worker.gpu.model_runner"
BATCH: Final = "vllm.v1.worker.gpu.input_batch"

METHODS: Final = ("batches_to_profile", "set_initial_cost_curves", "set_cost_curves")
"""The manager's methods that the seam stands in front of."""

HOOKED: Final = {
    MANAGER: (
        *(f"AdaptiveVerificationManager.{method}" for method in METHODS),
        "build_cost_tables_from_curves",
    ),
    TIMING: ("StepTimingSample", "StepTimingEvents", "StepTimingCollector"),
}
# What decides what a dummy run does, beside the calibration itself: part of the fingerprint, not of the gate.
MEASURED: Final = {
    RUNNER: ("GPUModelRunner._dummy_run", "GPUModelRunner.execute_model"),
    BATCH: ("set_dummy_context",),
}

KNOWN: Final[dict[str, tuple[str, ...]]] = {
    "0.29.0": ("1f2581fd5e4f19a0", "807f74038c886e7c", "e47e5614df96918e"),
    "0.30.0": ("1f2581fd5e4f19a0", "807f74038c886e7c", "e47e5614df96918e"),
    "0.31.0": ("1f2581fd5e4f19a0", "807f74038c886e7c", "e47e5614df96918e"),
    "0.32.0": ("1f2581fd5e4f19a0", "807f74038c886e7c", "e47e5614df96918e"),
    "0.33.0": ("1f2581fd5e4f19a0", "807f74038c886e7c", "e47e5614df96918e"),
    "0.34.0": ("1f2581fd5e4f19a0", "807f74038c886e7c", "da2fead77d43752b"),
}
"""Release → the digests of the manager's functions, the timing classes and the loop. Each release booted cold and warm:
see docs/compatibility.md. A later release with the digests of one of these calibrates as it does.
"""

Load = Callable[[str], ModuleType]


class Calibration(NamedTuple):
    """How a vLLM calibrates: the digests of its parts, in the order of `KNOWN`, and the loop."""

    digests: tuple[str, ...]
    loop: Loop

    @property
    def releases(self) -> tuple[str, ...]:
        """The releases that calibrate like this; empty where none is known to."""
        if self.loop.flaw:
            return ()
        return tuple(release for release, own in KNOWN.items() if own == self.digests)

    @property
    def news(self) -> tuple[str, ...]:
        """What of it is that of no known release."""
        place = f"the loop in {RUNNER_CLASS}.{self.loop.method}"
        columns = zip(*KNOWN.values(), strict=True)
        parts = zip((*HOOKED, place), self.digests, columns, strict=True)
        new = [f"{part} ({own})" for part, own, column in parts if own not in column]
        new += [f"{place}: {self.loop.flaw}"] if self.loop.flaw else []
        return tuple(new) if new or self.releases else ("parts of several releases",)

    @property
    def only_loop(self) -> bool:
        """Whether the loop alone is new, and all that it calls is known."""
        return self.digests[:2] in {own[:2] for own in KNOWN.values()}


def calibration(load: Load = import_module) -> Calibration:
    """How this vLLM calibrates. Raises LookupError, SyntaxError, OSError or ImportError where it cannot be read."""
    loop = find(tree_of(load(RUNNER)))
    return Calibration((*_digests(HOOKED, load), loop.digest[:16]), loop)


def measured() -> list[str]:
    """The digests of everything that decides what a dummy run does and what is timed of it."""
    found = calibration()
    return [*found.digests, found.loop.around[:16], *_digests(MEASURED, import_module)]


def _digests(names: dict[str, tuple[str, ...]], load: Load) -> tuple[str, ...]:
    return tuple(digest(load(module), wanted)[:16] for module, wanted in names.items())
