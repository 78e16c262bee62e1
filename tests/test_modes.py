"""What a boot does with stored curves is a mode, and what became of them before is remembered."""

import math
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import msgspec
import pytest

from tests.support import boot, boot_of
from warmcurve._version import __version__
from warmcurve.boot.driver import drive
from warmcurve.boot.request import Calibrate, Replay
from warmcurve.boot.settings import Mode, Settings
from warmcurve.curves.admission import Thresholds
from warmcurve.curves.calibration import profile_from
from warmcurve.curves.profile import CostProfile
from warmcurve.curves.sentinel import SWEEP, Limits, Policy, rounds_for
from warmcurve.errors import CurvesRequired, StoreError
from warmcurve.outcome import Outcome, Reason
from warmcurve.planning.regret import regret_between
from warmcurve.reporting.report import BootReport, RegretReport
from warmcurve.storage import entry
from warmcurve.testing import FaultStore, MemoryHistories, ScriptedEngine

ALL_RUNS = 40
DAY_S = 86400.0
DEARER, MUCH_DEARER = 1.5, 3.0
"""Of one size: what the shape limit finds, and what the scale limit finds."""


class Machine:
    """One engine with a store and what is remembered; its large sizes can become dearer than the small ones."""

    def __init__(self) -> None:
        self.engine = ScriptedEngine()
        self.store = FaultStore()
        self.histories = MemoryHistories()
        self.factor = 1.0
        self.noise: list[float] = []
        base = self.engine.verify_ms
        self.engine.verify_ms = lambda n: base(n) * (self.factor if n >= 16 else 1) * self._noise()

    def _noise(self) -> float:
        return self.noise.pop() if self.noise else 1.0

    def boot(self, mode: Mode = "reuse", draw: Callable[[int], int] = lambda n: n // 2, **settings) -> BootReport:
        self.engine.runs.clear()
        self.engine.installed = None
        self.engine.clock.advance_ms(60_000)
        given = Settings(mode=mode, **settings)
        memory = {"histories": self.histories, "measure_regret": _measure_regret}
        return boot(self.engine, self.store, settings=given, draw=draw, **memory)

    def stop(self, mode: Mode = "require", **changes) -> tuple[CurvesRequired, BootReport]:
        """A boot that must not go on."""
        self.engine.runs.clear()
        stopped = boot_of(self.engine, self.store, settings=Settings(mode=mode), histories=self.histories, **changes)
        with pytest.raises(CurvesRequired) as raised:
            drive(stopped, self.engine)
        return raised.value, stopped.abandon(raised.value.reason, raised.value.detail, calibration_runs=0)

    @property
    def data(self) -> bytes:
        (data,) = self.store.entries.values()
        return data

    def disturb(self) -> None:
        """Let the next calibration be too noisy to be stored; two sentinels run before it."""
        self.noise = [1.0, 1.5, 2.0, 0.7, 1.3] * 8 + [1.0, 1.0]


def _measure_regret(fresh: CostProfile, stored: CostProfile) -> RegretReport | None:
    return regret_between(fresh, stored, 3)


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture
def warm(machine: Machine) -> Machine:
    """With an entry of a first boot."""
    assert machine.boot().outcome is Outcome.RECORDED
    return machine


def _course(report: BootReport) -> tuple[Outcome, Reason | None, Reason | None]:
    return report.outcome, report.reason, report.missed


def test_off_does_nothing(warm: Machine):
    """The engine calibrates as without warmcurve; the store is not even read."""
    before = warm.data
    warm.store.errors = {name: AssertionError(name) for name in ("get", "put", "list")}
    report = warm.boot("off")
    assert _course(report) == (Outcome.UNRECORDED, Reason.SWITCHED_OFF, Reason.SWITCHED_OFF)
    assert (len(warm.engine.runs), report.sentinel_runs, report.digest) == (ALL_RUNS, 0, None)
    assert warm.data == before
    assert report.mode == "off"


def test_record_never_reuses(warm: Machine):
    """The engine calibrates though an entry is stored, which is replaced and not read."""
    before = warm.data
    warm.engine.clock.advance_ms(1e6)
    warm.factor = 1.1
    warm.store.errors = {"get": AssertionError("get")}
    report = warm.boot("record")
    assert _course(report) == (Outcome.RECORDED, None, Reason.MODE_RECORD)
    assert (len(warm.engine.runs), report.sentinel_runs) == (ALL_RUNS, 0)
    assert entry.decode(warm.data).profile == profile_from(warm.engine.calibrated or (), 16)
    assert warm.data != before


def test_record_stores_no_disturbed_calibration(warm: Machine):
    """What is not admitted is not stored in any mode."""
    before = warm.data
    warm.disturb()
    report = warm.boot("record")
    assert _course(report) == (Outcome.UNRECORDED, Reason.CALIBRATION_NOISY, Reason.MODE_RECORD)
    assert warm.data == before


def test_require_goes_on_with_curves_that_hold(warm: Machine):
    """A hit is the same as in the mode `reuse`."""
    report = warm.boot("require")
    assert _course(report) == (Outcome.REUSED, None, None)
    assert warm.engine.runs == [16, 4]
    assert report.mode == "require"


def test_require_stops_without_an_entry(machine: Machine):
    """Nothing runs, nothing is stored, and the error says what to do."""
    error, report = machine.stop()
    assert _course(report) == (Outcome.UNRECORDED, Reason.CURVES_REQUIRED, Reason.ABSENT)
    assert machine.engine.runs == []
    assert machine.store.entries == {}
    assert str(error) == "curves_required: absent: looked in memory"
    assert "WARMCURVE_MODE" in error.hint()
    assert "mode=require reason=curves_required missed=absent" in report.log_line()


@pytest.mark.parametrize(("factor", "reason"), [(DEARER, Reason.SENTINEL_SHAPE), (MUCH_DEARER, Reason.SENTINEL_SCALE)])
def test_require_stops_where_the_curves_do_not_hold(warm: Machine, factor: float, reason: Reason):
    """After the sentinels no calibration runs, and the entry stays; the error says what moved."""
    before = warm.data
    warm.factor = factor
    error, report = warm.stop()
    assert _course(report) == (Outcome.UNRECORDED, Reason.CURVES_REQUIRED, reason)
    assert "16 tokens became" in error.detail
    assert set(warm.engine.runs) == {16, 4}
    assert report.calibration_runs == 0
    assert warm.data == before
    assert warm.boot().reason is reason


def test_require_stops_where_the_engine_refuses(warm: Machine):
    """Verified curves that the engine does not take are no curves to go on with."""
    warm.engine.refuses = "no"
    error, report = warm.stop()
    assert report.missed is Reason.INSTALL_REFUSED
    assert error.detail == "install_refused: no"


def test_require_moves_no_damaged_entry_aside(warm: Machine):
    """The restarts that follow would find none, and say so instead of what it was."""
    (digest,) = warm.store.entries
    warm.store.entries[digest] = warm.data[:-5]
    assert [warm.stop()[1].missed for _ in range(2)] == [Reason.ENTRY_TRUNCATED] * 2
    assert warm.store.aside == {}


def test_require_stops_where_a_factor_is_unknown(warm: Machine):
    """Whatever the obstacle is, the boot does not go on."""
    _, report = warm.stop(read_factors=lambda: {"device": 1.5})
    assert _course(report) == (Outcome.UNRECORDED, Reason.CURVES_REQUIRED, Reason.FACTOR_INVALID)


def test_verify_calibrates_and_compares(warm: Machine):
    """Curves that hold: no sentinel runs, the engine plans with fresh curves, and nothing is written."""
    before, remembered = warm.data, dict(warm.histories.kept)
    warm.store.errors = {"put": AssertionError("put")}
    warm.engine.clock.advance_ms(1e6)
    report = warm.boot("verify")
    assert _course(report) == (Outcome.UNRECORDED, Reason.MODE_VERIFY, Reason.MODE_VERIFY)
    assert (len(warm.engine.runs), report.sentinel_runs) == (ALL_RUNS, 0)
    assert warm.engine.installed is None
    assert report.detail == "the stored curves hold"
    assert report.evidence is not None
    assert [reading.tokens for reading in report.evidence.readings] == [1, 2, 4, 8, 16]
    assert report.evidence.loss_bound == 0
    assert report.regret is not None
    assert (report.regret.stored_worst, report.regret.fresh_worst, report.regret.drafts) == (0, 0, 3)
    assert (warm.data, warm.histories.kept) == (before, remembered)


def test_verify_tells_regret_both_ways(warm: Machine):
    """Curves that do not hold: what moved, and what planning with either would lose where the other is true."""
    before = entry.decode(warm.data).profile
    warm.factor = MUCH_DEARER
    report = warm.boot("verify")
    assert report.reason is Reason.MODE_VERIFY
    assert (report.detail or "").startswith("the stored curves do not hold: sentinel_scale")
    assert "16 tokens became 3× dearer" in (report.detail or "")
    fresh = profile_from(warm.engine.calibrated or (), 16)
    assert report.regret == _measure_regret(fresh, before)
    assert report.regret is not None
    assert report.regret.stored_worst > 0.1
    assert entry.decode(warm.data).profile == before


@pytest.mark.parametrize(
    ("policy", "factor", "holds"), [("two", 1.107, True), ("sweep", 1.107, False), ("two", 1.3, False)]
)
def test_verify_judges_as_strictly_as_the_policy(warm: Machine, policy: Policy, factor: float, holds: bool):
    """By its own limit at the last look: what the audit lets pass a sweep would."""
    warm.factor = factor
    limits = Limits(max_regret=rounds_for(policy).max_regret)
    report = warm.boot("verify", sentinels=policy, limits=limits)
    assert (report.detail == "the stored curves hold") == holds
    assert (warm.boot(sentinels="sweep", limits=limits).outcome is Outcome.REUSED) == holds


def test_verify_tells_a_disturbed_calibration(warm: Machine):
    """Against what would not be stored a comparison says little, and the report says so first."""
    warm.disturb()
    detail = warm.boot("verify").detail or ""
    assert detail.startswith("the fresh calibration would not be stored (calibration_noisy, ")


def test_verify_of_nothing_stored_stores_nothing(machine: Machine):
    """An audit leaves no entry, and says that there was none."""
    report = machine.boot("verify")
    assert _course(report) == (Outcome.UNRECORDED, Reason.MODE_VERIFY, Reason.ABSENT)
    assert (report.evidence, report.regret, machine.store.entries) == (None, None, {})


def test_verify_moves_no_damaged_entry_aside(warm: Machine):
    """It tells the damage, and leaves it to the next boot that stores."""
    (digest,) = warm.store.entries
    warm.store.entries[digest] = warm.data[:-5]
    report = warm.boot("verify")
    assert _course(report) == (Outcome.UNRECORDED, Reason.MODE_VERIFY, Reason.ENTRY_TRUNCATED)
    assert warm.store.aside == {}
    assert warm.boot().missed is Reason.ENTRY_TRUNCATED
    assert len(warm.store.aside[digest]) == 1


def test_a_boot_that_calibrates_again_tells_the_regret(warm: Machine):
    """What the stored curves would have cost is in the report of the boot that turned them down."""
    stored = entry.decode(warm.data).profile
    warm.factor = MUCH_DEARER
    report = warm.boot()
    assert _course(report) == (Outcome.RECORDED, Reason.SENTINEL_SCALE, Reason.SENTINEL_SCALE)
    assert report.regret == _measure_regret(entry.decode(warm.data).profile, stored)
    assert report.regret is not None
    assert f" regret={report.regret.stored_worst:.3g} " in report.log_line()
    assert warm.boot().regret is None


def test_what_the_sentinels_should_take_is_told(warm: Machine):
    """By the stored costs of one round, which under `sweep` is one of every captured size."""
    stored = entry.decode(warm.data).profile
    for policy, sizes in (("two", (16, 4)), ("sweep", (16, 8, 4, 2, 1))):
        report = warm.boot(sentinels=policy)
        spent = [(stored.verify.at(n) or 0) + (stored.draft.at(min(n, 4)) or 0) for n in sizes]
        assert report.expected_ms == pytest.approx(sum(spent))
        assert report.expected_ms == pytest.approx(report.calibration_ms, abs=1e-3)


def _age(machine: Machine, days: float) -> None:
    """Let an entry be so many days old."""
    machine.engine.clock.advance_ms(days * DAY_S * 1000)


@pytest.mark.parametrize(("days", "expired"), [(0, False), (6.9, False), (7.1, True), (4000, True)])
def test_an_old_entry_is_replaced(warm: Machine, days: float, expired: bool):
    """Beyond the most that is allowed an entry is calibrated again; the new one is young."""
    _age(warm, days)
    report = warm.boot(max_age_s=7 * DAY_S)
    assert (report.missed is Reason.ENTRY_EXPIRED) == expired
    assert report.outcome is (Outcome.RECORDED if expired else Outcome.REUSED)
    assert warm.boot(max_age_s=7 * DAY_S).outcome is Outcome.REUSED


def test_without_a_limit_no_entry_is_too_old(warm: Machine):
    """Age alone says nothing of curves."""
    _age(warm, 100_000)
    assert warm.boot().outcome is Outcome.REUSED


def _recorded_at(machine: Machine, moment: object) -> None:
    """Let an entry say that it was recorded then."""
    (digest,) = machine.store.entries
    found = entry.decode(machine.data)
    conditions = {**found.conditions, "recorded_at": moment}
    machine.store.entries[digest] = entry.encode(msgspec.structs.replace(found, conditions=conditions))


@pytest.mark.parametrize("recorded_at", [None, "yesterday", 17])
def test_an_entry_of_unknown_age_is_too_old(warm: Machine, recorded_at: object):
    """Where there is a limit, an entry that does not say its age is not within it."""
    _recorded_at(warm, recorded_at)
    assert warm.boot(max_age_s=DAY_S).missed is Reason.ENTRY_EXPIRED


def test_ages_are_told_in_words(warm: Machine):
    """Of a board whose clock was in 1970 when the entry was recorded, too."""
    _recorded_at(warm, "1970-01-01T00:05:00+00:00")
    assert warm.boot(max_age_s=90 * DAY_S).detail == (
        "recorded at 1970-01-01T00:05:00+00:00, 60 years 15 days ago, allowed 90 days"
    )


@pytest.mark.parametrize(
    ("ahead", "told"),
    [
        (timedelta(minutes=30), None),
        (timedelta(hours=5), "this host's clock says 4 h 59 min before the entry was recorded, "),
        (timedelta(days=25_000), "this host's clock says 68 years 180 days before the entry was recorded, "),
    ],
)
def test_an_entry_from_the_clocks_future_is_kept(warm: Machine, ahead: timedelta, told: str | None):
    """It is younger than any age that is allowed, or one of the two clocks is wrong. A calibration would mend neither,
    so the boot goes on and says so, unless hosts' clocks differ as they always do.
    """
    _recorded_at(warm, (warm.engine.clock.now() + ahead).isoformat())
    report = warm.boot(max_age_s=DAY_S)
    assert _course(report) == (Outcome.REUSED, None, None)
    assert report.note == (told and f"{told}so the entry's age is unknown and WARMCURVE_MAX_AGE is not applied")
    assert (f"; {report.note})" in report.log_line()) == (told is not None)
    assert warm.boot().note is None


@pytest.mark.parametrize("year", [1970, 2000, 2015])
def test_a_clock_that_was_never_set_tells_no_age(machine: Machine, year: int):
    """A board without a battery boots in 1970 or in the year of its firmware, and its clock jumps later. The entry is
    calibrated anew once at most, when an early clock had recorded it, and not at each jump.
    """
    late, early, outcomes = machine.engine.clock.now(), datetime(year, 1, 1, tzinfo=UTC), []
    for moment in (early, early, late, early, late, early, late):
        machine.engine.clock.advance_ms((moment - machine.engine.clock.now()) / timedelta(milliseconds=1))
        report = machine.boot(max_age_s=DAY_S)
        outcomes.append(report.outcome)
        if moment is early and report.outcome is Outcome.REUSED:
            assert (report.note or "").startswith(
                f"this host's clock says {year}-01-01, before warmcurve {__version__} "
            )
    assert outcomes == [Outcome.RECORDED, Outcome.REUSED, Outcome.RECORDED, *[Outcome.REUSED] * 4]


def _turn_down(machine: Machine, times: int, **settings) -> list[BootReport]:
    """Boots that turn the entry down and whose own calibration is too noisy to replace it."""
    machine.factor = DEARER
    reports = []
    for _ in range(times):
        machine.noise = []
        machine.engine.draft_ms = _noisy_drafts()
        reports.append(machine.boot(**settings))
    machine.engine.draft_ms = lambda requests: 1.0 + requests / 16
    return reports


def _noisy_drafts() -> Callable[[int], float]:
    """Quiet for the sentinels, of which there are six runs, and too noisy to be stored afterwards."""
    factors = iter([1.0] * 6)
    spread = [1.0, 1.5, 2.0, 0.7, 1.3]
    count = 0

    def draft_ms(requests: int) -> float:
        nonlocal count
        count += 1
        return (1.0 + requests / 16) * next(factors, spread[count % 5])

    return draft_ms


def test_an_entry_turned_down_again_and_again_is_quarantined(warm: Machine):
    """After three boots in a row that could not replace it, it is not tried: no sentinel runs. A calibration that is
    stored takes its place and is tried again.
    """
    before = warm.data
    reports = _turn_down(warm, 5)
    assert [report.missed for report in reports] == [Reason.SENTINEL_SHAPE] * 3 + [Reason.ENTRY_QUARANTINED] * 2
    assert {report.reason for report in reports} == {Reason.CALIBRATION_NOISY}
    assert [report.sentinel_runs for report in reports] == [6] * 3 + [0] * 2
    assert warm.data == before
    (history,) = warm.histories.kept.values()
    assert [each.reason for each in history.rejected] == [Reason.SENTINEL_SHAPE] * 3
    assert "16 tokens became 1.5× dearer" in (history.rejected[-1].detail or "")
    recorded = warm.boot()
    assert _course(recorded) == (Outcome.RECORDED, Reason.ENTRY_QUARANTINED, Reason.ENTRY_QUARANTINED)
    assert "turned down 3 times in a row" in (recorded.detail or "")
    assert warm.boot().outcome is Outcome.REUSED


def test_quarantine_is_the_machines_own(warm: Machine):
    """Another machine goes on trying the entry."""
    _turn_down(warm, 3)
    warm.histories, warm.factor = MemoryHistories("another"), 1.0
    assert warm.boot().outcome is Outcome.REUSED


def test_an_acceptance_ends_the_row(warm: Machine):
    """Only rejections in a row count."""
    _turn_down(warm, 2)
    warm.factor = 1.0
    assert warm.boot().outcome is Outcome.REUSED
    reports = _turn_down(warm, 3)
    assert {report.missed for report in reports} == {Reason.SENTINEL_SHAPE}


@pytest.mark.parametrize(("after", "tried"), [(0, 6), (1, 1), (5, 5)])
def test_how_often_is_a_setting(warm: Machine, after: int, tried: int):
    """Zero never quarantines."""
    reports = _turn_down(warm, 6, quarantine=after)
    assert [report.missed for report in reports].count(Reason.SENTINEL_SHAPE) == tried


def test_what_is_required_is_always_tried(warm: Machine):
    """In the mode `require` nothing could end a quarantine: restarts that were disturbed lock no healthy machine out,
    and do not count elsewhere either.
    """
    warm.factor = DEARER
    assert [warm.stop()[1].missed for _ in range(5)] == [Reason.SENTINEL_SHAPE] * 5
    warm.factor = 1.0
    assert warm.boot("require").outcome is Outcome.REUSED
    _turn_down(warm, 3)
    warm.factor = 1.0
    assert warm.boot("require").outcome is Outcome.REUSED


def test_what_is_in_quarantine_is_audited(warm: Machine):
    """An audit compares what lies there."""
    _turn_down(warm, 3)
    warm.factor = 1.0
    report = warm.boot("verify")
    assert (report.missed, report.detail) == (Reason.MODE_VERIFY, "the stored curves hold")


def test_a_machine_that_flips_is_unstable(warm: Machine):
    """The second state is stored in the place of the first; the third calibration that disagrees with the one before is
    not, nor any other while that goes on. The entry stays usable where it holds.
    """
    reports = []
    for warm.factor in [DEARER, *[1.0, DEARER] * 4]:
        reports.append(warm.boot())
    first, second, third, fourth, *more = reports
    assert _course(first) == (Outcome.RECORDED, Reason.SENTINEL_SHAPE, Reason.SENTINEL_SHAPE)
    assert _course(second) == (Outcome.UNRECORDED, Reason.MACHINE_UNSTABLE, Reason.SENTINEL_SHAPE)
    assert "3 calibrations in a row disagree" in (second.detail or "")
    assert "verify of 16 tokens became 1.5× cheaper" in (second.detail or "")
    assert third.outcome is Outcome.REUSED
    assert _course(fourth) == _course(second)
    assert [report.outcome for report in more] == [Outcome.REUSED, Outcome.UNRECORDED] * 2 + [Outcome.REUSED]


def _flipping(machine: Machine, chance: float, seed: int, boots: int = 300) -> list[BootReport]:
    """Boots of a machine on which verification takes 63 or 94 ms a step, and each boot may find it changed."""
    random = Random(seed)
    base_verify, base_draft, dear, reports = machine.engine.verify_ms, machine.engine.draft_ms, False, []
    for _ in range(boots):
        dear ^= random.random() < chance
        step = 94.0 if dear else 63.0
        machine.engine.verify_ms = lambda n, ms=step: ms / 5 * base_verify(n) * random.uniform(0.99, 1.01)  # type: ignore[misc]
        machine.engine.draft_ms = lambda n: base_draft(n) * random.uniform(0.99, 1.01)
        reports.append(machine.boot(draw=random.randrange))
    return reports


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("chance", [0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9])
def test_a_machine_of_two_states_keeps_one_entry(machine: Machine, chance: float, seed: int):
    """However often it flips, few of 300 boots store. The rest reuse the entry or say why it stays, and no entry of a
    state that comes back is put in quarantine. The history stays small.
    """
    reports = _flipping(machine, chance, seed)
    outcomes = Counter(report.outcome for report in reports)
    assert outcomes[Outcome.RECORDED] <= 10
    assert {report.reason for report in reports if report.outcome is Outcome.UNRECORDED} == {Reason.MACHINE_UNSTABLE}
    assert {report.missed for report in reports} <= {Reason.ABSENT, Reason.SENTINEL_SHAPE, None}
    (history,) = machine.histories.kept.values()
    assert len(history.states) == 2
    assert len(msgspec.json.encode(history)) < 5000
    if chance >= 0.1:
        told = [report.detail or "" for report in reports if report.outcome is Outcome.UNRECORDED][-1]
        assert told.startswith("this machine has 2 steady states, and came back to an earlier one ")
        assert "the stored entry is of another than now, a loss of up to 3" in told


@pytest.mark.parametrize(("new", "boots"), [(True, 3), (False, 16)])
def test_a_flipping_machine_that_changes_for_good_gets_a_new_entry(machine: Machine, new: bool, boots: int):
    """Within three boots where its state is a new one; where it is one of the two that it had, within sixteen."""
    base = machine.engine.verify_ms
    _flipping(machine, 0.5, seed=0)
    kept = entry.decode(machine.data).profile.verify.costs_ms[0] * 5 / base(1)
    step = 150.0 if new else min((63.0, 94.0), key=lambda ms: -abs(ms - kept))
    machine.engine.verify_ms = lambda n: step / 5 * base(n)
    outcomes = [machine.boot().outcome for _ in range(boots + 1)]
    assert outcomes.count(Outcome.RECORDED) == 1
    assert outcomes[-1] is Outcome.REUSED


def test_a_machine_that_settles_is_believed_again(warm: Machine):
    """Once two calibrations in a row agree the newest is stored."""
    for warm.factor in (DEARER, 1.0):
        report = warm.boot()
    assert report.reason is Reason.MACHINE_UNSTABLE
    settled = warm.boot()
    assert _course(settled) == (Outcome.RECORDED, Reason.SENTINEL_SHAPE, Reason.SENTINEL_SHAPE)
    assert warm.boot().outcome is Outcome.REUSED


def test_an_entry_that_held_where_nobody_looked_is_replaced_once_it_is_found_out(machine: Machine):
    """One cost of a stored curve is wrong, as of another machine or of a disturbed calibration. Boots that look
    elsewhere reuse it; the first that looks there replaces it, since nothing of this machine has changed.
    """
    machine.boot()
    base, remembered = machine.engine.verify_ms, machine.histories
    machine.histories = MemoryHistories("another")
    machine.engine.verify_ms = lambda n: base(n) * (1.5 if n == 8 else 1)
    machine.boot("record", thresholds=Thresholds(bend=math.inf))
    machine.engine.verify_ms, machine.histories = base, remembered
    assert machine.boot().outcome is Outcome.REUSED
    found_out = machine.boot(sentinels="sweep")
    assert _course(found_out) == (Outcome.RECORDED, Reason.SENTINEL_SHAPE, Reason.SENTINEL_SHAPE)
    assert machine.boot(sentinels="sweep").outcome is Outcome.REUSED


def test_an_unstable_machine_may_store_where_nothing_lies(warm: Machine):
    """Nothing is replaced in turn where there is no entry."""
    warm.factor = DEARER
    warm.boot()
    warm.store.entries.clear()
    warm.factor = 1.0
    assert _course(warm.boot()) == (Outcome.RECORDED, None, Reason.ABSENT)


def test_noise_beyond_a_sweeps_own_limit_is_no_disagreement(machine: Machine):
    """Calibrations that differ by more than a sweep allows, and by less than the default limit, are stored."""
    limits = Limits(max_regret=SWEEP.max_regret)
    for machine.factor in (1.0, 1.15, 1.0, 1.15):
        assert machine.boot("record", sentinels="sweep", limits=limits).outcome is Outcome.RECORDED


def _another(machine: Machine, factor: float) -> Machine:
    """Another machine with the same fingerprint and store."""
    other = Machine()
    other.store, other.factor = machine.store, factor
    return other


def test_machines_that_differ_do_not_store_in_turn(warm: Machine):
    """Of two that share a store the one that finds its curves replaced a second time stops; the other boots warm."""
    other = _another(warm, DEARER)
    rounds = [(warm.boot(), other.boot()) for _ in range(8)]
    ours, others = (list(map(_course, reports)) for reports in zip(*rounds, strict=True))
    replaced = (Outcome.RECORDED, Reason.SENTINEL_SHAPE, Reason.SENTINEL_SHAPE)
    in_turn = (Outcome.UNRECORDED, Reason.MACHINES_DIFFER, Reason.SENTINEL_SHAPE)
    hit = (Outcome.REUSED, None, None)
    assert ours[:4] == [hit, replaced, in_turn, in_turn]
    assert others[:4] == [(Outcome.RECORDED, Reason.SENTINEL_SHAPE, Reason.SENTINEL_SHAPE), replaced, hit, hit]
    assert "was replaced 2 times by an entry that does not hold here" in (rounds[2][0].detail or "")
    stored = [course[0] for course in ours + others].count(Outcome.RECORDED)
    assert stored < 8


def test_a_machine_alone_at_last_stores_again(warm: Machine):
    """Once the other's entry has lain there for a row of boots nobody stores in turn any more."""
    other = _another(warm, DEARER)
    for _ in range(2):
        warm.boot()
        other.boot()
    courses = [_course(warm.boot())[:2] for _ in range(4)]
    assert courses[0] == (Outcome.UNRECORDED, Reason.MACHINES_DIFFER)
    assert courses[-2:] == [(Outcome.RECORDED, Reason.SENTINEL_SHAPE), (Outcome.REUSED, None)]


def test_record_ends_a_quarrel(warm: Machine):
    """Who records says whose curves are to be stored."""
    other = _another(warm, DEARER)
    for _ in range(2):
        warm.boot()
        other.boot()
    assert warm.boot().reason is Reason.MACHINES_DIFFER
    assert warm.boot("record").outcome is Outcome.RECORDED
    assert warm.boot().outcome is Outcome.REUSED


def test_record_finds_an_unstable_machine_too(machine: Machine):
    """Calibrations at every boot are calibrations in a row."""
    words = []
    for machine.factor in (1.0, DEARER, 1.0, DEARER, DEARER):
        words.append(machine.boot("record").reason)
    assert words == [None, None, Reason.MACHINE_UNSTABLE, Reason.MACHINE_UNSTABLE, None]


def test_a_machine_that_flips_between_scales_keeps_one_entry(machine: Machine):
    """Beyond the scale that sentinels allow each state turns down the other's curves, though the plans are the same."""
    random, base_verify, base_draft, outcomes = (
        Random(0),
        machine.engine.verify_ms,
        machine.engine.draft_ms,
        Counter[Any](),
    )
    for _ in range(200):
        factor = random.choice((1.0, 3.0))
        machine.engine.verify_ms = lambda n, f=factor: base_verify(n) * f  # type: ignore[misc]
        machine.engine.draft_ms = lambda n, f=factor: base_draft(n) * f  # type: ignore[misc]
        report = machine.boot()
        outcomes[report.outcome, report.reason] += 1
    assert outcomes[Outcome.UNRECORDED, Reason.MACHINE_UNSTABLE] > 50
    assert outcomes[Outcome.REUSED, None] > 50
    assert 200 - outcomes[Outcome.UNRECORDED, Reason.MACHINE_UNSTABLE] - outcomes[Outcome.REUSED, None] <= 8


def test_a_common_factor_is_no_disagreement(machine: Machine):
    """A machine whose costs all flip together plans the same in both states."""
    base_verify, base_draft = machine.engine.verify_ms, machine.engine.draft_ms
    for factor in (1.0, 1.5, 1.0, 1.5):
        machine.engine.verify_ms = lambda n, f=factor: base_verify(n) * f  # type: ignore[misc]
        machine.engine.draft_ms = lambda n, f=factor: base_draft(n) * f  # type: ignore[misc]
        assert machine.boot("record").outcome is Outcome.RECORDED


def test_what_is_not_admitted_is_no_calibration(machine: Machine):
    """A disturbed calibration says nothing of the machine."""
    machine.boot("record")
    machine.disturb()
    assert machine.boot("record").reason is Reason.CALIBRATION_NOISY
    (history,) = machine.histories.kept.values()
    assert len(history.calibrations) == 1


def test_a_calibration_that_could_not_be_stored_is_remembered(machine: Machine):
    """A full store keeps none, but the next boot can compare with it."""
    machine.store.errors = {"put": StoreError(Reason.STORE_FULL, "full")}
    assert machine.boot().reason is Reason.STORE_FULL
    (history,) = machine.histories.kept.values()
    assert [each.stored for each in history.calibrations] == [False]


def test_what_cannot_be_remembered_is_forgotten(warm: Machine):
    """Histories that cannot be written change no boot."""
    warm.histories.error = StoreError(Reason.STORE_READ_ONLY, "read-only")
    warm.factor = DEARER
    assert _course(warm.boot()) == (Outcome.RECORDED, Reason.SENTINEL_SHAPE, Reason.SENTINEL_SHAPE)
    assert warm.boot().outcome is Outcome.REUSED


def test_a_machine_without_history_writes_none_on_a_hit(warm: Machine):
    """A warm boot writes nothing but its report."""
    warm.histories.error = StoreError(Reason.STORE_READ_ONLY, "read-only")
    kept = dict(warm.histories.kept)
    warm.histories.write = None  # type: ignore[assignment, method-assign]
    assert warm.boot().outcome is Outcome.REUSED
    assert warm.histories.kept == kept


def _require_nothing(machine: Machine) -> BootReport:
    machine.store.entries.clear()
    return machine.stop()[1]


def _expire(machine: Machine) -> BootReport:
    _age(machine, 2)
    return machine.boot(max_age_s=DAY_S)


def _quarantine(machine: Machine) -> BootReport:
    _turn_down(machine, 3)
    return machine.boot()


def _flip(machine: Machine) -> BootReport:
    for machine.factor in (DEARER, 1.0):
        report = machine.boot()
    return report


def _quarrel(machine: Machine) -> BootReport:
    other = _another(machine, DEARER)
    for _ in range(3):
        report = machine.boot()
        other.boot()
    return report


WAYS: dict[Reason, Callable[[Machine], BootReport]] = {
    Reason.SWITCHED_OFF: lambda machine: machine.boot("off"),
    Reason.MODE_RECORD: lambda machine: machine.boot("record"),
    Reason.MODE_VERIFY: lambda machine: machine.boot("verify"),
    Reason.CURVES_REQUIRED: _require_nothing,
    Reason.ENTRY_EXPIRED: _expire,
    Reason.ENTRY_QUARANTINED: _quarantine,
    Reason.MACHINE_UNSTABLE: _flip,
    Reason.MACHINES_DIFFER: _quarrel,
}
"""A boot that ends with each of the reasons that modes and memory give."""


@pytest.mark.parametrize("reason", WAYS)
def test_every_reason_of_modes_and_memory_is_produced(warm: Machine, reason: Reason):
    """Each is the reason of a report, or what it missed."""
    report = WAYS[reason](warm)
    assert reason in {report.reason, report.missed}
    assert reason in report.log_line()


def test_requests_of_the_modes(warm: Machine):
    """What an engine is asked for: `record`, `verify` and `off` calibrate at once, `require` replays first."""
    first_requests: dict[Mode, type] = {"record": Calibrate, "verify": Calibrate, "off": Calibrate, "require": Replay}
    for mode, first in first_requests.items():
        given = Settings(mode=mode, thresholds=Thresholds(noise=math.inf))
        assert isinstance(next(boot_of(warm.engine, warm.store, settings=given).run()), first)
