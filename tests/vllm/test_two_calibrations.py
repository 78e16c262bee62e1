"""From 0.34 on vLLM may calibrate twice in one boot: in its capture, and again once an extensible KV cache has grown.

Such a cache needs CUDA's virtual memory. Here a stand-in says how many of its blocks are committed, and vLLM's own
worker asks for the second calibration.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scripted

from tests.vllm.booting import STOCK_RUNS, Machine
from tests.vllm.planted import without_the_plugin
from tests.vllm.running import draft_ms, shared, verify_ms
from warmcurve.errors import CurvesRequired
from warmcurve.storage.fingerprint import diff


class Extensible:
    """In place of vLLM's `ExtensibleKVCache`. While vLLM captures, its four dummy requests share one block."""

    def __init__(self) -> None:
        self.num_committed_blocks = 1


@dataclass
class Calibrated:
    """What one calibration did: the token counts of its runs, its reports, the tables that vLLM planned with then."""

    runs: list[int]
    reports: list[dict[str, Any]]
    tables: tuple[list[float], list[float]]

    @property
    def words(self) -> tuple[str, str | None]:
        (report,) = self.reports
        return report["outcome"], report["reason"]


class Growing:
    """A machine whose KV cache is extensible, and the runner of its engine."""

    def __init__(self, machine: Machine, runner: Any, patch: pytest.MonkeyPatch) -> None:
        self._machine = machine
        self._runner = runner
        self._patch = patch
        self._seen: set[Path] = set()
        self.store = machine.store

    @property
    def entries(self) -> dict[str, Path]:
        """By digest."""
        return {path.stem: path for path in self._machine.entries}

    def boot(self) -> list[Calibrated]:
        """What vLLM's two calibrations do: reads of the small cache cost a third of those of the whole."""
        cached = scripted.CostModel(lambda tokens, full: verify_ms(tokens, full) / 3, draft_ms)
        self._patch.setattr(self._runner, "extensible_kv_cache", Extensible())
        with scripted.clock(cached) as clock:
            shared.calibrate()
            done = [self._calibrated(self._runner, clock)]
            clock.model = scripted.CostModel(verify_ms, draft_ms)
            extend(self._runner)
            done.append(self._calibrated(self._runner, clock))
        return done

    def _calibrated(self, runner: Any, clock: Any) -> Calibrated:
        runs, clock.steps[:] = [tokens for tokens, _, _ in clock.steps], []
        paths = sorted(set((self.store / "reports").glob("*.json")) - self._seen)
        self._seen.update(paths)
        draft, verify = (np.asarray(table).tolist() for table in runner.adaptive_verification.cost_tables)
        return Calibrated(runs, [json.loads(path.read_bytes()) for path in paths], (draft, verify))


def extend(runner: Any) -> None:
    """What the worker does once the engine knows the final size; only the committing of memory is left out."""
    from vllm.v1.worker import gpu_worker

    def commit(runner: Any, config: Any, num_blocks: int) -> None:
        runner.extensible_kv_cache.num_committed_blocks = num_blocks

    worker = SimpleNamespace(model_runner=runner, _kv_cache_config=None, cache_config=SimpleNamespace())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gpu_worker, "extend_kv_cache", commit)
        gpu_worker.Worker.extend_kv_cache(worker, runner.kv_cache_config.num_blocks)


@pytest.fixture
def growing(machine: Machine, runner: Any, monkeypatch: pytest.MonkeyPatch) -> Growing:
    """Skips the tests on a vLLM that calibrates once."""
    if not hasattr(runner, "profile_adaptive_verification"):
        pytest.skip("this release calibrates once")
    return Growing(machine, runner, monkeypatch)


def test_each_has_its_own_entry_and_both_are_warm(growing: Growing, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cold, each is recorded under factors that say against which cache it ran. Warm, each runs two sentinels and plans
    with its own curves, bit-equal to those of vLLM without warmcurve.
    """
    cold = growing.boot()
    assert [each.words for each in cold] == [("recorded", None)] * 2
    assert [each.runs for each in cold] == [STOCK_RUNS] * 2
    first, second = (each.reports[0] for each in cold)
    assert growing.entries.keys() == {first["digest"], second["digest"]}
    differences = {each.factor for each in diff(first["factors"], second["factors"])}
    assert differences == {"kv.sharing", "profile.during_capture"}
    assert [report["factors"]["kv"]["sharing"] for report in (first, second)] == [[4], [1]]
    with monkeypatch.context() as patch:
        without_the_plugin(patch)
        stock = growing.boot()
    assert [each.reports for each in stock] == [[], []]
    warm = growing.boot()
    assert [each.words for each in warm] == [("reused", None)] * 2
    assert [len(each.runs) for each in warm] == [2, 2]
    assert [each.reports[0]["digest"] for each in warm] == [first["digest"], second["digest"]]
    assert [each.tables for each in stock] == [each.tables for each in cold] == [each.tables for each in warm]
    assert stock[0].tables != stock[1].tables


@pytest.mark.parametrize("gone", [0, 1], ids=["the first", "the second"])
def test_neither_is_handed_the_others_curves(growing: Growing, gone: int) -> None:
    """Where one entry is missing its calibration runs in full, and the other one is warm."""
    cold = growing.boot()
    growing.entries[cold[gone].reports[0]["digest"]].unlink()
    again = growing.boot()
    assert again[gone].words == ("recorded", None)
    assert again[gone].runs == STOCK_RUNS
    assert again[1 - gone].words == ("reused", None)
    assert [each.tables for each in again] == [each.tables for each in cold]


def test_where_curves_are_required_each_must_be_stored(growing: Growing, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the mode `require` the second calibration stops the boot like the first."""
    cold = growing.boot()
    monkeypatch.setenv("WARMCURVE_MODE", "require")
    assert [each.words for each in growing.boot()] == [("reused", None)] * 2
    growing.entries[cold[1].reports[0]["digest"]].unlink()
    with pytest.raises(CurvesRequired, match="absent"):
        growing.boot()
