"""What the votes of a warm boot cost: processes of one gloo group vote over its store, as vLLM's ranks do.

usage: make bench-vote [RANKS=8]

Each boot of a rank is a real one, on an engine whose steps take no time; all start together. `votes` is the time that
the slowest rank spent on the votes of one boot, waiting for the others included; `boot` the slowest rank's whole boot.
A bare round trip is one `set` and one `get` of a key over the same store, by one rank while the others are idle.
"""

import multiprocessing
import socket
import statistics
import sys
import tempfile
import time
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch.distributed
from torch.distributed import PrefixStore, distributed_c10d

from warmcurve.boot.driver import drive
from warmcurve.boot.inputs import Inputs
from warmcurve.boot.path import Boot
from warmcurve.boot.settings import Settings
from warmcurve.clock import SystemClock
from warmcurve.ranks.distributed import DefaultStore
from warmcurve.ranks.register import Register
from warmcurve.storage.store import DirectoryStore
from warmcurve.testing import ScriptedEngine

BOOTS = 30
CAPTURED = tuple(2**power for power in range(10))


def rank_of(rank: int, world: int, port: int, directory: str, answers: Any, over: Any) -> None:
    torch.distributed.init_process_group(
        "gloo", f"tcp://127.0.0.1:{port}", timeout=timedelta(seconds=120), rank=rank, world_size=world
    )
    store = DirectoryStore(Path(directory) / f"node{rank}")
    engine = ScriptedEngine(captured=CAPTURED, max_tokens=2048)
    settings = Settings()
    boots = []
    for _ in range(BOOTS + 1):
        key_values = DefaultStore(rank)
        boot = Boot(
            Inputs(
                engine="scripted",
                plan=engine.plan,
                read_factors=lambda: {"device": "none", "configuration": {f"field_{n}": n for n in range(300)}},
                store=store,
                settings=settings,
                clock=SystemClock(),
                draw=lambda n: n // 2,
                rank=rank,
                world=world,
                register=Register(key_values, SystemClock(), settings.vote_timeout_s),
            )
        )
        torch.distributed.barrier()
        started = time.perf_counter_ns()
        report = drive(boot, engine)
        ended = time.perf_counter_ns()
        key_values.close()
        boots.append((report.outcome, (ended - started) / 1e6, report.vote.waited_ms if report.vote else 0.0))
    trips = []
    if rank == world - 1:
        bare = PrefixStore("bare", distributed_c10d._get_default_store())
        for number in range(200):
            started = time.perf_counter_ns()
            bare.set(str(number), "x")
            bare.get(str(number))
            trips.append((time.perf_counter_ns() - started) / 1e6)
    answers.put((rank, boots, trips))
    over.wait()


def main(world: int) -> None:
    context = multiprocessing.get_context("spawn")
    answers, over = context.Queue(), context.Event()
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="warmcurve-") as directory:
        arguments = (world, port, directory, answers, over)
        processes = [context.Process(target=rank_of, args=(rank, *arguments), daemon=True) for rank in range(world)]
        for process in processes:
            process.start()
        answered = sorted(answers.get(timeout=300) for _ in processes)
        over.set()
        for process in processes:
            process.join()
    cold, *warm = zip(*(boots for _, boots, _ in answered), strict=True)
    assert {outcome for outcome, _, _ in cold} == {"recorded"}
    assert {outcome for boots in warm for outcome, _, _ in boots} == {"reused"}
    votes = sorted(max(waited for _, _, waited in boots) for boots in warm)
    whole = sorted(max(ms for _, ms, _ in boots) for boots in warm)
    trip = statistics.median(answered[-1][2])
    print(f"{world} ranks, {len(warm)} warm boots; a bare round trip takes {trip:.3f} ms")
    for name, times in (("votes", votes), ("boot", whole)):
        middle, late = statistics.median(times), times[int(0.9 * len(times))]
        print(f"  {name:5} median {middle:6.1f} ms ({middle / trip:5.0f} round trips), 9 of 10 within {late:6.1f} ms")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 8)
