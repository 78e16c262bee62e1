"""What the demonstration and the bench measure: boots, and the same prompts served in several modes."""

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from warmcurve.boot.settings import Settings
from warmcurve.curves.profile import CostProfile
from warmcurve.embedded import library
from warmcurve.embedded.engine import Counts, Engine, Policy, Request
from warmcurve.embedded.model import load
from warmcurve.embedded.startup import BUSY, NOISY, Startup, start
from warmcurve.planning.planner import CostTables
from warmcurve.reporting.report import BootReport
from warmcurve.storage.store import Store

PROMPT: Final = 128
REPLY: Final = 128
"""Bytes of a prompt, and of a reply on average."""

Progress = Callable[[str], None]


class Booted(NamedTuple):
    """An engine ready to serve. `boot_ms` is the whole boot: weights, warm-up and the calibration phase."""

    engine: Engine
    report: BootReport
    profile: CostProfile
    tables: CostTables
    boot_ms: float


class Serving(NamedTuple):
    """One mode at one batch size: bytes emitted and their rate, accepted drafts a step of a request, the output."""

    mode: str
    batch: int
    tokens: int
    tokens_per_s: float
    accepted_per_step: float
    output_sha256: str


class Shown(NamedTuple):
    """Everything that a demonstration found: boots by name, and what was served."""

    boots: dict[str, Booted]
    serving: list[Serving]

    def identical_tables(self) -> bool:
        """Whether the stored curves give the very tables that the measured ones gave."""
        first, *others = (booted.tables for booted in self.boots.values())
        return all((a == b).all() for other in others for a, b in zip(first, other, strict=True))

    def identical_output(self) -> bool:
        """Whether all modes emitted the same bytes, at each batch size."""
        return len({(each.batch, each.output_sha256) for each in self.serving}) == len({s.batch for s in self.serving})


def boot(
    store: Store,
    max_requests: int,
    progress: Progress,
    settings: Settings | None = None,
    clock_ns: Callable[[], int] = time.perf_counter_ns,
) -> Booted:
    """Load, warm up and start an engine, as a process that serves would; by default with settings for a busy CPU."""
    began = time.perf_counter_ns()
    progress("loading weights, touching buffers")
    engine = Engine(*load(), max_requests, clock_ns=clock_ns)
    engine.warm_up()
    startup = Startup(engine, progress)
    report = start(engine, store, settings or Settings(NOISY, thresholds=BUSY), startup=startup)
    assert startup.profile is not None
    assert engine.policy.tables is not None
    return Booted(engine, report, startup.profile, engine.policy.tables, (time.perf_counter_ns() - began) / 1e6)


def requests(count: int, reply: int = REPLY) -> list[Request]:
    """Prompts from files of the standard library that training has not seen, each with a seed of its own.

    Replies are of 3/4 to 5/4 of the length: equal ones would march in step as long as nothing speculates.
    """
    lengths = [3 * reply // 4 + 29 * seed % (reply // 2 + 1) for seed in range(count)]
    prompts = library.prompts(count, PROMPT)
    return [Request(prompt, lengths[seed], seed) for seed, prompt in enumerate(prompts)]


def serve(
    engine: Engine, policies: Mapping[str, Policy], batch: int, count: int, rounds: int, progress: Progress
) -> list[Serving]:
    """Serve the same `count` prompts in each mode, `batch` at once, timed by the engine's clock.

    All rounds of a mode run the same steps, and what else runs on the machine can only slow one down, so each step
    counts with its fastest time over the interleaved rounds.
    """
    steps_ns: dict[str, list[list[int]]] = {mode: [] for mode in policies}
    served: dict[str, tuple[Sequence[Request], Counts]] = {}
    for turn in range(rounds):
        for mode, policy in policies.items():
            progress(f"serving {count} prompts, {batch} at once: {mode}, round {turn + 1} of {rounds}")
            engine.policy, engine.counts = policy, Counts()
            todo = requests(count)
            steps_ns[mode].append(engine.serve(todo, batch))
            served[mode] = todo, engine.counts
    results = []
    for mode, (done, counts) in served.items():
        digest = hashlib.sha256(b"".join(request.reply() for request in done)).hexdigest()
        speed = counts.emitted * 1e9 / sum(map(min, zip(*steps_ns[mode], strict=True)))
        results.append(Serving(mode, batch, counts.emitted, speed, counts.accepted / counts.steps, digest))
    return results
