"""`warmcurve show`."""

import json
import os
from pathlib import Path

import msgspec
import pytest

from tests.cli.conftest import Record, Run
from warmcurve.entry import Entry, decode
from warmcurve.outcome import MEANINGS, Reason
from warmcurve.store import DirectoryStore


def _decoded(store: DirectoryStore, digest: str) -> Entry:
    data = store.get(digest)
    assert data is not None
    return decode(data, digest)


def _table(text: str, heading: str) -> list[list[str]]:
    """The cells below a heading, up to the next empty line."""
    block = text.split(f"\n{heading}", 1)[1].split("\n\n", 1)[0]
    return [line.split() for line in block.splitlines()[1:]]


def test_the_page_names_entry_and_file(store: DirectoryStore, record: Record, run: Run) -> None:
    """The whole digest, the path, the engine and the measuring protocol come first."""
    digest = record()
    result = run("show", digest)
    head = dict(line.split(maxsplit=1) for line in result.stdout.split("\n\n", 1)[0].splitlines())
    assert result.exit_code == 0
    assert head == {
        "digest": digest,
        "path": store.describe(digest),
        "engine": "scripted",
        "measured": "median of 5 replays, in ms",
        "captured": "5 sizes up to 16 tokens",
        "lookup": "step where captured, linear above",
    }


def test_curves_come_with_the_spread_of_their_samples(record: Record, run: Run) -> None:
    """Each size has its cost, and how many samples it is the median of, from least to most."""
    text = run("show", record()).stdout
    verify, draft = _table(text, "Verify cost"), _table(text, "Draft cost")
    assert verify[0] == ["size", "ms", "samples", "min", "max"]
    assert verify[1] == ["1", "1.2000", "5", "1.0000", "1.4000"]
    assert verify[-1] == ["64", "64.2000", "5", "64.0000", "64.4000"]
    assert len(verify) == 1 + 8
    # The four requests of 4, 8 and 16 tokens, without the eager tail.
    assert draft[-1] == ["4", "1.2500", "15", "1.2500", "1.2500"]


def test_factors_are_a_tree(record: Record, run: Run) -> None:
    """Leaves stand before groups, and a group's own lines are indented below its name."""
    text = run("show", record("0123abc")).stdout
    lines = text.split("\nFactors\n", 1)[1].split("\n\n", 1)[0].splitlines()
    assert lines[0] == "  k  7"
    assert lines[1:5] == ["  model", "    draft  null", "    target", "      revision  0123abc"]


def test_conditions_are_told(record: Record, run: Run) -> None:
    """All of them, whatever the engine added."""
    text = run("show", record(gpu_clock_mhz=1980, governor="")).stdout
    conditions = {name: value for name, value in _table(text, "Conditions") if name}
    assert conditions["gpu_clock_mhz"] == "1980"
    assert conditions["governor"] == '""'
    assert conditions["recorded_at"] == "2030-01-01T00:00:00+00:00"


def test_json_is_the_entry_in_an_envelope(store: DirectoryStore, record: Record, run: Run) -> None:
    """One document, which converts back into the very entry."""
    digest = record()
    document = json.loads(run("show", digest, "--json").stdout)
    assert list(document) == ["schema", "digest", "path", "entry"]
    assert document["schema"] == 1
    assert (document["digest"], document["path"]) == (digest, store.describe(digest))
    assert msgspec.convert(document["entry"], Entry) == _decoded(store, digest)


@pytest.mark.parametrize("length", [4, 12, 63])
def test_a_digest_may_be_cut_short(length: int, record: Record, run: Run) -> None:
    """A prefix is enough while it is unique, in either case of letters."""
    digest = record()
    for prefix in (digest[:length], digest[:length].upper()):
        assert json.loads(run("show", prefix, "--json").stdout)["digest"] == digest


def test_an_ambiguous_prefix_lists_the_candidates(store: DirectoryStore, run: Run) -> None:
    """Two entries that begin alike are a usage error that names both and no other."""
    one, two, other = "abcd" + "0" * 60, "abcd" + "1" * 60, "abce" + "0" * 60
    for digest in (one, two, other):
        store.put(digest, b"")
    result = run("show", "abcd")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert one in result.stderr
    assert two in result.stderr
    assert other not in result.stderr


@pytest.mark.parametrize("digest", ["abc", "", "wxyz", "../../etc/passwd", "a" * 65, "abcd\n"])
def test_what_cannot_be_a_digest_is_a_usage_error(digest: str, record: Record, run: Run) -> None:
    """Too short, too long or not hexadecimal: exit code 2."""
    record()
    result = run("show", digest)
    assert result.exit_code == 2
    assert "hexadecimal" in result.stderr


def test_an_unknown_digest_is_a_finding(store: DirectoryStore, record: Record, run: Run) -> None:
    """No entry begins so: exit code 1, and where it was looked for."""
    digest = record()
    unknown = ("0" if digest[0] != "0" else "1") + digest[1:]
    result = run("show", unknown)
    assert result.exit_code == 1
    assert unknown in result.stderr
    assert str(store.directory) in result.stderr


def test_an_entry_that_vanishes_meanwhile_is_a_finding(
    record: Record, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An entry deleted between the listing and the reading is as unknown as one never stored."""
    digest = record()
    monkeypatch.setattr(DirectoryStore, "get", lambda *_: None)
    assert run("show", digest).exit_code == 1


def test_a_damaged_entry_is_not_shown(store: DirectoryStore, record: Record, run: Run) -> None:
    """Its reason, its path and what to do are on stderr, and nothing of its content is printed."""
    digest = record()
    path = Path(store.describe(digest))
    path.write_bytes(path.read_bytes()[:-10])
    result = run("show", digest)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith(f"error: entry_truncated: {path}: ")
    assert f"hint: {MEANINGS[Reason.ENTRY_TRUNCATED].remedy}" in result.stderr


def test_a_pipe_in_the_place_of_an_entry_does_not_hang(store: DirectoryStore, record: Record, run: Run) -> None:
    """Something that is no file is a finding, not a wait."""
    record()
    os.mkfifo(store.describe("f" * 64))
    result = run("show", "f" * 64)
    assert result.exit_code == 1
    assert "entry_unreadable" in result.stderr


def test_escape_sequences_are_shown_not_obeyed(record: Record, run: Run) -> None:
    """Control characters in factors and conditions cannot write on the terminal."""
    text = run("show", record("\x1b]0;title\x07", note="one\ntwo")).stdout
    assert "\x1b" not in text
    assert r"revision  \x1b]0;title\x07" in text
    assert r"one\ntwo" in text
