"""How far can a stored curve be trusted once its sentinels confirmed it? Acceptance against what a wrong curve costs.

    python bench/trust.py [--trials 1000] [--often 20] [--seed 1] [--workers 2] [--json FILE] [--docs DIRECTORY]

Every drift of `drifts.py` is met by every rule in many seeded trials: a calibration of the machine as it was, with
noise, then a boot on the machine as it is. The rules are the package's own (`sentinel.choose`, `sentinel.judge`), that
of vLLM pull request #52233 by its description, and two that might take their place.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from cell import Cell
from drifts import Base, Drift, Machine, drifts, embedded, gpu_like, loss, staircase
from page import write

from warmcurve.curves import sentinel
from warmcurve.curves.calibration import profile_from
from warmcurve.curves.profile import CostCurve, CostProfile, Sample
from warmcurve.curves.sentinel import Limits, Policy, VerifiedProfile
from warmcurve.planning.planner import losses


@dataclass(frozen=True)
class Trial:
    """`shares` weigh the captured sizes but the largest by what an error there costs."""

    stored: CostProfile
    machine: Machine
    shares: dict[int, float]
    draw: Callable[[int], int]

    @cached_property
    def swept(self) -> "Look":
        """Once for all rules that sweep, so that they see the same replays."""
        return confirm(self, sentinel.choose(self.stored.captured(), self.draw, "sweep"), "sweep")


class Look(NamedTuple):
    """What a boot has after some rounds: whether the verdict is good, what it replayed, and the samples."""

    accepted: bool
    sizes: tuple[int, ...]
    asked: tuple[int, ...]
    samples: tuple[Sample, ...]


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


def confirm(
    trial: Trial,
    sizes: tuple[int, ...],
    policy: Policy = "two",
    max_regret: float | None = None,
    before: Look | None = None,
) -> Look:
    """The path of a boot: replay, judge, and again while it is open. The sizes of a look `before` are compared with
    these, and replayed with them from the second round on.
    """
    rounds = sentinel.rounds_for(policy)
    limits = Limits(max_regret=max_regret or rounds.max_regret)
    to_replay, asked, samples = sizes, (), ()
    if before:
        sizes, asked, samples = before.sizes + sizes, before.asked, before.samples
    for _ in range(rounds.count):
        samples += tuple(trial.machine.replay(to_replay))
        asked += to_replay
        verdict = sentinel.judge(trial.stored, asked, samples, limits, rounds)
        if isinstance(verdict, VerifiedProfile) or verdict.final:
            break
        to_replay = sizes
    return Look(isinstance(verdict, VerifiedProfile), sizes, asked, samples)


def two(max_regret: float | None = None) -> Rule:
    def rule(trial: Trial) -> Verdict:
        look = confirm(trial, sentinel.choose(trial.stored.captured(), trial.draw), max_regret=max_regret)
        return look.accepted, len(look.samples)

    return rule


def weighted(trial: Trial) -> Verdict:
    """Policy `two`, the second size drawn by what an error there costs."""
    pick = sentinel.weighted(trial.shares)
    look = confirm(trial, sentinel.choose(trial.stored.captured(), trial.draw, pick=pick))
    return look.accepted, len(look.samples)


def sweep(trial: Trial) -> Verdict:
    return trial.swept.accepted, len(trial.swept.samples)


def with_tail(trial: Trial) -> Verdict:
    """Policy `sweep`, and the eager sizes as well."""
    look = trial.swept
    if look.accepted:
        eager = tuple(size for size in trial.stored.verify.sizes if size > trial.stored.capture_limit)
        look = confirm(trial, eager, "sweep", before=look)
    return look.accepted, len(look.samples)


RULES: Final[dict[str, Rule]] = {
    "#52233": pull_request_52233,
    "two": two(),
    "two, weighted": weighted,
    "two, 0.1": two(0.1),
    "sweep": sweep,
    "sweep + tail": with_tail,
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


def cell(base: Base, drift: Drift, weights: dict[int, float], trials: int, often: int, seed: list[int]) -> Cell:
    random = np.random.default_rng(seed)
    before, machine = (Machine(base, profile, drift.noise, random) for profile in (drift.then, drift.now))
    if drift.hard:
        trials *= often
    count, runs = dict.fromkeys(RULES, 0), dict.fromkeys(RULES, 0)
    draw = lambda n: int(random.integers(n))  # noqa: E731
    for _ in range(trials):
        stored = profile_from(before.calibrate(), drift.then.capture_limit)
        trial = Trial(stored, machine, weights, draw)
        for name, rule in RULES.items():
            yes, replays = rule(trial)
            count[name] += yes
            runs[name] += replays
    shares = [{name: times / trials for name, times in each.items()} for each in (count, runs)]
    return Cell(base.name, drift.family, drift.amount, drift.seen, loss(base, drift), trials, *shares)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=1000, help="a drift")
    parser.add_argument("--often", type=int, default=20, help="times as many where they decide about a promise")
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
            pool.submit(cell, base, drift, weights, arguments.trials, arguments.often, [arguments.seed, place, number])
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
