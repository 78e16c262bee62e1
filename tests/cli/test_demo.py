"""`warmcurve demo`, with short replies."""

import json
import math
from html.parser import HTMLParser

import pytest

from warmcurve.cli import demo
from warmcurve.curves.admission import Thresholds
from warmcurve.curves.sentinel import Limits
from warmcurve.embedded import trial

ANY = Limits(scale_low=1e-9, scale_high=1e9, max_regret=1.0)
ALL = Thresholds(noise=math.inf, cold=math.inf, rise=0, bend=math.inf)
QUICK = ("demo", "--small", "1", "--large", "2")


@pytest.fixture(scope="module", autouse=True)
def quick():
    """Few and short replies, one round. No load of the machine keeps a calibration from being stored or confirmed."""
    whole = trial.requests
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("warmcurve.cli.demo._ROUNDS", 1)
        patch.setattr(trial, "requests", lambda count: whole(min(count, 3), 12))
        patch.setattr(trial, "NOISY", ANY)
        patch.setattr(trial, "BUSY", ALL)
        yield


@pytest.fixture(scope="module")
def once(quick):
    """What was shown, for tests of how it is told."""
    return demo._show(1, 2, demo._Progress())


@pytest.fixture
def shown(once, monkeypatch):
    monkeypatch.setattr("warmcurve.cli.demo._show", lambda *arguments: once)


def test_the_document_says_what_was_found(run):
    """Boots and serving of all modes, with equal tables and equal output."""
    result = run(*QUICK, "--json")
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    cold, warm = found["boots"]
    assert (cold["name"], cold["outcome"], cold["reason"], cold["sentinel_runs"]) == ("cold", "recorded", None, 0)
    assert (warm["name"], warm["outcome"], warm["calibration_runs"], warm["sentinel_runs"]) == ("warm", "reused", 0, 2)
    assert cold["digest"] == warm["digest"]
    assert found["identical_tables"] is found["identical_output"] is True
    modes = [(each["batch"], each["mode"]) for each in found["serving"]]
    assert modes == [(n, mode) for n in (1, 2) for mode in ("plain", "fixed", "adaptive-fresh", "adaptive-stored")]
    assert {each["tokens"] for each in found["serving"]} == {9 + 10 + 11}
    assert len({each["output_sha256"] for each in found["serving"]}) == 1


def test_the_table_says_it_to_a_person(run):
    """Tables on stdout; progress and the widened limits on stderr."""
    result = run(*QUICK)
    assert result.exit_code == 0
    assert "cold" in result.stdout
    assert result.stdout.count("adaptive-stored") == 2
    assert "NO" not in result.stdout
    assert "calibrating" in result.stderr
    assert "Sentinel limits are wider" in result.stderr


class Links(HTMLParser):
    """What a page would load or link to, and its text."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str | None] = []
        self.tags: list[str] = []
        self.text = ""

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.found += [value for name, value in attrs if name in {"src", "href", "xlink:href"}]

    def handle_data(self, data):
        self.text += data


def test_the_page_stands_alone(run, shown, tmp_path):
    """One file with drawings and numbers, which loads nothing and runs nothing."""
    result = run(*QUICK, "--out", tmp_path / "new" / "out")
    assert result.exit_code == 0
    [path] = (tmp_path / "new" / "out").iterdir()
    text = path.read_text(encoding="utf-8")
    page = Links()
    page.feed(text)
    assert page.found == []
    assert "script" not in page.tags
    assert "url(" not in text
    assert page.tags.count("svg") == 5
    assert "adaptive, stored curves" in page.text


def test_unequal_output_is_a_failure(run, shown, monkeypatch):
    """A demonstration in which something differs that must not ends with exit code 1."""
    monkeypatch.setattr("warmcurve.embedded.trial.Shown.identical_output", lambda shown: False)
    result = run(*QUICK)
    assert result.exit_code == 1
    assert "NO" in result.stdout
