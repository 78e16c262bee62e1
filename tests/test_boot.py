"""A boot ends in one outcome with its reason, and no unverified curve ever reaches the engine."""

import json
import math
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import cycle
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import A, boot, boot_of
from tests.test_modes import WAYS
from warmcurve.boot.driver import drive
from warmcurve.boot.inputs import Inputs
from warmcurve.boot.path import Boot
from warmcurve.boot.request import Calibrate, Install, Replay, Samples
from warmcurve.boot.settings import Settings
from warmcurve.clock import SystemClock
from warmcurve.curves.admission import Thresholds
from warmcurve.curves.calibration import Plan, profile_from
from warmcurve.curves.profile import Sample
from warmcurve.curves.sentinel import Limits, VerifiedProfile
from warmcurve.errors import FactorError, ProfileError, StoreError
from warmcurve.outcome import Outcome, Reason, Step
from warmcurve.reporting.report import BootReport
from warmcurve.storage import entry
from warmcurve.storage.fingerprint import fingerprint
from warmcurve.storage.store import DirectoryStore
from warmcurve.testing import FaultStore, MemoryStore, ScriptedEngine

ALL_RUNS = 40
ADMITS_ANY = Settings(thresholds=Thresholds(math.inf, math.inf, 0, math.inf))


@pytest.fixture
def engine() -> ScriptedEngine:
    return ScriptedEngine()


@pytest.fixture
def store() -> FaultStore:
    return FaultStore()


@pytest.fixture
def warm(engine: ScriptedEngine, store: FaultStore) -> BootReport:
    """The report of a first boot, which leaves an entry and an engine that forgot its runs."""
    report = boot(engine, store)
    engine.runs.clear()
    engine.calibrated = None
    return report


def _course(report: BootReport) -> tuple[Outcome, Reason | None, Reason | None]:
    return report.outcome, report.reason, report.missed


def _scaled(curve: Callable[[int], float], factor: float, only: int | None = None) -> Callable[[int], float]:
    return lambda size: curve(size) * (factor if only in {None, size} else 1)


def _slow_once(curve: Callable[[int], float], factor: float, times: int = 1) -> Callable[[int], float]:
    """A cost model of which the first calls are slower."""
    factors = [factor] * times
    return lambda size: curve(size) * (factors.pop() if factors else 1)


def _edit(store: FaultStore, report: BootReport, **changes) -> None:
    """Change fields of the stored entry under a right checksum."""
    assert report.digest is not None
    recorded = entry.decode(store.entries[report.digest])
    store.entries[report.digest] = entry.encode(msgspec.structs.replace(recorded, **changes))


def _edit_samples(store: FaultStore, report: BootReport, change: Callable[[Sample], Sample | None]) -> None:
    assert report.digest is not None
    profile = entry.decode(store.entries[report.digest]).profile
    samples = [changed for sample in profile.samples if (changed := change(sample))]
    _edit(store, report, profile=profile_from(samples, profile.capture_limit))


def test_a_first_boot_calibrates_and_records(engine: ScriptedEngine, store: FaultStore):
    """With nothing stored the engine runs its own calibration, and the entry is what it measured."""
    report = boot(engine, store)
    assert _course(report) == (Outcome.RECORDED, None, Reason.ABSENT)
    assert tuple(engine.runs) == engine.plan.runs
    assert (report.calibration_runs, report.sentinel_runs) == (len(engine.runs), 0) == (ALL_RUNS, 0)
    assert engine.installed is None
    assert store.list() == (report.digest,)
    recorded = entry.decode(store.entries[report.digest or ""], report.digest)
    assert recorded.profile == profile_from(engine.calibrated or (), 16)
    assert recorded.conditions["calibration_ms"] == report.calibration_ms
    assert report.calibration_ms == pytest.approx(engine.clock.monotonic_ns() / 1e6, abs=1e-3)
    assert recorded.protocol.replays == 5


def test_a_second_boot_runs_two_replays(engine: ScriptedEngine, store: FaultStore, warm: BootReport):
    """With an entry stored the engine runs the largest captured size and one more, and plans with the stored curves."""
    kept = dict(store.entries)
    report = boot(engine, store)
    assert _course(report) == (Outcome.REUSED, None, None)
    assert engine.runs == [16, 4]
    assert (report.calibration_runs, report.sentinel_runs) == (0, 2)
    assert engine.calibrated is None
    assert engine.installed is not None
    assert engine.installed.profile == entry.decode(store.entries[warm.digest or ""]).profile
    assert engine.installed.evidence == report.evidence
    assert report.recorded_ms == warm.calibration_ms > report.calibration_ms > 0
    assert (report.digest, report.entry, report.factors) == (warm.digest, f"memory:{warm.digest}", None)
    assert store.entries == kept


def test_a_miss_names_where_it_looked(engine: ScriptedEngine, tmp_path: Path):
    """The directory, and where entries lie at another level, in the line of the log; the boot is as any first one."""
    store = DirectoryStore(tmp_path / "cache")
    first = boot(engine, store)
    assert _course(first) == (Outcome.RECORDED, None, Reason.ABSENT)
    assert first.log_line().endswith(f" (looked in {tmp_path}/cache/v1)")
    moved = DirectoryStore(tmp_path / "cache" / "cache")
    missed = boot(engine, moved)
    assert _course(missed) == _course(first)
    assert missed.detail == f"looked in {moved.directory}/v1; entries lie in {tmp_path}/cache/v1, where no boot looks"
    assert boot(engine, moved).outcome is Outcome.REUSED


def test_a_miss_names_what_differs_in_the_nearest_entry(engine: ScriptedEngine, store: FaultStore, warm: BootReport):
    """A boot with one factor changed says in its log line which, and from what to what. It keeps its factors."""
    report = boot(engine, store, read_factors=lambda: {"device": "example", "model": {"revision": "4567"}})
    assert report.factors is not None
    assert report.factors["model"] == {"revision": "4567"}
    assert _course(report) == (Outcome.RECORDED, None, Reason.ABSENT)
    assert f'nearest {(warm.digest or "")[:12]}: model.revision "0123" -> "4567"' in report.log_line()


def test_a_store_that_cannot_be_listed_leaves_a_miss_unexplained(engine: ScriptedEngine, store: FaultStore):
    """Explaining reads the store; where that fails the boot goes on without."""
    store.errors = {"list": StoreError(Reason.STORE_UNAVAILABLE, "gone")}
    report = boot(engine, store)
    assert (_course(report), report.detail) == ((Outcome.RECORDED, None, Reason.ABSENT), "looked in memory")


def test_factors_that_nobody_reviewed_are_told(engine: ScriptedEngine, store: FaultStore):
    """The report names them, the log line counts them; they change nothing else."""
    report = boot(engine, store, unreviewed=("configuration.new_field", "runtime.environment.VLLM_NEW"))
    assert report.unreviewed == ("configuration.new_field", "runtime.environment.VLLM_NEW")
    assert " unreviewed=2 " in report.log_line()
    assert " unreviewed" not in boot(engine, store).log_line()


@pytest.mark.parametrize("drawn", range(4))
def test_the_second_sentinel_is_drawn(engine: ScriptedEngine, store: FaultStore, warm: BootReport, drawn: int):
    """Every captured size but the largest can be drawn, and each confirms a curve that still holds."""
    report = boot(engine, store, draw=lambda n: drawn if n == 4 else -99)
    assert report.outcome is Outcome.REUSED
    assert engine.runs == [16, (1, 2, 4, 8)[drawn]]


def test_a_single_captured_size_is_replayed_twice(store: FaultStore):
    """Where one size is captured its replay is repeated, and nothing is drawn."""
    engine = ScriptedEngine(captured=(4,), max_tokens=4)
    assert boot(engine, store).outcome is Outcome.RECORDED
    engine.runs.clear()
    report = boot(engine, store, draw=lambda n: 1 // 0)
    assert report.outcome is Outcome.REUSED
    assert engine.runs == [4, 4]
    assert report.evidence is not None
    assert [reading.replays for reading in report.evidence.readings] == [2]


@pytest.mark.parametrize("stage", ["verify_ms", "draft_ms"])
@pytest.mark.parametrize("factor", [3.0, 1 / 3])
def test_a_size_that_was_disturbed_when_recorded_is_replaced(
    engine: ScriptedEngine, store: FaultStore, stage: str, factor: float
):
    """An entry with one size off by three, either way and in either stage, is rejected at that size and replaced."""
    true = getattr(engine, stage)
    setattr(engine, stage, _scaled(true, factor, only=2))
    first = boot(engine, store, settings=ADMITS_ANY)
    setattr(engine, stage, true)
    report = boot(engine, store, draw=lambda n: 1)
    assert report.outcome is Outcome.RECORDED
    assert report.reason in {Reason.SENTINEL_SCALE, Reason.SENTINEL_SHAPE}
    assert engine.installed is None
    assert report.digest == first.digest
    assert boot(engine, store, draw=lambda n: 1).outcome is Outcome.REUSED


def test_a_common_factor_changes_no_plan(engine: ScriptedEngine, store: FaultStore, warm: BootReport):
    """When everything is half as slow again the curves are reused as they are, and the report says by how much."""
    engine.verify_ms, engine.draft_ms = _scaled(engine.verify_ms, 1 / 1.5), _scaled(engine.draft_ms, 1 / 1.5)
    report = boot(engine, store)
    assert report.outcome is Outcome.REUSED
    assert report.evidence is not None
    assert report.evidence.scale == pytest.approx(1.5)
    assert report.evidence.loss_bound == pytest.approx(0)


def test_stored_costs_far_too_high_are_final(engine: ScriptedEngine, store: FaultStore, warm: BootReport):
    """No disturbance makes a replay three times faster, so two replays decide, and the calibration is stored."""
    engine.verify_ms, engine.draft_ms = _scaled(engine.verify_ms, 1 / 3), _scaled(engine.draft_ms, 1 / 3)
    report = boot(engine, store)
    assert _course(report) == (Outcome.RECORDED, Reason.SENTINEL_SCALE, Reason.SENTINEL_SCALE)
    assert (report.sentinel_runs, report.calibration_runs) == (2, ALL_RUNS)
    assert boot(engine, store).outcome is Outcome.REUSED


def test_stored_costs_far_too_low_may_be_a_disturbance(engine: ScriptedEngine, store: FaultStore, warm: BootReport):
    """Everything three times slower may pass, so all three rounds are run before the calibration."""
    engine.verify_ms, engine.draft_ms = _scaled(engine.verify_ms, 3), _scaled(engine.draft_ms, 3)
    report = boot(engine, store)
    assert _course(report) == (Outcome.RECORDED, Reason.SENTINEL_SCALE, Reason.SENTINEL_SCALE)
    assert (report.sentinel_runs, report.calibration_runs) == (6, ALL_RUNS)
    assert engine.runs[:6] == [16, 4] * 3
    assert report.evidence is not None
    assert [reading.replays for reading in report.evidence.readings] == [3, 3]


@pytest.mark.parametrize(
    ("factor", "times", "outcome", "runs"),
    [
        (1.2, 1, Outcome.REUSED, 2),
        (1.4, 1, Outcome.REUSED, 4),
        (10.0, 1, Outcome.REUSED, 4),
        (10.0, 2, Outcome.REUSED, 4),
        (10.0, 3, Outcome.RECORDED, 6),
        (10.0, 6, Outcome.RECORDED, 6),
    ],
)
def test_a_slow_replay_is_repeated(
    engine: ScriptedEngine, store: FaultStore, warm: BootReport, factor: float, times: int, outcome: Outcome, runs: int
):
    """Slow replays at first are outvoted by a second round or the medians of three; what stays slow is not."""
    engine.verify_ms = _slow_once(engine.verify_ms, factor, times)
    report = boot(engine, store)
    assert (report.outcome, report.sentinel_runs) == (outcome, runs)
    assert (report.missed is None) == (outcome is Outcome.REUSED)
    assert (engine.installed is None) == (outcome is not Outcome.REUSED)


class CarelessEngine(ScriptedEngine):
    """Whatever `spoil` makes of the samples of a replay is what the boot is given."""

    spoil: Callable[[Samples], Samples]

    def replay(self, sizes: tuple[int, ...]) -> Samples:
        return self.spoil(super().replay(sizes))

    def calibrate(self) -> Samples:
        self.calibrated = super().replay(self.plan.runs)
        return self.calibrated


def _last(**changes) -> Callable[[Samples], Samples]:
    return lambda samples: (*samples[:-1], msgspec.structs.replace(samples[-1], **changes))


SPOILED: dict[str, tuple[Callable[[Samples], Samples], Reason]] = {
    "no sample": (lambda samples: (), Reason.SENTINEL_MISSING),
    "one sample less": (lambda samples: samples[:-1], Reason.SENTINEL_MISSING),
    "one sample more": (lambda samples: (*samples, samples[0]), Reason.SENTINEL_MISSING),
    **{
        f"{stage} of {ms}": (_last(**{stage: ms}), Reason.SENTINEL_MISSING)
        for stage in ("verify_ms", "draft_ms")
        for ms in (math.nan, math.inf, -math.inf, 0.0, -1.0)
    },
    "no tokens": (_last(tokens=0), Reason.SENTINEL_MISSING),
    "no requests": (_last(requests=0), Reason.SENTINEL_MISSING),
    "not a full graph": (_last(full_graph=False), Reason.SENTINEL_NOT_FULL_GRAPH),
    "tokens off the grid": (_last(tokens=5), Reason.SENTINEL_OFF_GRID),
    "tokens of the eager tail": (_last(tokens=24), Reason.SENTINEL_OFF_GRID),
    "requests off the grid": (_last(requests=3), Reason.SENTINEL_OFF_GRID),
    "a time too short to measure": (_last(verify_ms=5e-324, draft_ms=5e-324), Reason.SENTINEL_SCALE),
    "times too short to measure": (
        lambda samples: tuple(msgspec.structs.replace(s, verify_ms=5e-324, draft_ms=5e-324) for s in samples),
        Reason.SENTINEL_SCALE,
    ),
    "times that overflow": (
        lambda samples: tuple(msgspec.structs.replace(s, verify_ms=1.7e308, draft_ms=1.7e308) for s in samples),
        Reason.SENTINEL_SCALE,
    ),
}


@pytest.mark.parametrize("what", SPOILED)
def test_sentinels_that_say_nothing_are_final(what: str, store: FaultStore):
    """Timings that are missing, no numbers, not of full graphs or off the grid end in a full calibration."""
    engine = CarelessEngine()
    engine.spoil, reason = SPOILED[what]
    boot(engine, store)
    engine.runs.clear()
    report = boot(engine, store)
    assert _course(report) == (Outcome.RECORDED, reason, reason)
    assert report.sentinel_runs == (6 if what == "times that overflow" else 2)
    assert len(engine.runs) == report.sentinel_runs + ALL_RUNS
    assert engine.installed is None
    assert report.log_line().count("\n") == 0
    assert json.loads(msgspec.json.encode(report))


def test_a_refused_install_ends_in_a_calibration(engine: ScriptedEngine, store: FaultStore, warm: BootReport):
    """Where the engine refuses the verified curves it calibrates, and the entry is replaced."""
    engine.refuses = "sizes changed"
    report = boot(engine, store)
    assert _course(report) == (Outcome.RECORDED, Reason.INSTALL_REFUSED, Reason.INSTALL_REFUSED)
    assert report.detail == "sizes changed"
    assert (report.sentinel_runs, report.calibration_runs) == (2, ALL_RUNS)
    assert engine.installed is None


STORE_REASONS = [reason for reason in Reason if reason.startswith("store_")]


@pytest.mark.parametrize("reason", [*STORE_REASONS, Reason.ENTRY_UNREADABLE])
def test_a_store_that_cannot_be_read_is_a_miss(
    engine: ScriptedEngine, store: FaultStore, warm: BootReport, reason: Reason
):
    """Whatever keeps the entry from being read, the engine calibrates, and the new entry is put."""
    store.errors["get"] = StoreError(reason, "get failed")
    store.entries.clear()
    report = boot(engine, store)
    assert _course(report) == (Outcome.RECORDED, reason, reason)
    assert report.detail == "get failed"
    assert store.list() == (report.digest,)
    assert (report.sentinel_runs, engine.installed) == (0, None)


@pytest.mark.parametrize("reason", STORE_REASONS)
def test_a_store_that_cannot_be_written_leaves_the_boot_unrecorded(
    engine: ScriptedEngine, store: FaultStore, reason: Reason
):
    """Whatever keeps the entry from being put, the engine uses what it measured, and the report says why."""
    store.errors["put"] = StoreError(reason, "put failed")
    report = boot(engine, store)
    assert _course(report) == (Outcome.UNRECORDED, reason, Reason.ABSENT)
    assert report.detail == "put failed"
    assert len(engine.runs) == ALL_RUNS


def test_a_read_only_store_is_used(engine: ScriptedEngine, store: FaultStore, warm: BootReport):
    """A hit needs nothing to be written."""
    store.errors = {name: StoreError(Reason.STORE_READ_ONLY, name) for name in ("put", "delete", "list")}
    assert boot(engine, store).outcome is Outcome.REUSED


DAMAGES: dict[Reason, Callable[[bytes], bytes]] = {
    Reason.ENTRY_TOO_LARGE: lambda data: data + bytes(entry.MAX_BYTES),
    Reason.ENTRY_TRUNCATED: lambda data: data[:-10],
    Reason.ENTRY_MALFORMED: lambda data: data + b"\n",
    Reason.ENTRY_CHECKSUM: lambda data: data.replace(b'"ms"', b'"ns"'),
    Reason.ENTRY_SCHEMA: lambda data: data.replace(b'"schema":1', b'"schema":2'),
    Reason.ENTRY_INVALID: lambda data: data.replace(b'"schema":1', b'"schema":1,"schema":1'),
    Reason.ENTRY_FOREIGN: lambda data: entry.encode(msgspec.structs.replace(entry.decode(data), factors={})),
}


@pytest.mark.parametrize("reason", DAMAGES)
def test_a_damaged_entry_is_set_aside_and_replaced(
    engine: ScriptedEngine, store: FaultStore, warm: BootReport, reason: Reason
):
    """A damaged entry is kept aside once and replaced by a new one; one of another schema is replaced only."""
    digest = warm.digest or ""
    store.entries[digest] = damaged = DAMAGES[reason](store.entries[digest])
    report = boot(engine, store)
    assert _course(report) == (Outcome.RECORDED, reason, reason)
    assert report.sentinel_runs == 0
    assert store.aside == ({} if reason is Reason.ENTRY_SCHEMA else {digest: [damaged]})
    assert boot(engine, store).outcome is Outcome.REUSED


def test_a_damaged_entry_in_a_read_only_store_is_a_miss(engine: ScriptedEngine, store: FaultStore, warm: BootReport):
    """Where a damaged entry can be neither moved nor replaced, both reasons are reported."""
    store.entries[warm.digest or ""] = b"damaged"
    store.errors["put"] = StoreError(Reason.STORE_READ_ONLY, "put failed")
    report = boot(engine, store)
    assert _course(report) == (Outcome.UNRECORDED, Reason.STORE_READ_ONLY, Reason.ENTRY_TRUNCATED)


INCOMPLETE: dict[str, Callable[[Sample], Sample | None]] = {
    "a size missing": lambda sample: sample if sample.tokens != 2 else None,
    "the tail missing": lambda sample: sample if sample.full_graph else None,
    "a size run in place of another": lambda sample: (
        sample if sample.tokens != 2 else Sample(16, 4, 6.0, 1.25, full_graph=True)
    ),
    "a size of no plan": lambda sample: sample if sample.tokens != 24 else msgspec.structs.replace(sample, tokens=25),
}


@pytest.mark.parametrize("what", INCOMPLETE)
def test_an_entry_without_every_run_of_the_plan_is_incomplete(
    engine: ScriptedEngine, store: FaultStore, warm: BootReport, what: str
):
    """An entry that is sound but does not hold every run that this engine would make is replaced, never installed."""
    _edit_samples(store, warm, INCOMPLETE[what])
    report = boot(engine, store, draw=lambda n: 0)
    assert _course(report) == (Outcome.RECORDED, Reason.ENTRY_INCOMPLETE, Reason.ENTRY_INCOMPLETE)
    assert engine.installed is None


def test_an_entry_with_another_capture_limit_is_incomplete(engine: ScriptedEngine, store: FaultStore, warm: BootReport):
    """An entry that reads its curve by another rule than this engine's is replaced."""
    profile = entry.decode(store.entries[warm.digest or ""]).profile
    _edit(store, warm, profile=msgspec.structs.replace(profile, capture_limit=8))
    assert boot(engine, store).reason is Reason.ENTRY_INCOMPLETE


@pytest.mark.parametrize(
    "recorded_ms", ["soon", None, True, 10**400, -(10**400)], ids=["text", "null", "boolean", "huge", "minus huge"]
)
def test_conditions_of_any_value_keep_no_boot_from_its_path(
    engine: ScriptedEngine, store: FaultStore, warm: BootReport, recorded_ms: object
):
    """Conditions are informative: whatever number or text stands there, the curves are reused."""
    _edit(store, warm, conditions={"calibration_ms": recorded_ms})
    report = boot(engine, store)
    assert report.outcome is Outcome.REUSED
    assert report.recorded_ms is None


def test_an_unknown_factor_neither_loads_nor_stores(engine: ScriptedEngine, store: FaultStore, warm: BootReport):
    """Where a factor that must be known is not, nothing is read and nothing is written."""

    def read_factors():
        raise FactorError(Reason.FACTOR_UNKNOWN, "model.revision", "no such file")

    store.errors = {name: AssertionError(name) for name in ("get", "put", "delete", "list")}
    report = boot(engine, store, read_factors=read_factors)
    assert _course(report) == (Outcome.UNRECORDED, Reason.FACTOR_UNKNOWN, Reason.FACTOR_UNKNOWN)
    assert report.detail == "model.revision: no such file"
    assert (report.digest, report.entry, report.factors) == (None, None, None)
    assert len(engine.runs) == ALL_RUNS


@pytest.mark.parametrize(
    "value", [1.5, object(), {1}, b"x", "\ud800", 2**64, {1: 1}, {"é": 1}], ids=lambda value: type(value).__name__
)
def test_an_invalid_factor_neither_loads_nor_stores(engine: ScriptedEngine, store: FaultStore, value: object):
    """A factor without a canonical form is reported by name, in a report that can be written."""
    report = boot(engine, store, read_factors=lambda: {"deep": {"factor": value}})
    assert _course(report) == (Outcome.UNRECORDED, Reason.FACTOR_INVALID, Reason.FACTOR_INVALID)
    assert report.detail is not None
    assert report.detail.startswith("deep.factor")
    assert store.entries == {}
    assert msgspec.json.decode(msgspec.json.encode(report), type=BootReport) == report


def test_factors_that_contain_themselves_are_invalid(engine: ScriptedEngine, store: FaultStore):
    """Factors without an end are a factor without a canonical form."""
    endless: dict[str, Any] = {}
    endless["again"] = endless
    assert boot(engine, store, read_factors=lambda: endless).reason is Reason.FACTOR_INVALID


def test_the_plan_is_a_factor(engine: ScriptedEngine, store: FaultStore, warm: BootReport):
    """Curves that were measured at other sizes, or other numbers of times, are other curves."""
    for other in (
        ScriptedEngine(captured=(1, 2, 4, 8)),
        ScriptedEngine(max_tokens=63),
        ScriptedEngine(replays=4),
    ):
        report = boot(other, store)
        assert _course(report) == (Outcome.RECORDED, None, Reason.ABSENT)
    assert len(store.list()) == 4


@pytest.mark.parametrize("name", ["plan", "calibration"])
def test_an_engine_may_not_hide_the_plan(engine: ScriptedEngine, store: FaultStore, name: str):
    """Two engines whose factors differ never share an entry, whatever the names of the factors."""
    digests = {boot(engine, store, read_factors=lambda value=value: {name: value}).digest for value in "ab"}
    assert digests == {None} or len(digests) == 2


def test_factors_that_change_later_change_nothing(engine: ScriptedEngine, store: FaultStore):
    """The entry is stored under the fingerprint that was looked up, whatever happens to the engine's factors since."""
    factors: dict[str, Any] = {"sizes": [1]}

    class Changing(ScriptedEngine):
        def calibrate(self) -> Samples:
            factors["sizes"].append(1.5)
            return super().calibrate()

    report = boot(Changing(), store, read_factors=lambda: factors)
    assert report.outcome is Outcome.RECORDED
    assert store.list() == (report.digest,)
    assert entry.decode(store.entries[report.digest or ""], report.digest).factors["sizes"] == [1]


def test_an_entry_too_large_to_be_read_is_not_stored(engine: ScriptedEngine, store: FaultStore):
    """What no boot would ever accept is not put, so that boots do not set it aside one after the other."""
    factors = {"huge": "x" * entry.MAX_BYTES}
    for _ in range(2):
        report = boot(engine, store, read_factors=lambda: factors)
        assert report.outcome is Outcome.UNRECORDED
        assert report.reason is Reason.ENTRY_TOO_LARGE
    assert (store.entries, store.aside) == ({}, {})


@pytest.mark.parametrize("conditions", [{"driver": "\udcff"}, {"\udcff": 1}, {"count": 2**70}, {"ms": math.nan}])
def test_conditions_that_cannot_be_written_keep_no_boot_from_its_path(
    engine: ScriptedEngine, store: FaultStore, conditions: dict[str, Any]
):
    """Text from an environment that is no UTF-8, or a number that is none, is no reason to fail a boot."""
    assert boot(engine, store, conditions=conditions).outcome in {Outcome.RECORDED, Outcome.UNRECORDED}
    assert boot(engine, store, conditions=conditions).outcome in {Outcome.REUSED, Outcome.UNRECORDED}


def test_ranks_that_cannot_vote_only_calibrate(engine: ScriptedEngine, store: FaultStore, warm: BootReport):
    """Where several ranks take part and cannot vote, each calibrates, and no store, factor or draw is touched."""
    store.errors = {name: AssertionError(name) for name in ("get", "put", "delete", "list")}
    report = boot(engine, store, world=2, rank=1, read_factors=None, draw=None)
    assert _course(report) == (Outcome.UNRECORDED, Reason.VOTE_UNAVAILABLE, Reason.VOTE_UNAVAILABLE)
    assert (report.rank, report.world, report.calibration_runs) == (1, 2, ALL_RUNS)
    assert tuple(engine.runs) == engine.plan.runs


def test_nothing_captured_only_calibrates(store: FaultStore):
    """Where no size is captured no curve could be checked, so none is stored."""
    engine = ScriptedEngine()
    engine.plan = Plan((8, 8, 16, 16), ())
    engine.full_graph = lambda tokens: False
    report = boot(engine, store)
    assert _course(report) == (Outcome.UNRECORDED, Reason.NOTHING_CAPTURED, Reason.NOTHING_CAPTURED)
    assert (report.digest, store.entries, engine.runs) == (None, {}, [8, 8, 16, 16])


UNUSABLE: dict[str, Callable[[Samples], Samples]] = {
    "none": lambda samples: (),
    "one less": lambda samples: samples[1:],
    "one more": lambda samples: (*samples, samples[0]),
    "not a number": lambda samples: (msgspec.structs.replace(samples[0], verify_ms=math.nan), *samples[1:]),
    "zero": lambda samples: (msgspec.structs.replace(samples[0], draft_ms=0.0), *samples[1:]),
    "no full graph": lambda samples: tuple(msgspec.structs.replace(sample, full_graph=False) for sample in samples),
    "the anchor missing": lambda samples: tuple(
        msgspec.structs.replace(sample, tokens=8) if sample.tokens == 16 else sample for sample in samples
    ),
    "a size missing": lambda samples: tuple(
        msgspec.structs.replace(sample, tokens=8) if sample.tokens == 4 else sample for sample in samples
    ),
    "medians that overflow": lambda samples: tuple(
        msgspec.structs.replace(sample, verify_ms=1.7e308) for sample in samples
    ),
}


@pytest.mark.parametrize("what", UNUSABLE)
def test_an_unusable_calibration_is_not_stored(engine: ScriptedEngine, store: FaultStore, what: str):
    """A calibration without one usable sample for each run of the plan is used by the engine and not stored."""
    calibrate = engine.calibrate
    engine.calibrate = lambda: UNUSABLE[what](calibrate())  # type: ignore[method-assign]
    if what == "medians that overflow":
        engine.plan = Plan(engine.plan.runs + engine.plan.sizes(), engine.plan.captured)
    report = boot(engine, store)
    assert _course(report) == (Outcome.UNRECORDED, Reason.CALIBRATION_INVALID, Reason.ABSENT)
    assert report.detail
    assert store.entries == {}


def _unsteady(curve: Callable[[int], float], factors: tuple[float, ...], size: int) -> Callable[[int], float]:
    """A cost model whose calls at one size take these factors, again and again."""
    turns = cycle(factors)
    return lambda asked: curve(asked) * (next(turns) if asked == size else 1)


UNADMITTED: dict[str, tuple[Callable[[Callable[[int], float]], Callable[[int], float]], Reason]] = {
    "a first replay that compiles": (lambda true: _unsteady(true, (9, 1, 1, 1, 1), 8), Reason.CALIBRATION_COLD),
    "a tail that compiles twice": (lambda true: _unsteady(true, (9, 9, 1, 1, 1), 24), Reason.CALIBRATION_COLD),
    "replays between two states": (lambda true: _unsteady(true, (1, 1.5, 1.2, 1, 1.5), 8), Reason.CALIBRATION_NOISY),
    "a flat table": (lambda true: lambda tokens: 4.0, Reason.CALIBRATION_FLAT),
    "costs that fall": (lambda true: lambda tokens: 4.0 - tokens / 32, Reason.CALIBRATION_FLAT),
    "a bump": (lambda true: _scaled(true, 2, only=8), Reason.CALIBRATION_BENT),
    "a dent": (lambda true: _scaled(true, 0.5, only=8), Reason.CALIBRATION_BENT),
}


@pytest.mark.parametrize("what", UNADMITTED)
def test_a_calibration_that_is_not_admitted_is_used_and_not_stored(
    engine: ScriptedEngine, store: FaultStore, what: str
):
    """What was measured in no peace is used by the engine for this boot alone, and the reason says why."""
    change, reason = UNADMITTED[what]
    engine.verify_ms = change(engine.verify_ms)
    report = boot(engine, store)
    assert _course(report) == (Outcome.UNRECORDED, reason, Reason.ABSENT)
    assert report.detail
    assert (len(engine.runs), engine.calibrated is None) == (ALL_RUNS, False)
    assert store.entries == {}


def test_the_first_run_of_a_tail_size_may_compile(engine: ScriptedEngine, store: FaultStore):
    """Engines warm up their kernels with it, so an otherwise steady calibration is stored."""
    engine.verify_ms = _unsteady(engine.verify_ms, (9, 1, 1, 1, 1), 24)
    assert _course(boot(engine, store)) == (Outcome.RECORDED, None, Reason.ABSENT)


@pytest.mark.parametrize("what", UNADMITTED)
def test_what_is_not_admitted_replaces_nothing(engine: ScriptedEngine, store: FaultStore, warm: BootReport, what: str):
    """An entry that was turned down stays as it is where the new calibration is no better, and both are told."""
    change, reason = UNADMITTED[what]
    kept, true = dict(store.entries), engine.verify_ms
    engine.verify_ms = _scaled(change(true), 3)
    report = boot(engine, store)
    assert _course(report) == (Outcome.UNRECORDED, reason, Reason.SENTINEL_SCALE)
    assert store.entries == kept
    engine.verify_ms = true
    assert boot(engine, store).outcome is Outcome.REUSED


@pytest.mark.parametrize("what", UNADMITTED)
def test_wide_thresholds_admit_any(engine: ScriptedEngine, store: FaultStore, what: str):
    """The thresholds are settings, and no part of an entry's key."""
    digest = boot(engine, MemoryStore()).digest
    engine.verify_ms = UNADMITTED[what][0](engine.verify_ms)
    report = boot(engine, store, settings=ADMITS_ANY)
    assert (report.outcome, report.digest) == (Outcome.RECORDED, digest)


def test_what_compiled_is_told_by_the_engine(engine: ScriptedEngine, store: FaultStore):
    """An engine that knows that something compiled meanwhile says so, and nothing is stored."""
    steps = boot_of(engine, store).run()
    next(steps)
    with pytest.raises(StopIteration) as ended:
        steps.throw(ProfileError("a kernel was compiled", Reason.CALIBRATION_COLD))
    assert _course(ended.value.value) == (Outcome.UNRECORDED, Reason.CALIBRATION_COLD, Reason.ABSENT)
    assert ended.value.value.detail == "a kernel was compiled"
    assert store.entries == {}


SWEEP, ONCE = Settings.from_environment({"WARMCURVE_SENTINELS": "sweep"}), Settings(tail="once")


def test_a_sweep_replays_every_captured_size(engine: ScriptedEngine, store: FaultStore, warm: BootReport):
    """The largest first, each once, and none is drawn."""
    report = boot(engine, store, settings=SWEEP, draw=lambda n: 1 // 0)
    assert report.outcome is Outcome.REUSED
    assert (engine.runs, report.sentinel_runs) == ([16, 8, 4, 2, 1], 5)


@pytest.mark.parametrize("size", [1, 2, 4, 8, 16])
def test_a_sweep_finds_a_cost_that_moved_at_one_size(
    engine: ScriptedEngine, store: FaultStore, warm: BootReport, size: int
):
    """Wherever it is, the boot rejects and says where."""
    engine.verify_ms = _scaled(engine.verify_ms, 1.5, only=size)
    report = boot(engine, store, settings=msgspec.structs.replace(SWEEP, thresholds=ADMITS_ANY.thresholds))
    assert _course(report) == (Outcome.RECORDED, Reason.SENTINEL_SHAPE, Reason.SENTINEL_SHAPE)
    assert report.sentinel_runs == 15
    assert (report.detail or "").endswith(f": verify of {size} tokens became 1.5× dearer, the rest did not")


@pytest.mark.parametrize(
    ("factor", "rounds", "outcome"),
    [(1.06, 1, Outcome.REUSED), (1.09, 11, Outcome.REUSED), (1.1, 12, Outcome.RECORDED), (3, 3, Outcome.RECORDED)],
)
def test_a_sweep_looks_again_while_it_is_in_doubt(
    engine: ScriptedEngine, store: FaultStore, warm: BootReport, factor: float, rounds: int, outcome: Outcome
):
    """Each look allows a little more than the one before; what the last does not allow, or three looks find hopeless,
    is calibrated.
    """
    engine.verify_ms = _scaled(engine.verify_ms, factor, only=2)
    report = boot(engine, store, settings=msgspec.structs.replace(SWEEP, thresholds=ADMITS_ANY.thresholds))
    assert (report.outcome, report.sentinel_runs) == (outcome, 5 * rounds)
    assert report.missed is (None if outcome is Outcome.REUSED else report.reason)
    assert report.evidence is not None
    assert {reading.replays for reading in report.evidence.readings} == {rounds}
    assert report.limits.max_regret == 0.1


def test_a_sweep_outvotes_a_slow_replay(engine: ScriptedEngine, store: FaultStore, warm: BootReport):
    """A disturbance of the first look costs a second, and nothing else."""
    engine.verify_ms = _slow_once(engine.verify_ms, 10.0)
    report = boot(engine, store, settings=SWEEP)
    assert (report.outcome, engine.runs) == (Outcome.REUSED, [16, 8, 4, 2, 1] * 2)


def test_a_tail_that_a_sweep_doubts_runs_with_it(engine: ScriptedEngine, store: FaultStore, warm: BootReport):
    """The tail's looks are counted from its first run, and allow what those of a sweep do."""
    true = engine.verify_ms
    engine.verify_ms = lambda tokens: true(tokens) * (1.075 if tokens == 32 else 1)
    report = boot(engine, store, settings=msgspec.structs.replace(SWEEP, tail="once"))
    assert report.outcome is Outcome.REUSED
    assert engine.runs == [16, 8, 4, 2, 1] + [24, 32, 64] + [16, 8, 4, 2, 1, 24, 32, 64] * 3


@pytest.mark.parametrize(
    ("count", "runs"), [(2, [16, 4]), (3, [16, 4, 2]), (5, [16, 4, 2, 8, 1]), (99, [16, 4, 2, 8, 1])]
)
def test_as_many_sizes_are_drawn_as_are_asked_for(
    engine: ScriptedEngine, store: FaultStore, warm: BootReport, count: int, runs: list[int]
):
    """N sizes are the largest and N - 1 others, none twice."""
    assert boot(engine, store, settings=Settings(sentinels=count)).outcome is Outcome.REUSED
    assert engine.runs == runs


def test_the_tail_runs_once_after_the_sentinels(engine: ScriptedEngine, store: FaultStore, warm: BootReport):
    """Each size of the eager tail runs once more before stored curves are used, and is judged as well."""
    report = boot(engine, store, settings=ONCE)
    assert report.outcome is Outcome.REUSED
    assert (engine.runs, report.sentinel_runs) == ([16, 4, 24, 32, 64], 5)
    assert report.evidence is not None
    assert [(each.tokens, each.draft_ratio is None) for each in report.evidence.readings] == [
        *((16, False), (4, False)),
        *((24, True), (32, True), (64, True)),
    ]


def test_a_tail_that_moved_is_seen_only_where_it_runs(engine: ScriptedEngine, store: FaultStore, warm: BootReport):
    """With `skip` nothing shows it; with `once` the sentinels and the tail run for medians, and the boot rejects."""
    true = engine.verify_ms
    engine.verify_ms = lambda tokens: true(tokens) * (1.6 if tokens > 16 else 1)
    assert boot(engine, store).outcome is Outcome.REUSED
    engine.runs.clear()
    report = boot(engine, store, settings=ONCE)
    assert _course(report) == (Outcome.RECORDED, Reason.SENTINEL_SHAPE, Reason.SENTINEL_SHAPE)
    assert engine.runs[: report.sentinel_runs] == [16, 4, *[24, 32, 64, 16, 4] * 2, 24, 32, 64]
    assert (report.detail or "").endswith(": verify of 24-64 tokens became 1.6× dearer, the rest did not")


def test_a_tail_that_compiles_runs_twice(engine: ScriptedEngine, store: FaultStore, warm: BootReport):
    """The first run of each size warms up its kernels; the second, the faster, is what counts."""
    true, compiled = engine.verify_ms, set()

    def verify_ms(tokens: int) -> float:
        new = tokens > 16 and tokens not in compiled
        compiled.add(tokens)
        return true(tokens) * (50 if new else 1)

    engine.verify_ms = verify_ms
    report = boot(engine, store, settings=ONCE)
    assert report.outcome is Outcome.REUSED
    assert report.evidence is not None
    assert report.evidence.loss_bound == pytest.approx(0)
    assert engine.runs == [16, 4, 24, 32, 64, 16, 4, 24, 32, 64]


def test_a_sentinel_that_rejects_runs_no_tail(engine: ScriptedEngine, store: FaultStore, warm: BootReport):
    """The tail is dear, and is run only for curves that the sentinels confirm."""
    engine.verify_ms = _scaled(engine.verify_ms, 1 / 3)
    report = boot(engine, store, settings=ONCE)
    assert report.reason is Reason.SENTINEL_SCALE
    assert engine.runs[:3] == [16, 4, 1]


class TrimmingEngine(ScriptedEngine):
    """As vLLM does it, runs of the tail are cut to what the token budget leaves beside the drafter's positions."""

    def replay(self, sizes: tuple[int, ...]) -> Samples:
        return super().replay(tuple(min(size, 40) for size in sizes))


def test_a_tail_run_that_the_engine_trims_is_compared_with_what_it_ran(store: FaultStore):
    """A run of 64 tokens that had 40 when recorded has 40 again, and one that has not is off the grid."""
    engine = TrimmingEngine()
    assert boot(engine, store).outcome is Outcome.RECORDED
    engine.runs.clear()
    report = boot(engine, store, settings=ONCE)
    assert report.outcome is Outcome.REUSED
    assert engine.runs == [16, 4, 24, 32, 40]
    assert boot(ScriptedEngine(), store, settings=ONCE).reason is Reason.SENTINEL_OFF_GRID


class Broken(Exception):
    pass


def _breaks(*_: object) -> None:
    raise Broken("unforeseen")


def _broken_factors(engine, store) -> dict[str, Any]:
    return {"read_factors": _breaks}


def _broken_get(engine, store) -> dict[str, Any]:
    store.errors["get"] = Broken("unforeseen")
    return {}


def _broken_draw(engine, store) -> dict[str, Any]:
    return {"draw": _breaks}


def _broken_method(name: str) -> Callable[..., Any]:
    def broken(engine, store) -> dict[str, Any]:
        setattr(engine, name, _breaks)
        return {}

    return broken


def _broken_put(engine, store) -> dict[str, Any]:
    store.errors["put"] = Broken("unforeseen")
    store.entries.clear()
    return {}


def _broken_decode(engine, store) -> dict[str, Any]:
    store.set_aside = _breaks
    store.entries = dict.fromkeys(store.entries, b"damaged")
    return {}


def _broken_calibrate(engine, store) -> dict[str, Any]:
    store.entries.clear()
    engine.calibrate = _breaks
    return {}


BREAKS: list[tuple[Step, Callable[[ScriptedEngine, FaultStore], dict[str, Any]]]] = [
    (Step.FINGERPRINT, _broken_factors),
    (Step.GET, _broken_get),
    (Step.DECODE, _broken_decode),
    (Step.SENTINEL, _broken_draw),
    (Step.SENTINEL, _broken_method("replay")),
    (Step.INSTALL, _broken_method("install")),
    (Step.CALIBRATE, _broken_calibrate),
    (Step.PUT, _broken_put),
]


@pytest.mark.parametrize(("step", "broken"), BREAKS, ids=lambda value: str(getattr(value, "__name__", value)))
def test_an_unforeseen_error_passes_through(
    engine: ScriptedEngine, store: FaultStore, warm: BootReport, step: Step, broken: Callable[..., Any]
):
    """An error that nobody foresaw reaches the caller as it is, and the report of the abandoned boot names the step."""
    abandoned = boot_of(engine, store, **broken(engine, store))
    with pytest.raises(Broken) as met:
        drive(abandoned, engine)
    report = abandoned.abandon(Reason.INTERNAL_ERROR, f"Broken: {met.value}", calibration_runs=7)
    assert _course(report)[:2] == (Outcome.UNRECORDED, Reason.INTERNAL_ERROR)
    assert (report.step, report.detail, report.calibration_runs) == (step, "Broken: unforeseen", 7)
    assert f"step={step}" in report.log_line()
    assert msgspec.json.decode(msgspec.json.encode(report), type=BootReport) == report


@pytest.mark.parametrize("reason", [Reason.ENGINE_FAILED, Reason.BOOT_INTERRUPTED])
def test_a_boot_can_be_abandoned_before_it_starts(engine: ScriptedEngine, store: FaultStore, reason: Reason):
    """A boot that never ran is reported as well, also for an engine that failed on its own, or was told to end."""
    report = boot_of(engine, store).abandon(reason, "out of memory", calibration_runs=0)
    assert _course(report) == (Outcome.UNRECORDED, reason, None)
    assert (report.step, report.detail) == (Step.FINGERPRINT, "out of memory")


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, GeneratorExit])
def test_a_boot_that_is_told_to_end_stores_nothing(
    engine: ScriptedEngine, store: FaultStore, kind: type[BaseException], monkeypatch: pytest.MonkeyPatch
):
    """A signal reaches the caller while the engine calibrates, and the boot can still be reported."""

    def end() -> NoReturn:
        raise kind

    monkeypatch.setattr(engine, "calibrate", end)
    interrupted = boot_of(engine, store)
    with pytest.raises(kind):
        drive(interrupted, engine)
    report = interrupted.abandon(Reason.BOOT_INTERRUPTED, kind.__name__, calibration_runs=3)
    assert _course(report) == (Outcome.UNRECORDED, Reason.BOOT_INTERRUPTED, Reason.ABSENT)
    assert (report.step, report.calibration_runs, store.entries) == (Step.CALIBRATE, 3, {})


def test_requests_come_in_order(engine: ScriptedEngine, store: FaultStore, warm: BootReport):
    """A hit asks for replays and an install, a miss for a calibration, and nothing else."""
    steps = boot_of(engine, store).run()
    request = next(steps)
    assert request == Replay((16, 4))
    request = steps.send(engine.replay((16, 4)))
    assert isinstance(request, Install)
    assert isinstance(request.verified, VerifiedProfile)
    with pytest.raises(StopIteration) as ended:
        steps.send(())
    assert ended.value.value.outcome is Outcome.REUSED
    assert next(boot_of(engine, MemoryStore()).run()) == Calibrate()


def test_time_is_measured_to_curves_in_place(engine: ScriptedEngine, store: FaultStore):
    """A slow put is not part of the calibration's time."""

    class SlowStore(FaultStore):
        def put(self, digest: str, data: bytes) -> None:
            engine.clock.advance_ms(1e6)
            super().put(digest, data)

    slow = SlowStore()
    first = boot(engine, slow)
    recorded = entry.decode(slow.entries[first.digest or ""])
    assert recorded.conditions["calibration_ms"] == first.calibration_ms
    assert first.calibration_ms < 1000


def test_conditions_are_stored_and_not_keyed(engine: ScriptedEngine, store: FaultStore, warm: BootReport):
    """What the engine says of its machine is kept with the entry and does not change the fingerprint."""
    store.entries.clear()
    report = boot(engine, store, conditions={"power_w": 700.0, "mig": None, "shared": False})
    recorded = entry.decode(store.entries[report.digest or ""])
    assert report.digest == warm.digest == fingerprint(recorded.factors)
    assert recorded.conditions.items() >= {"power_w": 700.0, "mig": None, "shared": False}.items()


def test_the_systems_clock_is_in_utc():
    """The clock that engines use gives the time of day in UTC, and a reading that never falls."""
    clock = SystemClock()
    assert clock.now().utcoffset() == timedelta(0)
    assert clock.monotonic_ns() <= clock.monotonic_ns()


def _core_reasons(engine: ScriptedEngine) -> Iterator[Reason]:
    """The reasons that tests of this file produce."""
    yield from (Reason.ABSENT, Reason.ENTRY_UNREADABLE, Reason.ENTRY_INCOMPLETE, Reason.INSTALL_REFUSED)
    yield from (Reason.FACTOR_UNKNOWN, Reason.FACTOR_INVALID, Reason.CALIBRATION_INVALID, Reason.SENTINEL_SHAPE)
    yield from (reason for _, reason in UNADMITTED.values())
    yield from (Reason.VOTE_UNAVAILABLE, Reason.NOTHING_CAPTURED, Reason.INTERNAL_ERROR)
    yield from (Reason.ENGINE_FAILED, Reason.BOOT_INTERRUPTED)
    yield from STORE_REASONS
    yield from DAMAGES
    yield from (reason for _, reason in SPOILED.values())


def test_every_reason_of_a_boot_is_produced(engine: ScriptedEngine, store: FaultStore, warm: BootReport):
    """The tests of this file meet every reason, but for those of a vote (`test_ranks.py`), of the modes and of what is
    remembered (`test_modes.py`) and the two that only an adapter gives, before there is a boot.
    """
    votes = {Reason.RANKS_DIFFER, Reason.RANK_ABSENT, Reason.VOTE_FAILED, Reason.VOTE_LOST}
    engine.verify_ms = _scaled(engine.verify_ms, 2)
    assert boot(engine, store).reason is Reason.SENTINEL_SHAPE
    assert set(Reason) - set(_core_reasons(engine)) == {Reason.ENGINE_UNKNOWN, Reason.SETTINGS_INVALID} | votes | set(
        WAYS
    )


MS = st.floats(0.01, 1000)
DRIFT = st.floats(0.3, 3.0)
CURVES = st.fixed_dictionaries(dict.fromkeys((1, 2, 4, 8, 16, 24, 32, 64), MS))
DRIFTS = st.one_of(
    DRIFT.map(lambda factor: [factor] * 9),
    st.lists(st.floats(0.85, 1.1), min_size=9, max_size=9),
    st.lists(DRIFT, min_size=9, max_size=9),
)
LIMITS = st.builds(Limits, st.floats(0, 1), st.floats(1, 10), st.floats(0, 1))


@given(CURVES, CURVES, DRIFTS, st.integers(0, 3), LIMITS | st.just(Limits()))
def test_what_is_installed_was_stored_and_holds(verify, draft, drifts, drawn, limits):
    """However the engine drifts, installed curves are the stored ones and every measured ratio lies in the limits."""
    engine, store = ScriptedEngine(verify_ms=verify.__getitem__, draft_ms=draft.__getitem__), MemoryStore()
    first = boot(engine, store, settings=ADMITS_ANY)
    stored = entry.decode(store.entries[first.digest or ""]).profile
    factors = dict(zip((*verify, "draft"), drifts, strict=True))
    engine.verify_ms = lambda tokens: verify[tokens] * factors[tokens]
    engine.draft_ms = lambda requests: draft[requests] * factors["draft"]
    engine.runs.clear()
    report = boot(engine, store, draw=lambda n: drawn, settings=msgspec.structs.replace(ADMITS_ANY, limits=limits))
    ratios = [factors["draft"], factors[16], factors[(1, 2, 4, 8)[drawn]]]
    slack = 1 + 1e-9
    if report.outcome is Outcome.REUSED:
        assert engine.installed is not None
        assert engine.installed.profile == stored
        assert limits.scale_low <= min(ratios) * slack
        assert max(ratios) <= limits.scale_high * slack
        assert 1 - min(ratios) / max(ratios) <= limits.max_regret + 1e-9
        assert engine.runs == [16, (1, 2, 4, 8)[drawn]]
    else:
        assert engine.installed is None
        assert engine.runs[-ALL_RUNS:] == list(engine.plan.runs)
        inside = limits.scale_low * slack < min(ratios) <= max(ratios) < limits.scale_high / slack
        assert not (inside and 1 - min(ratios) / max(ratios) < limits.max_regret - 1e-9)


@given(st.binary(max_size=300), st.booleans())
def test_no_bytes_in_the_store_break_a_boot(data: bytes, put_back: bool):
    """Whatever lies under the fingerprint, the boot ends and only an entry that is whole is reused."""
    engine, store = ScriptedEngine(captured=(1, 2), max_tokens=2), MemoryStore()
    good = store.entries[boot(engine, store).digest or ""] if put_back else data
    store.entries = dict.fromkeys([boot(engine, MemoryStore()).digest or A], good)
    assert (boot(engine, store).outcome is Outcome.REUSED) == put_back


def test_every_boot_is_driven_by_a_boot_object(engine: ScriptedEngine, store: FaultStore):
    """A boot's path can be walked once; its step can be read at any time."""
    walked = boot_of(engine, store)
    before = walked.position.step
    drive(walked, engine)
    assert [before, walked.position.step] == [Step.FINGERPRINT, Step.PUT]


def test_curves_that_the_engine_disowns_are_not_stored(engine: ScriptedEngine, store: FaultStore):
    """Where the engine says that it plans with something else than its samples, nothing is stored."""
    steps = boot_of(engine, store).run()
    assert next(steps) == Calibrate()
    with pytest.raises(StopIteration) as ended:
        steps.throw(ProfileError("other curves"))
    assert _course(ended.value.value) == (Outcome.UNRECORDED, Reason.CALIBRATION_INVALID, Reason.ABSENT)
    assert ended.value.value.detail == "other curves"
    assert store.entries == {}


def test_an_engine_whose_name_is_no_text_is_not_stored(engine: ScriptedEngine, store: FaultStore):
    """A name that no entry can hold leaves the boot unrecorded."""
    named = Boot(
        Inputs(
            engine="\udcff",
            plan=engine.plan,
            read_factors=dict,
            store=store,
            settings=Settings(),
            clock=engine.clock,
            draw=lambda n: 0,
        )
    )
    report = drive(named, engine)
    assert _course(report) == (Outcome.UNRECORDED, Reason.ENTRY_INVALID, Reason.ABSENT)
