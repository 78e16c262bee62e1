"""Put each defect of `tests/defects.py` into a copy of the code and see that the tests it names fail.

usage: .venv/bin/python -m tests.seeded_defects [--only TEXT] [--workers 1]        exit code 1 if a defect is not caught

Only tests of `make test` count. A defect that only vLLM's environment can catch needs `make overlay` and that
environment.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

from tests.defects import DEFECTS, Defect

ROOT = Path(__file__).resolve().parent.parent
WITH_VLLM = "tests/vllm/"
PYTEST = ["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", "not full"]


@cache
def _vllm_python() -> Path:
    command = [sys.executable, str(ROOT / "tools" / "vllm_environment.py")]
    return Path(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip(), "bin", "python")


class NotRun(Exception):
    """The tests did not run. It holds pytest's last words."""


def failed_test(returncode: int, output: str) -> str | None:
    """The first line that names a failed test, or None where all pass. Raises `NotRun` where no test ran."""
    if returncode == 0:
        return None
    if returncode == 1:
        for line in output.splitlines():
            # A file that cannot be imported has a line too, which names no test in it.
            if line.startswith(("FAILED ", "ERROR ")) and "::" in line.split()[1]:
                return line
    raise NotRun(f"pytest ended with {returncode}, and names no failed test\n{output[-2000:]}")


def caught(defect: Defect, directory: Path) -> str | None:
    """The first line that names a failed test, or None where all pass. Raises `NotRun`."""
    vllm = WITH_VLLM in defect.tests
    package = directory / "warmcurve"
    shutil.copytree(ROOT / ("build/overlay" if vllm else "src"), directory, dirs_exist_ok=True)
    file = package / defect.file
    file.write_text(file.read_text().replace(defect.old, defect.new))
    environment = os.environ | {"PYTHONPATH": str(directory)}
    python, options = Path(sys.executable), []
    if vllm:
        python, options = _vllm_python(), ["-o", "filterwarnings=ignore"]
        environment |= {"WARMCURVE_VLLM_CPU": "1", "OMP_NUM_THREADS": "1"}
        environment["PYTHONPATH"] += f":{ROOT / 'examples' / 'vllm_cpu'}"
    command = [str(python), *PYTEST, *options, *defect.tests.split()]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    return failed_test(done.returncode, done.stdout + done.stderr)


def check(defect: Defect) -> bool:
    started = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="warmcurve-defect-") as directory:
            line = caught(defect, Path(directory))
        word = "caught" if line else "MISSED"
    except NotRun as error:
        word, line = "ERROR ", str(error)
    print(f"{word} {time.monotonic() - started:5.0f} s  {defect.name}: {line or ''}", flush=True)
    return word == "caught"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--workers", type=int, default=1)
    arguments = parser.parse_args()
    chosen = [defect for defect in DEFECTS if arguments.only in f"{defect.name} {defect.file}"]
    with ThreadPoolExecutor(arguments.workers) as pool:
        results = list(pool.map(check, chosen))
    print(f"{sum(results)} of {len(results)} defects are caught")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
