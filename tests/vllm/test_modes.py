"""What a boot of the real engine does with stored curves is a mode, and what became of them before is remembered."""

import json
import logging
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import scripted

from tests.vllm.booting import STOCK_RUNS, TOKENS, Booted, Failed, Machine, scaled, tampered
from tests.vllm.running import draft_ms, verify_ms
from tests.vllm.test_damage import flipped
from tests.vllm.test_edge import STEPS, _raise
from warmcurve.errors import CurvesRequired

pytestmark = pytest.mark.usefixtures("runner")

NAMES = ("batches_to_profile", "set_initial_cost_curves", "set_cost_curves")
DEARER = scripted.CostModel(lambda n, full: verify_ms(n, full) * (1.5 if n == 16 else 1), draft_ms)
"""Of one size, which every boot replays: what the shape limit finds."""

Change = Callable[[Machine, Booted, pytest.MonkeyPatch], object]


@pytest.fixture
def level() -> Iterator[list[int]]:
    """The levels of warmcurve's lines in vLLM's log."""
    levels: list[int] = []
    handler = logging.Handler()
    handler.emit = lambda record: levels.append(record.levelno)  # type: ignore[method-assign]
    logger = logging.getLogger("vllm.warmcurve")
    logger.addHandler(handler)
    yield levels
    logger.removeHandler(handler)


@pytest.fixture
def mode(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Sets the mode of the boots that follow."""
    return lambda name: monkeypatch.setenv("WARMCURVE_MODE", name)


def test_off_where_the_hook_is_set_already(warm: Machine, recorded: Booted, mode: Any, level: list[int]) -> None:
    """Switched off after vLLM loaded its plugins: it boots as it does without warmcurve, and the report says so."""
    mode("off")
    booted = warm.calibrate()
    assert booted.words == ("unrecorded", "switched_off")
    assert booted.runs == STOCK_RUNS
    assert booted.tokens == TOKENS
    assert booted.data == recorded.data
    assert level == [logging.INFO]


def test_record_calibrates_and_replaces(warm: Machine, recorded: Booted, mode: Any) -> None:
    """A stored entry is not looked at, not even one that is damaged: vLLM's own curves take its place."""
    warm.lay(recorded.entry.name, flipped(recorded.data))
    mode("record")
    booted = warm.calibrate()
    assert booted.words == ("recorded", None)
    assert booted.report is not None
    assert (booted.report["mode"], booted.report["missed"]) == ("record", "mode_record")
    assert booted.runs == STOCK_RUNS
    assert booted.tables == recorded.tables
    assert booted.tokens == TOKENS
    assert list((warm.store / "v1").iterdir()) == [booted.entry]


def test_require_with_curves_that_hold(
    warm: Machine, recorded: Booted, mode: Any, level: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hit is a hit: two replays, the same tables, the same tokens."""
    monkeypatch.setenv("WARMCURVE_MAX_AGE", "90d")
    mode("require")
    booted = warm.calibrate()
    assert booted.words == ("reused", None)
    assert booted.report is not None
    assert booted.report["mode"] == "require"
    assert len(booted.runs) == 2
    assert booted.tables == recorded.tables
    assert booted.tokens == TOKENS
    assert booted.data == recorded.data
    assert level == [logging.INFO]


def test_verify_compares_and_stores_nothing(warm: Machine, recorded: Booted, mode: Any, level: list[int]) -> None:
    """vLLM calibrates in full and plans with fresh curves; the report tells what moved and the regret both ways."""
    mode("verify")
    warm.costs = DEARER
    booted = warm.calibrate()
    assert booted.words == ("unrecorded", "mode_verify")
    assert booted.runs == STOCK_RUNS
    assert booted.tokens == TOKENS
    assert booted.tables != recorded.tables
    assert booted.data == recorded.data
    assert list((warm.store / "v1").iterdir()) == [booted.entry]
    report = booted.report
    assert report is not None
    assert (report["mode"], report["missed"], report["sentinel_runs"]) == ("verify", "mode_verify", 0)
    assert report["detail"].startswith("the stored curves do not hold: sentinel_shape")
    assert "16 tokens became 1.5× dearer" in report["detail"]
    assert {reading["tokens"] for reading in report["evidence"]["readings"]} == {1, 2, 4, 8, 16}
    regret = report["regret"]
    assert regret["stored_worst"] > 0
    assert regret["fresh_worst"] > 0
    assert regret["drafts"] == 3
    assert level == [logging.WARNING]


def _lay(data: Callable[[bytes], bytes]) -> Change:
    return lambda machine, recorded, _: machine.lay(recorded.entry.name, data(recorded.data))


def _plant(place: str) -> Change:
    return lambda _, __, patch: patch.setattr(place, _raise)


def _set(name: str, value: str) -> Change:
    return lambda _, __, patch: patch.setenv(name, value)


def _another_release(machine: Machine, recorded: Booted, patch: pytest.MonkeyPatch) -> None:
    patch.setattr("warmcurve.vllm.releases.Calibration.releases", ())


def _refuse(machine: Machine, recorded: Booted, patch: pytest.MonkeyPatch) -> None:
    from vllm.v1.worker.gpu.spec_decode.adaptive_verification import AdaptiveVerificationManager as Manager

    patch.setattr(Manager, "set_cost_curves", _raise)


SHAPE = ("16 tokens became 3× cheaper",)
PLANTED = ("Unforeseen: planted",)
OBSTACLES: dict[str, tuple[Change, str, tuple[str, ...], int]] = {
    "no entry": (lambda machine, recorded, _: machine.entries[0].unlink(), "absent", (), 0),
    "a damaged entry": (_lay(flipped), "entry_checksum", (), 0),
    "tampered costs": (_lay(lambda data: tampered(data, scaled(3, only=16))), "sentinel_scale", SHAPE, 2),
    "an unknown release": (_another_release, "engine_unknown", ("vllm 0.", "is none of"), 0),
    "another setting": (_set("WARMCURVE_MAX_REGRET", "much"), "settings_invalid", ("WARMCURVE_MAX_REGRET",), 0),
    "an unknown device": (_plant("warmcurve.vllm.device.identity.Cpu.factors"), "factor_unknown", PLANTED, 0),
    "curves refused": (_refuse, "install_refused", PLANTED, 2),
    "at fingerprint": (_plant(STEPS["fingerprint"]), "internal_error", PLANTED, 0),
    "at get": (_plant(STEPS["get"]), "internal_error", PLANTED, 0),
    "at decode": (_plant(STEPS["decode"]), "internal_error", PLANTED, 0),
    "at sentinel": (_plant(STEPS["sentinel"]), "internal_error", PLANTED, 2),
    "at timings": (_plant("warmcurve.vllm.seam.calibration.Seam._take_timings"), "internal_error", PLANTED, 2),
    "at install": (_plant("warmcurve.vllm.seam.calibration.Seam._install"), "internal_error", PLANTED, 2),
    "in the path": (_plant("warmcurve.boot.path.Boot.run"), "internal_error", PLANTED, 0),
    "in the boot": (_plant("warmcurve.vllm.seam.calibration.Boot"), "internal_error", PLANTED, 0),
    "in the seam": (_plant("warmcurve.vllm.seam.calibration.Seam.place"), "internal_error", PLANTED, 0),
    "in the release": (_plant("warmcurve.vllm.seam.around.calibrating_method"), "internal_error", PLANTED, 0),
}


def test_require_stops_where_nothing_is_asked_for(
    warm: Machine, recorded: Booted, mode: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A vLLM that captures and times no run at all has no curves that were confirmed either."""
    from vllm.v1.worker.gpu.spec_decode.adaptive_verification import AdaptiveVerificationManager as Manager

    monkeypatch.setattr(Manager, "batches_to_profile", lambda manager, sizes: iter(()))
    monkeypatch.setattr("warmcurve.vllm.seam.calibration.Seam._batches", lambda seam, sizes: iter(()))
    monkeypatch.setattr("warmcurve.vllm.seam.calibration.Seam._initial_curves", lambda seam, samples: None)
    mode("require")
    failed = warm.fail(CurvesRequired)
    assert "vLLM asked for no run to be timed" in str(failed.error)
    assert (failed.report["reason"], failed.report["missed"]) == ("curves_required", "engine_failed")


@pytest.mark.parametrize("obstacle", OBSTACLES)
def test_require_stops_whatever_the_obstacle(
    warm: Machine, recorded: Booted, obstacle: str, mode: Any, level: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The boot fails before it calibrates; error, report and log say which mode, why, and what to do. What is stored
    stays as it is, and nothing of vLLM's stays changed.
    """
    change, missed, words, sentinels = OBSTACLES[obstacle]
    change(warm, recorded, monkeypatch)
    before = _stored(warm)
    mode(" Require ")
    failed = warm.fail(CurvesRequired)
    _told(failed, missed, words)
    assert len(failed.runs) == sentinels
    assert (failed.report["outcome"], failed.report["reason"]) == ("unrecorded", "curves_required")
    assert (failed.report["missed"], failed.report["mode"]) == (missed, "require")
    assert (failed.report["calibration_runs"], failed.report["sentinel_runs"]) == (0, sentinels)
    assert level[-1] == logging.ERROR
    assert _stored(warm) == before
    assert not vars(failed.manager).keys() & set(NAMES)
    assert failed.manager.cost_tables is None


def _told(failed: Failed, missed: str, words: tuple[str, ...]) -> None:
    said = str(failed.error)
    assert said.startswith("curves_required: WARMCURVE_MODE=require ")
    (note,) = failed.error.__notes__
    assert "WARMCURVE_MODE=reuse" in note
    line = failed.log[-1]
    assert f"mode=require reason=curves_required missed={missed}" in line
    assert line.endswith(note)
    for told in (said, line):
        assert all(word in told for word in (missed, *words))
    # What it was is in the traceback: an error of ours that nobody foresaw, and no other.
    assert (failed.error.__cause__ is not None) == (missed == "internal_error")


def _stored(machine: Machine) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in (machine.store / "v1").iterdir()}


def test_require_keeps_curves_that_are_in_place(
    warm: Machine, recorded: Booted, mode: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error after a hit does not end the boot: it has what it requires."""
    monkeypatch.setattr("warmcurve.vllm.seam.calibration.Seam._finish", _raise)
    mode("require")
    booted = warm.calibrate()
    assert len(booted.runs) == 2
    assert booted.tables == recorded.tables
    assert booted.tokens == TOKENS


def test_an_old_entry_is_replaced(warm: Machine, recorded: Booted, monkeypatch: pytest.MonkeyPatch) -> None:
    """`WARMCURVE_MAX_AGE` counts from what the entry says, not from the file's time; the new one is young."""

    def age(payload: dict[str, Any]) -> None:
        payload["conditions"]["recorded_at"] = "2020-02-02T02:02:02+00:00"

    warm.lay(recorded.entry.name, tampered(recorded.data, age))
    monkeypatch.setenv("WARMCURVE_MAX_AGE", "90d")
    booted = warm.calibrate()
    assert booted.words == ("recorded", "entry_expired")
    assert booted.runs == STOCK_RUNS
    assert booted.tables == recorded.tables
    assert json.loads(booted.data.splitlines()[1])["conditions"]["recorded_at"] > "2020-02-03"
    assert list((warm.store / "v1").iterdir()) == [booted.entry]


def _history(machine: Machine) -> dict[str, Any]:
    directory = machine.store / "history"
    (path,) = directory.iterdir()
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    history: dict[str, Any] = json.loads(path.read_bytes())
    return history


def test_an_entry_turned_down_again_and_again_is_quarantined(
    warm: Machine, recorded: Booted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no calibration is admitted that would replace it, an entry is not tried for ever, until one is."""
    monkeypatch.setenv("WARMCURVE_QUARANTINE", "2")
    # No model's cost doubles with each doubling of the size.
    monkeypatch.setenv("WARMCURVE_ADMIT_RISE", "1")
    warm.costs = DEARER
    booted = [warm.calibrate() for _ in range(3)]
    reports = [each.report or {} for each in booted]
    assert [report["missed"] for report in reports] == ["sentinel_shape"] * 2 + ["entry_quarantined"]
    assert {report["reason"] for report in reports} == {"calibration_flat"}
    assert [report["sentinel_runs"] > 0 for report in reports] == [True, True, False]
    assert [each["reason"] for each in _history(warm)["rejected"]] == ["sentinel_shape"] * 2
    assert _stored(warm) == {warm.entries[0]: recorded.data}
    monkeypatch.delenv("WARMCURVE_ADMIT_RISE")
    admitted = warm.calibrate()
    assert admitted.words == ("recorded", "entry_quarantined")
    assert admitted.runs == STOCK_RUNS
    assert admitted.data != recorded.data


def test_a_machine_that_flips_is_unstable(machine: Machine) -> None:
    """Costs that change at each boot: the third calibration that disagrees is used, and not stored."""
    usual, booted = machine.costs, []
    for machine.costs in (usual, DEARER, usual):
        booted.append(machine.calibrate())
    first, second, third = booted
    assert [each.words for each in booted[:2]] == [("recorded", None), ("recorded", "sentinel_shape")]
    assert third.words == ("unrecorded", "machine_unstable")
    assert third.report is not None
    assert third.report["missed"] == "sentinel_shape"
    assert "3 calibrations in a row disagree" in third.report["detail"]
    assert third.tables == first.tables != second.tables
    assert third.data == second.data != first.data
    assert [each["stored"] for each in _history(machine)["calibrations"]] == [True, True, False]
    assert third.tokens == TOKENS
