"""The source files of releases of vLLM, and changes of them: nothing of vLLM's is imported, and none of it is kept."""

import re
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from warmcurve.vllm.releases import MANAGER, RUNNER, TIMING

INSTALLED = "0.32.0"
"""The release of the environment itself; others are laid beside it."""

Sources = dict[str, str]
Change = Callable[[Sources], None]


def package(version: str) -> Path:
    """The directory of a release's Python files. Skips the test where it is not there."""
    found = Path(sys.prefix) / "releases" / version / "vllm"
    if version == INSTALLED:
        found = Path(sysconfig.get_path("purelib")) / "vllm"
    if not found.is_dir():
        pytest.skip(f"not laid beside this environment: python tools/releases.py {version}, or make test-releases")
    return found


def read(version: str) -> Sources:
    """The modules in which a release calibrates."""
    root = package(version).parent
    return {name: (root / f"{name.replace('.', '/')}.py").read_text() for name in (MANAGER, TIMING, RUNNER)}


def loader(directory: Path, sources: Sources) -> Callable[[str], ModuleType]:
    """What gives these sources as modules, by name: files that nobody has run."""
    modules = {name: ModuleType(name) for name in sources}
    for name, module in modules.items():
        path = directory / f"{name}.py"
        path.write_text(sources[name])
        module.__file__ = str(path)
    return modules.__getitem__


def replace(module: str, old: str, new: str, *, at: int = 0) -> Change:
    """Put `new` in the place of the `at`th `old`, a regular expression. Groups of it are \\1, \\2, and so on."""

    def change(sources: Sources) -> None:
        found = list(re.finditer(old, sources[module], re.MULTILINE))
        assert found, f"{module} has no {old}"
        match = found[at]
        text = sources[module]
        sources[module] = text[: match.start()] + match.expand(new) + text[match.end() :]

    return change
