"""The calibration loop in the source of vLLM's model runner, wherever it stands.

    with self.step_timing.collect() as timings:
        for batch in self.adaptive_verification.batches_to_profile(self.cudagraph_manager.captured_token_counts()):
            self._dummy_run(**batch)
    self.adaptive_verification.set_initial_cost_curves(timings)

It is two statements, one after the other. The method around them changes in nearly every release for other reasons,
so it is read for one question only: can it make another calibration of these two statements?
"""

import ast
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from warmcurve.vllm.syntax import definition, digest_of

RUNNER: Final = "GPUModelRunner"
_BATCHES: Final = "batches_to_profile"
# What a calibration reads or writes. Elsewhere in the runner they would be a second calibration, or a change of curves.
_CONTRACT: Final = {
    _BATCHES,
    "set_initial_cost_curves",
    "set_cost_curves",
    "build_cost_tables_from_curves",
    "cost_tables",
}
_NAMING: Final = ("id", "attr", "arg", "name", "asname", "value")


class Loop(NamedTuple):
    """`method` is the runner's method in which the loop stands, `digest` what the loop says, `around` the decorators
    and contexts in which it runs. `flaw` says in which way the method could make another calibration of it.
    """

    method: str
    digest: str
    around: str
    flaw: str | None


class _Place(NamedTuple):
    """Two statements, and the statements around them, outermost first."""

    parents: tuple[ast.AST, ...]
    pair: tuple[ast.stmt, ...]


def find(tree: ast.Module) -> Loop:
    """The one loop of this source. Raises LookupError where there is none."""
    for method in ast.iter_child_nodes(definition(tree, RUNNER)):
        if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef):
            for place in _places(method, ()):
                around = [*method.decorator_list, *(each for parent in place.parents for each in _items(parent))]
                flaw = _flaw(tree, method, place)
                return Loop(method.name, digest_of(place.pair), digest_of(around), flaw)
    raise LookupError(f"no calibration loop in {RUNNER}")


def _places(node: ast.AST, parents: tuple[ast.AST, ...]) -> Iterator[_Place]:
    """Every `with` that asks for the batches, inner ones first, each with the statement after it."""
    for name, block in ast.iter_fields(node):
        statements = block if isinstance(block, list) else []
        for index, statement in enumerate(statements):
            if isinstance(statement, ast.AST) and name != "decorator_list":
                yield from _places(statement, (*parents, node))
            if isinstance(statement, ast.With) and _BATCHES in _words([statement]):
                yield _Place((*parents, node), tuple(statements[index : index + 2]))


def _items(parent: ast.AST) -> list[ast.withitem]:
    return parent.items if isinstance(parent, ast.With) else []


def _flaw(tree: ast.Module, method: ast.AST, place: _Place) -> str | None:
    function, *statements = place.parents
    if isinstance(function, ast.AsyncFunctionDef):
        return "it stands in a coroutine"
    for parent in statements:
        finishes = isinstance(parent, ast.Try) and not parent.handlers and not parent.orelse
        if not isinstance(parent, ast.With | ast.If) and not finishes:
            return f"it stands in a statement of the kind {type(parent).__name__}"
    own, everywhere, here = (_words(nodes) for nodes in (place.pair, [tree], [method]))
    for word in sorted(_CONTRACT):
        if everywhere[word] != own[word]:
            return f"the runner uses {word} elsewhere as well"
    bound = {node.id for each in place.pair for node in ast.walk(each) if isinstance(node, ast.Name) and _is_set(node)}
    for name in sorted(bound):
        if here[name] != own[name]:
            return f"its method uses {name} elsewhere as well"
    asked = {node.attr for each in place.pair for node in ast.walk(each) if isinstance(node, ast.Attribute)}
    changed = {node.attr for node in ast.walk(method) if isinstance(node, ast.Attribute) and _is_set(node)}
    for name in sorted(asked & changed):
        return f"its method sets {name}"
    return None


def _is_set(node: ast.Name | ast.Attribute) -> bool:
    return not isinstance(node.ctx, ast.Load)


def _words(trees: Iterable[ast.AST]) -> Counter[str]:
    """Every name, attribute, argument and text in them, and how often it is there."""
    nodes = (node for tree in trees for node in ast.walk(tree))
    values = (getattr(node, field, None) for node in nodes for field in _NAMING if field in node._fields)
    return Counter(value for value in values if isinstance(value, str))
