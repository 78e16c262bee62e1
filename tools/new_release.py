"""What is left to do to support another release of vLLM, printed. The first step of docs/new-release.md.

usage: new_release.py VERSION        fetch it, lay it beside the test environment, compare it, boot it
       new_release.py --newest       the newest release on the package index, and whether it is supported; 1 if not
"""

import ast
import difflib
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import releases as laying
import vllm_environment
from vllm_environment import say

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.vllm.declared import asked, declared  # noqa: E402

from warmcurve.vllm import releases  # noqa: E402
from warmcurve.vllm.factors import environment, packages  # noqa: E402
from warmcurve.vllm.releases import KNOWN, RUNNER, calibration  # noqa: E402
from warmcurve.vllm.reviewed.review import Exclusion  # noqa: E402
from warmcurve.vllm.reviewed.sections import SECTIONS  # noqa: E402
from warmcurve.vllm.reviewed.variables import BY_CONTENT, COUNTED, EXCLUDED, OURS, UNRELATED  # noqa: E402
from warmcurve.vllm.syntax import definition, tree_of  # noqa: E402

Load = Callable[[str], ModuleType]


def loader(root: Path) -> Load:
    """What gives the modules below this directory by name, without running them."""
    modules: dict[str, ModuleType] = {}

    def load(name: str) -> ModuleType:
        if name not in modules:
            modules[name] = ModuleType(name)
            modules[name].__file__ = str(root / f"{name.replace('.', '/')}.py")
        return modules[name]

    return load


def entry(version: str, load: Load) -> str:
    """The release's line of `releases.KNOWN`."""
    digests = ", ".join(f'"{digest}"' for digest in calibration(load).digests)
    return f'    "{version}": ({digests}),'


def differences(version: str, load: Load, before: str, load_before: Load) -> Iterator[str]:
    """The functions that calibrate and those that make a dummy run, where they differ: as a diff without comments."""
    loop, loop_before = calibration(load).loop.method, calibration(load_before).loop.method
    for module, names in (releases.HOOKED | releases.MEASURED).items():
        pairs = [(name, name) for name in names]
        if module == RUNNER:
            pairs.append((f"GPUModelRunner.{loop_before}", f"GPUModelRunner.{loop}"))
        for name_before, name in pairs:
            old = ast.unparse(definition(tree_of(load_before(module)), name_before)).splitlines()
            new = ast.unparse(definition(tree_of(load(module)), name)).splitlines()
            yield from difflib.unified_diff(old, new, f"{before} {name_before}", f"{version} {name}", lineterm="")


def fields(package: Path) -> dict[str, dict[str, str]]:
    """The configuration's fields that no review names, by class, with vLLM's own description of each."""
    said: dict[tuple[str, str], str] = {}
    for path in sorted((package / "config").glob("*.py")):
        for kind in (node for node in ast.parse(path.read_bytes()).body if isinstance(node, ast.ClassDef)):
            for node, after in zip(kind.body, [*kind.body[1:], ast.Pass()], strict=True):
                if isinstance(node, ast.AnnAssign):
                    said[kind.name, ast.unparse(node.target)] = _text(after)
    found = {
        name: {field: said.get((name, field), "") for field in sorted(names - SECTIONS[name].reviewed)}
        for name, names in sorted(declared(package).fields.items())
        if name in SECTIONS
    }
    return {name: new for name, new in found.items() if new}


def variables(package: Path) -> dict[str, str]:
    """vLLM's variables that no review names, with the comment above each."""
    reviewed = COUNTED.union(_names(EXCLUDED), BY_CONTENT)
    new = sorted(name for name in declared(package).variables if name.startswith(OURS) and name not in reviewed)
    lines = (package / "envs.py").read_text().splitlines()
    return {name: _comment(lines, name) for name in new}


def others(package: Path) -> tuple[list[str], list[str]]:
    """Variables of other programs, and modules, that it asks for and no review names."""
    found = asked(package)
    known = _names(EXCLUDED) | _names(UNRELATED)
    read = {each for each in found.variables - known if not environment.counts(each) and not environment.has_form(each)}
    modules = {each.partition(".")[0] for each in found.packages} - _names(packages.EXCLUDED)
    counted = set(packages.COUNTED)
    return sorted(read), sorted(
        each for each in modules if not set(packages.MODULES.get(each, (each.replace("_", "-"),))) <= counted
    )


def todo(version: str, root: Path, before: str, root_before: Path) -> Iterator[str]:
    """Everything that can be said without running it, as a person reads it."""
    load, load_before = loader(root), loader(root_before)
    found = calibration(load)
    like = ", ".join(found.releases)
    yield f"vLLM {version} calibrates like {like}" if like else f"vLLM {version} is new: {', '.join(found.news)}"
    if version not in KNOWN:
        yield f"\nreleases.py, KNOWN:\n{entry(version, load)}"
    yield f"\nWhat calibrates, and what makes a dummy run, {before} -> {version}:"
    yield from list(differences(version, load, before, load_before)) or ["no difference"]
    package = root / "vllm"
    yield "\nFields that no review names. A draft counts all of them: exclude what can price nothing."
    for name, new in fields(package).items():
        yield f'\n  section("{name}", counts: {" ".join(new)})'
        yield from (f"    {field}: {said}" for field, said in new.items())
    classes = declared(package).fields.keys() - declared(root_before / "vllm").fields.keys() - SECTIONS.keys()
    yield f"\nClasses of its configuration that {before} does not have: {' '.join(sorted(classes)) or 'none'}"
    new_variables = variables(package)
    yield "\nVariables that no review names, for COUNTED or EXCLUDED:"
    yield from (f"  {name.removeprefix(OURS)}: {said}" for name, said in new_variables.items())
    read, modules = others(package)
    yield f"\nOther programs' variables, for FAMILIES, SINGLE or UNRELATED: {' '.join(read) or 'none'}"
    yield f"Modules that it asks for, for packages.py: {' '.join(modules) or 'none'}"


def boots(version: str, root: Path) -> bool:
    """Whether it boots cold, warm and tampered on this CPU. Fails for as long as its calibration is not known."""
    python = vllm_environment.make() / "bin" / "python"
    path = [root, ROOT / "build" / "overlay", ROOT / "examples" / "vllm_cpu"]
    path = path[1:] if version == vllm_environment.VERSION else path
    own = {
        "WARMCURVE_VLLM_CPU": "1",
        "OMP_NUM_THREADS": "1",
        "VLLM_TARGET_DEVICE": "cpu",
        "PYTHONPATH": ":".join(map(str, path)),
    }
    command: list[str | Path] = [python, "-m", "pytest", "-q", "--show-capture=no", "-p", "no:cacheprovider"]
    command += ["-o", "filterwarnings=ignore", "tests/vllm/test_warm_boot.py"]
    return subprocess.run(command, env=os.environ | own, cwd=ROOT, check=False).returncode == 0


def newest(printed: str) -> str:
    """Of what `pip index versions` printed."""
    found = re.search(r"\((\d[^)]*)\)", printed)
    if not found:
        raise ValueError(f"no version in {printed!r}")
    return found[1]


def _numbers(version: str) -> list[int]:
    return [int(each) for each in version.split(".")]


def _names(exclusions: tuple[Exclusion, ...]) -> set[str]:
    return {name for exclusion in exclusions for name in exclusion.names}


def _text(node: ast.stmt) -> str:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return " ".join(node.value.value.split())
    return ""


def _comment(lines: list[str], name: str) -> str:
    at = next((number for number, line in enumerate(lines) if line.strip().startswith(f'"{name}":')), 0)
    start = at
    while start and lines[start - 1].strip().startswith("#"):
        start -= 1
    return " ".join(line.strip().lstrip("# ") for line in lines[start:at])


def _root(version: str) -> Path:
    if version != vllm_environment.VERSION:
        return laying.lay(version)
    return next(vllm_environment.make().glob("lib/python3*/site-packages"))


def main(argument: str) -> int:
    if argument == "--newest":
        pip = [sys.executable, "-m", "pip", "index", "versions", "vllm"]
        version = newest(subprocess.run(pip, check=True, capture_output=True, text=True).stdout)
        print(f"newest vLLM on the index is {version}, supported: {'yes' if version in KNOWN else 'no'}")
        return version not in KNOWN
    before = max((each for each in KNOWN if _numbers(each) < _numbers(argument)), key=_numbers, default=min(KNOWN))
    root = _root(argument)
    print("\n".join(todo(argument, root, before, _root(before))), flush=True)
    print(
        f"\nvLLM {argument}: {'booted cold, warm and tampered' if boots(argument, root) else 'does not boot warm yet'}"
    )
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 2 or not re.fullmatch(r"--newest|\d+\.\d+\.\d+", sys.argv[1]):
        sys.exit("usage: new_release.py VERSION|--newest")
    try:
        sys.exit(main(sys.argv[1]))
    except subprocess.CalledProcessError as error:
        sys.exit(f"new_release.py: {error}")
    except KeyboardInterrupt:
        say("new_release.py: interrupted")
        sys.exit(130)
