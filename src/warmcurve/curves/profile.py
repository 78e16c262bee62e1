"""Cost curves: what one step of the target and of the drafter costs, by size.

A value of these types is well formed, but not trusted. A stored profile reaches an engine only as a `VerifiedProfile`,
which only the sentinels' verdict can build (`sentinel.py`).
"""

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise
from statistics import median

import msgspec

from warmcurve.errors import ProfileError


class Sample(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The timing of one dummy run, as the engine gave it. It is not checked here: an engine may give anything.

    `verify_ms` is the target's forward over `tokens` target tokens, `draft_ms` the drafter over `requests` requests.
    `full_graph` says whether the target ran as one replay of a captured graph.
    """

    tokens: int
    requests: int
    verify_ms: float
    draft_ms: float
    full_graph: bool

    def flaw(self) -> str | None:
        """Why this sample gives no cost, or None."""
        if self.tokens < 1 or self.requests < 1:
            return f"{self.tokens} tokens in {self.requests} requests"
        for name, ms in (("verify", self.verify_ms), ("draft", self.draft_ms)):
            if not (math.isfinite(ms) and ms > 0):
                return f"{name} time of {ms} ms at {self.tokens} tokens"
        return None


class CostCurve(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Costs in ms at strictly increasing integer sizes; finite and positive. Raises `ProfileError`."""

    sizes: tuple[int, ...]
    costs_ms: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.sizes or len(self.sizes) != len(self.costs_ms):
            raise ProfileError(f"{len(self.sizes)} sizes with {len(self.costs_ms)} costs")
        if self.sizes[0] < 1 or any(a >= b for a, b in pairwise(self.sizes)):
            raise ProfileError("sizes do not increase from 1 or more")
        for size, ms in self.points():
            if not (math.isfinite(ms) and ms > 0):
                raise ProfileError(f"cost of {ms} ms at size {size}")

    def points(self) -> tuple[tuple[int, float], ...]:
        return tuple(zip(self.sizes, self.costs_ms, strict=True))

    def at(self, size: int) -> float | None:
        """The cost that is stored for exactly this size, or None. It does not interpolate."""
        index = bisect_left(self.sizes, size)
        return self.costs_ms[index] if index < len(self.sizes) and self.sizes[index] == size else None


class CostProfile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Both curves of one calibration, with the samples they are the medians of.

    `verify` is indexed by target tokens, `draft` by requests. Up to `capture_limit` tokens a step is padded to the
    next captured size, so its cost is a step function; above it the cost is continuous.
    """

    verify: CostCurve
    draft: CostCurve
    capture_limit: int
    samples: tuple[Sample, ...]

    def __post_init__(self) -> None:
        if self.capture_limit < 1 or self.capture_limit not in self.verify.sizes:
            raise ProfileError(f"no cost is known at the capture limit of {self.capture_limit}")

    def captured(self) -> tuple[int, ...]:
        """The sizes at which a captured graph is replayed, in increasing order."""
        return tuple(size for size in self.verify.sizes if size <= self.capture_limit)

    def expected_ms(self, sizes: Iterable[int]) -> float:
        """What one run of each of these sizes costs, target and drafter together, by the medians of the samples."""
        spent: defaultdict[int, list[float]] = defaultdict(list)
        for sample in self.samples:
            spent[sample.tokens].append(sample.verify_ms + sample.draft_ms)
        return sum(median(spent[size]) for size in sizes if size in spent)
