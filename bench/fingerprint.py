"""What the fingerprint of a live runner costs, and what warmcurve costs a process that never calibrates.

usage: make bench-fingerprint        (real vLLM on the CPU with tiny models)

The first reading of a process is what a boot pays, once the gate has looked whether this vLLM is a known one: both
parse vLLM's source files. The import hook is measured as a ratio of processor times: new interpreters that register the
plugin and import a few hundred modules, with the switch off and on, in turns.
"""

import os
import statistics
import subprocess
import sys
import time

REPEATS = 20
PROCESSES = 25
# What goes by the finder on sys.meta_path in a process that never imports vLLM's runner. Every vLLM process has loaded
# what the hook itself needs.
IMPORTS = """
import contextlib, functools, importlib.abc, logging, time, typing
start = time.process_time_ns()
from warmcurve.vllm import register
register()
import asyncio, concurrent.futures, ctypes, email.mime.multipart, http.server, json, logging.handlers, msgspec
import multiprocessing.managers, numpy, sqlite3, unittest.mock, urllib.request, xml.dom.minidom
print(time.process_time_ns() - start)
"""


def fingerprint() -> None:
    os.environ["VLLM_ENABLE_ADAPTIVE_VERIFICATION_PROFILE_CACHE"] = "0"
    import engine

    from warmcurve.storage.fingerprint import canonical
    from warmcurve.storage.fingerprint import fingerprint as digest
    from warmcurve.vllm import releases
    from warmcurve.vllm.device.identity import device_of
    from warmcurve.vllm.factors import declared

    llm = engine.start()
    runner = engine.runner(llm)
    took: list[float] = []
    start = time.perf_counter()
    releases.hooked()
    gate = 1e3 * (time.perf_counter() - start)
    for _ in range(REPEATS):
        start = time.perf_counter()
        subject = declared.Subject(runner, device_of(runner), dict(os.environ), (1, 2, 4, 8, 16, 24, 32, 64))
        tree = declared.read(subject)
        digest(tree)
        took.append(1e3 * (time.perf_counter() - start))
    slowest = sorted(((_one(factor, subject), factor.name) for factor in declared.FACTORS), reverse=True)[:4]
    print(f"gate before it (known release?)   {gate:6.1f} ms")
    print(f"fingerprint, first of a process   {took[0]:6.1f} ms")
    print(f"fingerprint, median of {REPEATS - 1:2} more    {statistics.median(took[1:]):6.1f} ms")
    print(f"canonical bytes                   {len(canonical(tree)):6}")
    print("dearest factors                  ", ", ".join(f"{name} {ms:.1f} ms" for ms, name in slowest))
    engine.stop(llm)


def _one(factor, subject) -> float:
    from warmcurve.vllm.factors import declared

    start = time.perf_counter()
    declared._read(factor, subject)
    return 1e3 * (time.perf_counter() - start)


def hook() -> None:
    took: dict[str, list[int]] = {"0": [], "1": []}
    for _ in range(PROCESSES):
        for switch, times in took.items():
            environment = os.environ | {
                "WARMCURVE_VLLM": switch,
                "VLLM_ENABLE_ADAPTIVE_VERIFICATION_PROFILE_CACHE": switch,
            }
            environment.pop("WARMCURVE_VLLM_CPU", None)
            done = subprocess.run([sys.executable, "-c", IMPORTS], env=environment, capture_output=True, check=True)
            times.append(int(done.stdout))
    off, on = (statistics.median(times) / 1e6 for times in took.values())
    print(f"imports without calibration       {off:6.1f} ms off, {on:.1f} ms on: ratio {on / off:.3f}")


if __name__ == "__main__":
    fingerprint()
    hook()
