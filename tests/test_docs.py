"""The pages say what the code says, and their links lead somewhere."""

import re
import runpy
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import unquote

import pytest

from warmcurve._version import RELEASED, __version__
from warmcurve.boot.settings import Settings
from warmcurve.errors import SettingsError
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


def _releases(changelog: str) -> dict[str, str]:
    """The days of releases, newest first, by version."""
    return dict(re.findall(r"^## \[?([0-9.]+)\]? - ([0-9-]+)$", changelog, re.MULTILINE))


def test_the_day_of_the_release_is_the_changelogs():
    """No clock that is right is before it, and no clock that was never set is after it. A version that is not released
    yet has a day after the last one that was.
    """
    assert _releases("## Unreleased\n\n## [0.2.0] - 2027-02-03\n\n## 0.1.0 - 2027-01-02\n") == {
        "0.2.0": "2027-02-03",
        "0.1.0": "2027-01-02",
    }
    released = _releases((ROOT / "CHANGELOG.md").read_text())
    assert released.get(__version__, RELEASED) == RELEASED
    assert max([*released.values(), "2026-11-29"]) <= RELEASED <= f"{datetime.now(UTC):%Y-%m-%d}"


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


def _rows(page: str) -> list[list[str]]:
    """The cells of the tables' rows whose first cell is a setting."""
    lines = (ROOT / "docs" / page).read_text().splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| `WARMCURVE_")]


def _asked_for() -> set[str]:
    """The names that reading an environment asks for."""
    asked = set()

    class Environment(dict[str, str]):
        def get(self, name, default=None):
            asked.add(name)
            return default

    Settings.from_environment(Environment())
    return asked


def test_every_setting_is_on_its_page():
    """docs/settings.md has one row for each variable that a boot reads, with its default and its range."""
    rows = {name.strip("`"): (default, values) for name, default, values, _ in _rows("settings.md")}
    assert len(rows) == len(_rows("settings.md"))
    assert rows.keys() - {"WARMCURVE_VLLM", "WARMCURVE_STORE"} == _asked_for()
    for name in _asked_for():
        default, values = rows[name]
        if default != "none":
            assert Settings.from_environment({name: default.strip("`")}) == Settings(), name
        with pytest.raises(SettingsError) as refused:
            Settings.from_environment({name: "?"})
        if number := re.fullmatch(r"([\d.]+) (on|to ([\d.]+))", values):
            least, _, most = number.groups()
            assert f"is not a number from {least} to {most or ''}" in str(refused.value), name
        for value in re.findall("`(.+?)`", values):
            Settings.from_environment({name: value})


def test_the_common_settings_are_those_of_their_page():
    """The README's rows of settings have the defaults of docs/settings.md."""
    defaults = {name: default.strip("`") for name, default, *_ in _rows("settings.md")}
    rows = _rows("../README.md")
    assert len(rows) == 5
    for name, default, _ in rows:
        assert default.replace("`", "").split(" ")[0] == defaults[name]


def _anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives to the headings of a page."""
    headings = re.findall(r"(?m)^#+ (.*)$", page.read_text())
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "SECURITY.md",
        "bench/README.md",
        *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md"))),
    ],
)
def test_links_lead_to_files_and_headings(page: str):
    """Each relative link of a page names a file of the repository, and a heading of it if it names one."""
    here = ROOT / page
    for target in re.findall(r"\]\(([^)\s]+)\)", here.read_text()):
        if "://" not in target:
            path, _, anchor = unquote(target).partition("#")
            there = here.parent / path if path else here
            assert there.exists(), target
            assert not anchor or anchor in _anchors(there), target


def test_the_example_for_engine_authors_runs(tmp_path, monkeypatch, capsys):
    """The program in docs/engines.md prints the lines that stand below it."""
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "engines.md").read_text()
    program, printed = re.findall(r"(?s)```(?:python)?\n(.*?)```", page)[:2]
    exec(program, {})
    assert capsys.readouterr().out == printed


def test_the_readme_is_short():
    """The README is what a new user reads in one go; the rest is under docs/."""
    assert len((ROOT / "README.md").read_text().splitlines()) <= 130
