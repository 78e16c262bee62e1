"""However messages, deadlines and faults fall, ranks never part: every course of the real boots is explored."""

from collections.abc import Callable
from itertools import combinations_with_replacement
from typing import Any

import pytest

from tests.exploration import (
    COLD,
    FOLLOWERS,
    GOOD,
    LEADERS,
    OFF,
    OFF_MODE,
    ONCE,
    PLAIN,
    RECORD,
    REQUIRE,
    REQUIRE_COLD,
    SWEPT,
    VERIFY,
    WRONG,
    Explorer,
    Kind,
    Violation,
)
from warmcurve.boot.path import Boot
from warmcurve.boot.settings import Settings
from warmcurve.errors import VoteError, VoteLost
from warmcurve.outcome import Outcome, Reason
from warmcurve.ranks.vote import Course, Decision, Party, Voting

_ODD = [kind for kind in FOLLOWERS if kind is not PLAIN]
SCENARIOS = [
    pytest.param(1, 2, [(leader,) for leader in LEADERS], id="one rank, two faults"),
    pytest.param(2, 1, [(leader, other) for leader in LEADERS for other in FOLLOWERS], id="two ranks, one fault"),
    pytest.param(
        *(2, 2, [(leader, other) for leader in LEADERS for other in FOLLOWERS]),
        id="two ranks, two faults",
        marks=pytest.mark.full,
    ),
    pytest.param(
        3,
        0,
        [(leader, *rest) for leader in LEADERS for rest in combinations_with_replacement(FOLLOWERS, 2)],
        id="three ranks, no fault",
    ),
    pytest.param(
        3, 1, [(COLD, PLAIN, PLAIN), *((PLAIN, PLAIN, odd) for odd in _ODD)], id="three ranks, one odd, one fault"
    ),
    pytest.param(
        *(4, 1, [(COLD, PLAIN, PLAIN, PLAIN), *((PLAIN, PLAIN, PLAIN, odd) for odd in _ODD)]),
        id="four ranks, one odd",
        marks=pytest.mark.full,
    ),
]
PLAIN_RANKS = [
    *((2, 1, (GOOD, OFF, WRONG)), (3, 1, (GOOD, WRONG))),
    pytest.param(2, 3, (GOOD, OFF, WRONG), marks=pytest.mark.full),
    pytest.param(4, 0, (GOOD, OFF), marks=pytest.mark.full),
    pytest.param(4, 1, (GOOD, WRONG), marks=pytest.mark.full),
]

TAIL_RANKS = [(1, 2, (GOOD, OFF, WRONG)), (2, 1, (GOOD, OFF)), (3, 0, (GOOD, WRONG))]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("ranks", "faults", "scenarios"), SCENARIOS)
def test_ranks_never_part(
    ranks: int, faults: int, scenarios: list[tuple[Kind, ...]], capsys: pytest.CaptureFixture[str]
):
    """In every world that can be reached, living ranks run the same, decide the same, and end."""
    seen = sum(Explorer(scenario, faults).explore() for scenario in scenarios)
    assert seen > len(scenarios)
    with capsys.disabled():
        print(f"\n{seen:,} worlds of {ranks} ranks in {len(scenarios)} scenarios, {faults} faults in each course")


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("ranks", "faults", "verdicts"), PLAIN_RANKS)
def test_plain_ranks_never_part(ranks: int, faults: int, verdicts: tuple[str, ...], capsys: pytest.CaptureFixture[str]):
    """Ranks with a stored entry, each of which finds its sentinels as stored, off, or wrong; all can end in a hit."""
    explorer = Explorer((PLAIN,) * ranks, faults, verdicts=verdicts)
    seen = explorer.explore()
    assert (Outcome.REUSED, None) in explorer.endings
    with capsys.disabled():
        print(f"\n{seen:,} worlds of {ranks} ranks, sentinels {' or '.join(verdicts)}, {faults} faults in each course")


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("ranks", "faults", "verdicts"), TAIL_RANKS)
def test_ranks_that_run_the_tail_never_part(
    ranks: int, faults: int, verdicts: tuple[str, ...], capsys: pytest.CaptureFixture[str]
):
    """With a round of votes after the sentinels and one after the tail, each up to three times, and all faults."""
    explorer = Explorer((ONCE,) * ranks, faults, verdicts=verdicts)
    seen = explorer.explore()
    assert (Outcome.REUSED, None) in explorer.endings
    assert any(reason in {Reason.SENTINEL_SHAPE, Reason.SENTINEL_SCALE} for _, reason in explorer.endings)
    with capsys.disabled():
        print(f"\n{seen:,} worlds of {ranks} ranks, tails {' or '.join(verdicts)}, {faults} faults in each course")


MODES = (PLAIN, REQUIRE, RECORD, VERIFY, OFF_MODE)
STOPPED = Outcome.UNRECORDED, Reason.CURVES_REQUIRED


@pytest.mark.timeout(600)
def test_ranks_of_any_modes_never_part(capsys: pytest.CaptureFixture[str]):
    """Two ranks in every pair of modes with a fault, three ranks without: all that go on run the same."""
    scenarios: list[tuple[tuple[Kind, ...], int]] = [
        ((leader, other), 1) for leader in (*MODES, REQUIRE_COLD) for other in MODES
    ]
    scenarios += [((leader, *rest), 0) for leader in MODES for rest in combinations_with_replacement(MODES, 2)]
    seen = sum(Explorer(ranks, faults, verdicts=(GOOD, WRONG)).explore() for ranks, faults in scenarios)
    assert seen > len(scenarios)
    with capsys.disabled():
        print(f"\n{seen:,} worlds of 2 and 3 ranks in {len(scenarios)} scenarios of modes")


@pytest.mark.parametrize(
    ("ranks", "endings"),
    [
        ((REQUIRE, REQUIRE), {(Outcome.REUSED, None), STOPPED}),
        ((REQUIRE_COLD, REQUIRE), {STOPPED}),
        ((PLAIN, REQUIRE), {STOPPED}),
        ((RECORD, RECORD), {(Outcome.RECORDED, None)}),
        ((VERIFY, VERIFY), {(Outcome.UNRECORDED, Reason.MODE_VERIFY)}),
        ((PLAIN, OFF_MODE), {(Outcome.UNRECORDED, Reason.SWITCHED_OFF)}),
        ((OFF_MODE, PLAIN), {(Outcome.UNRECORDED, Reason.SWITCHED_OFF)}),
        ((VERIFY, RECORD), {(Outcome.UNRECORDED, Reason.RANKS_DIFFER)}),
    ],
)
def test_modes_end_as_they_say(ranks: tuple[Kind, ...], endings: set[Any]):
    """Without a fault, and with nobody late, each pair of modes ends in its own way. Beside a rank that exits the other
    waits in its calibration, until the engine notices.
    """
    explorer = Explorer(ranks)
    explorer.explore()
    late = {(Outcome.UNRECORDED, Reason.RANK_ABSENT)}
    assert explorer.endings - late == endings


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("ranks", "faults"), [(1, 2), (2, 1), (3, 0)])
def test_ranks_that_sweep_never_part(ranks: int, faults: int, capsys: pytest.CaptureFixture[str]):
    """With as many rounds of votes as a sweep has, since each finds its sentinels off, and all faults."""
    explorer = Explorer((SWEPT,) * ranks, faults, verdicts=(OFF,))
    seen = explorer.explore()
    assert (Outcome.RECORDED, Reason.SENTINEL_SHAPE) in explorer.endings
    with capsys.disabled():
        print(f"\n{seen:,} worlds of {ranks} ranks that sweep, {faults} faults in each course")


class Secretive(Settings, frozen=True):
    """Does not tell the other ranks what it will run."""

    def common(self) -> dict[str, Any]:
        return {}


def test_ranks_must_agree_to_run_the_tail():
    """One rank that runs the tail and one that skips it calibrate both; if they did not know they would part."""
    explorer = Explorer((ONCE, PLAIN), faults=1)
    explorer.explore()
    assert {outcome for outcome, _ in explorer.endings} == {Outcome.UNRECORDED}
    secretive = [kind._replace(settings=Secretive(tail=kind.settings.tail)) for kind in (ONCE, PLAIN)]
    with pytest.raises(Violation):
        Explorer(tuple(secretive)).explore()


def test_every_way_to_end_is_found():
    """The explorer reaches a hit, each rejection and each failure of a vote; so it does explore."""
    explorer = Explorer((PLAIN, PLAIN), faults=1)
    explorer.explore()
    assert {reason for _, reason in explorer.endings} >= {
        *(None, Reason.SENTINEL_SCALE, Reason.SENTINEL_SHAPE, Reason.INSTALL_REFUSED),
        *(Reason.RANK_ABSENT, Reason.VOTE_FAILED, Reason.INTERNAL_ERROR),
    }
    assert (Outcome.REUSED, None) in explorer.endings


@pytest.mark.parametrize(("faults", "lost"), [(2, False), (3, True)])
def test_a_vote_is_lost_by_three_failures_of_a_network_at_least(faults: int, lost: bool):
    """A rank proposes as often as that before it stops; fewer failures never stop one."""
    explorer = Explorer((PLAIN, PLAIN), faults, breaks=False)
    explorer.explore()
    assert explorer.lost is lost


class LeavesByItsOwnClock(Party):
    """Calibrates when its deadline passes, without proposing it."""

    def _propose(self, decision: Decision) -> Voting[Decision]:
        if decision.reason is Reason.RANK_ABSENT:
            return self._follow(decision)
        return (yield from super()._propose(decision))


class LeavesWhenItsStoreFails(Party):
    """Calibrates when an operation fails, without proposing it."""

    def _failed(self, error: VoteError) -> Voting[Decision]:
        yield from ()
        return self._follow(Decision(Course.CALIBRATE, error.reason, error.detail))


class CalibratesInDoubt(Party):
    """Calibrates where it promised to follow and cannot learn what was decided."""

    def _propose(self, decision: Decision) -> Voting[Decision]:
        try:
            return (yield from super()._propose(decision))
        except VoteLost:
            return self._follow(decision)


class DoesNotWaitForTheLast(Party):
    """A leader that decides without the last rank's vote."""

    def _lead(self, vote: bytes, decide: Callable[..., Decision]) -> Voting[Decision]:
        self.world -= 1
        try:
            return (yield from super()._lead(vote, decide))
        finally:
            self.world += 1


class InstallsWithoutAVote(Party):
    """Takes its own installation for everybody's."""

    def settle(self, vote: bytes, *positional: Any, last: bool = False, **named: Any) -> Voting[Decision]:
        if last:
            return self._follow(Decision(Course.GO), last=True)
        return (yield from super().settle(vote, *positional, **named))


class ForgetsThatItPromised(Party):
    """Withdraws, after its vote, by what it knows itself."""

    def withdraw(self, reason: Reason, detail: str | None, *, agreed: bool = False) -> Voting[Decision]:
        yield from ()
        return self._follow(Decision(Course.CALIBRATE, reason, detail, self.rank, agreed))


class ReusesTheRound(Party):
    """Takes the decision of one round for that of the next."""

    def _follow(self, decision: Decision, *, last: bool = False) -> Decision:
        decided = super()._follow(decision, last=last)
        self.round = 1
        return decided


class CalibratesInsteadOfInstalling(Boot):
    """Leaves between the decision and the installation, in which the others wait."""

    def leaving(self, reason: Reason, detail: str) -> Voting[None]:
        self.position.installing = False
        yield from super().leaving(reason, detail)


SEEDED = [
    pytest.param(2, 0, {"party": LeavesByItsOwnClock}, id="leaves by its own clock"),
    pytest.param(2, 1, {"party": LeavesWhenItsStoreFails}, id="leaves when its store fails"),
    pytest.param(2, 4, {"party": CalibratesInDoubt}, id="calibrates in doubt"),
    pytest.param(3, 0, {"party": DoesNotWaitForTheLast}, id="does not wait for the last"),
    pytest.param(2, 0, {"party": InstallsWithoutAVote}, id="installs without a vote"),
    pytest.param(2, 1, {"party": ForgetsThatItPromised}, id="withdraws without telling"),
    pytest.param(2, 1, {"party": ReusesTheRound}, id="takes one round for the next"),
    pytest.param(2, 1, {"boot": CalibratesInsteadOfInstalling}, id="calibrates instead of installing"),
    pytest.param(2, 0, {"overwrites": True}, id="set instead of compare-and-set"),
    pytest.param(4, 0, {"groups": 2}, id="a decision per tensor-parallel group"),
]


@pytest.mark.parametrize(("ranks", "faults", "bug"), SEEDED)
def test_a_seeded_bug_is_found(ranks: int, faults: int, bug: dict[str, Any]):
    """Each of these bugs, which a vote could well have, makes ranks part, or stop for nothing, and is found."""
    stops = bug.get("party") in {DoesNotWaitForTheLast, ReusesTheRound}
    with pytest.raises(Violation, match=r"lost the vote without a fault" if stops else r"ranks part|wait for ever"):
        Explorer((PLAIN,) * ranks, faults, **bug).explore()
