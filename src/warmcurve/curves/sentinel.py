"""Is a stored profile still true? This file chooses the sizes to replay, and gives the verdict on their timings.

Let r = measured / stored. A factor that is common to all costs changes no plan, because the engine maximises tokens per
ms. A change of *shape* does. If every true cost lies within [m, M] times the stored one, planning with the stored
curves reaches at least m / M of the best throughput. So the verdict has two limits, over all sentinels and both stages:

- scale: every r lies within the limits, at a size that is stored exactly, in a replay of a full graph;
- shape: with S = max r / min r, the loss bound 1 - 1/S stays within the share of `max_regret` that this round allows.

Sizes of the eager tail may be replayed too. They give a cost of the target alone.

A disturbance can only make a replay slower. So if the smallest ratio is below the lower limit, the verdict is final.
Anything else that is out of its limits may be a disturbance, and is replayed (`Rejected.final`). The policy says how
often, and what each round allows (`Rounds`). After the last round, noise is left on both sides of a ratio. The stored
samples say how much. If this noise alone would show more than the limit, a pair of ratios is allowed more (`allowed`).

Only `judge` can build a `VerifiedProfile`. So no unverified curve has a way to an engine.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from statistics import median_low
from typing import Final, Literal, NamedTuple, NoReturn, Self, TypeAlias, final

import msgspec

from warmcurve.curves.calibration import dispersion, times_ms
from warmcurve.curves.drift import moved
from warmcurve.curves.profile import CostProfile, Sample
from warmcurve.outcome import Reason

PATIENCE: Final = 3
"""Of two replays the faster counts, of three the median. So three replays outvote a disturbance."""

WIDEST: Final = 0.25
"""Noise raises a limit by this share at most."""
_CONFIDENCE: Final = 2.0
"""How many standard errors of a pair of ratios count as explained by noise: about 19 of 20 such errors are smaller."""
_NORMAL: Final = 1.4826
"""A normal distribution's standard deviation over its median absolute deviation."""

_VERDICT: Final = object()

Policy: TypeAlias = Literal["two", "sweep"] | int
"""How many captured sizes a hit replays: two, every one, or this number."""
Draw: TypeAlias = Callable[[int], int]
"""An integer in [0, n)."""
Pick: TypeAlias = Callable[[Sequence[int], Draw], int]
"""One of these sizes."""


class Limits(msgspec.Struct, frozen=True):
    """The limits of the verdict: every r within [scale_low, scale_high], and a loss bound up to max_regret."""

    scale_low: float = 0.4
    scale_high: float = 2.5
    max_regret: float = 0.2


class Rounds(msgspec.Struct, frozen=True):
    """How often a policy replays each sentinel at most (`count`), and what each round allows.

    The loss bound may be `first` of `max_regret` after the first round, evenly more after each later round, and `last`
    of it after the last. `max_regret` is the policy's default.
    """

    count: int = 3
    first: float = 1.0
    last: float = 1.0
    max_regret: float = Limits().max_regret

    def share(self, played: int) -> float:
        """The share of `max_regret` that is allowed after this many rounds (1 or more)."""
        return self.first + (self.last - self.first) * (min(played, self.count) - 1) / (self.count - 1)


TWO: Final = Rounds()
SWEEP: Final = Rounds(count=12, first=0.65, last=0.85, max_regret=0.1)
"""The limit stays below `max_regret`, because noise can hide a part of a loss. The fewer the replays, the more it can
hide. The numbers were found by simulation (docs/design.md, section 6).
"""


def rounds_for(policy: Policy) -> Rounds:
    return SWEEP if policy == "sweep" else TWO


class Reading(msgspec.Struct, frozen=True):
    """What one sentinel showed: the (lower) medians over its replays, and measured / stored for both stages.

    A size of the eager tail has no numbers of the drafter.
    """

    tokens: int
    requests: int
    replays: int
    verify_ms: float
    draft_ms: float | None
    verify_ratio: float
    draft_ratio: float | None


class Evidence(msgspec.Struct, frozen=True):
    """What the sentinels showed.

    `scale` is stored / measured, in the geometric middle of the extreme ratios. `loss_bound` is 1 - 1/S. `widened` is
    by how much noise raised the limit, for the pair of ratios that exceeded its limit most, or came closest to it.
    """

    readings: tuple[Reading, ...]
    scale: float
    loss_bound: float
    widened: float = 0.0


@final
class VerifiedProfile:
    """A profile that the sentinels confirmed, with their evidence. Only `judge` can make one."""

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
    """`final` is true if more replays cannot change the verdict."""

    reason: Reason
    detail: str
    final: bool
    evidence: Evidence | None = None


def uniform(sizes: Sequence[int], draw: Draw) -> int:
    return sizes[draw(len(sizes))]


def weighted(weights: Mapping[int, float]) -> Pick:
    """A pick that prefers sizes by their weights. A weight is not negative. A size without one is picked last."""

    def pick(sizes: Sequence[int], draw: Draw) -> int:
        total = sum(weights.get(size, 0.0) for size in sizes)
        if not total > 0:
            return uniform(sizes, draw)
        left = total * draw(1 << 53) / (1 << 53)
        for size in sizes:
            left -= weights.get(size, 0.0)
            if left < 0:
                return size
        return max(sizes, key=lambda size: weights.get(size, 0.0))

    return pick


def choose(captured: Sequence[int], draw: Draw, policy: Policy = "two", pick: Pick = uniform) -> tuple[int, ...]:
    """The sizes to replay: the largest captured size, then others.

    `two` picks one other size, a number N picks N - 1 of them, and `sweep` takes every size from the largest down. So
    the boots of a fleet cover the whole curve. The largest comes first because it also brings the clocks up. If only
    one size is captured, it is replayed twice.
    """
    anchor, others = captured[-1], list(captured[:-1])
    if not others:
        return anchor, anchor
    if policy == "sweep":
        return tuple(reversed(captured))
    picked = [anchor]
    while others and len(picked) < (2 if policy == "two" else policy):
        picked.append(pick(others, draw))
        others.remove(picked[-1])
    return tuple(picked)


def allowed(limits: Limits, *errors: float) -> float:
    """The loss bound that is allowed for two ratios with these relative standard errors.

    It is the larger of two values: `max_regret`, and what noise alone shows in about 19 of 20 cases. It is at most 1.25
    times `max_regret`. The sum of the two was tried: at 2 % noise a sweep then accepted up to 8 % of the boots in which
    one size cost a fifth of the throughput (bench/trust.py).
    """
    noise = 1 - math.exp(-_CONFIDENCE * math.hypot(*errors))
    return max(limits.max_regret, min(noise, limits.max_regret * (1 + WIDEST)))


def judge(
    profile: CostProfile, asked: Sequence[int], samples: Sequence[Sample], limits: Limits, rounds: Rounds = TWO
) -> VerifiedProfile | Rejected:
    """The verdict on the samples of one or more rounds.

    `asked` has the number of tokens that each replay should have had. For a size of the tail this is what its stored
    runs really had. The round is that of the size with the fewest replays.
    """
    if len(samples) != len(asked):
        return Rejected(Reason.SENTINEL_MISSING, f"{len(samples)} timings for {len(asked)} replays", final=True)
    grouped: defaultdict[int, list[Sample]] = defaultdict(list)
    for size, sample in zip(asked, samples, strict=True):
        if flaw := sample.flaw():
            return Rejected(Reason.SENTINEL_MISSING, flaw, final=True)
        if not sample.full_graph and size <= profile.capture_limit:
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

    verify = {reading.tokens: reading.verify_ratio for reading in readings}
    draft = _drafts(readings)
    ratios = [r for reading in readings for r in (reading.verify_ratio, reading.draft_ratio) if r is not None]
    low, high = min(ratios), max(ratios)
    if not 1e-9 < low <= high < 1e9:
        detail = "times too short or too long to be compared"
        return Rejected(Reason.SENTINEL_SCALE, detail, final=low < limits.scale_low)
    played = min(reading.replays for reading in readings)
    outvoted = PATIENCE <= played < rounds.count
    held = msgspec.structs.replace(limits, max_regret=limits.max_regret * rounds.share(played))
    worst = _worst_pair(profile, readings, held, rounds.count)
    evidence = Evidence(
        tuple(readings),
        scale=1 / math.sqrt(low * high),
        loss_bound=1 - low / high,
        widened=worst.allowed - held.max_regret,
    )
    if not limits.scale_low <= low <= high <= limits.scale_high:
        detail = (
            f"measured / stored is {low:.3g} to {high:.3g}, allowed {limits.scale_low:.3g} to {limits.scale_high:.3g}: "
            f"{moved(verify, draft)}"
        )
        return Rejected(Reason.SENTINEL_SCALE, detail, final=low < limits.scale_low or outvoted, evidence=evidence)
    if not worst.loss_bound <= worst.allowed:
        detail = f"loss of up to {worst.loss_bound:.1%}, allowed {worst.allowed:.1%}: {moved(verify, draft)}"
        hopeless = outvoted and evidence.loss_bound > limits.max_regret * (1 + WIDEST)
        return Rejected(Reason.SENTINEL_SHAPE, detail, final=hopeless, evidence=evidence)
    return VerifiedProfile(profile, evidence, _VERDICT)


def _read(profile: CostProfile, tokens: int, replays: list[Sample]) -> Reading | None:
    requests = replays[0].requests
    tail = tokens > profile.capture_limit
    stored_verify, stored_draft = profile.verify.at(tokens), profile.draft.at(requests)
    same = all((sample.tokens, sample.requests) == (tokens, requests) for sample in replays)
    if not same or stored_verify is None or (stored_draft is None and not tail):
        return None
    # Of two replays the faster: what disturbs can only slow down, and a mean would keep the disturbance.
    verify_ms = median_low(sample.verify_ms for sample in replays)
    if tail or stored_draft is None:
        return Reading(tokens, requests, len(replays), verify_ms, None, verify_ms / stored_verify, None)
    draft_ms = median_low(sample.draft_ms for sample in replays)
    return Reading(
        tokens, requests, len(replays), verify_ms, draft_ms, verify_ms / stored_verify, draft_ms / stored_draft
    )


def _drafts(readings: Sequence[Reading]) -> dict[int, float]:
    """The drafter's ratio by number of requests: the middle one of all sizes with as many requests."""
    grouped: defaultdict[int, list[float]] = defaultdict(list)
    for reading in readings:
        if reading.draft_ratio is not None:
            grouped[reading.requests].append(reading.draft_ratio)
    return {requests: median_low(ratios) for requests, ratios in grouped.items()}


class _Pair(NamedTuple):
    loss_bound: float
    allowed: float


def _worst_pair(profile: CostProfile, readings: Sequence[Reading], limits: Limits, rounds: int) -> _Pair:
    """The pair of ratios that exceeds its limit most, or comes closest to it.

    This may not be the lowest and the highest: a noisy pair may be allowed more than a quiet pair between them.
    """
    extremes = [r for reading in readings for r in (reading.verify_ratio, reading.draft_ratio) if r is not None]
    bound = 1 - min(extremes) / max(extremes)
    if bound <= limits.max_regret or all(reading.replays < rounds for reading in readings):
        return _Pair(bound, limits.max_regret)
    verify, draft = times_ms(profile.samples)
    noisy = []
    for reading in readings:
        noisy.append((reading.verify_ratio, _error(verify.get(reading.tokens, ()), reading.replays)))
        if reading.draft_ratio is not None:
            noisy.append((reading.draft_ratio, _error(draft.get(reading.requests, ()), reading.replays)))
    pairs = (
        _Pair(1 - min(one, other) / max(one, other), allowed(limits, error, another))
        for (one, error), (other, another) in combinations(noisy, 2)
    )
    return max(pairs, key=lambda pair: pair.loss_bound - pair.allowed)


def _error(stored_ms: Sequence[float], replays: int) -> float:
    """The relative standard error of measured / stored. Both are medians, of times as noisy as the stored ones.

    A median of n normal times has a variance of about π/2 · σ²/n. Without stored samples no noise is known.
    """
    if not stored_ms:
        return 0.0
    return _NORMAL * dispersion(stored_ms) * math.sqrt(math.pi / 2 * (1 / len(stored_ms) + 1 / replays))
