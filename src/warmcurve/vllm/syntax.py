"""A digest of what a piece of Python source says: comments, docstrings and layout do not count."""

import ast
import hashlib
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType


@cache
def digest(module: ModuleType, names: tuple[str, ...]) -> str:
    """SHA-256 over the definitions of these qualified names in the module's file. Raises LookupError or OSError.

    Read from the file and not from the live objects, which another plugin may have wrapped.
    """
    tree = tree_of(module)
    found = hashlib.sha256()
    for name in names:
        found.update(f"{name} {_shape(definition(tree, name))}\n".encode())
    return found.hexdigest()


def digest_of(nodes: Sequence[ast.AST]) -> str:
    """SHA-256 over pieces of source, in order."""
    return hashlib.sha256(_shape(list(nodes)).encode()).hexdigest()


@cache
def tree_of(module: ModuleType) -> ast.Module:
    """The module's file, parsed. Raises OSError or SyntaxError."""
    return ast.parse(Path(module.__file__ or "").read_bytes())


def definition(tree: ast.Module, name: str) -> ast.AST:
    """The class or function of this qualified name. Raises LookupError."""
    node: ast.AST = tree
    for part in name.split("."):
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        body: Iterator[ast.AST] = ast.iter_child_nodes(node)
        node = next((child for child in body if isinstance(child, kinds) and child.name == part), tree)
        if node is tree:
            raise LookupError(f"{name} is not defined")
    return node


def _shape(node: object) -> str:
    # Not ast.dump: what it prints for empty fields, and which fields there are, differs between Python versions.
    if isinstance(node, list):
        return f"[{','.join(map(_shape, node))}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = []
    for name, value in sorted(ast.iter_fields(node)):
        kept = value[1:] if name == "body" and _has_docstring(node) else value
        if kept is not None and kept != [] and name not in ("type_comment", "kind"):
            fields.append(f"{name}={_shape(kept)}")
    return f"{type(node).__name__}({','.join(fields)})"


def _has_docstring(node: ast.AST) -> bool:
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
        return False
    return ast.get_docstring(node, clean=False) is not None
