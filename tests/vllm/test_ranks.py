"""All ranks of one world read the same factors, or they could never agree on an entry."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from warmcurve.fingerprint import diff

SERVE = """
import asyncio, json, sys
import engine

async def serve(model, sizes, directory):
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM

    given = engine.ENGINE | {"model": str(engine.MODELS / model), "worker_extension_cls": "tests.vllm.telling.Telling"}
    llm = AsyncLLM.from_engine_args(AsyncEngineArgs(**given | sizes))
    await llm.collective_rpc("tell", args=(directory,))
    llm.shutdown()

if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]))
"""


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("model", "sizes"),
    [("target", {"tensor_parallel_size": 2}), ("moe", {"data_parallel_size": 2})],
    ids=["tensor parallel", "data parallel with experts"],
)
def test_all_ranks_read_the_same_factors(model: str, sizes: dict[str, int], tmp_path: Path) -> None:
    """Two ranks that share collectives, in processes of their own: not one factor differs."""
    told = tmp_path / "told"
    told.mkdir()
    # A file, because spawned processes import the main module again.
    (script := tmp_path / "serve.py").write_text(SERVE)
    done = subprocess.run(
        [sys.executable, str(script), model, json.dumps(sizes), str(told)],
        env=os.environ
        | {
            "PYTHONPATH": os.pathsep.join((os.environ.get("PYTHONPATH", ""), str(Path.cwd()))),
            "VLLM_CACHE_ROOT": str(tmp_path / "cache"),
            "VLLM_ENABLE_V1_MULTIPROCESSING": "1",
            "VLLM_ENABLE_ADAPTIVE_VERIFICATION_PROFILE_CACHE": "0",
        },
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-8000:]
    first, second = (json.loads(path.read_bytes()) for path in told.iterdir())
    assert first["placement"] == {"nodes": 1, "ranks": 2}
    assert diff(first, second) == ()
