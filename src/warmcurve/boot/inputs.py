"""What a boot is given. Nothing in it changes while the boot runs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from warmcurve.boot.settings import Settings
from warmcurve.clock import Clock
from warmcurve.curves.calibration import Plan
from warmcurve.curves.profile import CostProfile
from warmcurve.ranks.register import Register
from warmcurve.reporting.report import RegretReport
from warmcurve.storage.fingerprint import Factors
from warmcurve.storage.history import Histories
from warmcurve.storage.store import Store

Condition = str | int | float | bool | None


def _no_regret(_fresh: CostProfile, _stored: CostProfile) -> None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """`engine` is the engine's name and version, `plan` the runs of its full calibration.

    `read_factors` gives what the curves depend on. It may raise `FactorError`. The plan is added to the factors: curves
    measured at other sizes are other curves. `unreviewed` names factors that count though nobody reviewed them.

    `draw(n)` gives an integer in [0, n), to pick the sentinels.

    Ranks of a `world` of several vote over `register`. Without a register every rank calibrates, and nothing is stored.
    Only the leader, rank 0, draws and touches `store` and `histories`.

    `measure_regret(fresh, stored)` gives the throughput lost by planning with one profile where the other is true. The
    report of a boot that calibrated beside a stored profile has it. It must not raise.

    `conditions` are stored with a calibration and shown to people. They are no factors.
    """

    engine: str
    plan: Plan
    read_factors: Callable[[], Factors]
    store: Store
    settings: Settings
    clock: Clock
    draw: Callable[[int], int]
    rank: int = 0
    world: int = 1
    register: Register | None = None
    histories: Histories | None = None
    measure_regret: Callable[[CostProfile, CostProfile], RegretReport | None] = _no_regret
    unreviewed: tuple[str, ...] = ()
    conditions: Mapping[str, Condition] = field(default_factory=dict)
