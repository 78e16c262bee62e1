"""The list of seeded defects fits the code: each can be put in, and the tests that are to catch it are there."""

from pathlib import Path

import pytest

import warmcurve
from tests.defects import DEFECTS, Defect
from tests.seeded_defects import NotRun, failed_test

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = Path(warmcurve.__file__).parent


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_a_defect_can_be_put_in(defect: Defect):
    """What it replaces stands once in its file, and its tests are files."""
    assert (PACKAGE / defect.file).read_text().count(defect.old) == 1
    assert defect.new != defect.old
    assert all((ROOT / test).is_file() for test in defect.tests.split())


def test_a_defect_is_caught_by_a_test_that_ran():
    """A test that fails, or whose fixture does, catches a defect. Code that cannot be imported is no defect at all."""
    for line in ("FAILED tests/test_a.py::test_b[c d] - assert 0", "ERROR tests/test_a.py::test_b - OSError"):
        assert failed_test(1, f"F\n{line}\n1 failed\n") == line
    assert failed_test(0, "1 passed\n") is None
    for code in (1, 2, 4, 5):
        with pytest.raises(NotRun, match=f"pytest ended with {code}"):
            failed_test(code, "ERROR tests/test_a.py - ImportError: a::b\n" if code < 5 else "")
