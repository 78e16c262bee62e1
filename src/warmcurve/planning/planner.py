"""How many drafted tokens a step verifies, and what a wrong curve costs.

A step over R requests verifies B drafted tokens, besides the tokens that it runs anyway. It yields one token for each
request that samples. It yields each verified draft with the probability that this draft and all before it survive. The
budget is the B with the most tokens per ms. Every B is tried: measured curves are staircases, so the rate may fall and
rise again.

These functions are pure, in numpy. The rules are those of vLLM's adaptive verification.
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

    `confidence` [requests, K] is the chance of each drafted token to survive if all before it did. `drafts` [requests]
    is how many are scheduled. `base_tokens` run in any case. `sampling` requests yield a token without any draft.
    """

    confidence: NDArray[np.floating]
    drafts: Integers
    base_tokens: int
    sampling: int


def cost_table(curve: CostCurve, largest: int, capture_limit: int) -> Floats:
    """The cost in ms at each size from 0 to `largest`, which may be past the curve's end.

    Up to the capture limit a step is padded to the next point. Above it the cost is linear between the points above the
    limit. Past the end the last slope continues. No size is cheaper than a smaller one.
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
    """The chance that a drafted token and all before it survive, [requests, K]; -1 if none is scheduled there."""
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
    """How many drafts each request verifies, [requests], if the `budget` likeliest drafts of all are taken.

    Survival only falls along a request. So the drafts that are taken are a prefix of each request's drafts.
    """
    chances = survival(batch)
    taken = np.argsort(-chances, axis=None, kind="stable")[: min(budget, int(batch.drafts.sum()))]
    return np.bincount(taken // chances.shape[1], minlength=len(chances)).astype(np.int64)


def losses(true: CostProfile, stored: CostProfile, batches: Sequence[Batch]) -> Floats:
    """The share of throughput, 0 to 1, that each batch loses if it is planned with `stored` and costs what `true` says.

    Nothing is lost if no budget yields a token. If every true cost is m to M times the stored one, no loss is above
    1 - m / M. Up to the last point of each curve it is enough that all points are. Past it the last slope continues, so
    the ratio of the slopes must be in [m, M] too. A cost of less than 1e-6 ms is raised to that, so then 1 must be in
    [m, M] too.
    """
    requests = max((len(batch.drafts) for batch in batches), default=0)
    tokens = max((batch.base_tokens + int(batch.drafts.sum()) for batch in batches), default=0)
    truth, belief = (cost_tables(profile, requests, tokens) for profile in (true, stored))
    return np.array([_loss(rates(truth, batch), draft_budget(belief, batch)) for batch in batches], np.float64)


def regret(true: CostProfile, stored: CostProfile, batches: Sequence[Batch]) -> float:
    """The mean of `losses`. It is 0 if both profiles give the same budgets, or if there is no batch."""
    return float(np.mean(losses(true, stored, batches))) if batches else 0.0


def _loss(real: Floats, budget: int) -> float:
    best = real.max()
    return float(1 - real[budget] / best) if best > 0 else 0.0
