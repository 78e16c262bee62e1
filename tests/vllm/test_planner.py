"""The planner's budgets are vLLM's own."""

from types import SimpleNamespace

import numpy as np
import pytest
from vllm.v1.worker.gpu.spec_decode.adaptive_verification import (
    AdaptiveVerificationManager,
    build_cost_tables_from_curves,
)

from warmcurve.curves.profile import CostCurve, CostProfile
from warmcurve.planning.planner import Batch, CostTables, cost_tables, draft_budget

CASES = 3000


def _curve(random, largest) -> CostCurve:
    sizes = np.sort(random.choice(np.arange(1, largest + 1), random.integers(1, min(18, largest) + 1), replace=False))
    base = np.linspace(1, random.uniform(1, 30), len(sizes))
    costs = base * random.lognormal(0, random.choice([0.0, 0.05, 0.5]), len(sizes))
    return CostCurve(tuple(map(int, sizes)), tuple(map(float, costs)))


def _profile(random) -> CostProfile:
    verify = _curve(random, 300)
    limit = int(random.choice(verify.sizes))
    return CostProfile(verify, _curve(random, 40), limit, ())


def _manager(random, tables, batch, most) -> AdaptiveVerificationManager:
    """vLLM's scheduling half alone, over the state of requests that this batch would be."""
    requests, positions = batch.confidence.shape
    slots = random.permutation(requests + 3)[:requests]
    stale = np.ones((requests + 3, positions), np.float32)
    stale[slots] = batch.confidence
    manager = AdaptiveVerificationManager.__new__(AdaptiveVerificationManager)
    computed, prefill = np.zeros(requests + 3, np.int32), np.zeros(requests + 3, np.int32)
    prefill[slots[batch.sampling :]] = 10_000
    manager.req_states = SimpleNamespace(
        req_id_to_index={str(n): int(slot) for n, slot in enumerate(slots)},
        num_computed_tokens_np=computed,
        prefill_len=SimpleNamespace(np=prefill),
    )
    manager.num_speculative_steps, manager.num_bonus_tokens, manager._max_total_logits = positions, 1, most + requests
    manager._stale_confidences, manager._stale_idx = [SimpleNamespace(np=stale)], 0
    manager.cost_tables = tables
    return manager


def _batch(random) -> Batch:
    requests, positions = int(random.integers(1, 33)), int(random.integers(1, 9))
    confidence = random.beta(3, 1, (requests, positions)).astype(np.float32)
    if random.random() < 0.2:
        confidence = np.round(confidence, 1)
    drafts = random.integers(0, positions + 1, requests)
    return Batch(confidence, drafts, requests + int(random.integers(0, 50)), int(random.integers(0, requests + 1)))


@pytest.mark.parametrize("part", range(4))
def test_tables_and_budgets_are_vllms(part):
    """On random curves and batches, both cost tables and the number of scheduled tokens are equal to the bit."""
    random = np.random.default_rng(part)
    for _ in range(CASES // 4):
        profile, batch = _profile(random), _batch(random)
        tokens = batch.base_tokens + int(batch.drafts.sum()) + int(random.integers(0, 200))
        theirs = build_cost_tables_from_curves(
            list(profile.draft.points()), list(profile.verify.points()), 40, tokens, profile.capture_limit
        )
        ours = cost_tables(profile, 40, tokens)
        assert all(np.array_equal(mine, their) for mine, their in zip(ours, theirs, strict=True))
        most = int(random.choice(np.array([1000, random.integers(0, 30)])))
        manager = _manager(random, CostTables(*theirs), batch, most)
        names = [str(n) for n in range(len(batch.drafts))]
        extra = np.ones(len(names), int)
        extra[0] += batch.base_tokens - len(names)
        scheduled = dict(zip(names, map(int, batch.drafts + extra), strict=True))
        drafted = {name: [0] * int(n) for name, n in zip(names, batch.drafts, strict=True)}
        assert manager.get_num_tokens(scheduled, drafted) == batch.base_tokens + draft_budget(ours, batch, most)
