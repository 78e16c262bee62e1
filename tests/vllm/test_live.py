"""Ranks of a running engine that calibrate together: one decision, whatever one of them meets."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.vllm import live
from tests.vllm.booting import STOCK_RUNS, TOKENS
from tests.vllm.planted import LATE_S

pytestmark = pytest.mark.timeout(1200)

REUSED = ("reused", None)
SENTINELS, REPLAYED = 2, 6
SHORT_S = LATE_S * 2 / 3
"""For votes that somebody is late to or missing from; in all others nobody is waited for."""


class Expected(NamedTuple):
    outcome: str
    reason: str | None
    sentinels: int = 0
    vote_timeout_s: float = 60.0
    told: tuple[str, ...] = ()
    """What the decision's detail says."""


EITHER = {
    "sentinels_ten_times_slower": Expected("recorded", "sentinel_scale", REPLAYED),
    "late": Expected("unrecorded", "rank_absent", 0, SHORT_S),
    "late_to_the_verdict": Expected("unrecorded", "rank_absent", SENTINELS, SHORT_S),
    "without_the_plugin": Expected("unrecorded", "rank_absent", 0, SHORT_S),
    "other_factors": Expected("unrecorded", "ranks_differ", told=("NCCL_PLANTED",)),
    "other_settings": Expected("unrecorded", "ranks_differ", told=("max_regret", "0.5")),
    "other_version": Expected("unrecorded", "ranks_differ", told=("warmcurve", "9.9.9")),
    "other_protocol": Expected("unrecorded", "ranks_differ", told=("protocol", "99")),
    "settings_not_understood": Expected("unrecorded", "settings_invalid", told=("WARMCURVE_MAX_REGRET",)),
    "unknown_release": Expected("unrecorded", "engine_unknown"),
    "votes_cannot_be_read": Expected("unrecorded", "vote_failed", told=("planted",)),
    "unforeseen_before_the_boot": Expected("unrecorded", "internal_error"),
    "unforeseen_in_the_path": Expected("unrecorded", "internal_error"),
    "unforeseen_at_the_sentinels": Expected("unrecorded", "internal_error", SENTINELS),
}
ONE = {
    (0, "store_raises"): Expected("unrecorded", "internal_error"),
    (1, "store_raises"): Expected(*REUSED, SENTINELS),
    (1, "entry_damaged_on_the_way"): Expected("recorded", "entry_checksum"),
    (1, "entry_cut_on_the_way"): Expected("recorded", "entry_truncated"),
}
CASES = {(rank, fault): expected for fault, expected in EITHER.items() for rank in (0, 1)} | ONE
# The other rank takes another way through the votes, which tests/test_exploration.py tries for every fault.
TWICE = {(0, fault) for fault in EITHER}
STOPS = ["killed_at_the_sentinels", "unforeseen_at_the_install", "broadcast_fails"]
full = pytest.mark.full


@pytest.fixture(scope="module", params=["TENSOR_PARALLEL", pytest.param("EXPERTS_DATA_PARALLEL", marks=full)])
def ranks(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[live.Engine]:
    """An engine of two ranks, booted once."""
    if request.param == "TENSOR_PARALLEL":
        yield request.getfixturevalue("tensor_parallel")
        return
    with live.Engine(live.EXPERTS_DATA_PARALLEL, tmp_path_factory.mktemp("live")) as engine:
        yield engine


class Sound(NamedTuple):
    disks: Path
    cold: live.Recalibrated


@pytest.fixture(scope="module")
def sound(ranks: live.Engine, tmp_path_factory: pytest.TempPathFactory) -> Sound:
    """A first calibration without a fault, and the disks that it left."""
    disks = tmp_path_factory.mktemp("sound")
    return Sound(disks, ranks.recalibrate(disks))


@pytest.fixture
def disks(sound: Sound, tmp_path: Path) -> Path:
    """A copy of the disks on which the leader has an entry."""
    return Path(shutil.copytree(sound.disks, tmp_path / "disks"))


def _entries(disks: Path) -> dict[Path, bytes]:
    return {path.relative_to(disks): path.read_bytes() for path in sorted(disks.rglob("v1/*"))}


def _decisions(done: live.Recalibrated) -> list[Any]:
    return [rank.report["vote"]["decision"] for rank in done.ranks if rank.report]


def test_a_first_calibration_is_recorded_once(ranks: live.Engine, sound: Sound) -> None:
    """Both ranks calibrate in full and say so; the leader's disk alone holds the entry."""
    assert [rank.words for rank in sound.cold.ranks] == [("recorded", None)] * 2
    assert [rank.runs for rank in sound.cold.ranks] == [STOCK_RUNS] * 2
    assert sound.cold.ranks[0].tables == sound.cold.ranks[1].tables
    assert [path.parts[0] for path in _entries(sound.disks)] == ["rank0"]
    first, second = _decisions(sound.cold)
    assert first == second
    assert (first["course"], first["reason"]) == ("calibrate", "absent")
    if ranks.settings is live.TENSOR_PARALLEL:
        assert sound.cold.tokens == TOKENS


def test_the_next_is_reused_on_every_rank(ranks: live.Engine, sound: Sound, disks: Path) -> None:
    """The same two runs on every rank, with the entry on the leader's disk alone; tables and tokens as measured."""
    warm = ranks.recalibrate(disks)
    assert [rank.words for rank in warm.ranks] == [REUSED] * 2
    assert [len(rank.runs) for rank in warm.ranks] == [SENTINELS] * 2
    assert warm.ranks[0].runs == warm.ranks[1].runs
    assert [rank.tables for rank in warm.ranks] == [sound.cold.ranks[0].tables] * 2
    assert warm.tokens == sound.cold.tokens
    assert _entries(disks) == _entries(sound.disks)
    assert [len([line for line in rank.log if "warmcurve:" in line]) for rank in warm.ranks] == [1, 0]


@pytest.mark.parametrize(
    ("rank", "fault"),
    [pytest.param(*case, id=f"{case[1]}-{case[0]}", marks=[full] * (case in TWICE)) for case in CASES],
)
def test_a_rank_with_a_fault(ranks: live.Engine, sound: Sound, disks: Path, rank: int, fault: str) -> None:
    """Whatever one rank meets, both run the same, report the same decision, and generate the same tokens."""
    expected = CASES[rank, fault]
    faulty = ranks.recalibrate(disks, {rank: fault}, vote_timeout_s=expected.vote_timeout_s)
    tail = [] if expected.outcome == "reused" else STOCK_RUNS
    for each in faulty.ranks:
        assert each.runs[expected.sentinels :] == tail
    assert faulty.ranks[0].runs == faulty.ranks[1].runs
    assert [each.tables for each in faulty.ranks] == [sound.cold.ranks[0].tables] * 2
    assert faulty.tokens == sound.cold.tokens
    told = [each.report for each in faulty.ranks if each.report]
    assert len(told) == (1 if fault == "without_the_plugin" else 2)
    assert {(report["outcome"], report["reason"]) for report in told} == {(expected.outcome, expected.reason)}
    decisions = _decisions(faulty)
    assert decisions == [decisions[0]] * len(told)
    assert all(word in decisions[0]["detail"] for word in expected.told)
    same = _entries(disks) == _entries(sound.disks)
    assert same == (expected.outcome != "recorded")


def test_ranks_that_cannot_vote_stand_down_together(ranks: live.Engine, sound: Sound, disks: Path) -> None:
    """Where no rank gets a store to vote over, each calibrates, and nothing is stored."""
    done = ranks.recalibrate(disks, {0: "no_store_to_vote_over", 1: "no_store_to_vote_over"})
    assert [rank.words for rank in done.ranks] == [("unrecorded", "vote_unavailable")] * 2
    assert [rank.runs for rank in done.ranks] == [STOCK_RUNS] * 2
    assert _entries(disks) == _entries(sound.disks)


@pytest.mark.parametrize("fault", [STOPS[0], *(pytest.param(each, marks=full) for each in STOPS[1:])])
def test_a_rank_that_stops_is_noticed(ranks: live.Engine, sound: Sound, disks: Path, fault: str) -> None:
    """A rank that is killed, or stops because the others wait in a collective that it cannot join, ends the engine as
    a dead rank does without warmcurve; the next boot is warm.
    """
    with pytest.raises(live.Failed) as failed:
        ranks.recalibrate(disks, {1: fault}, vote_timeout_s=SHORT_S)
    assert "no answer within" not in str(failed.value)
    reports = sorted((disks / "rank1").rglob("reports/*.json"))
    last = [json.loads(path.read_bytes())["reason"] for path in reports][-1:]
    assert (last == ["vote_lost"]) == (fault != "killed_at_the_sentinels")
    again = ranks.recalibrate(disks)
    assert [rank.words for rank in again.ranks] == [REUSED] * 2
    assert again.tokens == sound.cold.tokens
