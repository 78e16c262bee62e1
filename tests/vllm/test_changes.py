"""One thing changed: another digest, so a full calibration under a name of its own; the first entry stays."""

from pathlib import Path
from typing import Any

import engine
import pytest

from tests.vllm.booting import Booted, Machine
from warmcurve.curves.calibration import plan


def speculative(**changes: Any) -> dict[str, Any]:
    return {"speculative_config": engine.SPECULATIVE | changes}


def graphs(*sizes: int) -> dict[str, Any]:
    return {"compilation_config": engine.ENGINE["compilation_config"] | {"cudagraph_capture_sizes": list(sizes)}}


DRAFT = "another draft of the same class"
CHANGES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "K": (speculative(num_speculative_tokens=2), ["speculation.draft_tokens"]),
    "max_num_seqs": ({"max_num_seqs": 3}, ["scheduler.max_requests"]),
    "captured sizes": (graphs(1, 2, 4, 8), ["plan.captured"]),
    "token budget": ({"max_num_batched_tokens": 48}, ["scheduler.max_tokens"]),
    DRAFT: (
        speculative(model=str(engine.MODELS / "draft-wide")),
        ["draft.model.weights.digest"],
    ),
    "profile context length": ({}, ["profile.context_len"]),
}


# One in the plan and one in the weights; each factor is changed in test_factors.py, on an engine that runs.
CASES = [name if name in {"captured sizes", DRAFT} else pytest.param(name, marks=pytest.mark.full) for name in CHANGES]


@pytest.mark.parametrize("change", CASES)
def test_a_change_is_a_miss(warm: Machine, recorded: Booted, change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A changed configuration calibrates with its own runs and is stored beside the first, whose entry stays."""
    overrides, changed = CHANGES[change]
    if change == "profile context length":
        monkeypatch.setenv("VLLM_ADAPTIVE_VERIFICATION_PROFILE_CONTEXT_LEN", "64")
    booted = warm.boot(**overrides)
    assert booted.words == ("recorded", None)
    assert booted.report is not None
    assert booted.report["missed"] == "absent"
    captured = booted.report["factors"]["plan"]["captured"]
    assert booted.runs == list(plan(captured, overrides.get("max_num_batched_tokens", 64)).runs)
    assert len(warm.entries) == 2
    assert (warm.store / "v1" / recorded.entry.name).read_bytes() == recorded.data

    from warmcurve.storage.entry import decode
    from warmcurve.storage.fingerprint import diff

    names = {difference.factor for difference in diff(decode(recorded.data).factors, booted.report["factors"])}
    assert names >= set(changed)
    assert warm.boot(**overrides).words == ("reused", None)


def test_another_place_is_the_same(warm: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The working directory, a port or an address, a log level do not matter."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VLLM_LOGGING_LEVEL", "INFO")
    monkeypatch.setenv("VLLM_PORT", "23456")
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    assert warm.boot().words == ("reused", None)


def test_a_variable_that_nobody_reviewed_counts_and_is_named(
    warm: Machine, runner: Any, recorded: Booted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A variable of a newer vLLM: another digest, the nearest entry differs in it alone, and the report names it."""
    monkeypatch.setenv("VLLM_OF_A_LATER_RELEASE", "1")
    booted = warm.calibrate()
    assert booted.words == ("recorded", None)
    assert booted.report is not None
    assert booted.report["unreviewed"] == ["runtime.environment.VLLM_OF_A_LATER_RELEASE"]
    nearest = f'nearest {recorded.entry.name[:12]}: runtime.environment.VLLM_OF_A_LATER_RELEASE absent -> "1"'
    assert booted.report["detail"] == f"looked in {warm.store / 'v1'}; {nearest}"
