"""Is a stored profile still true? Which sizes to replay, and the verdict on their timings.

With r = measured / stored, a factor common to all costs changes no plan, since the engine maximises tokens per ms; a
change of *shape* does. If every true cost lies within [m, M] times the stored one, planning with the stored curves
reaches at least m / M of the best throughput. So the verdict looks at two things over all sentinels and both stages:

- scale: every r lies within the limits, at a size that is stored exactly, in a replay of a full graph;
- shape: with S = max r / min r, the loss bound 1 - 1/S stays within `max_regret`.

A disturbance can only make a replay slower. Where the fastest ratio is below the lower limit, no disturbance explains
it and the verdict is final; anything else that is off may be one, and asking for medians of more replays is worth it
(`Rejected.final`).

`VerifiedProfile` can be built by `judge` alone, so that no unverified curve has a way to an engine.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from statistics import median_low
from typing import Final, NoReturn, Self, final

import msgspec

from warmcurve.outcome import Reason
from warmcurve.profile import CostProfile, Sample

ROUNDS: Final = 3
"""How often each sentinel is replayed at most. Of two replays the faster counts, of three the median."""

_VERDICT: Final = object()


class Limits(msgspec.Struct, frozen=True):
    """What the verdict allows: r of every sentinel within [scale_low, scale_high], loss bound up to max_regret."""

    scale_low: float = 0.4
    scale_high: float = 2.5
    max_regret: float = 0.2


class Reading(msgspec.Struct, frozen=True):
    """One sentinel size: the (lower) medians over its replays, and measured / stored for both stages."""

    tokens: int
    requests: int
    replays: int
    verify_ms: float
    draft_ms: float
    verify_ratio: float
    draft_ratio: float


class Evidence(msgspec.Struct, frozen=True):
    """What the sentinels showed. `scale` says how many times dearer the stored costs are than the measured ones
    (the geometric middle of all ratios' extremes); `loss_bound` is 1 - 1/S.
    """

    readings: tuple[Reading, ...]
    scale: float
    loss_bound: float


@final
class VerifiedProfile:
    """A profile that the sentinels confirmed, with their evidence. Only a verdict can make one."""

    __slots__ = ("evidence", "profile")
    profile: CostProfile
    evidence: Evidence

    def __new__(cls, profile: CostProfile, evidence: Evidence, verdict: object = None) -> Self:
        if verdict is not _VERDICT:
            raise TypeError("a verified profile is built by the sentinels' verdict alone")
        verified = super().__new__(cls)
        object.__setattr__(verified, "profile", profile)
        object.__setattr__(verified, "evidence", evidence)
        return verified

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"cannot set {name}: a verified profile is frozen")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"cannot delete {name}: a verified profile is frozen")

    def __reduce__(self) -> NoReturn:
        # Copies and pickles would be built without a verdict.
        raise TypeError("a verified profile cannot be copied or pickled")


class Rejected(msgspec.Struct, frozen=True):
    """`final` is true where more replays cannot change the verdict."""

    reason: Reason
    detail: str
    final: bool
    evidence: Evidence | None = None


def choose(captured: Sequence[int], draw: Callable[[int], int]) -> tuple[int, ...]:
    """Policy `two`: the largest captured size, then another one drawn; the boots of a fleet so sweep the whole curve.

    The largest comes first because it also brings the clocks up. `draw(n)` gives an integer in [0, n). Where only one
    size is captured it is replayed twice.
    """
    anchor, others = captured[-1], captured[:-1]
    return (anchor, others[draw(len(others))] if others else anchor)


def judge(
    profile: CostProfile, asked: Sequence[int], samples: Sequence[Sample], limits: Limits
) -> VerifiedProfile | Rejected:
    """The verdict on the samples of one or more rounds of the sizes asked for."""
    if len(samples) != len(asked):
        return Rejected(Reason.SENTINEL_MISSING, f"{len(samples)} timings for {len(asked)} replays", final=True)
    grouped: defaultdict[int, list[Sample]] = defaultdict(list)
    for size, sample in zip(asked, samples, strict=True):
        if flaw := sample.flaw():
            return Rejected(Reason.SENTINEL_MISSING, flaw, final=True)
        if not sample.full_graph:
            detail = f"the replay of {size} tokens did not run as a full graph"
            return Rejected(Reason.SENTINEL_NOT_FULL_GRAPH, detail, final=True)
        grouped[size].append(sample)

    readings = []
    for size, replays in grouped.items():
        reading = _read(profile, size, replays)
        if reading is None:
            ran = ", ".join(f"{sample.tokens} tokens of {sample.requests} requests" for sample in replays)
            detail = f"asked for {size} tokens, ran {ran}: no such point is stored"
            return Rejected(Reason.SENTINEL_OFF_GRID, detail, final=True)
        readings.append(reading)

    ratios = [ratio for reading in readings for ratio in (reading.verify_ratio, reading.draft_ratio)]
    low, high = min(ratios), max(ratios)
    if not 1e-9 < low <= high < 1e9:
        detail = "times too short or too long to be compared"
        return Rejected(Reason.SENTINEL_SCALE, detail, final=low < limits.scale_low)
    evidence = Evidence(tuple(readings), scale=1 / math.sqrt(low * high), loss_bound=1 - low / high)
    if not limits.scale_low <= low <= high <= limits.scale_high:
        detail = (
            f"measured / stored is {low:.3g} to {high:.3g}, allowed {limits.scale_low:.3g} to {limits.scale_high:.3g}"
        )
        return Rejected(Reason.SENTINEL_SCALE, detail, final=low < limits.scale_low, evidence=evidence)
    if not evidence.loss_bound <= limits.max_regret:
        detail = f"loss of up to {evidence.loss_bound:.1%}, allowed {limits.max_regret:.1%}: {_moved(readings)}"
        return Rejected(Reason.SENTINEL_SHAPE, detail, final=False, evidence=evidence)
    return VerifiedProfile(profile, evidence, _VERDICT)


def _read(profile: CostProfile, tokens: int, replays: list[Sample]) -> Reading | None:
    requests = replays[0].requests
    stored_verify, stored_draft = profile.verify.at(tokens), profile.draft.at(requests)
    same = all((sample.tokens, sample.requests) == (tokens, requests) for sample in replays)
    if not same or tokens > profile.capture_limit or stored_verify is None or stored_draft is None:
        return None
    # Of two replays the faster: what disturbs can only slow down, and a mean would keep the disturbance.
    verify_ms = median_low(sample.verify_ms for sample in replays)
    draft_ms = median_low(sample.draft_ms for sample in replays)
    return Reading(
        tokens, requests, len(replays), verify_ms, draft_ms, verify_ms / stored_verify, draft_ms / stored_draft
    )


def _moved(readings: Sequence[Reading]) -> str:
    return ", ".join(
        f"{r.tokens} tokens verify ×{r.verify_ratio:.3g}, {r.requests} requests draft ×{r.draft_ratio:.3g}"
        for r in readings
    )
