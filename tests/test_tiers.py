"""Each test file is in a tier, and the page about them says which."""

import re
from pathlib import Path

TESTS = Path(__file__).parent
ROW = re.compile(r"^\| `([\w/]+\.py)` \| (\w+) \| (.+) \|$", re.MULTILINE)


def _tier(path: Path) -> str:
    text = path.read_text()
    if re.search(r"^pytestmark = .*\bmark\.full\b", text, re.MULTILINE):
        return "all"
    return "both" if re.search(r"\bmark\.full\b", text) else "test"


def test_the_page_has_each_test_file_in_its_tier():
    """One row for each file, none for others, with the tier that its markers give it."""
    rows = ROW.findall((TESTS / "README.md").read_text())
    tiers = {name: tier for name, tier, _ in rows}
    assert len(tiers) == len(rows)
    there = {str(path.relative_to(TESTS)): path for path in TESTS.rglob("test_*.py")}
    this = str(Path(__file__).relative_to(TESTS))
    assert tiers == {name: "test" if name == this else _tier(path) for name, path in there.items()}
