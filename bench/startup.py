"""vLLM's own start-up benchmark, with warmcurve off and on: what a warm boot saves of a whole start-up.

usage: make bench-startup        (real vLLM on the CPU with tiny models, in which calibration is a small part of a boot)

`vllm bench startup` boots in new processes: cold with vLLM's caches removed, then warm with them. One run of it with
warmcurve off, one with it on; both print the mean, and the boot reports of the second say what warmcurve did.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import command_line
import engine

ITERATIONS = ("--num-iters-cold", "1", "--num-iters-warmup", "1", "--num-iters-warm", "3")


def run(directory: Path, switch: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """vLLM's figures, and our boot reports in order."""
    cache, output = directory / f"cache-{switch}", directory / f"startup-{switch}.json"
    command = [*command_line.VLLM, "bench", "startup", "--model", engine.ENGINE["model"], *command_line.arguments()]
    command += [*ITERATIONS, "--output-json", str(output)]
    environment = command_line.environment(cache, switch)
    log = directory / f"startup-{switch}.log"
    with log.open("w") as printed:
        done = subprocess.run(command, env=environment, stdout=printed, stderr=printed)
    if done.returncode:
        sys.exit(f"{log.read_text()[-4000:]}\nvllm bench startup failed")
    reports = sorted((cache / "adaptive_verification" / "reports").glob("*.json"))
    return json.loads(output.read_bytes()), [json.loads(path.read_bytes()) for path in reports]


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="warmcurve-") as name:
        for switch, words in (("0", "off"), ("1", "on")):
            figures, reports = run(Path(name), switch)
            kept = {key: value for key, value in figures.items() if isinstance(value, int | float)}
            print(f"warmcurve {words}: {json.dumps(kept)}")
            for report in reports:
                fields = ("outcome", "reason", "calibration_runs", "sentinel_runs", "calibration_ms")
                print("  boot report:", json.dumps({field: report[field] for field in fields}))


if __name__ == "__main__":
    main()
