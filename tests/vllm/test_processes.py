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


SERVE_REPLICAS = """
import asyncio, json, sys
import engine

async def serve():
    from vllm import SamplingParams
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM

    model = str(engine.MODELS / sys.argv[1])
    llm = AsyncLLM.from_engine_args(AsyncEngineArgs(**engine.ENGINE | {"model": model, "data_parallel_size": 2}))
    async def generate(number):
        async for output in llm.generate(engine.PROMPTS[number], SamplingParams(**engine.SAMPLING), str(number)):
            last = output
        return list(last.outputs[0].token_ids)
    print("TOKENS", json.dumps(await asyncio.gather(generate(0), generate(1))), flush=True)
    llm.shutdown()

if __name__ == "__main__":
    asyncio.run(serve())
"""


class Server:
    """Boots vLLM in processes of its own, on real time: the limits of trust admit any."""

    def __init__(self, directory: Path) -> None:
        self.cache = directory / "cache"
        self.script = directory / "serve.py"

    def boot(
        self, argument: int | str = 1, script: str = SERVE, **environment: str
    ) -> tuple[list[list[int]], list[dict[str, Any]], str]:
        """Tokens, the new reports, and what the processes printed."""
        # A file, because spawned processes import the main module again.
        self.script.write_text(script)
        before = set(self._reports())
        done = subprocess.run(
            [sys.executable, str(self.script), str(argument)],
            env=os.environ
            | {
                "VLLM_CACHE_ROOT": str(self.cache),
                "VLLM_ENABLE_V1_MULTIPROCESSING": "1",
                "VLLM_ENABLE_ADAPTIVE_VERIFICATION_PROFILE_CACHE": "1",
                "WARMCURVE_SCALE_LOW": "0",
                "WARMCURVE_SCALE_HIGH": "1e9",
                "WARMCURVE_MAX_REGRET": "1",
                "WARMCURVE_ADMIT_NOISE": "1e9",
                "WARMCURVE_ADMIT_COLD": "1e9",
                "WARMCURVE_ADMIT_RISE": "0",
                "WARMCURVE_ADMIT_BEND": "1e9",
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
def test_replicas_on_their_own_boot_warm(server: Server) -> None:
    """Data-parallel replicas of a dense model are worlds of one rank: each records, then each reuses."""
    tokens, cold, _ = server.boot("target", SERVE_REPLICAS)
    assert tokens == TOKENS
    assert {report["world"] for report in cold} == {1}
    assert "recorded" in {report["outcome"] for report in cold}
    tokens, warm, _ = server.boot("target", SERVE_REPLICAS)
    assert tokens == TOKENS
    assert [(report["outcome"], report["sentinel_runs"]) for report in warm] == [("reused", 2)] * 2
    assert len({report["digest"] for report in [*cold, *warm]}) == 1


@pytest.mark.timeout(600)
def test_a_plugin_list_without_it_leaves_it_out(server: Server) -> None:
    """`VLLM_PLUGINS` that names others: warmcurve is not loaded, though its switch is on."""
    tokens, reports, printed = server.boot(VLLM_PLUGINS="another")
    assert tokens == TOKENS
    assert reports == []
    assert "warmcurve:" not in printed
