"""Ranks of a running engine that calibrate together, one of them with a fault."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.vllm import live
from tests.vllm.booting import STOCK_RUNS, TOKENS

pytestmark = pytest.mark.timeout(1200)

ALIKE = ("unrecorded", "several_ranks")
# What the second rank reports, by its fault; the first one is always one of several.
FAULTY = {
    "late": ALIKE,
    "other_version": ALIKE,
    "unforeseen_in_the_path": ("unrecorded", "internal_error"),
    "unforeseen_before_the_boot": ("unrecorded", "internal_error"),
    "unknown_release": ("unrecorded", "engine_unknown"),
    "without_the_plugin": None,
}


@pytest.fixture(scope="module", params=["TENSOR_PARALLEL", "EXPERTS_DATA_PARALLEL"])
def ranks(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[live.Engine]:
    """An engine of two ranks, booted once."""
    with live.Engine(getattr(live, request.param), tmp_path_factory.mktemp("live")) as engine:
        yield engine


@pytest.fixture(scope="module")
def sound(ranks: live.Engine, tmp_path_factory: pytest.TempPathFactory) -> live.Recalibrated:
    """A calibration without a fault."""
    return ranks.recalibrate(tmp_path_factory.mktemp("sound"))


def test_ranks_stand_down_together(ranks: live.Engine, sound: live.Recalibrated) -> None:
    """Two ranks calibrate in full, plan with one set of tables, and generate what one rank generates."""
    assert [rank.words for rank in sound.ranks] == [ALIKE, ALIKE]
    assert [rank.runs for rank in sound.ranks] == [STOCK_RUNS, STOCK_RUNS]
    assert sound.ranks[0].tables == sound.ranks[1].tables
    if ranks.settings is live.TENSOR_PARALLEL:
        assert sound.tokens == TOKENS


@pytest.mark.parametrize("fault", FAULTY)
def test_a_rank_with_a_fault(ranks: live.Engine, sound: live.Recalibrated, fault: str, tmp_path: Path) -> None:
    """Whatever one rank meets, both run vLLM's own runs, plan with the same tables and generate the same tokens."""
    faulty = ranks.recalibrate(tmp_path, {1: fault})
    assert [rank.runs for rank in faulty.ranks] == [STOCK_RUNS, STOCK_RUNS]
    assert [rank.tables for rank in faulty.ranks] == [rank.tables for rank in sound.ranks]
    assert faulty.tokens == sound.tokens
    assert faulty.ranks[0].words == ALIKE
    if FAULTY[fault] is None:
        assert faulty.ranks[1].report is None
    else:
        assert faulty.ranks[1].words == FAULTY[fault]


def test_a_rank_that_dies_is_noticed(ranks: live.Engine, sound: live.Recalibrated, tmp_path: Path) -> None:
    """A rank that is killed ends the engine, which the next calibration boots anew."""
    with pytest.raises(live.Failed):
        ranks.recalibrate(tmp_path, {1: "killed_before_the_runs"})
    assert ranks.recalibrate(tmp_path).tokens == sound.tokens
