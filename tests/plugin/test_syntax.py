"""A release is known by what its functions say, not by how they are laid out."""

from pathlib import Path
from types import ModuleType

import pytest

from warmcurve.vllm.syntax import digest

SOURCE = '''
"""A module."""
import os

class Manager:
    """A class."""
    limit = 0

    def batches(self, sizes):
        """Yield them."""
        for size in sizes:  # in order
            yield {"tokens": size}

def table(a, *, b=1.0):
    return a + b
'''
NAMES = ("Manager", "Manager.batches", "table")


def module(path: Path, source: str) -> ModuleType:
    made = ModuleType(path.stem)
    made.__file__ = str(path)
    path.write_text(source)
    return made


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"""Yield them."""', '"""Other words."""'),
        ('        """Yield them."""\n', ""),
        ("  # in order", ""),
        ('{"tokens": size}', "{'tokens': (size)}"),
        ("import os", "import sys\n\ndef other(): ..."),
    ],
)
def test_layout_and_words_do_not_count(tmp_path: Path, old: str, new: str) -> None:
    """Comments, docstrings, quotes, brackets and other definitions leave the digest as it is."""
    one, two = module(tmp_path / "one.py", SOURCE), module(tmp_path / "two.py", SOURCE.replace(old, new))
    assert (tmp_path / "one.py").read_text() != (tmp_path / "two.py").read_text()
    assert digest(one, NAMES) == digest(two, NAMES)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("limit = 0", "limit = 1"),
        ("limit = 0", "limit = False"),
        ("limit = 0", "limit = 0.0"),
        ('{"tokens": size}', '{"tokens": +size}'),
        ("in sizes", "in sizes[1:]"),
        ("def batches", "@property\n    def batches"),
        ("def batches", "async def batches"),
        ("b=1.0", "b=1.5"),
        ("*, b", "b"),
        ("a + b", "b + a"),
        ('"tokens"', 'b"tokens"'),
    ],
)
def test_what_is_said_counts(tmp_path: Path, old: str, new: str) -> None:
    """Any change of what the code does changes the digest."""
    one, two = module(tmp_path / "one.py", SOURCE), module(tmp_path / "two.py", SOURCE.replace(old, new))
    assert digest(one, NAMES) != digest(two, NAMES)


def test_a_definition_that_is_not_there(tmp_path: Path) -> None:
    """A name that is gone is an error, never an empty digest."""
    made = module(tmp_path / "one.py", SOURCE)
    for name in ("Manager.gone", "gone", "table.inner", "Manager.limit"):
        with pytest.raises(LookupError, match="not defined"):
            digest(made, (name,))
