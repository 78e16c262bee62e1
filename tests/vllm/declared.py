"""What a release of vLLM declares, read from its source files: no process can import two, and one takes ten seconds."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class Declared(NamedTuple):
    """The fields of the configuration's dataclasses, by class, and vLLM's environment variables."""

    fields: dict[str, set[str]]
    variables: set[str]


def declared(package: Path) -> Declared:
    trees = [ast.parse(path.read_bytes()) for path in sorted((package / "config").glob("*.py"))]
    return Declared(
        {kind.name: set(_fields(kind)) for tree in trees for kind in _dataclasses(tree)},
        set(_keys(ast.parse((package / "envs.py").read_bytes()), "environment_variables")),
    )


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
