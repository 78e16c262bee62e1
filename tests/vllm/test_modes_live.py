"""Modes of two ranks: alike on both they end alike, and where one alone requires curves the engine ends in time."""

import json
import shutil
from pathlib import Path

import pytest

from tests.vllm import live
from tests.vllm.booting import STOCK_RUNS, TOKENS
from tests.vllm.test_live import REUSED, SENTINELS, Sound, _entries

pytestmark = pytest.mark.timeout(1200)


@pytest.fixture(scope="module")
def sound(tensor_parallel: live.Engine, tmp_path_factory: pytest.TempPathFactory) -> Sound:
    """What two ranks recorded in the mode `record`, and their disks."""
    disks = tmp_path_factory.mktemp("sound")
    return Sound(disks, tensor_parallel.recalibrate(disks, {0: "mode_record", 1: "mode_record"}))


@pytest.fixture
def disks(sound: Sound, tmp_path: Path) -> Path:
    """A copy of the disks on which the leader has an entry."""
    return Path(shutil.copytree(sound.disks, tmp_path / "disks"))


def test_record_on_both(tensor_parallel: live.Engine, sound: Sound, disks: Path) -> None:
    """The leader's disk alone has the entry, which a second recording replaces without looking at it."""
    for recorded in (sound.cold, tensor_parallel.recalibrate(disks, {0: "mode_record", 1: "mode_record"})):
        assert [rank.words for rank in recorded.ranks] == [("recorded", None)] * 2
        assert [rank.runs for rank in recorded.ranks] == [STOCK_RUNS] * 2
        assert [rank.report and rank.report["missed"] for rank in recorded.ranks] == ["mode_record"] * 2
        assert recorded.tokens == TOKENS
    assert [path.parts[0] for path in _entries(disks)] == ["rank0"]


def test_require_on_both_with_an_entry(tensor_parallel: live.Engine, sound: Sound, disks: Path) -> None:
    """Both go on with the leader's entry."""
    warm = tensor_parallel.recalibrate(disks, {0: "mode_require", 1: "mode_require"})
    assert [rank.words for rank in warm.ranks] == [REUSED] * 2
    assert [rank.report and rank.report["mode"] for rank in warm.ranks] == ["require"] * 2
    assert [len(rank.runs) for rank in warm.ranks] == [SENTINELS] * 2
    assert [rank.tables for rank in warm.ranks] == [sound.cold.ranks[0].tables] * 2
    assert warm.tokens == TOKENS


def test_verify_on_both(tensor_parallel: live.Engine, sound: Sound, disks: Path) -> None:
    """Both calibrate and plan with fresh curves; the leader's report compares them, and no disk is changed."""
    before = _entries(disks)
    done = tensor_parallel.recalibrate(disks, {0: "mode_verify", 1: "mode_verify"})
    assert [rank.words for rank in done.ranks] == [("unrecorded", "mode_verify")] * 2
    assert [rank.runs for rank in done.ranks] == [STOCK_RUNS] * 2
    assert [rank.tables for rank in done.ranks] == [sound.cold.ranks[0].tables] * 2
    assert done.tokens == TOKENS
    assert _entries(disks) == before
    leader, follower = (rank.report for rank in done.ranks)
    assert leader is not None
    assert follower is not None
    assert leader["detail"] == follower["detail"] == "the stored curves hold"
    assert (leader["regret"]["stored_worst"], leader["regret"]["fresh_worst"]) == (0, 0)
    assert [reading["tokens"] for reading in leader["evidence"]["readings"]] == [1, 2, 4, 8, 16]
    assert (follower["regret"], follower["evidence"]) == (None, None)


@pytest.mark.full
def test_require_on_one_alone(tensor_parallel: live.Engine, disks: Path) -> None:
    """The ranks differ, so the leader calibrates: the other one stops, and the engine ends instead of hanging."""
    before, printed = _entries(disks), len(tensor_parallel.printed)
    with pytest.raises(live.Failed) as failed:
        tensor_parallel.recalibrate(disks, {1: "mode_require"})
    assert "no answer within" not in str(failed.value)
    assert "warmcurve: curves_required: WARMCURVE_MODE=require" in tensor_parallel.printed[printed:]
    last = json.loads(max((disks / "rank1").rglob("reports/*.json")).read_bytes())
    assert (last["reason"], last["missed"]) == ("curves_required", "ranks_differ")
    assert "settings mode" in last["detail"]
    assert last["calibration_runs"] == 0
    assert _entries(disks) == before
