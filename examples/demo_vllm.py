"""Boot the real vLLM twice with warmcurve, cold and then warm, and show what differs. Run it with `make demo-vllm`.

usage: demo_vllm.py [--json] [--verbose]        JSON=1 in the environment does what --json does

Each boot is a process of its own; the two share a fresh cache directory and nothing else.
Exits with 1 if the warm boot did not reuse the stored curves, or if its cost tables or tokens differ.
"""

import argparse
import hashlib
import importlib.util
import json
import os
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


class DemoError(Exception):
    """One line on what went wrong."""


def boot(result: Path) -> None:
    """The child: one boot of the engine, written down for the parent."""
    import engine

    reports = Path(os.environ["VLLM_CACHE_ROOT"]) / "adaptive_verification" / "reports"
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


def run_child(name: str, scratch: Path, *, verbose: bool) -> dict[str, Any]:
    result, log = scratch / f"{name}.json", scratch / f"{name}.log"
    path = [str(VLLM_CPU), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    environment = {
        **sentinel_limits.WIDE,
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path),
        "VLLM_CACHE_ROOT": str(scratch / "cache"),
        "VLLM_ENABLE_ADAPTIVE_VERIFICATION_PROFILE_CACHE": "1",
        "WARMCURVE_VLLM_CPU": "1",
    }
    command = [sys.executable, __file__, "--boot", name, "--result", str(result)]
    with log.open("wb") as file:
        output = sys.stderr if verbose else file
        try:
            subprocess.run(command, env=environment, stdout=output, stderr=output, timeout=BOOT_SECONDS, check=True)
        except subprocess.SubprocessError as error:
            raise DemoError(f"the {name} boot failed: {error}") from error
    outcome: dict[str, Any] = json.loads(result.read_text())
    return outcome


def compare(cold: dict[str, Any], warm: dict[str, Any]) -> dict[str, Any]:
    boots = []
    for name, outcome in (("cold", cold), ("warm", warm)):
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


def print_found(found: dict[str, Any]) -> None:
    print(f"{found['engine']} on this CPU with tiny models of random weights; a process for each boot\n")
    print_table(found)
    print(f"\ncost tables identical: {'yes' if found['identical_tables'] else 'no'}")
    print(f"generated tokens identical: {'yes' if found['identical_output'] else 'no'}\n")
    print(sentinel_limits.told())
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


def keep_logs(scratch: Path) -> str:
    kept = Path(tempfile.mkdtemp(prefix="warmcurve-demo-logs-"))
    for log in scratch.glob("*.log"):
        shutil.copy(log, kept)
    return f"vLLM's logs: {kept}"


def demo(*, as_json: bool, verbose: bool) -> int:
    with tempfile.TemporaryDirectory(prefix="warmcurve-demo-", ignore_cleanup_errors=True) as name:
        scratch = Path(name)
        try:
            outcomes = []
            for boot_name in ("cold", "warm"):
                print(f"{boot_name} boot ...", file=sys.stderr, flush=True)
                outcomes.append(run_child(boot_name, scratch, verbose=verbose))
            found = compare(*outcomes)
            if as_json:
                print(json.dumps(found, indent=2))
            else:
                print_found(found)
            wrong = problem(found)
        except DemoError as error:
            wrong = str(error)
        if wrong:
            print(f"demo_vllm.py: {wrong}", file=sys.stderr)
            if not verbose:
                print(keep_logs(scratch), file=sys.stderr)
            return 1
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description="Boot the real vLLM cold and warm.")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout (also: JSON=1)")
    parser.add_argument("--verbose", action="store_true", help="vLLM's own output on stderr")
    parser.add_argument("--boot", help=argparse.SUPPRESS)
    parser.add_argument("--result", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.boot:
        boot(arguments.result)
        return 0
    if importlib.util.find_spec("vllm") is None:
        print("demo_vllm.py: no vLLM here; `make demo-vllm` makes its environment and runs this", file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        return demo(as_json=arguments.json or os.environ.get("JSON", "0") not in {"", "0"}, verbose=arguments.verbose)
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
