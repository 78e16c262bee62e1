"""vLLM as it is served: an engine process of its own, workers of their own, the plugin found by its entry point."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.vllm.booting import STOCK_RUNS, TOKENS
from tests.vllm.running import lend_models

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
        code, tokens, new, printed = self.run(argument, script, **environment)
        assert code == 0, printed[-8000:]
        assert tokens is not None
        return tokens, new, printed

    def run(
        self, argument: int | str = 1, script: str = SERVE, **environment: str
    ) -> tuple[int, list[list[int]] | None, list[dict[str, Any]], str]:
        """The exit status, and what `boot` gives, tokens only where there are any."""
        # A file, because spawned processes import the main module again.
        self.script.write_text(script)
        lend_models(self.cache)
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
        lines = [line for line in done.stdout.splitlines() if line.startswith("TOKENS ")]
        tokens = json.loads(lines[0].removeprefix("TOKENS ")) if lines else None
        new = [json.loads(path.read_bytes()) for path in self._reports() if path not in before]
        return done.returncode, tokens, new, done.stdout + done.stderr

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


@pytest.mark.full
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


@pytest.mark.full
@pytest.mark.timeout(600)
def test_a_plugin_list_without_it_leaves_it_out(server: Server) -> None:
    """`VLLM_PLUGINS` that names others: warmcurve is not loaded, though its switch is on."""
    tokens, reports, printed = server.boot(VLLM_PLUGINS="another")
    assert tokens == TOKENS
    assert reports == []
    assert "warmcurve:" not in printed


SWITCHED_OFF = """
import json, os, sys
os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
import engine
if __name__ == "__main__":
    llm = engine.start()
    capture = type(engine.runner(llm)).capture_model
    ours = [name for name in sys.modules if name.startswith("warmcurve.")]
    finders = [each for each in sys.meta_path if type(each).__module__.startswith("warmcurve")]
    print("FOUND", sorted(ours), finders, hasattr(capture, "warmcurve"))
    print("TOKENS", json.dumps(engine.tokens(llm)), flush=True)
    engine.stop(llm)
"""


@pytest.mark.timeout(600)
def test_the_mode_off_leaves_vllm_as_it_is(server: Server) -> None:
    """The plugin is loaded, hooks nothing, imports nothing but itself, and leaves no file."""
    tokens, reports, printed = server.boot(script=SWITCHED_OFF, WARMCURVE_MODE="off")
    assert tokens == TOKENS
    assert "FOUND ['warmcurve._version', 'warmcurve.vllm'] [] False" in printed
    assert reports == []
    assert not (server.cache / "adaptive_verification").exists()


@pytest.mark.timeout(600)
def test_curves_that_are_required_and_not_there(server: Server) -> None:
    """Two ranks, none of which has an entry: the program ends with an error before it serves, and vLLM's own last words
    name the mode and the reason; what to do is in the log.
    """
    code, tokens, reports, printed = server.run(2, WARMCURVE_MODE="require")
    assert code not in {0, None}
    assert tokens is None
    assert "Worker failed with error 'curves_required: WARMCURVE_MODE=require" in printed
    assert "that hold (absent: looked in " in printed
    (line,) = {line for line in printed.splitlines() if "warmcurve: unrecorded" in line and "TP0" in line}
    assert " ERROR " in line
    assert "missed=absent" in line
    assert "record them on this machine (`WARMCURVE_MODE=reuse` or `record`)" in line
    assert {(report["reason"], report["missed"]) for report in reports} == {("curves_required", "absent")}
    assert not list(server.cache.rglob("v1/*"))
