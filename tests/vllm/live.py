"""An engine of two ranks that boots once and calibrates many times: to warmcurve each is a boot, and takes a second.

with live.Engine(live.TENSOR_PARALLEL, directory) as engine:
    cold = engine.recalibrate(disks)
    late = engine.recalibrate(disks, {1: "late"})
late.ranks[1].report, late.tokens

The engine lives in processes of its own, which are killed if they do not answer in time; the next call boots it anew.
"""

import asyncio
import json
import os
import select
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import engine

from tests.vllm import sessions
from tests.vllm.running import lend_models

ROOT = Path(__file__).resolve().parent.parent.parent
TENSOR_PARALLEL: dict[str, Any] = {"tensor_parallel_size": 2}
EXPERTS_DATA_PARALLEL: dict[str, Any] = {"model": str(engine.MODELS / "moe"), "data_parallel_size": 2}
BOOT_S, ANSWER_S = 480.0, 120.0


class Failed(Exception):
    """The engine raised, died, or did not answer in time."""


@dataclass(frozen=True)
class Rank:
    """What one rank did. `runs` are the token counts of its timed dummy runs, sentinels included."""

    rank: int
    reports: list[dict[str, Any]]
    tables: list[list[float]]
    runs: list[int]
    log: list[str]

    @property
    def report(self) -> dict[str, Any] | None:
        assert len(self.reports) <= 1
        return self.reports[0] if self.reports else None

    @property
    def words(self) -> tuple[str, str | None]:
        """Outcome and reason, as the report has them."""
        assert self.report is not None
        return self.report["outcome"], self.report["reason"]


@dataclass(frozen=True)
class Recalibrated:
    """By rank, and what the engine generated afterwards."""

    ranks: list[Rank]
    tokens: list[list[int]]


class Engine:
    """`settings` are the engine's own, `environment` is that of all its processes. The log lies in `directory`."""

    def __init__(self, settings: Mapping[str, Any], directory: Path, **environment: str) -> None:
        self.settings, self._directory, self._environment = settings, directory, environment
        self._process: subprocess.Popen[bytes] | None = None
        self._boots = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def recalibrate(
        self,
        disks: Path,
        faults: Mapping[int, str] | None = None,
        timeout: float = ANSWER_S,
        vote_timeout_s: float = 60.0,
    ) -> Recalibrated:
        """Calibrate on every rank again, and generate. Rank r's cache is `disks`/rank<r>; `faults` are by rank."""
        if self._process is None:
            self._start()
        self._boots += 1
        environment = {"WARMCURVE_VOTE_TIMEOUT": str(vote_timeout_s)}
        question = {"disks": str(disks), "faults": dict(faults or {}), "environment": environment, "boot": self._boots}
        answer = self._ask(question, timeout)
        ranks = sorted((Rank(**json.loads(each)) for each in answer["ranks"]), key=lambda each: each.rank)
        return Recalibrated(ranks, answer["tokens"])

    @property
    def printed(self) -> str:
        return (self._directory / "log").read_text(errors="replace")

    def _start(self) -> None:
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(ROOT)]),
            "VLLM_CACHE_ROOT": str(self._directory / "cache"),
            "VLLM_ENABLE_V1_MULTIPROCESSING": "1",
            "VLLM_ENABLE_ADAPTIVE_VERIFICATION_PROFILE_CACHE": "1",
            **self._environment,
        }
        lend_models(self._directory / "cache")
        with (self._directory / "log").open("ab") as log:
            command = [sys.executable, "-m", __name__, json.dumps(dict(self.settings))]
            pipe = subprocess.PIPE
            self._process = sessions.start(command, environment, stdin=pipe, stdout=pipe, stderr=log)
        self._answer(BOOT_S)

    def _ask(self, question: Any, timeout: float) -> Any:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(question).encode() + b"\n")
        self._process.stdin.flush()
        return self._answer(timeout)

    def _answer(self, timeout: float) -> Any:
        assert self._process is not None
        assert self._process.stdout is not None
        # One line a question: nothing waits in the reader's buffer while `select` looks at the pipe.
        ready, _, _ = select.select([self._process.stdout], [], [], timeout)
        line = self._process.stdout.readline() if ready else b""
        answer = json.loads(line) if line else {"error": "it died" if ready else f"no answer within {timeout} s"}
        if "error" in answer:
            self.stop()
            raise Failed(f"{answer['error']}\n--- end of the log\n{self.printed[-6000:]}")
        return answer

    def stop(self) -> None:
        """End all processes of the engine, which may hang in a collective."""
        if self._process is not None:
            process, self._process = self._process, None
            sessions.stop(process)
            for pipe in (process.stdin, process.stdout):
                assert pipe is not None
                pipe.close()


async def _live(settings: dict[str, Any], answers: Any) -> None:
    """The engine's side: a line for the boot, and one for each question."""
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM

    extended = engine.ENGINE | {"worker_extension_cls": "tests.vllm.recalibration.Recalibration"} | settings
    llm = AsyncLLM.from_engine_args(AsyncEngineArgs(**extended))
    answer: dict[str, Any] = {}
    while True:
        print(json.dumps(answer), file=answers, flush=True)
        line = await asyncio.to_thread(sys.stdin.readline)
        if not line:
            break
        try:
            answer = await _recalibrate(llm, **json.loads(line))
        except Exception as error:  # noqa: BLE001  whatever it was, the test has it
            answer = {"error": f"{type(error).__qualname__}: {error}"}
    llm.shutdown()


async def _recalibrate(llm: Any, **question: Any) -> dict[str, Any]:
    # On every engine: AsyncLLM.collective_rpc hands out the first one's answers alone.
    rpc = ("collective_rpc", "recalibrate", None, (), question)
    replicas = await llm.engine_core.call_utility_all_async(*rpc)
    tokens = await asyncio.gather(*(_generate(llm, number) for number in range(len(engine.PROMPTS))))
    # Replicas that still run dummy steps for each other would run them into the next calibration.
    while llm.engine_core.dp_engines_running():
        await asyncio.sleep(0.01)
    return {"ranks": [rank for workers in replicas for rank in workers], "tokens": tokens}


async def _generate(llm: Any, number: int) -> list[int]:
    from vllm import SamplingParams

    sampling = SamplingParams(**engine.SAMPLING)
    outputs = [each async for each in llm.generate(engine.PROMPTS[number], sampling, os.urandom(8).hex())]
    return list(outputs[-1].outputs[0].token_ids)


if __name__ == "__main__":
    # vLLM and its processes print to the log: the pipe is for answers alone.
    own = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    asyncio.run(_live(json.loads(sys.argv[1]), own))
