"""Is one setting near the best at every load? And do stored curves serve as well as fresh ones?

    python bench/serving.py [--rounds 5] [--batches 1 4 16 64] [--json FILE]

One engine boots cold and warm, then serves the same prompts without speculation, with every fixed length, and with
adaptive verification by fresh and by stored curves. Rounds of all modes are interleaved, and ratios are of the fastest
rounds of this run: speeds of different runs do not compare.
"""

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from warmcurve.embedded.engine import Policy
from warmcurve.embedded.model import POSITIONS
from warmcurve.embedded.trial import boot, serve
from warmcurve.store import DirectoryStore


def _quiet(text: str) -> None:
    """No progress: the table grows as it is measured."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 4, 16, 64])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        store = DirectoryStore(Path(directory) / "adaptive_verification")
        cold, warm = (boot(store, max(arguments.batches), _quiet) for _ in range(2))
    for booted in (cold, warm):
        print(booted.report.log_line(), file=sys.stderr)
    policies = {
        "plain": Policy(0),
        **{f"fixed-{length}": Policy(length) for length in range(1, POSITIONS + 1)},
        "adaptive-fresh": Policy(tables=cold.tables),
        "adaptive-stored": Policy(tables=warm.tables),
    }
    found = []
    print(f"{'batch':>5}  {'mode':15}  {'bytes/s':>8}  {'of best fixed':>13}  {'accepted/step':>13}  output")
    for batch in arguments.batches:
        served = serve(warm.engine, policies, batch, max(12, 4 * batch), arguments.rounds, _quiet)
        best = max(each.tokens_per_s for each in served if not each.mode.startswith("adaptive"))
        for each in served:
            found.append({**each._asdict(), "ratio": each.tokens_per_s / best})
            print(
                f"{batch:5}  {each.mode:15}  {each.tokens_per_s:8.0f}  {each.tokens_per_s / best:13.3f}  "
                f"{each.accepted_per_step:13.2f}  {each.output_sha256[:8]}",
                flush=True,
            )
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
