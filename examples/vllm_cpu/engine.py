"""The engine of the vLLM tests and the demo: stock vLLM in this process, tiny models, the stand-ins in place."""

import gc
import importlib.util
import os
import re
import sys
from pathlib import Path
from typing import Any

import standins

ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    # Two OpenMP threads on a busy machine of two cores made a step of 1.2 ms take 67 ms.
    "OMP_NUM_THREADS": "1",
    "TORCHDYNAMO_DISABLE": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_USE_V2_MODEL_RUNNER": "1",
}
for _name, _value in ENVIRONMENT.items():
    os.environ.setdefault(_name, _value)
standins.install()

# tools/vllm_environment.py makes the models inside the environment that it makes.
MODELS = Path(os.environ.get("WARMCURVE_VLLM_CPU_MODELS", Path(sys.prefix) / "models"))
SPECULATIVE = {
    "method": "dspark",
    "model": str(MODELS / "draft"),
    "num_speculative_tokens": 3,
    "enable_adaptive_verification": True,
}
ENGINE: dict[str, Any] = {
    "model": str(MODELS / "target"),
    "skip_tokenizer_init": True,
    "max_model_len": 128,
    "max_num_seqs": 4,
    "max_num_batched_tokens": 64,
    "dtype": "bfloat16",
    "kernel_config": {"enable_jit_warmup": False},
    "compilation_config": {
        "mode": 0,
        "cudagraph_mode": "FULL_DECODE_ONLY",
        "cudagraph_capture_sizes": [1, 2, 4, 8, 16],
    },
    "speculative_config": SPECULATIVE,
}
PROMPTS = [{"prompt_token_ids": [5, 6, 7, 8]}, {"prompt_token_ids": [9, 10]}]
SAMPLING = {"max_tokens": 8, "temperature": 0, "ignore_eos": True, "detokenize": False}


def start(**overrides: Any) -> Any:
    """Boot vLLM's `LLM` in this process."""
    from vllm import LLM

    # vLLM collects garbage 16 times a boot: half of a second boot's time, were all imported modules searched each time.
    gc.freeze()
    return LLM(**ENGINE | overrides)


def release() -> str:
    """vLLM's version, without importing it."""
    spec = importlib.util.find_spec("vllm")
    assert spec is not None
    source = (Path(spec.origin or "").parent / "_version.py").read_text()
    found = re.search(r"^__version__ = .*?'([0-9.]+)", source, re.MULTILINE)
    assert found
    return found[1]


def runner(llm: Any) -> Any:
    """The engine's GPUModelRunner."""
    return llm.llm_engine.engine_core.engine_core.model_executor.driver_worker.worker.model_runner


def tokens(llm: Any) -> list[list[int]]:
    """What the engine generates, greedily, for each prompt."""
    from vllm import SamplingParams

    outputs = llm.generate(PROMPTS, SamplingParams(**SAMPLING), use_tqdm=False)
    return [list(output.outputs[0].token_ids) for output in outputs]


def stop(llm: Any) -> None:
    """Free the engine, so that another can start in this process."""
    llm.llm_engine.engine_core.shutdown()
    del llm.llm_engine
    clear()


def clear() -> None:
    """Free what an engine holds in this process beside itself, also where its boot failed."""
    from vllm.distributed import cleanup_dist_env_and_memory
    from vllm.v1.worker import workspace

    # Locked by `capture_model`: the next engine could not grow it.
    workspace.reset_workspace_manager()
    standins.Graph.forget()
    cleanup_dist_env_and_memory()
