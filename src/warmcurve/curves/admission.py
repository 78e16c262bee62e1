"""May a calibration be stored? Four things that a curve measured in peace does not show.

- cold: a first replay far slower than the others of its size: something compiled, or clocks came up, meanwhile. In the
  eager tail an engine's first run is meant to compile (vLLM says so of its own), so there the second is looked at;
- noisy: replays of a size that differ so much that their median could be any of them. One size is enough, because a
  plan is an argmin, and is drawn to the very size that came out too cheap;
- flat: costs that do not rise from the smallest size to the largest, so the runs were not those of their sizes;
- bent: a size far cheaper than a smaller one. Planners take the running maximum, and plan with another curve than the
  one that was measured.

What is not admitted is used for this boot and not stored. Pure: all follows from the samples that an entry holds.
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
    """What is admitted: dispersion of a size up to `noise`, its first replay up to `cold` times the median of the
    others, at least `rise` more cost for each doubling of the size (0: any), costs raised by a share up to `bend`.
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
    """Why this profile is not to be stored, or None. What disturbs a measurement is told before what it does to it."""
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
