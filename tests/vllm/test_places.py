"""Two boots that differ in where, as whom and under which names they run, and in nothing else."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import engine
import pytest
import sentinel_limits

pytestmark = pytest.mark.full

BOOT = """
import json, os, platform, socket, sys
import engine

given = json.loads(sys.argv[1])
# What the operating system would tell on another host.
socket.gethostname = platform.node = lambda: given["host"]
os.chdir(given["cwd"])
engine.start(
    model=given["target"],
    speculative_config=engine.SPECULATIVE | {"model": given["draft"]},
    seed=given["seed"],
    served_model_name=given["host"],
    tokenizer=given["target"],
)
"""


def _start(place: Path, number: int, target: Path, draft: Path) -> "subprocess.Popen[str]":
    given = {"cwd": str(place), "host": f"host-{number}", "target": str(target), "draft": str(draft), "seed": number}
    return subprocess.Popen(
        [sys.executable, "-c", BOOT, json.dumps(given)],
        # On real time, which on a shared CPU no calibration is quiet in.
        env=os.environ
        | sentinel_limits.WIDE
        | {
            "HOME": str(place / "home"),
            "USER": f"user{number}",
            "LOGNAME": f"user{number}",
            "VLLM_CACHE_ROOT": str(place / "cache"),
            "VLLM_PORT": str(30000 + 100 * number),
            "VLLM_LOGGING_LEVEL": ("INFO", "WARNING")[number],
            "VLLM_PROCESS_NAME_PREFIX": f"name{number}",
            "TORCHINDUCTOR_CACHE_DIR": str(place / "inductor"),
            "MASTER_PORT": str(31000 + number),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _report(boot: "subprocess.Popen[str]", place: Path) -> dict[str, Any]:
    printed, _ = boot.communicate(timeout=280)
    assert boot.returncode == 0, printed[-8000:]
    (path,) = (place / "cache" / "adaptive_verification" / "reports").glob("*.json")
    report: dict[str, Any] = json.loads(path.read_bytes())
    return report


@pytest.mark.timeout(600)
def test_two_places_have_one_digest(tmp_path: Path) -> None:
    """Another directory, model path, port, host, user, cache root, process: the same digest, of the same factors."""
    places = [tmp_path / "one", tmp_path / "another" / "deeper"]
    models = [(engine.MODELS / "target", engine.MODELS / "draft"), (places[1] / "t", places[1] / "d")]
    for place in places:
        place.mkdir(parents=True)
        place.chmod(0o700)
    for original, copy in zip(*models, strict=True):
        shutil.copytree(original, copy)
    boots = [_start(place, n, *models[n]) for n, place in enumerate(places)]
    first, second = (_report(boot, place) for boot, place in zip(boots, places, strict=True))
    assert first["outcome"] == second["outcome"] == "recorded"
    assert (first["host"], second["host"]) == ("host-0", "host-1")
    assert first["pid"] != second["pid"]
    assert first["factors"] == second["factors"]
    assert first["digest"] == second["digest"]
    told = json.dumps(first["factors"])
    for name in (str(tmp_path), str(engine.MODELS), "host-0", "user0"):
        assert name not in told
