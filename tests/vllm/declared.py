"""What a release of vLLM declares, read from its source files: no process can import two, and one takes ten seconds."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

# What is no part of an engine.
_APART = {"benchmarks", "collect_env.py"}
# By patterns, since to parse all files of a release takes a minute: os.environ[...], os.environ.get(...),
# os.getenv(...), helpers that are called so, ... in os.environ; of a text, or of a name that the file gives one.
_VARIABLE = re.compile(
    r"""(?:environ(?:\.get|\.pop|\.setdefault)?|getenv|get_env|env_flag|env_int)[\[(]\s*(?:["'](\w+)["']|(\w+))"""
    r"""|["'](\w+)["']\s+(?:not\s+)?in\s+os\.environ"""
)
_CONSTANT = re.compile(r"""^(\w+)\s*(?::[^=\n]*)?=\s*["'](\w+)["']""", re.MULTILINE)
_PACKAGE = re.compile(r"""(?:find_spec|_has_module|metadata\.version|_installed_version)\(\s*["']([\w.-]+)["']""")


class Declared(NamedTuple):
    """The fields of the configuration's dataclasses, by class, and vLLM's environment variables."""

    fields: dict[str, set[str]]
    variables: set[str]


class Asked(NamedTuple):
    """The environment variables, and the modules and distributions, that any of its files asks for by a plain name."""

    variables: set[str]
    packages: set[str]


def declared(package: Path) -> Declared:
    trees = [ast.parse(path.read_bytes()) for path in sorted((package / "config").glob("*.py"))]
    return Declared(
        {kind.name: set(_fields(kind)) for tree in trees for kind in _dataclasses(tree)},
        set(_keys(ast.parse((package / "envs.py").read_bytes()), "environment_variables")),
    )


def asked(package: Path) -> Asked:
    found = Asked(set(), set())
    for path in sorted(package.rglob("*.py")):
        if path.relative_to(package).parts[0] not in _APART:
            source = path.read_text()
            texts = dict(_CONSTANT.findall(source))
            for text, name, tested in _VARIABLE.findall(source):
                found.variables.add(text or tested or texts.get(name, ""))
            found.packages.update(_PACKAGE.findall(source))
    found.variables.discard("")
    return found


def _dataclasses(tree: ast.Module) -> Iterator[ast.ClassDef]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            decorators = {ast.unparse(each).partition("(")[0] for each in node.decorator_list}
            if decorators & {"config", "dataclass"}:
                yield node


def _fields(kind: ast.ClassDef) -> Iterator[str]:
    for node in kind.body:
        # Variables of the class, and what only its constructor takes, are no fields.
        if isinstance(node, ast.AnnAssign) and not ast.unparse(node.annotation).startswith(("ClassVar", "InitVar")):
            yield ast.unparse(node.target)


def _keys(tree: ast.Module, name: str) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == name and isinstance(node.value, ast.Dict):
            yield from (
                key.value for key in node.value.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)
            )
