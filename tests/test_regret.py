"""What a wrong curve costs: the theorem behind the sentinels' verdict, over random curves, and the declared batches."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmcurve.curves.profile import CostCurve, CostProfile
from warmcurve.planning.planner import Batch, cost_tables, losses, regret
from warmcurve.planning.workload import SURVIVAL, cases, request_counts

PAIRS = 10_000


def _profile(verify: CostCurve, draft: CostCurve, limit: int) -> CostProfile:
    return CostProfile(verify, draft, limit, ())


def _scaled(curve: CostCurve, factors: list[float]) -> CostCurve:
    return CostCurve(curve.sizes, tuple(ms * f for ms, f in zip(curve.costs_ms, factors, strict=True)))


def _bound(*pairs: tuple[CostCurve, CostCurve]) -> float:
    """1 - m / M over the points of both stages."""
    ratios = [t / s for true, stored in pairs for t, s in zip(true.costs_ms, stored.costs_ms, strict=True)]
    return 1 - min(ratios) / max(ratios)


def _random_curve(random: np.random.Generator, last: int) -> CostCurve:
    """Any costs, falling ones too, up to this size."""
    inner = random.choice(np.arange(1, last), size=min(int(random.integers(0, 9)), last - 1), replace=False)
    sizes = (*sorted(int(size) for size in inner), last)
    return CostCurve(sizes, tuple(np.exp(random.normal(0, random.uniform(0, 2), len(sizes))).tolist()))


def test_the_bound_holds_over_ten_thousand_random_pairs():
    """Realised throughput >= (m / M) x best, for any two curves of the same sizes and any batch within them, where m
    and M are the extremes of true / stored over the points of both: steps, running maximum and interpolation included.
    """
    random = np.random.default_rng(1)
    nearest = 0.0
    for _ in range(PAIRS):
        requests, positions = int(random.integers(1, 6)), int(random.integers(1, 6))
        base = requests + int(random.integers(0, 8))
        verify = _random_curve(random, base + requests * positions + int(random.integers(0, 5)))
        draft = _random_curve(random, requests + int(random.integers(0, 3)))
        spread = random.uniform(0, 1)
        true_verify, true_draft = (
            _scaled(curve, np.exp(random.uniform(-spread, spread, len(curve.sizes))).tolist())
            for curve in (verify, draft)
        )
        limit = int(random.choice(verify.sizes))
        batch = Batch(
            random.uniform(0, 1, (requests, positions)),
            random.integers(0, positions + 1, requests),
            base,
            int(random.integers(0, requests + 1)),
        )
        (lost,) = losses(_profile(true_verify, true_draft, limit), _profile(verify, draft, limit), [batch])
        bound = _bound((true_verify, verify), (true_draft, draft))
        assert lost <= bound + 1e-9
        nearest = max(nearest, lost / bound if bound > 1e-6 else 0.0)
    # Otherwise the pairs would say little: some of them come near the bound.
    assert nearest > 0.7


COSTS = st.floats(0.01, 100)
FACTORS = st.floats(0.3, 3)


@st.composite
def _curves(draw, last: int):
    """A curve that ends at `last`, and a true one of the same sizes."""
    sizes = (*sorted(draw(st.sets(st.integers(1, last), max_size=5)) - {last}), last)
    stored = CostCurve(sizes, tuple(draw(COSTS) for _ in sizes))
    return stored, _scaled(stored, [draw(FACTORS) for _ in sizes])


@given(st.data())
def test_the_bound_holds(data: st.DataObject):
    """The same, over what hypothesis finds."""
    requests, positions = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 4))
    row = st.lists(st.floats(0, 1), min_size=positions, max_size=positions)
    confidence = np.array([data.draw(row) for _ in range(requests)])
    base = requests + data.draw(st.integers(0, 6))
    batch = Batch(confidence, np.full(requests, positions), base, data.draw(st.integers(0, requests)))
    verify, true_verify = data.draw(_curves(base + requests * positions))
    draft, true_draft = data.draw(_curves(requests))
    limit = data.draw(st.sampled_from(verify.sizes))
    (lost,) = losses(_profile(true_verify, true_draft, limit), _profile(verify, draft, limit), [batch])
    assert lost <= _bound((true_verify, verify), (true_draft, draft)) + 1e-9


def test_past_the_end_of_a_curve_its_points_bound_nothing():
    """The last slope goes on, so that two curves whose points differ by a tenth are far apart there: the theorem is
    about the tables, and needs the slopes' ratio as well.
    """
    stored = _profile(CostCurve((4, 8), (10.0, 10.0)), CostCurve((1,), (0.1,)), 8)
    true = _profile(CostCurve((4, 8), (10.0, 11.0)), CostCurve((1,), (0.1,)), 8)
    batch = Batch(np.full((1, 400), 0.99), np.array([400]), 1, 1)
    (lost,) = losses(true, stored, [batch])
    assert lost > 0.1 > 1 - 10 / 11
    tables = [cost_tables(profile, 1, 401).verify for profile in (true, stored)]
    assert lost <= 1 - (tables[1] / tables[0]).min()


def test_less_than_a_nanosecond_is_no_cost():
    """Costs below 1e-6 ms are raised to it, as the engine does, which is no common factor any more."""
    draft = CostCurve((1,), (1e-9,))
    stored = _profile(CostCurve((1, 2), (1e-7, 1.5e-6)), draft, 2)
    true = _profile(_scaled(stored.verify, [20.0, 20.0]), _scaled(draft, [20.0]), 2)
    (lost,) = losses(true, stored, [Batch(np.array([[0.6]]), np.array([1]), 1, 1)])
    assert lost > _bound((true.verify, stored.verify), (true.draft, stored.draft)) + 0.5


def test_nothing_is_lost_where_there_is_nothing_to_gain():
    """No batch, a batch of no requests' drafts, and one that yields no token at any budget: no loss, and no warning."""
    one = _profile(CostCurve((1, 2), (1.0, 2.0)), CostCurve((1,), (0.1,)), 2)
    other = _profile(CostCurve((1, 2), (1.0, 9.0)), CostCurve((1,), (0.1,)), 2)
    assert regret(one, other, []) == 0
    assert losses(one, other, []).shape == (0,)
    idle = Batch(np.zeros((1, 1)), np.array([1]), 1, 0)
    nothing = Batch(np.ones((1, 1)), np.array([0]), 1, 1)
    assert losses(one, other, [idle, nothing]).tolist() == [0, 0]


def test_regret_is_the_mean_of_the_losses():
    """And the loss of a batch is the share of the best rate that the stored plan misses."""
    true = _profile(CostCurve((1, 2), (1.0, 1.0)), CostCurve((1,), (1e-3,)), 2)
    stored = _profile(CostCurve((1, 2), (1.0, 9.0)), CostCurve((1,), (1e-3,)), 2)
    batches = [Batch(np.full((1, 1), chance), np.array([1]), 1, 1) for chance in (1.0, 0.25)]
    assert losses(true, stored, batches).tolist() == pytest.approx([0.5, 0.2])
    assert regret(true, stored, batches) == pytest.approx(0.35)


@given(st.integers(1, 300))
def test_batch_sizes_double_up_to_the_most(most: int):
    """From one request to the most, each at most twice the one before."""
    counts = request_counts(most)
    assert (counts[0], counts[-1]) == (1, most)
    assert all(a < b <= 2 * a for a, b in pairwise(counts))


@given(st.integers(1, 40), st.integers(1, 20), st.integers(1, 600))
def test_declared_batches_are_steps_that_fit(most: int, drafts: int, tokens: int):
    """Every size with every family, unless it could outgrow the tokens; all drafts are scheduled."""
    declared = cases(most, drafts, tokens, (0, 16))
    sizes = {(case.requests, case.prompt) for case in declared}
    assert sizes == {(n, p) for n in request_counts(most) for p in (0, 16) if n * (1 + drafts) + p <= tokens}
    assert len(declared) == len(sizes) * len(SURVIVAL)
    for case in declared:
        assert case.batch.confidence.shape == (case.requests, drafts)
        assert ((case.batch.confidence >= 0) & (case.batch.confidence <= 1)).all()
        assert (case.batch.drafts == drafts).all()
        assert case.batch.base_tokens == case.requests + case.prompt
        assert case.batch.sampling == case.requests
