"""Equal factors have equal fingerprints, different ones do not, and what has no canonical form has none."""

import copy
import hashlib
from collections import OrderedDict, UserDict
from enum import Enum, IntEnum, StrEnum
from types import MappingProxyType
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from warmcurve.errors import FactorError
from warmcurve.outcome import Reason
from warmcurve.storage.fingerprint import canonical, diff, fingerprint

LEAVES = st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(st.characters(codec="utf-8"))
KEYS = st.text(st.characters(max_codepoint=127))
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4))
TREES = st.dictionaries(KEYS, VALUES, max_size=4)
# Small enough that two of them are often equal, or nearly so.
SMALL = st.dictionaries(
    st.sampled_from(("", "a", "a.b", "b")),
    st.recursive(
        st.sampled_from((1, True, "1", 0, False, "", None, "null")),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(("", "a", "b")), inner, max_size=2),
        max_leaves=3,
    ),
    max_size=2,
)


def _turned(value: Any) -> Any:
    """The same tree with every map in the opposite order."""
    if isinstance(value, dict):
        return {key: _turned(item) for key, item in reversed(value.items())}
    return [_turned(item) for item in value] if isinstance(value, list) else value


def _tagged(value: Any) -> Any:
    """The tree with each leaf's type beside it: in Python 1 == True."""
    if isinstance(value, dict):
        return {key: _tagged(item) for key, item in value.items()}
    return [_tagged(item) for item in value] if isinstance(value, list) else (type(value), value)


@given(TREES)
def test_the_canonical_form_is_that_of_rfc_8785(tree):
    """Another implementation finds the same bytes and the same digest."""
    assert canonical(tree) == rfc8785.dumps(tree)
    assert fingerprint(tree) == hashlib.sha256(rfc8785.dumps(tree)).hexdigest()


@given(TREES)
def test_the_order_of_insertion_does_not_count(tree):
    """Maps are equal whatever the order of their keys, and the factors are left as they were."""
    before = copy.deepcopy(tree)
    assert canonical(_turned(tree)) == canonical(tree)
    assert list(_tagged(tree)) == list(_tagged(before))
    assert _tagged(tree) == _tagged(before)


@given(SMALL, SMALL)
def test_two_trees_share_their_bytes_exactly_if_they_are_equal(left, right):
    """The canonical form is injective."""
    assert (canonical(left) == canonical(right)) == (_tagged(left) == _tagged(right))


def test_values_of_different_types_differ():
    """Numbers, truth, text, nothing and emptiness are told apart."""
    values: list[Any] = [
        1,
        True,
        "1",
        "true",
        "True",
        0,
        False,
        None,
        "",
        "null",
        [],
        {},
        [[]],
        [{}],
        {"": None},
        [1],
        ["1"],
        -1,
    ]
    assert len({fingerprint({"factor": value}) for value in values}) == len(values)
    assert fingerprint({}) != fingerprint({"factor": None})
    assert fingerprint({"a": {"b": 1}}) != fingerprint({"a.b": 1})
    assert fingerprint({"a": [1, 2]}) != fingerprint({"a": [2, 1]})
    assert fingerprint({"a": "é"}) != fingerprint({"a": "e\u0301"})


@pytest.mark.parametrize("mapping", [dict, OrderedDict, UserDict, MappingProxyType])
def test_any_mapping_is_a_tree(mapping):
    """The tree itself may be any mapping; inside only plain maps count."""
    assert fingerprint(mapping({"a": 1})) == fingerprint({"a": 1})
    if mapping is not dict:
        with pytest.raises(FactorError):
            fingerprint({"a": mapping({})})


class Colour(Enum):
    RED = "red"


class Word(StrEnum):
    RED = "red"


class Count(IntEnum):
    ONE = 1


class Text(str):
    __slots__ = ()


class Number(int):
    pass


class Items(list[int]):
    pass


REFUSED = {
    "float": 1.5,
    "whole float": 1.0,
    "not a number": float("nan"),
    "set": {1},
    "frozen set": frozenset({1}),
    "tuple": (1, 2),
    "bytes": b"a",
    "byte array": bytearray(b"a"),
    "object": object(),
    "type": int,
    "enum": Colour.RED,
    "text enum": Word.RED,
    "integer enum": Count.ONE,
    "subclass of text": Text("a"),
    "subclass of int": Number(1),
    "subclass of list": Items(),
    "complex": 1j,
    "range": range(3),
    "integer of 2**53": 2**53,
    "integer of -2**53": -(2**53),
    "integer beyond all": 10**5000,
    "lone surrogate": "\ud800",
    "surrogates the wrong way round": "\udc00\ud800",
    "key not ASCII": {"é": 1},
    "key a number": {1: 1},
    "key nothing": {None: 1},
    "key a subclass of text": {Text("a"): 1},
    "key a lone surrogate": {"\ud800": 1},
    "key bytes": {b"a": 1},
}


@pytest.mark.parametrize("what", REFUSED)
@pytest.mark.parametrize("place", ["deep.list[1]", "deep.map", "deep"])
def test_what_has_no_canonical_form_is_refused(what: str, place: str):
    """Anything but plain values is a FactorError that names the factor, wherever it stands."""
    value: Any = REFUSED[what]
    tree = {"deep.list[1]": {"list": [1, value]}, "deep.map": {"map": value}, "deep": value}[place]
    with pytest.raises(FactorError) as refused:
        fingerprint({"first": 1, "deep": tree})
    assert refused.value.reason is Reason.FACTOR_INVALID
    assert refused.value.factor.startswith(place)
    assert str(refused.value).encode("utf-8")


@pytest.mark.parametrize("key", ["é", 1, None, "\ud800"])
def test_a_key_of_the_tree_itself_is_checked(key):
    """The top of the tree is held to the rule of the maps inside."""
    with pytest.raises(FactorError):
        fingerprint({key: 1})


@pytest.mark.parametrize("wrap", [lambda inner: [inner], lambda inner: {"a": inner}], ids=["list", "map"])
def test_any_depth_has_a_canonical_form_or_is_refused(wrap):
    """However deep a tree is, and where it contains itself, it is at worst a FactorError."""
    tree = 1
    for depth in range(3000):
        tree = wrap(tree)
        if depth in {100, 300, 480, 700, 960, 2999}:
            try:
                assert len(fingerprint({"factor": tree})) == 64
            except FactorError as refused:
                assert refused.reason is Reason.FACTOR_INVALID  # noqa: PT017
    endless: Any = wrap(None)
    endless[0 if isinstance(endless, list) else "a"] = endless
    with pytest.raises(FactorError):
        fingerprint({"factor": endless})


def test_the_largest_integers_are_exact():
    """Integers up to 2**53 - 1 either way are factors."""
    assert canonical({"a": 2**53 - 1, "b": 1 - 2**53}) == b'{"a":9007199254740991,"b":-9007199254740991}'


@given(TREES)
def test_a_tree_does_not_differ_from_itself(tree):
    """Equal trees have no difference, whatever the order of their keys."""
    assert diff(tree, _turned(tree)) == ()


@given(SMALL, SMALL)
def test_trees_that_differ_have_a_difference(left, right):
    """There is a difference exactly where the fingerprints differ, and it reads the same from both sides."""
    found = diff(left, right)
    assert bool(found) == (fingerprint(left) != fingerprint(right))
    assert [(there.factor, there.right, there.left) for there in diff(right, left)] == [
        (here.factor, here.left, here.right) for here in found
    ]


NAMES = st.text("abc", min_size=1, max_size=3)
NAMED = st.recursive(LEAVES, lambda inner: st.dictionaries(NAMES, inner, min_size=1), max_leaves=8)


def _leaves(tree: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    if isinstance(tree, dict) and tree:
        return [leaf for key, item in tree.items() for leaf in _leaves(item, (*path, key))]
    return [path]


@given(st.dictionaries(NAMES, NAMED, min_size=1), st.data())
def test_the_leaf_that_changed_is_named(tree, data):
    """Where one leaf is another, the difference is that leaf alone, by its dotted name, with both values."""
    path = data.draw(st.sampled_from(_leaves(tree)))
    other = copy.deepcopy(tree)
    parent = other
    for key in path[:-1]:
        parent = parent[key]
    old = parent[path[-1]]
    parent[path[-1]] = "changed" if old != "changed" else "again"
    (found,) = diff(tree, other)
    assert found.factor == ".".join(path)
    assert found.right == f'"{parent[path[-1]]}"'
    assert found.left == canonical({"": old})[4:-1].decode()


def test_a_difference_has_a_side_for_each_tree():
    """A leaf that only one tree has is None on the other side, lists are compared whole, names are in order."""
    left: dict[str, Any] = {"b": {"same": 1, "gone": None}, "a": [1, 2], "empty": {}}
    right: dict[str, Any] = {"b": {"same": 1}, "a": [1, 2, 3], "empty": {"filled": True}, "new": 1}
    assert [(each.factor, each.left, each.right) for each in diff(left, right)] == [
        ("a", "[1, 2]", "[1, 2, 3]"),
        ("b.gone", "null", None),
        ("empty.filled", None, "true"),
        ("new", None, "1"),
    ]


@given(st.dictionaries(NAMES, NAMED, min_size=1), st.data())
def test_a_map_that_is_filled_is_told_by_what_fills_it(tree, data):
    """Where one side's map is empty, the differences are the leaves in it, each absent on that side."""
    path = data.draw(st.sampled_from(_leaves(tree)))
    filled, empty = copy.deepcopy(tree), copy.deepcopy(tree)
    for each, value in ((filled, {"one": 1, "two": {"three": []}}), (empty, {})):
        parent = each
        for key in path[:-1]:
            parent = parent[key]
        parent[path[-1]] = value
    name = ".".join(path)
    assert [(each.factor, each.left, each.right) for each in diff(empty, filled)] == [
        (f"{name}.one", None, "1"),
        (f"{name}.two.three", None, "[]"),
    ]


def test_dots_in_names_do_not_hide_a_difference():
    """Names with dots in them, such as those of modules, are not mistaken for nested ones."""
    assert diff({"a": {"b": 1}}, {"a.b": 1})
    assert diff({"a": {"b": 1}, "a.b": 2}, {"a": {"b": 2}, "a.b": 1})
    assert diff({"": {}}, {})
