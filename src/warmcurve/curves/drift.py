"""Says in words what moved: which sizes became dearer or cheaper than stored, and what the rest did."""

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import median, median_high, median_low
from typing import Final, NamedTuple

STEADY: Final = 1.1
"""Ratios that are closer than this count as equal, unless nothing would be left to say."""
_NAMED: Final = 4


class _Group(NamedTuple):
    """Neighbouring sizes of one stage that moved the same way."""

    name: str
    ratios: Sequence[float]


def moved(verify: Mapping[int, float], draft: Mapping[int, float]) -> str:
    """Such as "verify of 256-1024 tokens became 1.6× dearer, the rest did not", from measured / stored by size.

    The rest is what most sizes did. If there are two halves, it is the one nearer to the stored costs. If there are
    many groups, only those that moved farthest are named.
    """
    ratios = sorted((*verify.values(), *draft.values()))
    rest = min(median_low(ratios), median_high(ratios), key=lambda ratio: abs(math.log(ratio)))
    steady = STEADY
    groups = _groups(verify, draft, rest, steady)
    if not groups and not _way(rest, steady):
        # Of the two ratios that are farthest apart, one differs from the rest by the root of theirs at least.
        steady = (ratios[-1] / ratios[0]) ** 0.4
        groups = _groups(verify, draft, rest, steady)
    if not groups:
        return f"all {_change(rest, steady)}"
    farthest = sorted(groups, key=lambda group: -abs(math.log(median(group.ratios) / rest)))[:_NAMED]
    moves = [f"{group.name} {_change(median(group.ratios), steady)}" for group in groups if group in farthest]
    if len(groups) > _NAMED:
        moves.append(f"{len(groups) - _NAMED} more groups moved")
    return f"{', '.join(moves)}, the rest {_change(rest, steady) if _way(rest, steady) else 'did not'}"


def _groups(verify: Mapping[int, float], draft: Mapping[int, float], rest: float, steady: float) -> tuple[_Group, ...]:
    found = (("verify of {} tokens", verify), ("draft of {} requests", draft))
    return tuple(group for name, ratios in found for group in _runs(name, ratios, rest, steady))


def _runs(name: str, ratios: Mapping[int, float], rest: float, steady: float) -> Iterator[_Group]:
    run: list[int] = []
    before = 0
    for size in sorted(ratios):
        way = _way(ratios[size] / rest, steady)
        if run and way != before:
            yield _group(name, run, ratios)
            run = []
        if way:
            run.append(size)
        before = way
    if run:
        yield _group(name, run, ratios)


def _group(name: str, run: Sequence[int], ratios: Mapping[int, float]) -> _Group:
    label = str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}"
    return _Group(name.format(label), [ratios[size] for size in run])


def _way(ratio: float, steady: float) -> int:
    """Up, down, or neither."""
    return (ratio > steady) - (ratio < 1 / steady)


def _change(ratio: float, steady: float) -> str:
    if not _way(ratio, steady):
        return "stayed as stored"
    factor = max(ratio, 1 / ratio)
    times = f"{factor:.2g}" if factor < 10 else f"{factor:.0f}"
    return f"became {times}× {'dearer' if ratio > 1 else 'cheaper'}"
