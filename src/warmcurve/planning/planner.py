"""How many drafted tokens a step verifies, and what a wrong curve costs.

A step over R requests verifies B drafted tokens beside the tokens it runs anyway. It yields one token for each request
that samples, and each verified draft with the probability that it and all before it survive. The budget is the B with
the most tokens per ms, over every B: measured curves are staircases, so the first descent says nothing.

Pure, in numpy; the rules are those of vLLM's adaptive verification, where a profile is looked up the same way.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from warmcurve.curves.profile import CostCurve, CostProfile

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class CostTables(NamedTuple):
    """Cost in ms, indexed by number of requests (`draft`) and of target tokens (`verify`), both from 0."""

    draft: Floats
    verify: Floats


class Batch(NamedTuple):
    """What one step may verify.

    `confidence` [requests, K] is the chance of each drafted token to survive if all before it did, `drafts` [requests]
    how many are scheduled. `base_tokens` run in any case, `sampling` requests yield a token without any draft.
    """

    confidence: NDArray[np.floating]
    drafts: Integers
    base_tokens: int
    sampling: int


def cost_table(curve: CostCurve, largest: int, capture_limit: int) -> Floats:
    """Cost in ms at each size from 0 to `largest`, which may lie past the curve's end.

    Up to the capture limit a step is padded to the next point; above it cost is linear between the points that are
    themselves above, and past the end it goes on as between the last two points. No size is cheaper than a smaller one.
    """
    sizes = np.array(curve.sizes)
    costs = np.maximum.accumulate(np.array(curve.costs_ms))
    wanted = np.arange(largest + 1)
    table: Floats = costs[np.searchsorted(sizes, wanted).clip(max=len(sizes) - 1)]
    eager = sizes > capture_limit
    if capture_limit and eager.any():
        beyond = wanted > capture_limit
        table[beyond] = np.interp(wanted[beyond], sizes[eager], costs[eager])
    if len(sizes) > 1:
        past = wanted > sizes[-1]
        slope = (costs[-1] - costs[-2]) / (sizes[-1] - sizes[-2])
        table[past] = costs[-1] + slope * (wanted[past] - sizes[-1])
    return table


def cost_tables(profile: CostProfile, max_requests: int, max_tokens: int) -> CostTables:
    """Tables for up to `max_requests` requests and `max_tokens` target tokens a step."""
    return CostTables(
        cost_table(profile.draft, max_requests, profile.capture_limit),
        cost_table(profile.verify, max_tokens, profile.capture_limit).clip(min=1e-6),
    )


def survival(batch: Batch) -> Floats:
    """The chance that a drafted token and all before it survive, [requests, K]; -1 where none is scheduled."""
    chances = np.cumprod(np.asarray(batch.confidence, np.float64), axis=1)
    positions = np.arange(chances.shape[1])
    return np.where(positions < batch.drafts[:, None], chances, -1.0)


def rates(tables: CostTables, batch: Batch, most: int | None = None) -> Floats:
    """Expected tokens per ms at each budget from 0 to `most`, or to all that is scheduled."""
    limit = int(batch.drafts.sum())
    limit = limit if most is None else min(limit, max(0, most))
    gains = np.sort(survival(batch), axis=None)[::-1][:limit]
    tokens = batch.sampling + np.concatenate(([0.0], np.cumsum(gains)))
    costs = tables.draft[len(batch.drafts)] + tables.verify[batch.base_tokens : batch.base_tokens + limit + 1]
    best: Floats = tokens / costs
    return best


def draft_budget(tables: CostTables, batch: Batch, most: int | None = None) -> int:
    """How many drafted tokens to verify: the budget with the best rate, the smallest of equals."""
    return int(np.argmax(rates(tables, batch, most)))


def allocate(batch: Batch, budget: int) -> Integers:
    """How many drafts each request verifies, [requests], when the `budget` likeliest of all are taken.

    Survival only falls along a request, so what is taken is a prefix of each request's drafts.
    """
    chances = survival(batch)
    taken = np.argsort(-chances, axis=None, kind="stable")[: min(budget, int(batch.drafts.sum()))]
    return np.bincount(taken // chances.shape[1], minlength=len(chances)).astype(np.int64)


def losses(true: CostProfile, stored: CostProfile, batches: Sequence[Batch]) -> Floats:
    """The share of throughput, 0 to 1, that each batch loses where it is planned with `stored` and costs what `true`
    says. Nothing is lost where no budget yields a token.

    If every true cost is m to M times the stored one, none is above 1 - m / M. That all points are is enough up to the
    last point of each curve. Past it the last slope goes on, so there the ratio of the slopes must lie in [m, M] as
    well, and so must 1 where a cost of less than 1e-6 ms is raised to that.
    """
    requests = max((len(batch.drafts) for batch in batches), default=0)
    tokens = max((batch.base_tokens + int(batch.drafts.sum()) for batch in batches), default=0)
    truth, belief = (cost_tables(profile, requests, tokens) for profile in (true, stored))
    return np.array([_loss(rates(truth, batch), draft_budget(belief, batch)) for batch in batches], np.float64)


def regret(true: CostProfile, stored: CostProfile, batches: Sequence[Batch]) -> float:
    """The mean of `losses`; 0 where both profiles lead to the same budgets, and for no batch at all."""
    return float(np.mean(losses(true, stored, batches))) if batches else 0.0


def _loss(real: Floats, budget: int) -> float:
    best = real.max()
    return float(1 - real[budget] / best) if best > 0 else 0.0
