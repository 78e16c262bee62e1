"""Boot the real vLLM twice with warmcurve, cold and then warm, and show what differs. Run it with `make demo-vllm`.

usage: demo_vllm.py [--json] [--verbose] [--keep DIR]        JSON=1 and KEEP=DIR in the environment do the same

Each boot is a process of its own; the two share a fresh cache directory and nothing else. DIR, if given, is that
directory and stays, with vLLM's logs in it.
Exits with 1 if the warm boot did not reuse the stored curves, or if its cost tables or tokens differ.
"""

import argparse
import hashlib
import importlib.util
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from vllm_cpu import sentinel_limits

VLLM_CPU = Path(__file__).resolve().parent / "vllm_cpu"
REPORTED = ("outcome", "reason", "calibration_runs", "sentinel_runs", "calibration_ms", "digest")
BOOT_SECONDS = 600
NAMES = ("cold", "warm")
STORE = "adaptive_verification"
MARK = "warmcurve:"


class DemoError(Exception):
    """One line on what went wrong."""


def boot(result: Path) -> None:
    """The child: one boot of the engine, written down for the parent."""
    import engine

    reports = Path(os.environ["VLLM_CACHE_ROOT"]) / STORE / "reports"
    before = set(reports.glob("*.json"))
    from vllm import LLM, __version__  # noqa: F401  importing LLM is not part of the boot that is timed

    started = time.perf_counter()
    llm = engine.start()
    boot_ms = round((time.perf_counter() - started) * 1e3, 1)
    written = sorted(set(reports.glob("*.json")) - before)
    tables = hashlib.sha256()
    for table in engine.runner(llm).adaptive_verification.cost_tables:
        tables.update(f"{table.dtype}{table.shape}".encode() + table.tobytes())
    outcome = {
        "engine": f"vllm {__version__.partition('+')[0]}",
        "boot_ms": boot_ms,
        "report": json.loads(written[-1].read_text()) if written else {},
        "tables": tables.hexdigest(),
        "tokens": engine.tokens(llm),
    }
    result.write_text(json.dumps(outcome))
    engine.stop(llm)


def run_child(name: str, scratch: Path, cache: Path, *, verbose: bool) -> dict[str, Any]:
    result, log = scratch / f"{name}.json", cache / f"{name}.log"
    path = [str(VLLM_CPU), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    environment = {
        **sentinel_limits.WIDE,
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path),
        "VLLM_CACHE_ROOT": str(cache),
        "VLLM_ENABLE_ADAPTIVE_VERIFICATION_PROFILE_CACHE": "1",
        "WARMCURVE_VLLM_CPU": "1",
    }
    command = [sys.executable, __file__, "--boot", name, "--result", str(result)]
    shown = sys.stderr if verbose else subprocess.DEVNULL
    # -i: what the boot prints after Ctrl-C is in the log as well.
    with subprocess.Popen(["tee", "-i", str(log)], stdin=subprocess.PIPE, stdout=shown) as tee:
        output = tee.stdin
        try:
            subprocess.run(command, env=environment, stdout=output, stderr=output, timeout=BOOT_SECONDS, check=True)
        except subprocess.SubprocessError as error:
            raise DemoError(f"the {name} boot failed: {error}") from error
    outcome: dict[str, Any] = json.loads(result.read_text())
    return outcome


def compare(cold: dict[str, Any], warm: dict[str, Any]) -> dict[str, Any]:
    boots = []
    for name, outcome in zip(NAMES, (cold, warm), strict=True):
        reported = {field: outcome["report"].get(field) for field in REPORTED}
        digest = reported.pop("digest")
        boots.append({"name": name, **reported, "boot_ms": outcome["boot_ms"], "digest": digest})
    return {
        "engine": cold["engine"],
        "boots": boots,
        "identical_tables": cold["tables"] == warm["tables"],
        "identical_output": cold["tokens"] == warm["tokens"],
    }


def print_table(found: dict[str, Any]) -> None:
    rows = [("boot", "outcome", "reason", "calibration runs", "sentinel runs", "calibration ms", "boot ms", "digest")]
    for each in found["boots"]:
        runs = f"{each['calibration_runs']}", f"{each['sentinel_runs']}"
        times = f"{each['calibration_ms'] or 0:.0f}", f"{each['boot_ms']:.0f}"
        outcome = each["outcome"] or "no report"
        rows.append((each["name"], outcome, each["reason"] or "-", *runs, *times, (each["digest"] or "-")[:12]))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def print_found(found: dict[str, Any], logs: dict[str, list[str]]) -> None:
    print(f"{found['engine']} on this CPU with tiny models of random weights; a process for each boot\n")
    print_table(found)
    print("\nwhat warmcurve logged in each boot:")
    for name, lines in logs.items():
        for line in lines or ["nothing"]:
            print(f"  {name}  {line}")
    print(f"\ncost tables identical: {'yes' if found['identical_tables'] else 'no'}")
    print(f"generated tokens identical: {'yes' if found['identical_output'] else 'no'}\n")
    print(sentinel_limits.in_words())
    cold = found["boots"][0]
    if cold["calibration_ms"]:
        share = cold["calibration_ms"] / cold["boot_ms"]
        print(f"The calibration was {share:.0%} of the cold boot: on this CPU it is a small part. Most of the")
        print("difference in boot ms is vLLM's own caches; it is there without warmcurve too.")
        print("What a GPU saves is not shown here.")


def problem(found: dict[str, Any]) -> str | None:
    warm = found["boots"][1]
    if warm["outcome"] is None:
        return "no boot report was written: warmcurve is not on PYTHONPATH, or vLLM did not load it"
    if warm["outcome"] != "reused":
        return f"the warm boot was not served from the store: {warm['outcome']}, {warm['reason']}"
    if not (found["identical_tables"] and found["identical_output"]):
        return "the warm boot differs from the cold one"
    return None


def logged(log: Path) -> list[str]:
    """What warmcurve itself put into vLLM's log, without what vLLM puts before every line."""
    lines = log.read_text(errors="replace").splitlines()
    return [line[line.index(MARK) :] for line in lines if MARK in line]


def copy_logs(cache: Path) -> Path:
    kept = Path(tempfile.mkdtemp(prefix="warmcurve-demo-logs-"))
    for log in cache.glob("*.log"):
        shutil.copy(log, kept)
    return kept


def demo(*, as_json: bool, verbose: bool, keep: Path | None) -> int:
    with tempfile.TemporaryDirectory(prefix="warmcurve-demo-", ignore_cleanup_errors=True) as name:
        scratch = Path(name)
        cache = keep or scratch / "cache"
        cache.mkdir(exist_ok=True)
        try:
            outcomes = []
            for boot_name in NAMES:
                print(f"{boot_name} boot ...", file=sys.stderr, flush=True)
                outcomes.append(run_child(boot_name, scratch, cache, verbose=verbose))
            found = compare(*outcomes)
            if as_json:
                print(json.dumps(found, indent=2))
            else:
                print_found(found, {name: logged(cache / f"{name}.log") for name in NAMES})
            wrong = problem(found)
        except DemoError as error:
            wrong = str(error)
        if wrong:
            print(f"demo_vllm.py: {wrong}", file=sys.stderr)
        if keep or (wrong and not verbose):
            print(f"vLLM's logs: {keep or copy_logs(cache)}", file=sys.stderr)
        if keep and (keep / STORE).exists():
            print(f"the store: .venv/bin/warmcurve ls --store {shlex.quote(str(keep / STORE))}", file=sys.stderr)
    return 1 if wrong else 0


def main() -> int:
    parser = argparse.ArgumentParser(description="Boot the real vLLM cold and warm.")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout (also: JSON=1)")
    parser.add_argument("--verbose", action="store_true", help="vLLM's own output on stderr")
    parser.add_argument(
        "--keep",
        type=Path,
        metavar="DIR",
        default=os.environ.get("KEEP") or None,
        help="leave the store and vLLM's logs in DIR, which must be new or empty (also: KEEP=DIR)",
    )
    parser.add_argument("--boot", help=argparse.SUPPRESS)
    parser.add_argument("--result", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.boot:
        boot(arguments.result)
        return 0
    if importlib.util.find_spec("vllm") is None:
        print("demo_vllm.py: no vLLM here; `make demo-vllm` makes its environment and runs this", file=sys.stderr)
        return 1
    keep = arguments.keep and arguments.keep.resolve()
    if keep:
        try:
            keep.mkdir(parents=True, exist_ok=True)
            if any(keep.iterdir()):
                parser.error(f"--keep: {keep} is not empty; give a new or an empty directory")
        except OSError as error:
            parser.error(f"--keep: {error}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        as_json = arguments.json or os.environ.get("JSON", "0") not in {"", "0"}
        return demo(as_json=as_json, verbose=arguments.verbose, keep=keep)
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
