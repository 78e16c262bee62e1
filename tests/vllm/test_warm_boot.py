"""The main promise, on the real engine: the second boot skips the calibration and plans with the same curves.

`make test-releases` runs this file on every supported release.
"""

from collections.abc import Iterator

import engine
import pytest

from tests.vllm.booting import STOCK_RUNS, TOKENS, Booted, Machine, scaled, tampered
from warmcurve.storage.entry import decode


def test_the_first_boot_runs_what_stock_vllm_runs_and_records(recorded: Booted) -> None:
    """A cold boot runs exactly vLLM's own dummy runs, in its order, and its curves are stored."""
    assert recorded.runs == STOCK_RUNS
    assert recorded.words == ("recorded", None)
    assert recorded.report is not None
    assert recorded.report["calibration_runs"] == len(STOCK_RUNS)
    assert recorded.report["sentinel_runs"] == 0
    assert recorded.entry.name == f"{recorded.report['digest']}.jsonl"


def test_the_next_boot_runs_two_sentinels_and_reuses(warm: Machine, recorded: Booted) -> None:
    """A warm boot of a new engine runs exactly 2 replays; its tables are bit-identical, and so are its tokens."""
    booted = warm.boot()
    assert booted.words == ("reused", None)
    assert len(booted.runs) == 2
    assert booted.runs[0] == max(engine.ENGINE["compilation_config"]["cudagraph_capture_sizes"])
    assert booted.report is not None
    assert (booted.report["calibration_runs"], booted.report["sentinel_runs"]) == (0, 2)
    assert recorded.report is not None
    assert booted.report["digest"] == recorded.report["digest"]
    assert booted.tables == recorded.tables
    assert booted.tokens == recorded.tokens == TOKENS
    assert booted.data == recorded.data


def test_without_the_plugin_vllm_does_the_same(machine: Machine, recorded: Booted, unhooked: None) -> None:
    """A boot without warmcurve runs the same dummy runs, builds the same tables, and generates the same tokens."""
    booted = machine.boot()
    assert booted.report is None
    assert booted.runs == STOCK_RUNS
    assert booted.tables == recorded.tables
    assert booted.tokens == TOKENS


def test_a_moved_cost_is_found_and_replaced(warm: Machine, recorded: Booted) -> None:
    """Stored costs three times too dear at a size that every boot checks: rejected, calibrated at once, replaced."""
    warm.lay(recorded.entry.name, tampered(recorded.data, scaled(3, only=16)))
    booted = warm.boot()
    assert booted.words == ("recorded", "sentinel_scale")
    assert booted.runs[2:] == STOCK_RUNS
    assert booted.tables == recorded.tables
    again = warm.boot()
    assert again.words == ("reused", None)
    assert again.tables == recorded.tables


def test_a_damaged_entry_is_replaced(warm: Machine, recorded: Booted) -> None:
    """A boot that meets a damaged entry calibrates, serves, and replaces it (test_damage.py has every kind)."""
    warm.lay(recorded.entry.name, recorded.data[: len(recorded.data) // 2])
    booted = warm.boot()
    assert booted.words == ("recorded", "entry_truncated")
    assert booted.runs == STOCK_RUNS
    assert booted.tables == recorded.tables
    assert booted.tokens == TOKENS
    assert decode(booted.data).profile == decode(recorded.data).profile


def test_an_error_of_ours_does_not_reach_vllm(warm: Machine, recorded: Booted, monkeypatch: pytest.MonkeyPatch) -> None:
    """A boot in which our code raises what nobody foresaw calibrates and serves (test_edge.py has every step)."""

    def fail(*args: object, **kwargs: object) -> None:
        raise ArithmeticError("planted")

    monkeypatch.setattr("warmcurve.curves.sentinel.judge", fail)
    booted = warm.boot()
    assert booted.words == ("unrecorded", "internal_error")
    assert booted.runs[2:] == STOCK_RUNS
    assert booted.tables == recorded.tables
    assert booted.tokens == TOKENS
    assert booted.data == recorded.data


@pytest.fixture
def unhooked() -> Iterator[None]:
    """vLLM's runner as it is without the plugin."""
    from vllm.v1.worker.gpu.model_runner import GPUModelRunner

    hooked = {name: method for name, method in vars(GPUModelRunner).items() if hasattr(method, "warmcurve")}
    for name, method in hooked.items():
        setattr(GPUModelRunner, name, method.__wrapped__)
    yield
    for name, method in hooked.items():
        setattr(GPUModelRunner, name, method)
