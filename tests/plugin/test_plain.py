"""What becomes of another program's values: plain ones, which every process would give alike."""

import os
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, Flag, IntEnum, StrEnum
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmcurve.storage.fingerprint import canonical
from warmcurve.vllm.plain import class_of, plain


class Mode(Enum):
    NONE = 0


class Level(IntEnum):
    O2 = 2


class Word(StrEnum):
    RED = "red"


class Bits(Flag):
    ONE = 1
    TWO = 2


@dataclass
class Spec:
    size: int
    unit: Any = None
    shared: ClassVar[int] = 9


@dataclass
class Wider(Spec):
    more: set[int] = field(default_factory=set)


class Other:
    pass


class Hashed:
    def compute_hash(self) -> str:
        return "abc"


def helper() -> None:
    pass


HERE = __name__
EXAMPLES: dict[str, tuple[Any, Any]] = {
    "null": (None, None),
    "truth": (True, True),
    "text": ("a", "a"),
    "text of a member": (Word.RED, "RED"),
    "integer": (7, 7),
    "integer without a double": (2**63, "int 9223372036854775808"),
    "member that is an integer": (Level.O2, "O2"),
    "member": (Mode.NONE, "NONE"),
    "combined flags": (Bits.ONE | Bits.TWO, "ONE|TWO"),
    "float": (0.1, "float 0.1"),
    "whole float": (2.0, "float 2.0"),
    "float without end": (float("inf"), "float inf"),
    "not a number": (float("nan"), "float nan"),
    "list and tuple": ([1, (2, "3")], [1, [2, "3"]]),
    "set": ({"b", "a", "c"}, ["a", "b", "c"]),
    "set of several types": (frozenset({"1", 1, None}), [None, 1, "1"]),
    "map": (OrderedDict(b=1, a={"c": 2.5}), {"b": 1, "a": {"c": "float 2.5"}}),
    "map with keys that are no text": (
        {1: "a", Mode.NONE: "b", None: "c"},
        {"int 1": "a", "NONE": "b", "NoneType None": "c"},
    ),
    "dataclass": (Spec(1, Mode.NONE), {"class": f"{HERE}.Spec", "size": 1, "unit": "NONE"}),
    "its heir": (Wider(1, more={2}), {"class": f"{HERE}.Wider", "size": 1, "unit": None, "more": [2]}),
    "path": (Path("/a/b"), "/a/b"),
    "bytes": (b"\x00\xff", "bytes 00ff"),
    "class": (Spec, f"{HERE}.Spec"),
    "function": (helper, f"{HERE}.helper"),
    "function of the interpreter": (os.getpid, "posix.getpid"),
    "function with arguments": (
        partial(Spec, 1, unit=[2]),
        {"function": f"{HERE}.Spec", "arguments": [1], "keywords": {"unit": [2]}},
    ),
    "numpy's integer": (np.int64(5), 5),
    "numpy's unsigned integer": (np.uint8(200), 200),
    "numpy's float": (np.float32(0.5), "float 0.5"),
    "numpy's double": (np.float64(0.1), "float 0.1"),
    "numpy's truth": (np.bool_(True), True),
    "fraction": (Fraction(1, 4), "float 0.25"),
    "object": (Other(), f"{HERE}.Other"),
    "object that tells itself": (Hashed(), {"class": f"{HERE}.Hashed", "hash": "abc"}),
}


@pytest.mark.parametrize("what", EXAMPLES)
def test_a_value_in_the_algebra(what: str) -> None:
    """Each kind of value has one form, which has canonical bytes."""
    value, expected = EXAMPLES[what]
    assert plain(value) == expected
    assert type(plain(value)) is type(expected)
    assert canonical({"factor": plain(value)})


@pytest.mark.parametrize(
    "value",
    [
        lambda: 1,
        {"deep": [lambda: 1]},
        type("Local", (), {"method": lambda self: 1})().method,
        {1: "a", "int 1": "b"},
        partial(lambda: 1),
    ],
    ids=["lambda", "lambda inside", "method without a name", "keys that would be one", "arguments of a lambda"],
)
def test_what_has_no_stable_name_is_refused(value: Any) -> None:
    """Two functions without a name could not be told apart, nor two keys of one name."""
    with pytest.raises(ValueError, match=r"name|several"):
        plain(value)


def test_a_local_function_is_refused() -> None:
    """The name of a function within a function is shared by all that were made there."""

    def local() -> None:
        pass

    with pytest.raises(ValueError, match="local"):
        plain(local)


LEAVES: st.SearchStrategy[Any] = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(codec="utf-8"))
    | st.binary()
    | st.sampled_from([Mode.NONE, Level.O2, Word.RED, Bits.ONE | Bits.TWO, Spec, helper, Path("a")])
)
# Made anew each time, so that no two have one address.
FRESH: st.SearchStrategy[Callable[[], Any]] = st.sampled_from([Other, Hashed, lambda: Spec(1, Other())])
KEYS = st.text(st.characters(max_codepoint=127))


@given(st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3)))
def test_any_value_has_canonical_bytes(value: Any) -> None:
    """Whatever settings hold, nothing but plain values comes out, no float among them, and always the same."""
    assert canonical({"factor": plain(value)}) == canonical({"factor": plain(value)})


@given(st.lists(FRESH, max_size=4))
def test_no_address_enters(makers: list[Callable[[], Any]]) -> None:
    """Objects made twice are other objects with the same form."""
    first, second = ([make() for make in makers] for _ in range(2))
    assert canonical({"factor": plain(first)}) == canonical({"factor": plain(second)})
    assert b"0x" not in canonical({"factor": plain(first)})


@given(st.sets(st.text("ab", max_size=3) | st.integers(-9, 9) | st.none(), max_size=6), st.randoms())
def test_the_order_of_a_set_does_not_count(items: set[Any], draw: Any) -> None:
    """Sets that were filled in another order have the same form, and sets that differ do not."""
    shuffled = list(items)
    draw.shuffle(shuffled)
    # Filled, emptied and filled again: the table of a set remembers what was in it.
    other = set(range(100, 200))
    other.update(shuffled)
    other.difference_update(range(100, 200))
    assert plain(other) == plain(items)
    assert plain(items | {"new"}) != plain(items)


def test_the_name_of_a_type() -> None:
    """Qualified by its module; null for nothing."""
    assert class_of(Other()) == f"{HERE}.Other"
    assert class_of(None) is None
