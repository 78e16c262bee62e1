"""Decides whether a calibration may be stored. It may not if it is cold, noisy, flat or bent.

- cold: the first replay of a size is far slower than the others: something compiled, or the clocks came up. In the
  eager tail the first run is meant to compile (vLLM says so), so there the second replay is looked at;
- noisy: the replays of a size differ so much that their median cannot be trusted. One such size is enough, because a
  plan is drawn to the size that came out too cheap;
- flat: the costs do not rise from the smallest size to the largest, so the runs did not have their sizes;
- bent: a size is far cheaper than a smaller one. Planners take the running maximum, and so plan with another curve
  than the one that was measured.

A calibration that is not admitted is used for this boot and not stored. All follows from the samples that an entry
holds.
"""

import math
from collections import defaultdict
from collections.abc import Iterator
from itertools import accumulate
from statistics import median
from typing import NamedTuple

import msgspec

from warmcurve.curves.calibration import dispersion
from warmcurve.curves.profile import CostProfile
from warmcurve.outcome import Reason


class Thresholds(msgspec.Struct, frozen=True):
    """The limits of admission.

    `noise` is the largest dispersion of a size. `cold` is how many times the median of its others a first replay may
    take. `rise` is the least share by which the cost must rise with each doubling of the size (0: it may fall). `bend`
    is the largest share by which the running maximum may raise a cost.
    """

    noise: float = 0.1
    cold: float = 2.5
    rise: float = 0.01
    bend: float = 0.25


class Objection(NamedTuple):
    reason: Reason
    detail: str


class _Point(NamedTuple):
    """The times of one stage at one size, in the order of its replays."""

    name: str
    eager: bool
    times_ms: tuple[float, ...]


def objection(profile: CostProfile, thresholds: Thresholds) -> Objection | None:
    """Why this profile must not be stored, or None. A cause (cold, noisy) comes before its effect (flat, bent)."""
    points = tuple(_points(profile))
    return (
        _cold(points, thresholds.cold)
        or _noisy(points, thresholds.noise)
        or _flat(profile, thresholds.rise)
        or _bent(profile, thresholds.bend)
    )


def _points(profile: CostProfile) -> Iterator[_Point]:
    # By run and not by point of a curve: drafts for as many requests may cost more after a larger verification.
    verify: defaultdict[int, list[float]] = defaultdict(list)
    draft: defaultdict[tuple[int, int], list[float]] = defaultdict(list)
    for sample in profile.samples:
        verify[sample.tokens].append(sample.verify_ms)
        if sample.full_graph:
            draft[sample.tokens, sample.requests].append(sample.draft_ms)
    for tokens, times in verify.items():
        yield _Point(f"verify of {tokens} tokens", tokens > profile.capture_limit, tuple(times))
    for (tokens, requests), times in draft.items():
        name = f"draft of {requests} requests after {tokens} tokens"
        yield _Point(name, tokens > profile.capture_limit, tuple(times))


def _cold(points: tuple[_Point, ...], limit: float) -> Objection | None:
    worst, name = 0.0, ""
    for point in points:
        times = point.times_ms[1:] if point.eager else point.times_ms
        if len(times) > 1 and times[0] / median(times[1:]) > worst:
            worst, name = times[0] / median(times[1:]), point.name
    if worst <= limit:
        return None
    detail = f"{name} took {worst:.3g} times as long at first as later, allowed {limit:.3g}"
    return Objection(Reason.CALIBRATION_COLD, detail)


def _noisy(points: tuple[_Point, ...], limit: float) -> Objection | None:
    found = {point.name: dispersion(point.times_ms) for point in points}
    noisy = {name: each for name, each in found.items() if not each <= limit}
    if not noisy:
        return None
    worst = max(noisy, key=noisy.__getitem__)
    detail = f"{worst} varies by {noisy[worst]:.1%}, allowed {limit:.1%}; {len(noisy)} of {len(found)} points do"
    return Objection(Reason.CALIBRATION_NOISY, detail)


def _flat(profile: CostProfile, rise: float) -> Objection | None:
    sizes, costs = profile.verify.sizes, profile.verify.costs_ms
    risen, asked = costs[-1] / costs[0] - 1, rise * math.log2(sizes[-1] / sizes[0])
    if rise == 0 or risen >= asked:
        return None
    detail = f"verify of {sizes[-1]} tokens costs {risen:+.1%} against {sizes[0]}, at least {asked:+.1%} is expected"
    return Objection(Reason.CALIBRATION_FLAT, detail)


def _bent(profile: CostProfile, limit: float) -> Objection | None:
    worst, name = 0.0, ""
    for curve, what in ((profile.verify, "verify of {} tokens"), (profile.draft, "draft of {} requests")):
        for size, ms, raised in zip(curve.sizes, curve.costs_ms, accumulate(curve.costs_ms, max), strict=True):
            if raised / ms - 1 > worst:
                worst, name = raised / ms - 1, what.format(size)
    if worst <= limit:
        return None
    detail = f"{name} costs so little that a smaller size would count {worst:.1%} more, allowed {limit:.1%}"
    return Objection(Reason.CALIBRATION_BENT, detail)
