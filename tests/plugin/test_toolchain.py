"""Which CUDA compiler is found, without running it."""

import json
from pathlib import Path

import pytest

from warmcurve.errors import FactorError
from warmcurve.vllm.factors.toolchain import nvcc


def toolkit(place: Path, version: str | None = None) -> Path:
    (place / "bin").mkdir(parents=True)
    (place / "bin" / "nvcc").touch(0o755)
    if version:
        told = {"cuda": {"name": "CUDA SDK", "version": "0"}, "cuda_nvcc": {"version": version}}
        (place / "version.json").write_text(json.dumps(told))
    return place


def test_the_compiler_is_looked_for_as_flashinfer_does(tmp_path: Path) -> None:
    """CUDA_HOME, then CUDA_PATH, then the path, then the usual place; and none where it is in none of them."""
    homes = [toolkit(tmp_path / name, name) for name in ("1", "2", "3", "4")]
    variables = {"CUDA_HOME": str(homes[0]), "CUDA_PATH": str(homes[1]), "PATH": str(homes[2] / "bin")}
    for version, name in (("1", "CUDA_HOME"), ("2", "CUDA_PATH"), ("3", "PATH")):
        assert nvcc(variables, str(homes[3])) == version
        variables[name] = ""
    assert nvcc(variables, str(homes[3])) == "4"
    assert nvcc(variables, str(tmp_path / "none")) is None


def test_a_compiler_that_does_not_tell_is_unknown(tmp_path: Path) -> None:
    """One that a package has put there has no such file; a damaged one makes the factor unknown."""
    home = toolkit(tmp_path / "home")
    assert nvcc({"CUDA_HOME": str(home)}) == "unknown"
    (home / "version.json").write_text('{"cuda": {}}')
    assert nvcc({"CUDA_HOME": str(home)}) == "unknown"
    (home / "version.json").unlink()
    (home / "version.json").symlink_to("/dev/zero")
    assert nvcc({"CUDA_HOME": str(home)}) == "unknown"
    (home / "version.json").unlink()
    with (home / "version.json").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(FactorError, match=r"runtime\.toolchain: .*more bytes"):
        nvcc({"CUDA_HOME": str(home)})
