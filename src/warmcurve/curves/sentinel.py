"""Is a stored profile still true? Which sizes to replay, and the verdict on their timings.

With r = measured / stored, a factor common to all costs changes no plan, since the engine maximises tokens per ms; a
change of *shape* does. If every true cost lies within [m, M] times the stored one, planning with the stored curves
reaches at least m / M of the best throughput. So the verdict looks at two things over all sentinels and both stages:

- scale: every r lies within the limits, at a size that is stored exactly, in a replay of a full graph;
- shape: with S = max r / min r, the loss bound 1 - 1/S stays within the share of `max_regret` that this round allows.

Sizes above the captured ones (the eager tail) may be replayed as well; they price the target alone.

A disturbance can only make a replay slower. Where the fastest ratio is below the lower limit, no disturbance explains
it and the verdict is final; anything else that is off may be one, and asking for medians of more replays is worth it
(`Rejected.final`). The policy says how often, and what each round allows (`Rounds`). After the last round noise is left
on both sides of a ratio, and the stored samples say how much. A pair of ratios is then allowed what that alone would
show, where it is more (`allowed`).

`VerifiedProfile` can be built by `judge` alone, so that no unverified curve has a way to an engine.
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
"""Of two replays the faster counts, of three the median: so many outvote a disturbance."""

WIDEST: Final = 0.25
"""Noise widens what is allowed by this share of it at most."""
_CONFIDENCE: Final = 2.0
"""How many standard errors of a pair of ratios count as explained by noise: about 19 of 20 such errors are smaller."""
_NORMAL: Final = 1.4826
"""A normal distribution's standard deviation over its median absolute deviation."""

_VERDICT: Final = object()

Policy: TypeAlias = Literal["two", "sweep"] | int
"""How many captured sizes a hit replays: two, every one, or so many."""
Draw: TypeAlias = Callable[[int], int]
"""An integer in [0, n)."""
Pick: TypeAlias = Callable[[Sequence[int], Draw], int]
"""One of these sizes."""


class Limits(msgspec.Struct, frozen=True):
    """What the verdict allows: r of every sentinel within [scale_low, scale_high], loss bound up to max_regret."""

    scale_low: float = 0.4
    scale_high: float = 2.5
    max_regret: float = 0.2


class Rounds(msgspec.Struct, frozen=True):
    """How often each sentinel is replayed at most, and how much of `max_regret` the loss bound may be after each
    round: `first` of it after the first, evenly more after each that follows, `last` after the last.

    `max_regret` is what the policy's limits have where nothing else is said.
    """

    count: int = 3
    first: float = 1.0
    last: float = 1.0
    max_regret: float = Limits().max_regret

    def share(self, played: int) -> float:
        """Of `max_regret`, after this many rounds, from 1 on."""
        return self.first + (self.last - self.first) * (min(played, self.count) - 1) / (self.count - 1)


TWO: Final = Rounds()
SWEEP: Final = Rounds(count=12, first=0.65, last=0.85, max_regret=0.1)
"""What is allowed stays below `max_regret`, since noise can hide a part of a loss: all the more, the fewer the replays.
Found by simulation (docs/design.md, section 6).
"""


def rounds_for(policy: Policy) -> Rounds:
    return SWEEP if policy == "sweep" else TWO


class Reading(msgspec.Struct, frozen=True):
    """One sentinel size: the (lower) medians over its replays, and measured / stored for both stages.

    A size of the eager tail has none for the drafter, which it does not price.
    """

    tokens: int
    requests: int
    replays: int
    verify_ms: float
    draft_ms: float | None
    verify_ratio: float
    draft_ratio: float | None


class Evidence(msgspec.Struct, frozen=True):
    """What the sentinels showed. `scale` says how many times dearer the stored costs are than the measured ones
    (the geometric middle of all ratios' extremes); `loss_bound` is 1 - 1/S; `widened` by how much noise raised
    what the round allows, for the pair of ratios that came closest to what was allowed or exceeded it most.
    """

    readings: tuple[Reading, ...]
    scale: float
    loss_bound: float
    widened: float = 0.0


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


def uniform(sizes: Sequence[int], draw: Draw) -> int:
    return sizes[draw(len(sizes))]


def weighted(weights: Mapping[int, float]) -> Pick:
    """A pick that favours sizes by their weights, which are not negative; sizes without one are never picked before
    the others.
    """

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
    """The largest captured size, then others: one that is picked (`two`), every one from the largest down (`sweep`), or
    so many that are picked that there are N in all. The boots of a fleet so sweep the whole curve.

    The largest comes first because it also brings the clocks up. Where only one size is captured it is replayed twice.
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
    """The loss bound that two ratios may show whose noise has these relative standard errors.

    The larger of `max_regret` and of what noise alone shows in about 19 of 20 cases, which counts up to a quarter more.
    Not the sum, which lets pass what the limit is for: at 2 % of noise a sweep then accepted up to 8 % of the boots in
    which one size cost a fifth of the throughput (bench/trust.py).
    """
    noise = 1 - math.exp(-_CONFIDENCE * math.hypot(*errors))
    return max(limits.max_regret, min(noise, limits.max_regret * (1 + WIDEST)))


def judge(
    profile: CostProfile, asked: Sequence[int], samples: Sequence[Sample], limits: Limits, rounds: Rounds = TWO
) -> VerifiedProfile | Rejected:
    """The verdict on the samples of one or more rounds of the sizes asked for. A size of the tail is asked for as what
    its stored runs really had. The round is that of the size with the fewest replays.
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
    """Of sizes with as many requests the ratio in the middle."""
    grouped: defaultdict[int, list[float]] = defaultdict(list)
    for reading in readings:
        if reading.draft_ratio is not None:
            grouped[reading.requests].append(reading.draft_ratio)
    return {requests: median_low(ratios) for requests, ratios in grouped.items()}


class _Pair(NamedTuple):
    loss_bound: float
    allowed: float


def _worst_pair(profile: CostProfile, readings: Sequence[Reading], limits: Limits, rounds: int) -> _Pair:
    """Of all pairs of ratios the one whose loss bound exceeds most what it may be, or falls short of it least.

    Not only the lowest and the highest: a noisy pair may be allowed more than a quiet one between them.
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
    """The relative standard error of measured / stored, both medians, of so many times as noisy as the stored ones.

    A median of n normal times has a variance of about π/2 · σ²/n. Without stored samples no noise is known.
    """
    if not stored_ms:
        return 0.0
    return _NORMAL * dispersion(stored_ms) * math.sqrt(math.pi / 2 * (1 / len(stored_ms) + 1 / replays))
