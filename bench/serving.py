"""Is one setting near the best at every load? Do stored curves serve as well as fresh ones? What if one cost is wrong?

    python bench/serving.py [--rounds 5] [--batches 1 4 16 64] [--adaptive] [--cpu] [--json FILE]

One engine boots cold and warm, until its curves are confirmed. For each batch size the stored entry is tampered with
where the planner loses most by it: the cost of one captured size, threefold or a third. Each tampered entry, and the
untouched one, meets boots that replay every captured size.

Then the engine serves the same prompts without speculation, with every fixed length, and with adaptive verification by
fresh, by stored and by tampered curves; the last are forced upon it, since no verdict lets them in. Rounds of all modes
are interleaved, and each step counts with its fastest round. Ratios are of this run: speeds of different runs do not
compare.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from tampering import Tampering, worst

from warmcurve.boot.settings import Settings
from warmcurve.curves.sentinel import Limits
from warmcurve.embedded.engine import Engine, Policy
from warmcurve.embedded.model import POSITIONS
from warmcurve.embedded.startup import BUSY, NOISY
from warmcurve.embedded.trial import Booted, boot, serve
from warmcurve.outcome import Outcome
from warmcurve.planning.planner import CostTables, cost_tables
from warmcurve.storage.entry import decode
from warmcurve.storage.store import DirectoryStore

TRIES: Final = 9
Start = Callable[..., Booted]


def _quiet(text: str) -> None:
    """No progress: the tables grow as they are measured."""


def _store(directory: str) -> DirectoryStore:
    return DirectoryStore(Path(tempfile.mkdtemp(dir=directory)) / "adaptive_verification")


def _confirmed(directory: str, start: Start) -> tuple[bytes, Booted, Booted]:
    """An entry, the boot that measured it, and one that reused it after a replay of every captured size.

    A calibration that other programs disturbed at some size says nothing true to tamper with.
    """
    for _ in range(TRIES):
        store = _store(directory)
        cold = start(store)
        assert cold.report.digest is not None
        entry = store.get(cold.report.digest)
        assert entry is not None
        warm = start(store, settings=Settings(NOISY, sentinels="sweep", thresholds=BUSY))
        for booted in (cold, warm):
            print(booted.report.log_line(), file=sys.stderr, flush=True)
        if warm.report.outcome is Outcome.REUSED:
            return entry, cold, warm
    sys.exit(f"no calibration of {TRIES} was confirmed: this machine is too busy")


def _sweeps(
    entries: Mapping[Tampering | None, bytes], digest: str, directory: str, start: Start
) -> Iterator[dict[str, Any]]:
    """Each entry in a store of its own, since a boot that refuses one replaces it."""
    print(f"\n{'limits':7}  {'entry':29}  measured / stored there, and outcome of a boot with sentinels=sweep")
    for limits, values in (("0.2", Limits()), ("wide", NOISY)):
        for tampering, data in entries.items():
            store = _store(directory)
            store.put(digest, data)
            report = start(store, settings=Settings(values, sentinels="sweep", thresholds=BUSY)).report
            readings = report.evidence.readings if report.evidence else ()
            ratio = next((each.verify_ratio for each in readings if tampering and each.tokens == tampering.size), None)
            entry = str(tampering or "untouched")
            there = "-" if ratio is None else f"{ratio:.2f}"
            why = f", {report.reason}: {report.detail}" if report.reason else ""
            print(f"{limits:7}  {entry:29}  {there:>4}  {report.outcome}{why}", flush=True)
            yield {
                "limits": limits,
                "entry": entry,
                "outcome": report.outcome,
                "reason": report.reason,
                "detail": report.detail,
                "sentinel_runs": report.sentinel_runs,
                "measured_of_stored": ratio,
            }


def _losses(chosen: Mapping[int, Tampering], entry: bytes, engine: Engine) -> Iterator[dict[str, Any]]:
    true = decode(entry).profile
    print(f"{'batch':>5}  {'loses most by':29}  predicted loss at batch {', '.join(map(str, chosen))}")
    for batch, tampering in chosen.items():
        lost = {each: tampering.loss(true, each, engine.max_tokens) for each in chosen}
        print(f"{batch:5}  {tampering!s:29}  {', '.join(f'{each:.1%}' for each in lost.values())}")
        yield {"batch": batch, **tampering._asdict(), "predicted_loss": lost}


def _serving(
    engine: Engine,
    policies: Mapping[str, Policy],
    tampered: Mapping[int, CostTables],
    rounds: int,
) -> Iterator[dict[str, Any]]:
    print(
        f"\n{'batch':>5}  {'mode':17}  {'bytes/s':>8}  {'of best fixed':>13}  {'of stored':>9}  accepted/step  output"
    )
    for batch, tables in tampered.items():
        modes = {**policies, "adaptive-tampered": Policy(tables=tables)}
        served = serve(engine, modes, batch, max(12, 4 * batch), rounds, _quiet)
        speed = {each.mode: each.tokens_per_s for each in served}
        best = max((each for mode, each in speed.items() if not mode.startswith("adaptive")), default=None)
        for each in served:
            ratio, of_stored = best and each.tokens_per_s / best, each.tokens_per_s / speed["adaptive-stored"]
            of_best = "-" if ratio is None else f"{ratio:.3f}"
            print(
                f"{batch:5}  {each.mode:17}  {each.tokens_per_s:8.0f}  {of_best:>13}  {of_stored:9.3f}  "
                f"{each.accepted_per_step:13.2f}  {each.output_sha256[:8]}",
                flush=True,
            )
            yield {**each._asdict(), "ratio": ratio, "of_stored": of_stored}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 4, 16, 64])
    parser.add_argument("--adaptive", action="store_true", help="leave out plain decoding and fixed lengths")
    parser.add_argument("--cpu", action="store_true", help="time by what this process itself runs, on a busy machine")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    clock_ns = time.process_time_ns if arguments.cpu else time.perf_counter_ns
    start = partial(boot, max_requests=max(arguments.batches), progress=_quiet, clock_ns=clock_ns)
    with tempfile.TemporaryDirectory() as directory:
        entry, cold, warm = _confirmed(directory, start)
        digest = cold.report.digest
        assert digest is not None
        engine = warm.engine
        chosen = {batch: worst(decode(entry).profile, batch, engine.max_tokens) for batch in arguments.batches}
        found = {"tampered": list(_losses(chosen, entry, engine))}
        entries = {None: entry, **{each: each.of_entry(entry) for each in chosen.values()}}
        found["boots"] = list(_sweeps(entries, digest, directory, start))
    profiles = {batch: decode(entries[each], digest).profile for batch, each in chosen.items()}
    tampered = {
        batch: cost_tables(profile, engine.max_requests, engine.max_tokens) for batch, profile in profiles.items()
    }
    lengths = () if arguments.adaptive else range(POSITIONS + 1)
    policies = {
        **{f"fixed-{length}" if length else "plain": Policy(length) for length in lengths},
        "adaptive-fresh": Policy(tables=cold.tables),
        "adaptive-stored": Policy(tables=warm.tables),
    }
    found["serving"] = list(_serving(engine, policies, tampered, arguments.rounds))
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
