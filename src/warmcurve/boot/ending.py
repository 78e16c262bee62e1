"""Makes the report of a boot, from what it was given, where it stands and what it has found."""

import os
import platform

from warmcurve._version import __version__
from warmcurve.boot.findings import Findings
from warmcurve.boot.inputs import Inputs
from warmcurve.boot.position import Position
from warmcurve.outcome import Outcome, Reason, Step
from warmcurve.reporting.report import BootReport, VoteReport


def calibration_ms(given: Inputs, position: Position) -> float:
    """The time from the start of the boot to curves in place, or until now."""
    end = given.clock.monotonic_ns() if position.in_place_ns is None else position.in_place_ns
    return round((end - position.started_ns) / 1e6, 3)


def report(
    given: Inputs,
    position: Position,
    found: Findings,
    outcome: Outcome,
    reason: Reason | None,
    step: Step | None = None,
) -> BootReport:
    """`step` is given only after an unforeseen error: it says where the boot stood."""
    hit, decision, party = outcome is Outcome.REUSED, position.decision, position.party
    waited_ns = 0 if given.register is None else given.register.waited_ns
    return BootReport(
        at=given.clock.now().isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        warmcurve=__version__,
        engine=given.engine,
        host=platform.node(),
        pid=os.getpid(),
        rank=party.rank,
        world=party.world,
        outcome=outcome,
        reason=reason,
        missed=None if hit or decision is None else decision.reason,
        detail=found.detail if reason or not hit else None,
        note=found.note,
        step=step,
        digest=found.digest,
        entry=given.store.describe(found.digest) if found.digest and party.leads else None,
        mode=given.settings.mode,
        calibration_runs=found.calibration_runs,
        expected_ms=found.expected_ms,
        sentinel_runs=found.sentinel_runs,
        calibration_ms=calibration_ms(given, position),
        recorded_ms=found.recorded_ms,
        evidence=found.evidence,
        regret=found.regret,
        limits=given.settings.limits,
        factors=None if hit else found.factors,
        unreviewed=given.unreviewed,
        vote=VoteReport(decision, position.own, round(waited_ns / 1e6, 3)) if party.world > 1 else None,
    )
