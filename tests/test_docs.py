"""The pages that are made from the code say what the code says."""

import runpy
from pathlib import Path

from warmcurve.outcome import Outcome, Reason
from warmcurve.vllm.factors.declared import FACTORS
from warmcurve.vllm.reviewed.sections import SECTIONS
from warmcurve.vllm.reviewed.variables import COUNTED, EXCLUDED, FORMS, OURS

ROOT = Path(__file__).parent.parent


def test_the_page_of_outcomes_is_the_vocabulary():
    """docs/outcomes.md is what tools/outcomes.py writes, with a heading for every word."""
    written = (ROOT / "docs" / "outcomes.md").read_text()
    assert written == runpy.run_path(str(ROOT / "tools" / "outcomes.py"))["page"]()
    for word in (*Outcome, *Reason):
        assert written.count(f"### `{word}`\n") == 1


def test_the_page_of_the_fingerprint_is_the_declarations():
    """docs/fingerprint.md is what tools/fingerprint.py writes, with a reason for each factor and each exclusion."""
    written = (ROOT / "docs" / "fingerprint.md").read_text()
    assert written == runpy.run_path(str(ROOT / "tools" / "fingerprint.py"))["page"]()
    for factor in FACTORS:
        assert f"| {factor.where} | {factor.why} |" in written
    for section in SECTIONS.values():
        assert f"### `{section.name}`\n\nCounts: {section.why}.\n" in written
    for exclusion in (*EXCLUDED, *(each for section in SECTIONS.values() for each in section.excluded)):
        names = " ".join(f"`{name}`" for name in exclusion.names)
        assert f"| {exclusion.kind} | {names} | {exclusion.why} |" in written
    assert {name for name in COUNTED if f"`{name.removeprefix(OURS)}`" not in written} == set()
    assert {form.why for form in FORMS if f"| {form.why} |" not in written} == set()
