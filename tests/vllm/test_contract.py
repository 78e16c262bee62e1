"""The contract is tried on vLLM's live objects before the first sentinel: another plugin may have wrapped them."""

from typing import Any

import pytest

from tests.vllm.booting import STOCK_RUNS, TOKENS, Booted, Machine


def test_batches_in_another_order_are_left_alone(
    warm: Machine, runner: Any, recorded: Booted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a plugin has vLLM time its batches in another order: no sentinel, vLLM's calibration, one clear line."""
    from vllm.v1.worker.gpu.spec_decode.adaptive_verification import AdaptiveVerificationManager as Manager

    original = Manager.batches_to_profile

    def reverse(self: Any, sizes: list[int]) -> Any:
        yield from list(original(self, sizes))[::-1]

    monkeypatch.setattr(Manager, "batches_to_profile", reverse)
    booted = warm.calibrate()
    assert booted.words == ("unrecorded", "engine_unknown")
    assert booted.report is not None
    assert "the batches to profile have" in booted.report["detail"]
    assert booted.runs == STOCK_RUNS[::-1]
    assert booted.tables == recorded.tables
    assert booted.tokens == TOKENS
    assert booted.data == recorded.data
