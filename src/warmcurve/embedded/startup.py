"""How this engine boots. It is the worked example for authors of engines.

An engine brings four things to a boot: the plan of its full calibration, the factors that its curves depend on, a
store, and answers to three requests. `drive` makes the requests in the right order. The report says how the boot went.

    report = start(engine, store, settings)     # cold: calibrates, stores; warm: replays two sizes, reuses
"""

import hashlib
import math
import os
import platform
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

from warmcurve._version import __version__
from warmcurve.boot.driver import drive
from warmcurve.boot.inputs import Inputs
from warmcurve.boot.path import Boot
from warmcurve.boot.request import Samples
from warmcurve.boot.settings import Settings
from warmcurve.clock import Clock, SystemClock
from warmcurve.curves.admission import Thresholds
from warmcurve.curves.calibration import Plan, plan, profile_from
from warmcurve.curves.profile import CostProfile
from warmcurve.curves.sentinel import Limits, VerifiedProfile
from warmcurve.embedded.engine import CONTEXT, Engine, Policy
from warmcurve.embedded.model import HERE, POSITIONS
from warmcurve.planning.planner import cost_tables
from warmcurve.planning.regret import regret_between
from warmcurve.reporting.report import BootReport
from warmcurve.storage.fingerprint import Factors, Value
from warmcurve.storage.history import Histories
from warmcurve.storage.store import Store

NAME: Final = f"embedded {__version__}"
NOISY: Final = Limits(scale_low=0.25, scale_high=4.0, max_regret=0.6)
"""Wider than the default: on a CPU shared with other programs a step of a millisecond may take two."""
BUSY: Final = Thresholds(noise=math.inf, cold=math.inf, bend=math.inf)
"""Such a calibration is stored even if it is noisy, as long as its costs rise. Only a demonstration depends on it."""


def calibration_plan(engine: Engine) -> Plan:
    """Every captured size and the eager tail, five replays each, as vLLM plans it."""
    return plan(engine.captured, engine.max_tokens)


def factors(engine: Engine) -> Factors:
    """What the curves depend on. If in doubt, add a factor: one too many only costs a calibration."""
    return {
        "weights": {path.name: _digest(path) for path in sorted(HERE.glob("*.safetensors"))},
        # The kernels are the engine's source and the BLAS below it.
        "source": {path.name: _digest(path) for path in sorted(HERE.glob("*.py"))},
        "numpy": {"version": np.__version__, "blas": _blas()},
        "python": platform.python_version(),
        "processor": {"name": _processor(), "machine": platform.machine(), "count": os.cpu_count() or 0},
        # The variables that choose a BLAS's kernels and threads.
        "environment": {
            name: value for name, value in sorted(os.environ.items()) if name.startswith(("OPENBLAS_", "OMP_", "MKL_"))
        },
        "positions": POSITIONS,
        "max_requests": engine.max_requests,
        "context": CONTEXT,
    }


class Startup:
    """The three requests of a boot, answered by the engine."""

    def __init__(self, engine: Engine, progress: Callable[[str], None] = lambda _: None) -> None:
        self._engine = engine
        self._progress = progress
        self.profile: CostProfile | None = None
        """The curves that the engine plans with, once the boot is over."""

    def replay(self, sizes: tuple[int, ...]) -> Samples:
        """One timed step of each size. A hit runs these steps and no others."""
        self._progress(f"replaying {' and '.join(map(str, sizes))} tokens")
        return tuple(self._engine.dummy(size) for size in sizes)

    def install(self, verified: VerifiedProfile) -> None:
        """Plan with the stored curves, in the same way as with measured ones."""
        self._plan_with(verified.profile)

    def calibrate(self) -> Samples:
        """The engine's own full calibration, as it runs without warmcurve."""
        steps = calibration_plan(self._engine)
        samples = []
        for done, size in enumerate(steps.runs, 1):
            self._progress(f"calibrating, run {done} of {len(steps.runs)}: {size} tokens")
            samples.append(self._engine.dummy(size))
        self._plan_with(profile_from(samples, steps.captured[-1]))
        return tuple(samples)

    def _plan_with(self, profile: CostProfile) -> None:
        self.profile = profile
        engine = self._engine
        engine.policy = Policy(POSITIONS, cost_tables(profile, engine.max_requests, engine.max_tokens))


def start(
    engine: Engine,
    store: Store,
    settings: Settings | None = None,
    *,
    startup: Startup | None = None,
    clock: Clock | None = None,
    draw: Callable[[int], int] = secrets.randbelow,
    histories: Histories | None = None,
) -> BootReport:
    """Boot an engine that is warmed up. From then on it plans with measured or stored curves.

    Raises `CurvesRequired` if the mode is `require` and no stored curves hold.
    """
    boot = Boot(
        Inputs(
            engine=NAME,
            plan=calibration_plan(engine),
            read_factors=lambda: factors(engine),
            store=store,
            settings=settings or Settings(),
            clock=clock or SystemClock(),
            draw=draw,
            histories=histories,
            measure_regret=lambda fresh, stored: regret_between(fresh, stored, POSITIONS),
        )
    )
    return drive(boot, startup or Startup(engine))


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _blas() -> Value:
    built: Any = np.show_config(mode="dicts")
    found = built.get("Build Dependencies", {}).get("blas", {}) if isinstance(built, dict) else {}
    return {str(name): str(value) for name, value in found.items() if "directory" not in str(name)}


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        return platform.processor()
    facts = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return " ".join(facts.get(name, "") for name in ("vendor_id", "cpu family", "model", "model name", "flags"))
