"""How far can a stored curve be trusted once its sentinels confirmed it? Acceptance against what a wrong curve costs.

    python bench/trust.py [--trials 1000] [--seed 1] [--workers 2] [--json FILE] [--docs DIRECTORY]

Every drift of `drifts.py` is met by every rule in many seeded trials: a calibration of the machine as it was, with
noise, then a boot on the machine as it is. The rules are the package's own (`sentinel.choose`, `sentinel.judge`), that
of vLLM pull request #52233 by its description, and some that might take their place.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from drifts import Base, Drift, Loss, Machine, drifts, embedded, gpu_like, loss, staircase
from page import write

from warmcurve import sentinel
from warmcurve.calibration import profile_from
from warmcurve.planner import losses
from warmcurve.profile import CostCurve, CostProfile, Sample
from warmcurve.sentinel import Limits, VerifiedProfile

Draw = Callable[[int], int]
Choose = Callable[[tuple[int, ...], Draw], tuple[int, ...]]
UNDRIFTED_TRIALS: Final = 10
"""Times as many: that a rule never rejects takes more trials to show than that it rejects."""


class Trial(NamedTuple):
    """`shares` weigh the captured sizes but the largest by what an error there costs. `looks` keeps what was chosen,
    replayed and found, so that rules that choose alike see the same replays.
    """

    stored: CostProfile
    machine: Machine
    shares: dict[int, float]
    draw: Draw
    looks: dict[Choose, tuple[tuple[int, ...], list[Sample], list[float]]]


Verdict = tuple[bool, int]
"""Whether a boot reuses the curves, and how many replays it took."""
Rule = Callable[[Trial], Verdict]


def pull_request_52233(trial: Trial) -> Verdict:
    """The largest captured size twice: each time of each stage within 0.4 to 2.5 times the stored one."""
    largest = trial.stored.capture_limit
    accepted = all(
        0.4 <= measured / (stored or np.nan) <= 2.5
        for sample in trial.machine.replay((largest, largest))
        for measured, stored in (
            (sample.verify_ms, trial.stored.verify.at(largest)),
            (sample.draft_ms, trial.stored.draft.at(sample.requests)),
        )
    )
    return accepted, 2


def judged(choose: Choose) -> Rule:
    """The path of a boot with the package's limits: replay what was chosen, judge, and again while it is open."""

    def rule(trial: Trial) -> Verdict:
        sizes = choose(trial.stored.captured(), trial.draw)
        samples: list[Sample] = []
        for turn in range(1, sentinel.ROUNDS + 1):
            samples += trial.machine.replay(sizes)
            verdict = sentinel.judge(trial.stored, sizes * turn, samples, Limits())
            if isinstance(verdict, VerifiedProfile):
                return True, len(samples)
            if verdict.final:
                break
        return False, len(samples)

    return rule


def looked(choose: Choose, limits: Sequence[float]) -> Rule:
    """The same with a limit of its own for the loss bound at each look."""

    def rule(trial: Trial) -> Verdict:
        if choose not in trial.looks:
            trial.looks[choose] = choose(trial.stored.captured(), trial.draw), [], []
        sizes, samples, bounds = trial.looks[choose]
        for turn, limit in enumerate(limits, 1):
            if len(bounds) < turn:
                samples += trial.machine.replay(sizes)
                verdict = sentinel.judge(trial.stored, sizes * turn, samples, Limits(max_regret=1))
                bounds.append(verdict.evidence.loss_bound if isinstance(verdict, VerifiedProfile) else 1.0)
            if bounds[turn - 1] <= limit:
                return True, turn * len(sizes)
        return False, len(limits) * len(sizes)

    return rule


def sweep(captured: tuple[int, ...], draw: Draw) -> tuple[int, ...]:
    return sentinel.choose(captured, draw, "sweep")


def weighted(trial: Trial) -> Verdict:
    """Policy `two`, the second size drawn by what an error there costs."""
    pick = sentinel.weighted(trial.shares)
    return judged(lambda captured, draw: sentinel.choose(captured, draw, pick=pick))(trial)


def with_tail(trial: Trial) -> Verdict:
    """Sweep with tight limits, then one replay of each eager size, whose ratios count with the middle of the captured
    ones. An eager run prices no drafter.
    """
    accepted, replays = looked(sweep, TIGHT)(trial)
    if not accepted:
        return False, replays
    _, samples, _ = trial.looks[sweep]
    tail = trial.machine.replay(tuple(size for size in trial.stored.verify.sizes if size > trial.stored.capture_limit))
    captured, eager = (
        [sample.verify_ms / (trial.stored.verify.at(sample.tokens) or np.nan) for sample in each]
        for each in (samples, tail)
    )
    ratios = (median(captured), *eager)
    return 1 - min(ratios) / max(ratios) <= TIGHT[0], replays + len(tail)


TIGHT: Final = (0.095,) * 5
RISING: Final = tuple(0.055 + 0.005 * look for look in range(1, 8))
RULES: Final[dict[str, Rule]] = {
    "#52233": pull_request_52233,
    "two": judged(sentinel.choose),
    "two, weighted": weighted,
    "two, tight": looked(sentinel.choose, TIGHT),
    "sweep": judged(sweep),
    "sweep, tight": looked(sweep, TIGHT),
    "sweep, rising": looked(sweep, RISING),
    "sweep, tight, tail": with_tail,
}


def shares(base: Base) -> dict[int, float]:
    """What a cost that is stored 1.5 times too low or too high costs at each captured size but the largest: mean over
    the declared batches, as a share of all.
    """
    declared = [case.batch for case in base.cases()]
    found = {}
    for size in base.profile.captured()[:-1]:
        points = [(n, ms * 1.5 if n == size else ms) for n, ms in base.profile.verify.points()]
        bumped = CostProfile(
            CostCurve(*map(tuple, zip(*points, strict=True))), base.profile.draft, base.profile.capture_limit, ()
        )
        found[size] = losses(bumped, base.profile, declared).mean() + losses(base.profile, bumped, declared).mean()
    return {size: each / sum(found.values()) for size, each in found.items()}


class Cell(NamedTuple):
    """One drift of one base: its true loss, the share of trials in which each rule accepted, and its replays a boot."""

    base: str
    family: str
    amount: str
    seen: bool
    loss: Loss
    trials: int
    accepted: dict[str, float]
    replays: dict[str, float]


def cell(base: Base, drift: Drift, weights: dict[int, float], trials: int, seed: list[int]) -> Cell:
    random = np.random.default_rng(seed)
    before, machine = (Machine(base, profile, drift.noise, random) for profile in (drift.then, drift.now))
    if (drift.family, drift.noise) == ("none", 0.02):
        trials *= UNDRIFTED_TRIALS
    count, runs = dict.fromkeys(RULES, 0), dict.fromkeys(RULES, 0)
    draw = lambda n: int(random.integers(n))  # noqa: E731
    for _ in range(trials):
        stored = profile_from(before.calibrate(), drift.then.capture_limit)
        trial = Trial(stored, machine, weights, draw, {})
        for name, rule in RULES.items():
            yes, replays = rule(trial)
            count[name] += yes
            runs[name] += replays
    shares = [{name: times / trials for name, times in each.items()} for each in (count, runs)]
    return Cell(base.name, drift.family, drift.amount, drift.seen, loss(base, drift), trials, *shares)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=1000, help="a drift; ten times as many where nothing drifted")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--boots", type=int, default=5, help="calibrations of the embedded engine")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--docs", type=Path, help="write trust.svg and the generated part of trust.md there")
    arguments = parser.parse_args()
    bases = [gpu_like(), embedded(arguments.boots), staircase()]
    cells = []
    with ProcessPoolExecutor(arguments.workers) as pool:
        waiting = [
            pool.submit(cell, base, drift, weights, arguments.trials, [arguments.seed, place, number])
            for place, base in enumerate(bases)
            for weights in (shares(base),)
            for number, drift in enumerate(drifts(base))
        ]
        for done, each in enumerate(waiting, 1):
            cells.append(each.result())
            print(f"\r{done} of {len(waiting)} drifts", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    if arguments.json:
        arguments.json.write_text(
            json.dumps([each._asdict() | {"loss": each.loss._asdict()} for each in cells], indent=1)
        )
    write(bases, cells, list(RULES), arguments.docs)


if __name__ == "__main__":
    main()
