"""The adapter's edge: whatever is raised in our code, vLLM boots, serves, and the report names the step."""

from typing import Any

import engine
import pytest

from tests.vllm.booting import STOCK_RUNS, TOKENS, Booted, Machine

pytestmark = pytest.mark.usefixtures("runner")


class Unforeseen(Exception):
    """An error that no room of warmcurve knows."""


def _raise(*args: Any, **kwargs: Any) -> Any:
    raise Unforeseen("planted")


STEPS = {
    "fingerprint": "warmcurve.vllm.factors.declared.read",
    "get": "warmcurve.storage.store.DirectoryStore.get",
    "decode": "warmcurve.storage.entry.decode",
    "sentinel": "warmcurve.curves.sentinel.judge",
}


@pytest.mark.parametrize("step", STEPS)
def test_an_error_before_the_calibration(
    warm: Machine, recorded: Booted, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error on the way to a hit: vLLM runs its own calibration in full, and the entry stays as it was."""
    monkeypatch.setattr(STEPS[step], _raise)
    booted = warm.calibrate()
    assert booted.words == ("unrecorded", "internal_error")
    assert booted.report is not None
    assert booted.report["step"] == step
    assert "Unforeseen: planted" in booted.report["detail"]
    assert booted.runs[-len(STOCK_RUNS) :] == STOCK_RUNS
    assert len(booted.runs) == len(STOCK_RUNS) + (2 if step == "sentinel" else 0)
    assert booted.report["calibration_runs"] == len(STOCK_RUNS)
    assert booted.tables == recorded.tables
    assert booted.tokens == TOKENS
    assert booted.data == recorded.data


def test_an_error_while_storing(machine: Machine, recorded: Booted, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error after the calibration: vLLM's curves are in place, nothing is stored."""
    monkeypatch.setattr("warmcurve.storage.store.DirectoryStore.put", _raise)
    booted = machine.calibrate()
    assert booted.words == ("unrecorded", "internal_error")
    assert booted.report is not None
    assert booted.report["step"] == "put"
    assert booted.runs == STOCK_RUNS
    assert booted.tables == recorded.tables
    assert booted.tokens == TOKENS
    assert machine.entries == []


def test_an_error_while_reporting(warm: Machine, recorded: Booted, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error in the report: the boot is what it was, and the log names the step."""
    monkeypatch.setattr("warmcurve.reporting.report.ReportDirectory.write", _raise)
    booted = warm.calibrate()
    assert booted.report is None
    assert booted.log[0].startswith("warmcurve: reused")
    assert "step=report" in booted.log[1]
    assert "planted" in booted.log[1]
    assert len(booted.runs) == 2
    assert booted.tables == recorded.tables


@pytest.mark.parametrize(
    "name",
    [
        "calibration.Boot",
        "around.Seam",
        "calibration.Seam.place",
        "around.calibrating_method",
        "calibration.Seam._new_boot",
        "contract.check_collector",
    ],
)
def test_an_error_before_there_is_a_boot(
    warm: Machine, recorded: Booted, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error in setting up: vLLM boots as it does without warmcurve, and the log has the error."""
    monkeypatch.setattr(f"warmcurve.vllm.seam.{name}", _raise)
    booted = warm.calibrate()
    assert booted.words == ("unrecorded", "internal_error")
    assert "Unforeseen: planted" in booted.log[0]
    assert booted.runs == STOCK_RUNS
    assert booted.tables == recorded.tables
    assert booted.tokens == TOKENS


@pytest.mark.parametrize(
    "place",
    [
        "vllm.seam.calibration.Seam._take_timings",
        "vllm.seam.calibration.Seam._install",
        "boot.path.Boot.run",
    ],
)
def test_an_error_inside_the_path(warm: Machine, recorded: Booted, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error in the seam or in the path itself: vLLM calibrates in full, and its samples are its own alone."""
    monkeypatch.setattr(f"warmcurve.{place}", _raise)
    booted = warm.calibrate()
    assert booted.words == ("unrecorded", "internal_error")
    assert booted.runs[-len(STOCK_RUNS) :] == STOCK_RUNS
    assert booted.tables == recorded.tables
    assert booted.tokens == TOKENS
    assert booted.data == recorded.data


@pytest.mark.parametrize(
    "place",
    [
        "vllm.seam.calibration.Seam._finish",
        "vllm.seam.calibration.Seam._record",
        "boot.path.Boot._report",
        "reporting.report.BootReport.log_line",
        "storage.store.DirectoryStore.describe",
    ],
)
@pytest.mark.parametrize("cold", [True, False], ids=["cold", "warm"])
def test_an_error_at_the_end(
    machine: Machine, recorded: Booted, place: str, cold: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error once curves are in place, vLLM's or the stored ones: they stay, vLLM serves, and the log tells."""
    if not cold:
        machine.lay(recorded.entry.name, recorded.data)
    monkeypatch.setattr(f"warmcurve.{place}", _raise)
    booted = machine.calibrate()
    assert len(booted.runs) == (len(STOCK_RUNS) if cold else 2)
    assert booted.tables == recorded.tables
    assert booted.tokens == TOKENS
    assert any("planted" in line for line in booted.log) or (place.endswith("_record") and not cold)


def test_a_hit_whose_report_fails_says_that_it_is_one(
    warm: Machine, recorded: Booted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error after the stored curves are in place is reported as what it is: reused, with an error at the end."""
    from warmcurve.vllm.seam.calibration import Seam

    original, calls = Seam._finish, []

    def fail_once(self: Any, report: Any) -> None:
        calls.append(report)
        if len(calls) == 1:
            raise Unforeseen("planted")
        original(self, report)

    monkeypatch.setattr(Seam, "_finish", fail_once)
    booted = warm.calibrate()
    assert booted.words == ("reused", "internal_error")
    assert len(booted.runs) == 2
    assert booted.tables == recorded.tables


def test_an_error_without_words(warm: Machine, recorded: Booted, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that raises when it is asked what it is stands in the report by its name."""

    class Wordless(Exception):
        def __str__(self) -> str:
            raise Unforeseen("planted")

    def fail(*args: Any) -> Any:
        raise Wordless

    monkeypatch.setattr("warmcurve.storage.store.DirectoryStore.get", fail)
    booted = warm.calibrate()
    assert booted.words == ("unrecorded", "internal_error")
    assert booted.report is not None
    assert booted.report["detail"].endswith("Wordless")
    assert booted.tables == recorded.tables


def test_a_device_that_cannot_be_told(warm: Machine, recorded: Booted, monkeypatch: pytest.MonkeyPatch) -> None:
    """A device that raises when it is asked what it is: a factor that is not known, so nothing loaded or stored."""
    monkeypatch.setattr("warmcurve.vllm.device.identity.Cpu.factors", _raise)
    booted = warm.calibrate()
    assert booted.words == ("unrecorded", "factor_unknown")
    assert booted.runs == STOCK_RUNS
    assert booted.data == recorded.data


def test_curves_that_vllm_refuses(warm: Machine, recorded: Booted, monkeypatch: pytest.MonkeyPatch) -> None:
    """Curves that vLLM turns down at the last moment are calibrated anew in the same boot."""
    from vllm.v1.worker.gpu.spec_decode.adaptive_verification import AdaptiveVerificationManager as Manager

    original, calls = Manager.set_cost_curves, []

    def refuse_once(self: Any, *curves: Any) -> None:
        calls.append(curves)
        if len(calls) == 1:
            raise RuntimeError("planted")
        original(self, *curves)

    monkeypatch.setattr(Manager, "set_cost_curves", refuse_once)
    booted = warm.calibrate()
    assert booted.words == ("recorded", "install_refused")
    assert booted.runs[2:] == STOCK_RUNS
    assert booted.tables == recorded.tables


@pytest.mark.parametrize(
    ("planted", "words"),
    [
        (Unforeseen("planted"), ("engine_failed", "Unforeseen: planted")),
        (SystemExit(), ("boot_interrupted", "the process is ending: SystemExit")),
        (KeyboardInterrupt(), ("boot_interrupted", "the process is ending: KeyboardInterrupt")),
    ],
)
def test_what_vllm_raises_passes_through(
    warm: Machine, planted: BaseException, words: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error that vLLM raises while it calibrates, or a signal that ends its worker, is vLLM's to raise; ours is only
    to report it.
    """
    from vllm.v1.worker.gpu.model_runner import GPUModelRunner

    original = GPUModelRunner._dummy_run

    def fail(self: Any, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("context_len"):
            raise planted
        return original(self, *args, **kwargs)

    monkeypatch.setattr(GPUModelRunner, "_dummy_run", fail)
    report = warm.fail(type(planted)).report
    assert (report["reason"], report["detail"]) == words
    assert report["outcome"] == "unrecorded"


def test_curves_that_are_not_the_medians_are_not_stored(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where vLLM plans with other curves than its samples' medians, they are used and not stored."""
    from vllm.v1.worker.gpu.spec_decode.adaptive_verification import AdaptiveVerificationManager as Manager

    original = Manager.set_initial_cost_curves
    monkeypatch.setattr(Manager, "set_initial_cost_curves", lambda self, samples: original(self, samples[:-5]))
    booted = machine.calibrate()
    assert booted.words == ("unrecorded", "calibration_invalid")
    assert machine.entries == []


def test_an_unknown_release_is_left_alone(warm: Machine, recorded: Booted, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop that is none of a known release: one clear line, and vLLM boots as it does without us."""
    from warmcurve.vllm import releases

    other = {release: (*digests[:2], "0" * 16) for release, digests in releases.KNOWN.items()}
    monkeypatch.setattr(releases, "KNOWN", other)
    booted = warm.calibrate()
    assert booted.words == ("unrecorded", "engine_unknown")
    (line,) = booted.log
    assert line.partition("vllm ")[2].startswith(engine.release())
    assert "new: the loop in GPUModelRunner." in line
    assert "a trial of what it calls passed, so please report this line" in line
    assert "async_utils" not in line
    assert booted.runs == STOCK_RUNS
    assert booted.tables == recorded.tables
    assert booted.data == recorded.data


@pytest.mark.parametrize("value", ["much", "-1", "nan", "1.5"])
def test_a_setting_that_cannot_be_understood(warm: Machine, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A setting with a bad value: warmcurve stands aside and names the variable and what it takes."""
    monkeypatch.setenv("WARMCURVE_MAX_REGRET", value)
    booted = warm.calibrate()
    (line,) = booted.log
    assert "reason=settings_invalid" in line
    assert "WARMCURVE_MAX_REGRET" in line
    assert "from 0 to 1" in line
    assert booted.runs == STOCK_RUNS


def test_a_model_that_cannot_be_identified(warm: Machine, recorded: Booted, monkeypatch: pytest.MonkeyPatch) -> None:
    """A required factor that cannot be read: neither loaded nor stored, and the report names it."""
    from warmcurve.errors import FactorError
    from warmcurve.outcome import Reason
    from warmcurve.vllm.weights import models

    def unknown(model: object, load: object, reading: object) -> object:
        raise FactorError(Reason.FACTOR_UNKNOWN, "target.model.weights", "planted")

    monkeypatch.setattr(models, "_weights", unknown)
    booted = warm.calibrate()
    assert booted.words == ("unrecorded", "factor_unknown")
    assert booted.report is not None
    assert "target.model.weights" in booted.report["detail"]
    assert booted.runs == STOCK_RUNS
    assert booted.data == recorded.data


def test_the_memory_profilers_pass_is_left_alone(
    machine: Machine, runner: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pass with a throw-away manager, as of vLLM's memory profiler, is neither warmed nor recorded."""
    first = machine.calibrate().entry
    before = first.stat().st_mtime_ns
    monkeypatch.setattr(runner, "_warmcurve_profiling", True, raising=False)
    thrown_away = machine.calibrate()
    assert thrown_away.report is None
    assert thrown_away.runs == STOCK_RUNS
    assert first.stat().st_mtime_ns == before
    assert len(list((machine.store / "reports").iterdir())) == 1


def test_nothing_of_vllms_stays_changed(warm: Machine, runner: Any) -> None:
    """After the boot the manager's methods are vLLM's own again."""
    warm.calibrate()
    assert not vars(runner.adaptive_verification).keys() & {
        *("batches_to_profile", "set_initial_cost_curves", "set_cost_curves")
    }
