"""What a boot has found: the engine's factors, the stored curves, the verdict on them, and the runs it took."""

from dataclasses import dataclass

from warmcurve.curves.profile import CostProfile
from warmcurve.curves.sentinel import Evidence
from warmcurve.reporting.report import RegretReport
from warmcurve.storage.fingerprint import Value


@dataclass(slots=True)
class Findings:
    """`stored` is the profile of the entry that was read, `recorded_ms` what its calibration took.

    `expected_ms` is what one round of the sentinels should cost by the stored curves. `detail` says in one line what
    was met, `note` what else a person should know. `sentinel_runs` and `calibration_runs` count dummy runs.
    """

    factors: dict[str, Value] | None = None
    digest: str | None = None
    stored: CostProfile | None = None
    recorded_ms: float | None = None
    expected_ms: float | None = None
    evidence: Evidence | None = None
    regret: RegretReport | None = None
    detail: str | None = None
    note: str | None = None
    sentinel_runs: int = 0
    calibration_runs: int = 0
