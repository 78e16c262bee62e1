"""The pages that are made from the code say what the code says."""

import runpy
from pathlib import Path

from warmcurve.outcome import Outcome, Reason

ROOT = Path(__file__).parent.parent


def test_the_page_of_outcomes_is_the_vocabulary():
    """docs/outcomes.md is what tools/outcomes.py writes, with a heading for every word."""
    written = (ROOT / "docs" / "outcomes.md").read_text()
    assert written == runpy.run_path(str(ROOT / "tools" / "outcomes.py"))["page"]()
    for word in (*Outcome, *Reason):
        assert written.count(f"### `{word}`\n") == 1
