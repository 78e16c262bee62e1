"""Machines whose costs have drifted since their curves were stored, for `trust.py`.

A base is a true pair of curves. A drift says what a calibration met (`then`) and what the machine costs today (`now`);
what is stored is the median of five noisy runs of `then`.
"""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from warmcurve.curves.calibration import REPLAYS
from warmcurve.curves.profile import CostCurve, CostProfile, Sample
from warmcurve.embedded import model, trial
from warmcurve.planning.planner import losses
from warmcurve.planning.workload import Case, cases
from warmcurve.storage.store import DirectoryStore

Change = Callable[[int, float], float]

GPU_SIZES: Final = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 160, 192, 256, 320, 384, 512)
FLIP: Final = 94 / 63
"""ms a step in the slow and in the fast hidden state of a GB10."""


class Base(NamedTuple):
    """`requests` says how many requests a dummy step of a size has."""

    name: str
    profile: CostProfile
    requests: Mapping[int, int]
    drafts: int

    def cases(self) -> tuple[Case, ...]:
        limit, last = self.profile.capture_limit, self.profile.verify.sizes[-1]
        return cases(self.profile.draft.sizes[-1], self.drafts, last, (0, limit // 2, limit))


class Drift(NamedTuple):
    """`seen` says whether captured sizes tell it: what happens to the eager tail alone, no replay of them can. `hard`
    ones decide about a promise, so they take more trials.
    """

    family: str
    amount: str
    then: CostProfile
    now: CostProfile
    noise: float = 0.02
    seen: bool = True
    hard: bool = False


class Loss(NamedTuple):
    """Of planning with `then` on a machine that is `now`: a single batch, a batch size (mean over its survival
    families), and all declared batches.
    """

    batch: float
    size: float
    mean: float


def loss(base: Base, drift: Drift) -> Loss:
    declared = base.cases()
    lost = losses(drift.now, drift.then, [case.batch for case in declared])
    keys = [(case.requests, case.prompt) for case in declared]
    sizes = {key: np.mean([x for x, k in zip(lost, keys, strict=True) if k == key]) for key in set(keys)}
    return Loss(float(lost.max()), float(max(sizes.values())), float(lost.mean()))


def gpu_like() -> Base:
    """Bound by memory up to a knee at 192 tokens, by arithmetic above; 17 captured sizes, as vLLM spreads them."""

    def verify(tokens: int) -> float:
        eager = 1.15 if tokens > GPU_SIZES[-1] else 1.0
        return eager * (10 + tokens / 200 + max(0, tokens - 192) * 10 / 192)

    requests = {size: min(64, -(-size // 8)) for size in GPU_SIZES}
    sizes = (*GPU_SIZES, 768, 1024, 2048)
    counts = tuple(sorted(set(requests.values())))
    curves = CostCurve(sizes, tuple(map(verify, sizes))), CostCurve(counts, tuple(1.5 + n / 100 for n in counts))
    return Base("GPU-like", CostProfile(*curves, GPU_SIZES[-1], ()), requests, 7)


def staircase() -> Base:
    """Measured costs that fall in places: another kernel takes over at 32, 128 and 320 tokens, and is cheaper there."""
    base = gpu_like()
    points = [(n, ms * (1.3 if n in {24, 96, 256} else 1)) for n, ms in base.profile.verify.points()]
    profile = CostProfile(CostCurve(*map(tuple, zip(*points, strict=True))), base.profile.draft, GPU_SIZES[-1], ())
    return base._replace(name="non-monotone", profile=profile)


def embedded(boots: int) -> Base:
    """This machine's embedded engine: at each size the fastest of the medians of several calibrations, since whatever
    else runs here can only slow one down.
    """
    found = []
    for _ in range(boots):
        with tempfile.TemporaryDirectory() as directory:
            found.append(trial.boot(DirectoryStore(Path(directory) / "adaptive_verification"), 64, lambda _: None))
    profiles = [each.profile for each in found]

    def fastest(curves: list[CostCurve]) -> CostCurve:
        return CostCurve(curves[0].sizes, tuple(map(min, zip(*(each.costs_ms for each in curves), strict=True))))

    profile = CostProfile(
        fastest([each.verify for each in profiles]),
        fastest([each.draft for each in profiles]),
        profiles[0].capture_limit,
        (),
    )
    requests = {sample.tokens: sample.requests for sample in profiles[0].samples if sample.full_graph}
    return Base("embedded", profile, requests, model.POSITIONS)


def _times(x: float, where: Callable[[int], bool] = lambda _: True) -> Change:
    return lambda size, ms: ms * x if where(size) else ms


def _changed(profile: CostProfile, *changes: Change) -> CostProfile:
    """With other costs: verify, then draft."""
    curves = [
        CostCurve(curve.sizes, tuple(change(size, ms) for size, ms in curve.points()))
        for curve, change in zip((profile.verify, profile.draft), changes, strict=True)
    ]
    return CostProfile(*curves, profile.capture_limit, ())


def drifts(base: Base) -> Iterator[Drift]:
    """Every family, at several amounts."""
    profile, limit = base.profile, base.profile.capture_limit
    tokens, costs = np.array(profile.verify.sizes), np.array(profile.verify.costs_ms)
    captured = profile.captured()
    half = captured[len(captured) // 2]
    for noise in (0.01, 0.02, 0.05, 0.1):
        yield Drift("none", f"noise {noise:.0%}", profile, profile, noise, hard=noise == 0.02)
    families: dict[str, tuple[tuple[float, ...], Callable[[float], tuple[Change, Change]]]] = {
        "scale": ((0.5, 0.8, 1.25, 2), lambda x: (_times(x), _times(x))),
        "verify only": ((0.5, 0.7, 1.2, 1.5, 2, 3), lambda x: (_times(x), _times(1))),
        "draft only": ((0.3, 0.5, 1.5, 2, 3, 5), lambda x: (_times(1), _times(x))),
        # What n tokens cost now is what x n cost then.
        "moved knee": (
            (0.5, 0.75, 0.9, 1.1, 1.2, 1.5, 2, 4),
            lambda x: (lambda n, _: float(np.interp(n * x, tokens, costs)), _times(1)),
        ),
        # In shares of the least cost.
        "floor": ((0.1, 0.25, 0.5, 1, 2), lambda x: (lambda _, ms: ms + x * float(costs.min()), _times(1))),
        "large sizes slow": (
            (0.7, 0.85, 1.1, 1.15, 1.2, 1.3, 1.5, 2, 3),
            lambda x: (_times(x, lambda n: n >= half), _times(1)),
        ),
        "eager tail only": ((0.5, 1.5, 3), lambda x: (_times(x, lambda n: n > limit), _times(1))),
        "all captured, not the tail": ((0.7, 1.3, 2), lambda x: (_times(x, lambda n: n <= limit), _times(x))),
    }
    for family, (amounts, changes) in families.items():
        for x in amounts:
            seen = "tail" not in family
            yield Drift(family, f"×{x:g}", profile, _changed(profile, *changes(x)), seen=seen)
    for x in (1.15, 1.3, 1.5, 3):
        for size in captured[1::3]:
            yield _bump(base, x, size)
    yield _least(base, 0.1, [partial(_bump, base, size=size) for size in captured], hard=True)
    neighbours = [*pairwise(captured), *pairwise(reversed(captured))]
    for cost in (0.1, 0.12, 0.15):
        yield _least(base, cost, [partial(_opposite, base, up=up, down=down) for up, down in neighbours])
    for x in (1.3, 1.5):
        for up, down in neighbours[1::8]:
            yield _opposite(base, x, up, down)
    yield from _flips(base)


def _bump(base: Base, x: float, size: int) -> Drift:
    now = _changed(base.profile, _times(x, lambda n: n == size), _times(1))
    return Drift("one bump", f"×{x:.4g} at {size}", base.profile, now)


def _opposite(base: Base, x: float, up: int, down: int) -> Drift:
    now = _changed(base.profile, lambda n, ms: ms * {up: x, down: 1 / x}.get(n, 1), _times(1))
    return Drift("opposite bumps", f"×{x:.4g} at {up} and 1/{x:.4g} at {down}", base.profile, now)


def _least(base: Base, cost: float, grown: Sequence[Callable[[float], Drift]], *, hard: bool = False) -> Drift:
    """The hardest to see: of these that cost more than so much of some batch, the one that moved least."""
    found: list[tuple[float, Drift]] = []
    for drift in grown:
        low, high = 1.0, min([2.0, *(x for x, _ in found)])
        if loss(base, drift(high)).batch <= cost:
            continue
        while high - low > 1e-3:
            middle = (low + high) / 2
            low, high = (low, middle) if loss(base, drift(middle)).batch > cost else (middle, high)
        found.append((high, drift(high)))
    _, least = min(found, key=lambda each: each[0])
    return least._replace(amount=f"{least.amount}, the least that costs {cost:.0%}", hard=hard)


def _flips(base: Base) -> Iterator[Drift]:
    """Hidden states. Between boots all costs flip together; within a calibration those of some sizes alone are stored
    slow, and a machine that is fast or slow all over today is planned with a mixture.
    """
    profile, captured = base.profile, base.profile.captured()
    slow = _changed(profile, _times(FLIP), _times(FLIP))
    yield Drift("flip between boots", "to slow", profile, slow)
    yield Drift("flip between boots", "to fast", slow, profile)
    third = len(captured) // 3
    parts = {"first": captured[:third], "middle": captured[third : 2 * third], "last": captured[2 * third :]}
    for name, part in parts.items():
        requests = {base.requests[size] for size in part}
        mixed = _changed(profile, _times(FLIP, set(part).__contains__), _times(FLIP, requests.__contains__))
        yield Drift("flip while calibrating", f"{name} third, now fast", mixed, profile)
        yield Drift("flip while calibrating", f"{name} third, now slow", mixed, slow)


class Machine:
    """Noisy runs of a profile: each time is off by a factor of exp(noise × normal)."""

    def __init__(self, base: Base, profile: CostProfile, noise: float, random: np.random.Generator) -> None:
        self._requests, self._noise, self._random = base.requests, noise, random
        self._limit = profile.capture_limit
        self._verify = dict(profile.verify.points())
        self._draft = dict(profile.draft.points())

    def replay(self, sizes: tuple[int, ...]) -> list[Sample]:
        off = np.exp(self._noise * self._random.standard_normal((len(sizes), 2))).tolist()
        return [
            Sample(size, count, self._verify[size] * verify, self._draft[count] * draft, size <= self._limit)
            for size, (verify, draft) in zip(sizes, off, strict=True)
            for count in (self._requests.get(size, max(self._draft)),)
        ]

    def calibrate(self) -> list[Sample]:
        return self.replay(tuple(size for size in self._verify for _ in range(REPLAYS)))
