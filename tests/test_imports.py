"""Rooms import downwards only, and the core nothing but the standard library and msgspec."""

import ast
import re
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import warmcurve

ROOT = Path(warmcurve.__file__).parent
# From the ground up: a room may import itself and the rooms below it.
ROOMS = ("words", "curves", "storage", "ranks", "reporting", "planning", "boot", "engines", "cli")
WORDS = {"_version", "outcome", "clock", "durations", "printable", "errors"}
ENGINES = {"vllm", "embedded", "testing"}
# The same inside the adapter for vLLM.
VLLM_ROOMS = ("words", "reviewed", "device", "weights", "factors", "seam")
VLLM_WORDS = {"loop", "plain", "reading", "releases", "syntax"}
# The files of core rooms that need more than the standard library and msgspec: numpy, and torch.
HEAVY = {"warmcurve.planning.planner", "warmcurve.planning.regret", "warmcurve.planning.workload"}
HEAVY |= {"warmcurve.ranks.distributed"}


def _module(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(path: Path) -> set[str]:
    """All modules that a file imports anywhere, also inside functions; `from package import name` as both."""
    found = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path} has a relative import"
            found |= {node.module or "", *(f"{node.module}.{name.name}" for name in node.names)}
    return found


MODULES = {_module(path): path for path in sorted(ROOT.rglob("*.py"))}
GRAPH = {module: {name for name in _imported(path) if name in MODULES} - {module} for module, path in MODULES.items()}


def _room(module: str) -> str:
    name = module.split(".")[1]
    return "words" if name in WORDS else "engines" if name in ENGINES else name


def _vllm_room(module: str) -> str:
    name = module.split(".")[2]
    return "words" if name in VLLM_WORDS else name


def test_every_file_is_in_a_room():
    """No file stands beside the rooms, and every room says in at most ten lines what it is for."""
    for module, path in MODULES.items():
        if module not in {"warmcurve", "warmcurve.vllm"}:
            assert _room(module) in ROOMS
            assert not module.startswith("warmcurve.vllm.") or _vllm_room(module) in VLLM_ROOMS
        if path.name == "__init__.py":
            docstring = ast.get_docstring(ast.parse(path.read_bytes()))
            assert docstring
            assert len(docstring.splitlines()) <= 10, f"{module}: {len(docstring.splitlines())} lines"


def test_the_page_of_the_rooms_has_every_word():
    """The rows of words in docs/design.md name the files of `WORDS` and `VLLM_WORDS`, and no others."""
    page = (Path(__file__).parent.parent / "docs" / "design.md").read_text()
    core, adapter = (set(re.findall(r"`([\w/]+)\.py`", row)) for row in re.findall(r"(?m)^\| words \| (.+?) \|", page))
    assert core == WORDS
    assert adapter == {f"vllm/{name}" for name in VLLM_WORDS}


def test_imports_go_down():
    """No room imports one above it. The package's own page imports lazily what it lends its name to."""
    for module, imported in GRAPH.items():
        for name in imported - {"warmcurve"}:
            if module != "warmcurve":
                assert ROOMS.index(_room(module)) >= ROOMS.index(_room(name)), f"{module} imports {name}"


def test_imports_inside_the_adapter_go_down():
    """The same for the rooms of the adapter, below its entry point."""
    for module, imported in GRAPH.items():
        if module.startswith("warmcurve.vllm."):
            for name in (name for name in imported if name.startswith("warmcurve.vllm.")):
                above = VLLM_ROOMS.index(_vllm_room(module))
                assert above >= VLLM_ROOMS.index(_vllm_room(name)), f"{module} imports {name}"


def test_engines_do_not_meet():
    """An engine's adapter imports no other engine, and nothing but tests imports the stand-ins of tests."""
    for module, imported in GRAPH.items():
        engines = {name.split(".")[1] for name in imported if name != "warmcurve"} & ENGINES
        if module != "warmcurve":
            own = module.split(".")[1]
            assert engines <= {own} | ({"vllm", "embedded"} if own == "cli" else set())


def test_imports_have_no_circle():
    """The rooms' modules can be loaded one after the other."""
    plain = {
        module: {name for name in imported if not module.startswith(f"{name}.")} for module, imported in GRAPH.items()
    }
    del plain["warmcurve"]
    packages = {module for module in plain if any(other.startswith(f"{module}.") for other in plain)}
    assert tuple(
        TopologicalSorter({m: i - {"warmcurve"} for m, i in plain.items() if m not in packages}).static_order()
    )


def _loaded(statement: str) -> set[str]:
    """What a clean interpreter has loaded after a statement, beyond what it starts with."""
    program = f"import sys\nbefore = set(sys.modules)\n{statement}\nprint(*sorted(set(sys.modules) - before))"
    words = [sys.executable, "-I", "-c", f"import sys; sys.path[:] = {sys.path!r}\n{program}"]
    return set(subprocess.run(words, capture_output=True, check=True, text=True).stdout.split())


def _tops(modules: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules}


CORE = sorted(
    module
    for module in MODULES
    if module != "warmcurve" and _room(module) not in {"engines", "cli", "planning"} and module not in HEAVY
)


@pytest.mark.parametrize("module", CORE)
def test_the_core_needs_the_standard_library_and_msgspec(module: str):
    """Each core file, alone in a clean interpreter, loads the standard library, msgspec and no room above its own."""
    loaded = _loaded(f"import {module}")
    assert _tops(loaded) - sys.stdlib_module_names <= {"warmcurve"} | _tops(_loaded("import msgspec"))
    rooms = {_room(name) for name in loaded if name.startswith("warmcurve.")}
    assert max(ROOMS.index(each) for each in rooms) == ROOMS.index(_room(module))


def test_the_package_alone_loads_no_room():
    """Importing the package loads its version and nothing else of it, nor msgspec."""
    loaded = {name for name in _loaded("import warmcurve") if name.partition(".")[0] in {"warmcurve", "msgspec"}}
    assert loaded == {"warmcurve", "warmcurve._version"}


def test_every_public_name_is_lent():
    """Each name of the public interface is the one of its room, however often and in whatever order it is asked for."""
    program = """
import random
names = sorted(set(warmcurve.__all__) - {"__version__"})
first = {name: getattr(warmcurve, name) for name in names}
import warmcurve.boot.path, warmcurve.storage.store, warmcurve.reporting.report
for name in names:
    assert getattr(warmcurve, name) is first[name], name
    assert first[name].__name__ == name, name
"""
    _loaded(f"import warmcurve\n{program}")
    _loaded(f"import warmcurve, warmcurve.boot.path\n{program}")


def test_public_names_are_sorted_and_complete():
    """The list of public names is in order, and a name that is not on it is an AttributeError."""
    assert sorted(warmcurve.__all__) == warmcurve.__all__
    with pytest.raises(AttributeError, match="nothing_of_this_name"):
        warmcurve.nothing_of_this_name  # noqa: B018
