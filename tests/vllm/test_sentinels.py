"""What the two replays of a warm boot find, on the real engine."""

from typing import Any

import pytest
import scripted

from tests.vllm.booting import CAPTURED, STOCK_RUNS, Booted, Machine, scaled, tampered
from tests.vllm.running import draft_ms, verify_ms

pytestmark = pytest.mark.usefixtures("runner")


def test_a_common_factor_does_not_matter(warm: Machine, recorded: Booted) -> None:
    """Stored costs all 1.5 times too dear plan the same, so they are reused; the report says 1.5."""
    warm.lay(recorded.entry.name, tampered(recorded.data, scaled(1.5)))
    booted = warm.calibrate()
    assert booted.words == ("reused", None)
    assert booted.report is not None
    assert booted.report["evidence"]["scale"] == pytest.approx(1.5)
    assert booted.report["evidence"]["loss_bound"] == pytest.approx(0, abs=1e-6)


def test_a_common_factor_beyond_the_limit_is_rejected(warm: Machine, recorded: Booted) -> None:
    """Stored costs all 3 times too dear are beyond the limit: calibrated in the same boot, and replaced."""
    warm.lay(recorded.entry.name, tampered(recorded.data, scaled(3)))
    booted = warm.calibrate()
    assert booted.words == ("recorded", "sentinel_scale")
    assert booted.runs[2:] == STOCK_RUNS
    assert booted.tables == recorded.tables
    assert booted.report is not None
    assert booted.report["evidence"]["scale"] == pytest.approx(3)
    assert warm.calibrate().words == ("reused", None)


def test_a_moved_shape_is_rejected_after_medians(warm: Machine, recorded: Booted) -> None:
    """A target that became dearer at the largest graph alone is replayed for medians, then calibrated anew."""
    warm.costs = scripted.CostModel(
        lambda tokens, full: verify_ms(tokens, full) * (1.6 if tokens == 16 else 1), draft_ms
    )
    booted = warm.calibrate()
    assert booted.words == ("recorded", "sentinel_shape")
    assert len(booted.runs) == 6 + len(STOCK_RUNS)
    assert booted.runs[6:] == STOCK_RUNS
    assert booted.tables != recorded.tables
    assert warm.calibrate().tables == booted.tables


def test_a_passing_disturbance_is_outvoted(warm: Machine, recorded: Booted) -> None:
    """One slow replay, as of a cold clock, does not cost the entry: of two rounds the faster replay counts."""
    steps = iter([8.0])
    warm.costs = scripted.CostModel(lambda tokens, full: verify_ms(tokens, full) * next(steps, 1.0), draft_ms)
    booted = warm.calibrate()
    assert booted.words == ("reused", None)
    assert len(booted.runs) == 4
    assert booted.tables == recorded.tables


def test_a_sweep_replays_every_graph(warm: Machine, recorded: Booted, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each captured size once, the largest first; one graph that moved, wherever it is, is found and told."""
    monkeypatch.setenv("WARMCURVE_SENTINELS", "sweep")
    booted = warm.calibrate()
    assert booted.words == ("reused", None)
    assert booted.runs == CAPTURED[::-1]
    assert booted.tables == recorded.tables
    assert booted.tokens == recorded.tokens
    warm.costs = scripted.CostModel(
        lambda tokens, full: verify_ms(tokens, full) * (1.6 if tokens == CAPTURED[1] else 1), draft_ms
    )
    monkeypatch.setenv("WARMCURVE_ADMIT_BEND", "9")
    booted = warm.calibrate()
    assert booted.words == ("recorded", "sentinel_shape")
    assert booted.runs == CAPTURED[::-1] * 3 + STOCK_RUNS
    assert booted.report is not None
    assert f"verify of {CAPTURED[1]} tokens became 1.6× dearer, the rest did not" in booted.report["detail"]


def test_the_tail_runs_once_on_a_hit(warm: Machine, recorded: Booted, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the sentinels each size of the eager tail runs once, which warms up its kernels, and none is off the grid;
    a tail that became dearer, which no sentinel sees, is found.
    """
    monkeypatch.setenv("WARMCURVE_TAIL", "once")
    booted = warm.calibrate()
    assert booted.words == ("reused", None)
    assert booted.runs[0] == CAPTURED[-1]
    assert booted.runs[2:] == recorded.runs[len(CAPTURED) * 5 :: 5]
    assert booted.tables == recorded.tables
    assert booted.tokens == recorded.tokens
    warm.costs = scripted.CostModel(lambda tokens, full: verify_ms(tokens, full) * (1 if full else 1.6), draft_ms)
    booted = warm.calibrate()
    assert booted.words == ("recorded", "sentinel_shape")
    assert booted.runs[-len(STOCK_RUNS) :] == STOCK_RUNS
    assert warm.calibrate().words == ("reused", None)


def test_a_calibration_that_compiled_is_not_stored(machine: Machine) -> None:
    """A first replay of a graph that takes many times what the others take is told, and nothing is stored."""
    steps = iter([40.0])
    machine.costs = scripted.CostModel(lambda tokens, full: verify_ms(tokens, full) * next(steps, 1.0), draft_ms)
    booted = machine.calibrate()
    assert booted.words == ("unrecorded", "calibration_cold")
    assert booted.runs == STOCK_RUNS
    assert machine.entries == []
    assert machine.calibrate().words == ("recorded", None)


def _seen_as(**changes: Any) -> Any:
    """vLLM's collector, to which the first timed step looks like another one."""
    from vllm.v1.worker.gpu.async_utils import StepTimingCollector

    original = StepTimingCollector.record_batch
    left = [1]

    def record_batch(self: Any, input_batch: Any, full_cudagraph: bool) -> None:
        original(self, input_batch, full_cudagraph)
        if self._collecting and left:
            left.pop()
            full, tokens, requests = self._batch
            self._batch = (
                changes.get("full", full),
                tokens + changes.get("tokens", 0),
                requests + changes.get("requests", 0),
            )

    return record_batch


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"full": False}, "sentinel_not_full_graph"),
        ({"tokens": -1}, "sentinel_off_grid"),
        ({"requests": 1}, "sentinel_off_grid"),
    ],
)
def test_a_sentinel_that_is_no_replay_of_a_stored_point(
    warm: Machine, recorded: Booted, changes: dict[str, Any], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sentinel that ran eagerly, or with other tokens or requests than stored, proves nothing: calibrated."""
    from vllm.v1.worker.gpu.async_utils import StepTimingCollector

    monkeypatch.setattr(StepTimingCollector, "record_batch", _seen_as(**changes))
    booted = warm.calibrate()
    assert booted.words == ("recorded", reason)
    assert booted.runs[2:] == STOCK_RUNS
    assert booted.tables == recorded.tables
