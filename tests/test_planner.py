"""Cost tables, budgets and allocations, by property."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmcurve.curves.profile import CostCurve, CostProfile
from warmcurve.planning.planner import Batch, allocate, cost_table, cost_tables, draft_budget, rates, regret, survival

COSTS = st.floats(0.01, 100)


@st.composite
def curves(draw, largest=80):
    sizes = sorted(draw(st.sets(st.integers(1, largest), min_size=1, max_size=8)))
    return CostCurve(tuple(sizes), tuple(draw(COSTS) for _ in sizes))


@st.composite
def profiles(draw):
    verify = draw(curves())
    return CostProfile(verify, draw(curves(8)), draw(st.sampled_from(verify.sizes)), ())


@st.composite
def batches(draw):
    requests, positions = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    row = st.lists(st.floats(0, 1), min_size=positions, max_size=positions)
    confidence = np.array([draw(row) for _ in range(requests)])
    drafts = np.array([draw(st.integers(0, positions)) for _ in range(requests)])
    sampling = draw(st.integers(0, requests))
    return Batch(confidence, drafts, requests + draw(st.integers(0, 20)), sampling)


@given(curves(), st.integers(0, 200), st.integers(0, 90))
def test_a_table_never_falls(curve, largest, capture_limit):
    """A larger step costs at least as much, and every size from 0 on has a cost."""
    table = cost_table(curve, largest, capture_limit)
    assert table.shape == (largest + 1,)
    assert (np.diff(table) >= -1e-9 * table.max()).all()


@given(profiles())
def test_a_step_is_padded_up_to_the_capture_limit(profile):
    """Up to the capture limit the cost is that of the next captured size."""
    table = cost_table(profile.verify, profile.capture_limit, profile.capture_limit)
    captured = profile.captured()
    for tokens in range(1, profile.capture_limit + 1):
        padded = min(size for size in captured if size >= tokens)
        assert table[tokens] == table[padded]


@given(curves(), st.integers(1, 90))
def test_above_the_limit_cost_is_linear_between_eager_points(curve, capture_limit):
    """Between two points above the capture limit the cost is on their line, and it never blends with a point below."""
    table = cost_table(curve, 120, capture_limit)
    peaks = np.maximum.accumulate(curve.costs_ms)
    eager = [(size, Fraction(cost)) for size, cost in zip(curve.sizes, peaks, strict=True) if size > capture_limit]
    if eager:
        assert table[capture_limit + 1] == pytest.approx(float(eager[0][1]))
    for (left, low), (right, high) in pairwise(eager):
        for tokens in range(left, right + 1):
            assert table[tokens] == pytest.approx(float(low + (high - low) * Fraction(tokens - left, right - left)))


@given(curves())
def test_past_its_end_a_curve_goes_straight_on(curve):
    """Beyond the last point the cost rises as between the last two, or stays where there is only one."""
    last = curve.sizes[-1]
    table = cost_table(curve, last + 20, 0)
    peaks = np.maximum.accumulate(curve.costs_ms)
    slope = 0.0 if len(peaks) == 1 else (peaks[-1] - peaks[-2]) / (last - curve.sizes[-2])
    assert table[last:] == pytest.approx(peaks[-1] + slope * np.arange(21))


@given(profiles(), batches(), st.none() | st.integers(0, 10))
def test_the_budget_is_the_best_of_all(profile, batch, most):
    """No other budget promises more tokens per ms, and no smaller one as many."""
    tables = cost_tables(profile, len(batch.drafts), 100)
    budget = draft_budget(tables, batch, most)
    limit = min(int(batch.drafts.sum()), 10**9 if most is None else most)
    kept = np.sort([c for row, n in zip(survival(batch), batch.drafts, strict=True) for c in row[:n]])[::-1]
    promised = [
        (batch.sampling + sum(kept[:n])) / (tables.draft[len(batch.drafts)] + tables.verify[batch.base_tokens + n])
        for n in range(limit + 1)
    ]
    assert promised[budget] == pytest.approx(max(promised))
    assert 0 <= budget <= limit


def test_a_second_peak_is_found():
    """A budget beyond a dear step is found where what follows is cheap."""
    verify = CostCurve((1, 2, 8), (1.0, 2.5, 2.6))
    tables = cost_tables(CostProfile(verify, CostCurve((1,), (0.1,)), 8, ()), 1, 8)
    batch = Batch(np.full((1, 7), 0.9), np.array([7]), 1, 1)
    rising = rates(tables, batch)
    assert rising[1] < rising[0]
    assert draft_budget(tables, batch) == 7


@given(batches(), st.integers(0, 25))
def test_an_allocation_takes_the_likeliest(batch, budget):
    """The whole budget is given out, within what is scheduled, and nothing left out is likelier than what is taken."""
    taken = allocate(batch, budget)
    assert taken.sum() == min(budget, batch.drafts.sum())
    assert (taken <= batch.drafts).all()
    chances = survival(batch)
    inside = [chance for row, n in zip(chances, taken, strict=True) for chance in row[:n]]
    outside = [c for row, n, m in zip(chances, taken, batch.drafts, strict=True) for c in row[n:m]]
    assert not inside or not outside or min(inside) >= max(outside)


@given(profiles(), st.lists(batches(), min_size=1, max_size=4))
def test_no_regret_with_the_true_curves(profile, several):
    """Planning with what is true loses nothing, and neither does a common factor on all costs."""
    doubled = CostProfile(
        CostCurve(profile.verify.sizes, tuple(2 * ms for ms in profile.verify.costs_ms)),
        CostCurve(profile.draft.sizes, tuple(2 * ms for ms in profile.draft.costs_ms)),
        profile.capture_limit,
        (),
    )
    several = [batch._replace(sampling=len(batch.drafts)) for batch in several]
    assert regret(profile, profile, several) == 0
    assert regret(profile, doubled, several) == 0


@given(profiles(), st.data(), st.lists(batches(), min_size=1, max_size=4))
def test_regret_stays_within_the_bound_of_the_ratios(profile, data, several):
    """Where every true cost is m to M times the stored one, at most 1 - m / M of the throughput is lost."""
    several = [batch._replace(sampling=len(batch.drafts)) for batch in several]
    factors = st.floats(0.5, 2.0)
    true = CostProfile(
        CostCurve(profile.verify.sizes, tuple(ms * data.draw(factors) for ms in profile.verify.costs_ms)),
        CostCurve(profile.draft.sizes, tuple(ms * data.draw(factors) for ms in profile.draft.costs_ms)),
        profile.capture_limit,
        (),
    )
    requests = max(len(batch.drafts) for batch in several)
    tokens = max(batch.base_tokens + int(batch.drafts.sum()) for batch in several)
    truth, belief = (cost_tables(each, requests, tokens) for each in (true, profile))
    ratios = np.concatenate((truth.draft / belief.draft, truth.verify / belief.verify))
    assert regret(true, profile, several) <= 1 - ratios.min() / ratios.max() + 1e-9
