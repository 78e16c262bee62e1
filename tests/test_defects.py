"""The list of seeded defects fits the code: each can be put in, and the tests that are to catch it are there."""

from pathlib import Path

import pytest

import warmcurve
from tests.defects import DEFECTS, Defect

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = Path(warmcurve.__file__).parent


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_a_defect_can_be_put_in(defect: Defect):
    """What it replaces stands once in its file, and its tests are files."""
    assert (PACKAGE / defect.file).read_text().count(defect.old) == 1
    assert defect.new != defect.old
    assert all((ROOT / test).is_file() for test in defect.tests.split())
