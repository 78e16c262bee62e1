"""How long `warmcurve ls` and `verify` take where a store has very many entries.

usage: make bench-listing [ENTRIES=10000] [AGAINST=/path/to/another/checkout/src]

The store is made first: entries of some 20 kB, as a vLLM of one device makes them, and as many histories as a
store keeps. `first` is the time until the first row, `total` the time until the command ends. With AGAINST the same
commands run with that source too, and `ratio` is its time over ours.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from hashlib import sha256
from pathlib import Path

import msgspec

from warmcurve.boot.driver import drive
from warmcurve.boot.inputs import Inputs
from warmcurve.boot.path import Boot
from warmcurve.boot.settings import Settings
from warmcurve.outcome import Reason
from warmcurve.storage.entry import Entry, decode, encode
from warmcurve.storage.history import KEPT, History, Rejection
from warmcurve.testing import MemoryStore, ScriptedEngine

COMMANDS = (("ls",), ("ls", "--check"), ("ls", "--json"), ("verify",))
MACHINE = "cuda GPU-1"


def example() -> Entry:
    engine, store = ScriptedEngine(captured=tuple(range(8, 257, 8))), MemoryStore()
    configuration = {f"option_{n}": ["a value of some length", n, None] for n in range(380)}
    boot = Boot(
        Inputs(
            engine="scripted",
            plan=engine.plan,
            read_factors=lambda: {"configuration": configuration, "number": 0},
            store=store,
            settings=Settings(),
            clock=engine.clock,
            draw=lambda _: 0,
            conditions={"host": "node-1"},
        )
    )
    data = store.get(drive(boot, engine).digest or "")
    assert data is not None
    return decode(data)


def fill(directory: Path, count: int) -> int:
    """The size of an entry, in bytes."""
    entries, histories = directory / "v1", directory / "history"
    for path in (directory, entries, histories):
        path.mkdir(mode=0o700)
    entry, size = example(), 0
    for number in range(count):
        numbered = msgspec.structs.replace(entry, factors=entry.factors | {"number": number})
        data = encode(numbered)
        size = len(data)
        (entries / f"{numbered.digest}.jsonl").write_bytes(data)
        if number >= KEPT:
            continue
        rejection = Rejection("2030-01-01", sha256(data).hexdigest(), Reason.SENTINEL_SHAPE)
        name = f"{numbered.digest}-{sha256(MACHINE.encode()).hexdigest()[:16]}.json"
        (histories / name).write_bytes(msgspec.json.encode(History(MACHINE, (rejection,) * (number % 4))))
    return size


def measure(command: tuple[str, ...], store: Path, source: Path | None) -> tuple[float, float]:
    environment = os.environ | ({"PYTHONPATH": str(source)} if source else {})
    words = [sys.executable, "-m", "warmcurve.cli", *command, "--store", str(store)]
    begin = time.perf_counter()
    with subprocess.Popen(words, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout
        # The first line of a table is its title.
        for _ in range(2 if command[0] == "ls" else 1):
            process.stdout.readline()
        first = time.perf_counter() - begin
        while process.stdout.read(1 << 20):
            pass
    assert process.returncode == 0, f"{' '.join(command)} ended with {process.returncode}"
    return first, time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--entries", type=int, default=10_000)
    parser.add_argument("--against", type=Path, help="the src directory of another checkout")
    asked = parser.parse_args()
    os.umask(0o077)
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder, "store")
        size = fill(store, asked.entries)
        print(f"{asked.entries} entries of {size} bytes, {len(os.sched_getaffinity(0))} processors")
        for command in COMMANDS:
            first, total = measure(command, store, None)
            line = f"{' '.join(command):12}  first {first:6.2f} s  total {total:6.2f} s"
            if asked.against:
                # An earlier version knows no --check: its ls checked every entry.
                known = tuple(word for word in command if word != "--check")
                before = measure(known, store, asked.against)
                line += f"  ratio {before[0] / first:6.1f}  {before[1] / total:6.1f}"
            print(line, flush=True)


if __name__ == "__main__":
    main()
