"""What a full calibration runs, and how its samples become curves.

These functions are pure: engines do the runs. Plan and medians are those of vLLM's adaptive verification. So a stored
profile is the one that the engine would have measured.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import Any

import msgspec

from warmcurve.curves.profile import CostCurve, CostProfile, Sample
from warmcurve.errors import ProfileError

REPLAYS = 5


class Plan(msgspec.Struct, frozen=True):
    """The runs of one full calibration.

    `runs` has the number of target tokens of every run in order, with repeats. `captured` has the captured sizes, in
    increasing order; it is empty if nothing was captured. Raises `ProfileError` for any other order.
    """

    runs: tuple[int, ...]
    captured: tuple[int, ...]

    def __post_init__(self) -> None:
        if any(a >= b for a, b in pairwise(self.captured)):
            raise ProfileError("captured sizes do not increase")

    def sizes(self) -> tuple[int, ...]:
        return tuple(sorted(set(self.runs)))

    def tail(self) -> tuple[int, ...]:
        """The sizes above all captured ones, in increasing order."""
        return tuple(size for size in self.sizes() if not self.captured or size > self.captured[-1])

    def described(self) -> dict[str, Any]:
        """The plan as a factor. Curves that were measured at other sizes are other curves."""
        return {"sizes": list(self.sizes()), "captured": list(self.captured), "runs": len(self.runs)}


def plan(captured: Sequence[int], max_tokens: int, replays: int = REPLAYS) -> Plan:
    """Every captured size, then the eager tail: half as much again as the largest, its doublings, and `max_tokens`."""
    sizes = sorted(set(captured))
    tail: set[int] = set()
    if sizes:
        size = sizes[-1]
        tail.add(min(size + size // 2, max_tokens))
        while size < max_tokens:
            size = min(2 * size, max_tokens)
            tail.add(size)
    order = sizes + sorted(tail.difference(sizes))
    return Plan(tuple(size for size in order for _ in range(replays)), tuple(sizes))


def profile_from(samples: Iterable[Sample], capture_limit: int) -> CostProfile:
    """The medians by size. Raises `ProfileError` for a sample without a usable time, or if no draft cost is known.

    Only full-graph samples give a cost of the drafter. While the target runs eagerly, the host is still launching its
    kernels, and this opens gaps inside the drafter's interval.
    """
    kept = tuple(samples)
    for sample in kept:
        if flaw := sample.flaw():
            raise ProfileError(flaw)
    verify, draft = times_ms(kept)
    return CostProfile(_median_curve(verify), _median_curve(draft), capture_limit, kept)


def times_ms(samples: Iterable[Sample]) -> tuple[dict[int, list[float]], dict[int, list[float]]]:
    """The times of each point: the target's by tokens, the drafter's by requests. The curves are their medians."""
    verify: defaultdict[int, list[float]] = defaultdict(list)
    draft: defaultdict[int, list[float]] = defaultdict(list)
    for sample in samples:
        verify[sample.tokens].append(sample.verify_ms)
        if sample.full_graph:
            draft[sample.requests].append(sample.draft_ms)
    return verify, draft


def dispersion(times_ms: Sequence[float]) -> float:
    """The median absolute deviation of times, as a share of their median. Two odd times of five do not change it."""
    middle = median(times_ms)
    return median(abs(ms - middle) for ms in times_ms) / middle


def shortfall(plan: Plan, profile: CostProfile) -> str | None:
    """Why these samples are not those of the plan's runs, or None.

    An engine may trim a run of the eager tail to what its token budget leaves beside the drafter's positions, as vLLM
    does (`GPUModelRunner._dummy_run`); a captured size is replayed as it is.
    """
    if len(profile.samples) != len(plan.runs):
        return f"{len(profile.samples)} samples for {len(plan.runs)} runs"
    if profile.captured() != plan.captured:
        return f"costs of the captured sizes {list(profile.captured())}, the plan has {list(plan.captured)}"
    for tokens, sample in zip(plan.runs, profile.samples, strict=True):
        if sample.tokens != tokens and (tokens in plan.captured or sample.tokens > tokens):
            return f"a sample of {sample.tokens} tokens for a run of {tokens}"
    return None


def tokens_run(plan: Plan, profile: CostProfile) -> dict[int, int]:
    """How many tokens the run of each planned size really had. The profile must have no shortfall."""
    return {size: sample.tokens for size, sample in zip(plan.runs, profile.samples, strict=True)}


def _median_curve(grouped: Mapping[int, list[float]]) -> CostCurve:
    sizes = tuple(sorted(grouped))
    return CostCurve(sizes, tuple(median(grouped[size]) for size in sizes))
