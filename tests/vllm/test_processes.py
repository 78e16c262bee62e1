"""vLLM as it is served: an engine process of its own, workers of their own, the plugin found by its entry point."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.vllm.booting import STOCK_RUNS, TOKENS

SERVE = """
import json, os, sys
import engine
if __name__ == "__main__":
    llm = engine.start(tensor_parallel_size=int(sys.argv[1]))
    print("TOKENS", json.dumps(engine.tokens(llm)), flush=True)
    llm.llm_engine.engine_core.shutdown()
"""


class Server:
    """Boots vLLM in processes of its own, on real time: the sentinels' limits admit any."""

    def __init__(self, directory: Path) -> None:
        self.cache = directory / "cache"
        # A file, because spawned processes import the main module again.
        self.script = directory / "serve.py"
        self.script.write_text(SERVE)

    def boot(self, ranks: int = 1, **environment: str) -> tuple[list[list[int]], list[dict[str, Any]], str]:
        """Tokens, the new reports, and what the processes printed."""
        before = set(self._reports())
        done = subprocess.run(
            [sys.executable, str(self.script), str(ranks)],
            env=os.environ
            | {
                "VLLM_CACHE_ROOT": str(self.cache),
                "VLLM_ENABLE_V1_MULTIPROCESSING": "1",
                "VLLM_ENABLE_ADAPTIVE_VERIFICATION_PROFILE_CACHE": "1",
                "WARMCURVE_SCALE_LOW": "0",
                "WARMCURVE_SCALE_HIGH": "1e9",
                "WARMCURVE_MAX_REGRET": "1",
            }
            | environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        printed = done.stdout + done.stderr
        assert done.returncode == 0, printed[-8000:]
        (line,) = (line for line in done.stdout.splitlines() if line.startswith("TOKENS "))
        new = [json.loads(path.read_bytes()) for path in self._reports() if path not in before]
        return json.loads(line.removeprefix("TOKENS ")), new, printed

    def _reports(self) -> list[Path]:
        return sorted((self.cache / "adaptive_verification" / "reports").glob("*.json"))


@pytest.fixture
def server(tmp_path: Path) -> Server:
    return Server(tmp_path)


@pytest.mark.timeout(600)
def test_an_engine_process_boots_warm(server: Server) -> None:
    """The engine's own process records at the first boot and reuses at the second, and says so in vLLM's log."""
    tokens, (cold,), _ = server.boot()
    assert (cold["outcome"], cold["calibration_runs"]) == ("recorded", len(STOCK_RUNS))
    assert tokens == TOKENS
    tokens, (warm,), printed = server.boot()
    assert (warm["outcome"], warm["calibration_runs"], warm["sentinel_runs"]) == ("reused", 0, 2)
    assert warm["pid"] != cold["pid"]
    assert warm["digest"] == cold["digest"]
    assert tokens == TOKENS
    assert "warmcurve: reused sentinel_runs=2 calibration_runs=0" in printed


@pytest.mark.timeout(600)
def test_several_ranks_stand_down_together(server: Server) -> None:
    """With two ranks every rank calibrates in full, stores nothing, and reports why; the log has one line of it."""
    tokens, reports, printed = server.boot(ranks=2)
    assert tokens == TOKENS
    assert sorted(report["rank"] for report in reports) == [0, 1]
    for report in reports:
        assert (report["outcome"], report["reason"], report["world"]) == ("unrecorded", "several_ranks", 2)
        assert report["calibration_runs"] == len(STOCK_RUNS)
    assert printed.count("warmcurve: unrecorded reason=several_ranks") == 1
    assert not list((server.cache / "adaptive_verification").glob("v1/*.jsonl"))


@pytest.mark.timeout(600)
def test_a_plugin_list_without_it_leaves_it_out(server: Server) -> None:
    """`VLLM_PLUGINS` that names others: warmcurve is not loaded, though its switch is on."""
    tokens, reports, printed = server.boot(VLLM_PLUGINS="another")
    assert tokens == TOKENS
    assert reports == []
    assert "warmcurve:" not in printed
