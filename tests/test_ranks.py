"""Ranks that calibrate together decide as one, and each says what was decided and why."""

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import msgspec
import pytest

from tests.support import boot_of
from warmcurve.boot.driver import drive
from warmcurve.boot.path import Boot
from warmcurve.boot.settings import Settings
from warmcurve.clock import SystemClock
from warmcurve.curves.sentinel import Limits
from warmcurve.errors import CurvesRequired, FactorError, StoreError, VoteLost
from warmcurve.outcome import Outcome, Reason
from warmcurve.ranks.register import Register
from warmcurve.ranks.vote import GO, Course, Heard, Party, encode
from warmcurve.reporting.report import BootReport
from warmcurve.storage import entry
from warmcurve.testing import FaultStore, MemoryHistories, MemoryKeyValue, ScriptedEngine, together

SOON_S = 0.3
"""For votes in which somebody is missing; the others take no time to speak of."""


class Ranks:
    """Ranks of one world, each with an engine and a key-value store's connection of its own; all share the values."""

    def __init__(self, world: int = 3) -> None:
        self.world = world
        self.engines = [ScriptedEngine() for _ in range(world)]
        self.store = FaultStore()
        self.timeout_s = 20.0
        self.changes: dict[int, dict[str, Any]] = {}
        self.fails: dict[int, Callable[[str, str], bool]] = {}
        self.absent: set[int] = set()
        self.boots: list[Boot] = []

    def boot(self) -> list[BootReport]:
        """Each rank's report; one that is absent has none."""
        reports = self.results()
        assert all(isinstance(report, BootReport) for report in reports), reports
        return [report for report in reports if isinstance(report, BootReport)]

    def results(self) -> list[BootReport | Exception]:
        values: dict[str, bytes] = {}
        present = [rank for rank in range(self.world) if rank not in self.absent]
        self.boots = [self._boot(rank, values) for rank in present]
        for engine in self.engines:
            engine.runs.clear()
            engine.installed = None
        pairs = zip(self.boots, present, strict=True)
        return together([lambda b=boot, r=rank: drive(b, self.engines[r]) for boot, rank in pairs])  # type: ignore[misc]

    def _boot(self, rank: int, values: dict[str, bytes]) -> Boot:
        key_value = MemoryKeyValue()
        key_value.values = values
        key_value.fails = self.fails.get(rank, key_value.fails)
        store = self.store
        if rank:
            store = FaultStore()
            store.errors = {name: AssertionError(f"a follower's {name}") for name in ("get", "put", "list", "delete")}
        given: dict[str, Any] = {
            "rank": rank,
            "world": self.world,
            "register": Register(key_value, SystemClock(), self.timeout_s),
        }
        if rank:
            given["draw"] = None
        return boot_of(self.engines[rank], store, **given | self.changes.get(rank, {}))

    def runs(self) -> list[list[int]]:
        return [engine.runs for engine in self.engines]


@pytest.fixture
def cold() -> Ranks:
    return Ranks()


@pytest.fixture
def warm() -> Ranks:
    """Ranks of which the leader's store holds an entry."""
    ranks = Ranks()
    assert [report.outcome for report in ranks.boot()] == [Outcome.RECORDED] * 3
    return ranks


def _decisions(reports: list[BootReport]) -> set[Any]:
    return {report.vote.decision for report in reports if report.vote}


def test_a_first_boot_is_recorded_once(cold: Ranks):
    """Every rank runs the whole calibration, the leader stores it, and all say so."""
    reports = cold.boot()
    assert [(report.outcome, report.reason, report.missed) for report in reports] == [
        (Outcome.RECORDED, None, Reason.ABSENT)
    ] * 3
    assert [(report.rank, report.world) for report in reports] == [(0, 3), (1, 3), (2, 3)]
    assert cold.runs() == [list(cold.engines[0].plan.runs)] * 3
    assert cold.store.list() == (reports[0].digest,)
    assert [report.entry for report in reports] == [f"memory:{reports[0].digest}", None, None]
    (decision,) = _decisions(reports)
    assert (decision.course, decision.reason) == (Course.CALIBRATE, Reason.ABSENT)


def test_the_next_boot_is_reused_by_all(warm: Ranks):
    """The leader's entry reaches every rank over the vote, and all replay the sentinels that it drew."""
    reports = warm.boot()
    assert [(report.outcome, report.reason, report.sentinel_runs) for report in reports] == [
        (Outcome.REUSED, None, 2)
    ] * 3
    assert warm.runs() == [[16, 4]] * 3
    stored = entry.decode(warm.store.entries[reports[0].digest or ""]).profile
    assert [engine.installed and engine.installed.profile for engine in warm.engines] == [stored] * 3
    (decision,) = _decisions(reports)
    assert decision.course is Course.GO
    assert {report.recorded_ms for report in reports} == {reports[0].recorded_ms}


def test_all_ranks_replay_what_the_leader_chose(warm: Ranks):
    """A sweep and the tail are the same runs on every rank, whose votes come after the sentinels and after the tail."""
    warm.changes = {rank: {"settings": Settings(sentinels="sweep", tail="once")} for rank in range(3)}
    assert [report.outcome for report in warm.boot()] == [Outcome.REUSED] * 3
    assert warm.runs() == [[16, 8, 4, 2, 1, 24, 32, 64]] * 3


@pytest.mark.parametrize("odd", range(3))
def test_a_tail_that_moved_on_one_rank_decides_for_all(warm: Ranks, odd: int):
    """All run the sentinels and the tail again with it, and then calibrate."""
    warm.changes = {rank: {"settings": Settings(tail="once")} for rank in range(3)}
    true = warm.engines[odd].verify_ms
    warm.engines[odd].verify_ms = lambda tokens: true(tokens) * (1.6 if tokens == 32 else 1)
    reports = warm.boot()
    assert {(report.reason, report.sentinel_runs) for report in reports} == {(Reason.SENTINEL_SHAPE, 2 + 3 + 5 + 5)}
    assert warm.runs()[0] == warm.runs()[1] == warm.runs()[2]


def test_each_vote_says_how_long_it_waited(warm: Ranks):
    """The time spent on votes is in each report."""
    assert all(report.vote and report.vote.waited_ms >= 0 for report in warm.boot())


@pytest.mark.parametrize("slow", range(3))
def test_one_rank_that_needs_more_replays_takes_all_along(warm: Ranks, slow: int):
    """A sentinel disturbed on one rank is replayed on every rank, and then they agree."""
    engine = warm.engines[slow]
    true, factors = engine.verify_ms, [3.0]
    engine.verify_ms = lambda tokens: true(tokens) * (factors.pop() if factors else 1)
    reports = warm.boot()
    assert [(report.outcome, report.sentinel_runs) for report in reports] == [(Outcome.REUSED, 4)] * 3
    assert warm.runs() == [[16, 4, 16, 4]] * 3


@pytest.mark.parametrize("odd", range(3))
def test_one_rank_that_rejects_decides_for_all(warm: Ranks, odd: int):
    """Where the curves do not hold on one rank all calibrate and the entry is replaced; each has its own verdict."""
    engine = warm.engines[odd]
    true = engine.verify_ms
    engine.verify_ms = lambda tokens: true(tokens) / 4
    reports = warm.boot()
    assert [(report.outcome, report.reason) for report in reports] == [(Outcome.RECORDED, Reason.SENTINEL_SCALE)] * 3
    assert warm.runs() == [[16, 4, *engine.plan.runs]] * 3
    (decision,) = _decisions(reports)
    assert decision.rank == odd
    own = [report.vote.own.reason for report in reports if report.vote and report.vote.own]
    assert own == [Reason.SENTINEL_SCALE if rank == odd else None for rank in range(3)]
    stored = entry.decode(warm.store.entries[reports[0].digest or ""]).profile
    assert stored.samples == warm.engines[0].calibrated


@pytest.mark.parametrize("odd", range(3))
def test_one_engine_that_refuses_decides_for_all(warm: Ranks, odd: int):
    """Where one rank's engine refuses the curves those that installed them calibrate as well."""
    warm.engines[odd].refuses = "not these"
    reports = warm.boot()
    assert [(report.outcome, report.reason) for report in reports] == [(Outcome.RECORDED, Reason.INSTALL_REFUSED)] * 3
    assert warm.runs() == [[16, 4, *warm.engines[0].plan.runs]] * 3


def _unknown() -> Any:
    raise FactorError(Reason.FACTOR_UNKNOWN, "model.revision", "no such file")


OTHER = {"device": "example", "model": {"revision": "4567"}}
LIMITS = Settings(Limits(max_regret=0.3))


@pytest.mark.parametrize("stored", [False, True], ids=["cold", "warm"])
@pytest.mark.parametrize("odd", range(3))
@pytest.mark.parametrize(
    ("change", "reason", "told"),
    [
        ({"read_factors": lambda: OTHER}, Reason.RANKS_DIFFER, 'model.revision "'),
        ({"read_factors": _unknown}, Reason.FACTOR_UNKNOWN, "model.revision: no such file"),
        ({"settings": LIMITS}, Reason.RANKS_DIFFER, "settings max_regret 0."),
        ({"settings": Settings(sentinels=3)}, Reason.RANKS_DIFFER, "settings sentinels "),
        ({"settings": Settings(tail="once")}, Reason.RANKS_DIFFER, "settings tail "),
        ({"settings": Settings(mode="record")}, Reason.RANKS_DIFFER, "settings mode "),
        ({"settings": Settings(mode="verify")}, Reason.RANKS_DIFFER, "settings mode "),
        ({"settings": Settings(mode="off")}, Reason.SWITCHED_OFF, "the mode is off"),
    ],
    ids=["factor", "unknown factor", "limits", "sentinels", "tail", "record", "verify", "off"],
)
def test_ranks_that_differ_calibrate_and_store_nothing(
    warm: Ranks, odd: int, change: dict[str, Any], reason: Reason, told: str, stored: bool
):
    """One rank that differs decides for all, cold or warm, and the reason says in what it differs."""
    if not stored:
        warm.store.entries.clear()
    before = dict(warm.store.entries)
    warm.changes[odd] = change
    reports = warm.boot()
    assert [(report.outcome, report.reason) for report in reports] == [(Outcome.UNRECORDED, reason)] * 3
    (decision,) = _decisions(reports)
    assert told in (decision.detail or "")
    # Where the leader is the odd one it is a follower that finds the difference.
    assert (f" by_rank={odd} " if odd else " by_rank=") in reports[0].log_line()
    assert warm.runs() == [list(warm.engines[0].plan.runs)] * 3
    assert warm.store.entries == before


@pytest.mark.parametrize("mode", ["record", "verify"])
def test_all_ranks_calibrate_where_the_mode_says_so(warm: Ranks, mode: Any):
    """The leader alone compares or stores, and its word is in every report."""
    before = dict(warm.store.entries)
    warm.changes = {rank: {"settings": Settings(mode=mode)} for rank in range(3)}
    for engine in warm.engines:
        engine.clock.advance_ms(1e6)
    reports = warm.boot()
    course = (Outcome.RECORDED, None) if mode == "record" else (Outcome.UNRECORDED, Reason.MODE_VERIFY)
    assert [(report.outcome, report.reason) for report in reports] == [course] * 3
    assert warm.runs() == [list(warm.engines[0].plan.runs)] * 3
    assert (warm.store.entries == before) == (mode == "verify")
    assert {report.detail for report in reports} == {"the stored curves hold" if mode == "verify" else None}


def test_all_ranks_stop_where_curves_are_required(warm: Ranks):
    """None calibrates: all replay the sentinels, and where one finds them off all stop."""
    warm.changes = {rank: {"settings": Settings(mode="require")} for rank in range(3)}
    assert [report.outcome for report in warm.boot()] == [Outcome.REUSED] * 3
    slow = warm.engines[2]
    slow.verify_ms = lambda n: 4.0 if n < 16 else 30.0
    results = warm.results()
    assert [type(result) for result in results] == [CurvesRequired] * 3
    assert len({str(result) for result in results}) == 1
    assert str(results[0]).startswith("curves_required: sentinel_scale: measured / stored is ")
    assert [set(runs) for runs in warm.runs()] == [{16, 4}] * 3
    slow.verify_ms = warm.engines[0].verify_ms
    warm.store.entries.clear()
    assert [type(result) for result in warm.results()] == [CurvesRequired] * 3
    assert warm.runs() == [[]] * 3
    assert [boot.position.agreed for boot in warm.boots] == [True] * 3


@pytest.mark.parametrize("odd", range(3))
def test_a_rank_that_requires_alone_stops_alone(warm: Ranks, odd: int):
    """The others calibrate, since the modes differ, and no rank takes the decision for one that all follow alike."""
    warm.changes = {odd: {"settings": Settings(mode="require")}}
    results = warm.results()
    assert [type(result) for result in results] == [CurvesRequired if rank == odd else BootReport for rank in range(3)]
    assert str(results[odd]).startswith("curves_required: ranks_differ: settings mode ")
    assert [len(runs) for runs in warm.runs()] == [0 if rank == odd else 40 for rank in range(3)]
    assert [boot.position.agreed for boot in warm.boots] == [False] * 3


def test_the_leader_remembers_what_others_turned_down(warm: Ranks):
    """An entry that a follower turns down is turned down; the leader's machine keeps it in mind."""
    histories = MemoryHistories()
    warm.changes[0] = {"histories": histories}
    warm.store.errors = {"put": StoreError(Reason.STORE_FULL, "full")}
    warm.engines[1].verify_ms = lambda n: 4.0 if n < 16 else 30.0
    reports = [warm.boot()[1] for _ in range(4)]
    assert [report.missed for report in reports] == [Reason.SENTINEL_SCALE] * 3 + [Reason.ENTRY_QUARANTINED]
    (history,) = histories.kept.values()
    assert len(history.rejected) == 3


@pytest.mark.parametrize("odd", range(3))
def test_ranks_of_other_versions_calibrate(warm: Ranks, odd: int):
    """A rank that runs another version of the package decides for all, though it understands the messages."""
    with patch("warmcurve.boot.path.Identity", lambda *fields: _versioned(warm, odd, *fields)):
        reports = warm.boot()
    assert {(report.outcome, report.reason) for report in reports} == {(Outcome.UNRECORDED, Reason.RANKS_DIFFER)}
    (decision,) = _decisions(reports)
    assert "warmcurve" in decision.detail
    assert "0.0.1" in decision.detail


def _versioned(ranks: Ranks, odd: int, protocol: int, version: str, settings: Any, digest: str) -> Any:
    from warmcurve.ranks.ballot import Identity

    count = getattr(ranks, "identities", 0)
    ranks.identities = count + 1  # type: ignore[attr-defined]
    return Identity(protocol, "0.0.1" if count == odd else version, settings, digest)


@pytest.mark.parametrize("absent", range(3))
@pytest.mark.parametrize("stored", [False, True], ids=["cold", "warm"])
def test_a_rank_that_does_not_vote_is_waited_for_once(warm: Ranks, absent: int, stored: bool):
    """Without a rank's vote the others calibrate when their time is up, and store nothing; they name who is missing."""
    if not stored:
        warm.store.entries.clear()
    warm.absent, warm.timeout_s = {absent}, SOON_S
    reports = warm.boot()
    assert [(report.outcome, report.reason) for report in reports] == [(Outcome.UNRECORDED, Reason.RANK_ABSENT)] * 2
    (decision,) = _decisions(reports)
    assert decision.rank == absent
    assert [runs for rank, runs in enumerate(warm.runs()) if rank != absent] == [list(warm.engines[0].plan.runs)] * 2


def test_an_entry_damaged_on_its_way_is_rejected_for_all(warm: Ranks):
    """A follower that gets other bytes than the leader sent checks them as any reader does; all calibrate."""
    with patch("warmcurve.ranks.ballot.Offer.entry_bytes", lambda offer: b"{}\n"):
        reports = warm.boot()
    assert {(report.outcome, report.reason) for report in reports} == {(Outcome.RECORDED, Reason.ENTRY_MALFORMED)}


def test_a_sound_entry_that_is_not_the_leaders_is_rejected(warm: Ranks):
    """An entry that came to a rank whole, but is another one, would be judged by other costs: all calibrate."""
    (own,) = warm.store.entries.values()
    known = entry.decode(own)
    other = entry.encode(msgspec.structs.replace(known, conditions={**known.conditions, "host": "another"}))
    arrived = iter([own, other])
    with patch("warmcurve.ranks.ballot.Offer.entry_bytes", lambda offer: next(arrived)):
        reports = warm.boot()
    assert {(report.outcome, report.reason) for report in reports} == {(Outcome.UNRECORDED, Reason.RANKS_DIFFER)}
    assert {report.detail for report in reports} == {"it got another entry than the leader sent"}


def test_a_rank_whose_vote_was_not_needed_stops():
    """A decision to go on that was made without this rank's vote is one that it cannot follow: it stops at once."""
    hearing = Party(1, 2).hear()
    next(hearing)
    with pytest.raises(VoteLost, match="the others go on without the vote of rank 1"):
        hearing.send(Heard("1/decision", encode(GO)))


@pytest.mark.parametrize("sizes", [(), (16, 3), (64, 4)], ids=str)
def test_sentinels_that_are_no_captured_sizes_are_rejected(warm: Ranks, sizes: tuple[int, ...]):
    """Whatever a leader draws, followers replay captured sizes only."""
    with patch("warmcurve.curves.sentinel.choose", lambda captured, draw, policy: sizes):
        reports = warm.boot()
    assert {(report.outcome, report.reason) for report in reports} == {(Outcome.RECORDED, Reason.VOTE_FAILED)}


@pytest.mark.parametrize("where", ["get", "put"])
def test_the_leaders_store_decides_how_all_end(warm: Ranks, where: str):
    """A store that fails on the leader is no reason to part: all calibrate, and all say why nothing was stored."""
    warm.store.errors = {where: StoreError(Reason.STORE_FULL, "no space left")}
    if where == "put":
        warm.store.entries.clear()
    reports = warm.boot()
    ending = (Outcome.UNRECORDED if where == "put" else Outcome.RECORDED, Reason.STORE_FULL)
    assert [(report.outcome, report.reason) for report in reports] == [ending] * 3
    assert {report.detail for report in reports} == {"no space left"}


@pytest.mark.parametrize("odd", range(3))
@pytest.mark.parametrize("operation", ["set", "get"])
def test_a_rank_whose_connection_fails_takes_its_vote_back(warm: Ranks, odd: int, operation: str):
    """Where a rank can still propose, the failure of another operation of its own is a decision for all."""
    warm.fails[odd] = lambda asked, key: asked == operation
    reports = warm.boot()
    expected = {Reason.VOTE_FAILED}
    assert {report.reason for report in reports} == expected
    (decision,) = _decisions(reports)
    assert "planted" in (decision.detail or "")


@pytest.mark.parametrize("odd", range(3))
def test_a_rank_that_reaches_nobody_calibrates(warm: Ranks, odd: int):
    """A rank that has not voted cannot be gone on without, so it calibrates alone; the others miss it."""
    warm.fails[odd] = lambda asked, key: True
    warm.timeout_s = SOON_S
    reports = warm.boot()
    assert [report.reason for report in reports] == [
        Reason.VOTE_FAILED if rank == odd else Reason.RANK_ABSENT for rank in range(3)
    ]
    assert warm.runs() == [list(warm.engines[0].plan.runs)] * 3


def test_a_rank_that_promised_and_learns_nothing_stops(warm: Ranks):
    """A follower whose connection fails after its vote cannot know what the others do: it runs nothing, and says so."""
    voted = []

    def fails(asked: str, key: str) -> bool:
        if asked == "set":
            voted.append(key)
            return False
        return bool(voted)

    warm.fails[2] = fails
    warm.timeout_s = SOON_S
    results = warm.results()
    lost = results[2]
    assert isinstance(lost, VoteLost)
    assert warm.engines[2].runs == []
    report = warm.boots[2].abandon(lost.reason, lost.detail, calibration_runs=0)
    assert (report.outcome, report.reason, report.calibration_runs) == (Outcome.UNRECORDED, Reason.VOTE_LOST, 0)


@pytest.mark.parametrize("left", range(3))
def test_a_rank_that_leaves_its_path_tells_the_others(warm: Ranks, left: int):
    """An error that nobody foresaw, met between sentinels and verdict, is withdrawn from: all calibrate, once."""
    engine = warm.engines[left]

    def broken(sizes: tuple[int, ...]) -> Any:
        type(engine).replay(engine, sizes)
        raise RuntimeError("unforeseen")

    engine.replay = broken  # type: ignore[method-assign]
    results = together_with_edge(warm, left)
    assert [(report.outcome, report.reason) for report in results] == [(Outcome.UNRECORDED, Reason.INTERNAL_ERROR)] * 2
    assert [runs[2:] for rank, runs in enumerate(warm.runs()) if rank != left] == [list(engine.plan.runs)] * 2


def together_with_edge(ranks: Ranks, left: int) -> list[BootReport]:
    """The reports of the ranks that did not leave; the other is driven as at an adapter's edge."""
    original = drive

    def edged(boot: Boot, engine: ScriptedEngine) -> BootReport:
        try:
            return original(boot, engine)
        except RuntimeError as error:
            boot.withdraw(Reason.INTERNAL_ERROR, str(error))
            return boot.abandon(Reason.INTERNAL_ERROR, str(error), calibration_runs=len(engine.plan.runs))

    with patch("tests.test_ranks.drive", edged):
        reports = ranks.boot()
    return [report for rank, report in enumerate(reports) if rank != left]


def test_a_world_of_one_asks_nobody(warm: Ranks):
    """One rank alone performs no operation of a vote."""

    class Untouched:
        waited_ns = 0

        def perform(self, operation: Any) -> Any:
            raise AssertionError(operation)

    engine = ScriptedEngine()
    for outcome in (Outcome.RECORDED, Outcome.REUSED):
        boot = boot_of(engine, warm.store, register=Untouched(), read_factors=lambda: {"alone": True})
        report = drive(boot, engine)
        assert (report.outcome, report.vote) == (outcome, None)
