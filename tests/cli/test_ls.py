"""`warmcurve ls`."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.cli.conftest import Record, Remember, Run
from tests.support import NO_FILE
from warmcurve.cli.ls import age, short_length
from warmcurve.storage.store import DirectoryStore


def _path(store: DirectoryStore, digest: str) -> Path:
    return Path(store.describe(digest))


def test_a_row_says_what_an_entry_holds(store: DirectoryStore, record: Record, run: Run) -> None:
    """One row an entry, with the facts of the entry and of its file."""
    digest = record()
    result = run("ls")
    title, row = result.stdout.splitlines()
    size = str(_path(store, digest).stat().st_size)
    assert result.exit_code == 0
    assert result.stderr == ""
    assert title.split() == [
        *("digest", "state", "engine", "verify", "draft", "captured", "recorded", "(UTC)", "age", "host", "bytes")
    ]
    cells = row.split()
    assert cells[:8] == [digest[:12], "ok", "scripted", "8", "3", "16", "2030-01-01", "00:00"]
    assert cells[9:] == ["node-1", size]


def test_the_newest_comes_first(record: Record, run: Run) -> None:
    """Rows are ordered by when the entries were recorded, not by digest."""
    digests = [record(str(n), after_s=n * 60) for n in range(6)]
    listed = [line.split()[0] for line in run("ls").stdout.splitlines()[1:]]
    assert listed == [digest[:12] for digest in reversed(digests)]


def test_a_damaged_entry_has_its_reason_for_a_state(store: DirectoryStore, record: Record, run: Run) -> None:
    """Every entry is read in full, and one that would not be used says why; listing it is no failure."""
    digest = record()
    path = _path(store, digest)
    path.write_bytes(path.read_bytes().replace(b"node-1", b"node-2"))
    result = run("ls")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[1].split()[:3] == [digest[:12], "entry_checksum", "-"]


def test_a_damaged_entry_is_placed_by_the_time_of_its_file(store: DirectoryStore, record: Record, run: Run) -> None:
    """Where an entry cannot say when it was recorded, its file's time stands in."""
    early, late = record("a", after_s=0), record("b", after_s=7200)
    path = _path(store, "0" * 64)
    path.write_bytes(b"damaged")
    between = datetime(2030, 1, 1, 1, tzinfo=UTC).timestamp()
    os.utime(path, (between, between))
    listed = [entry["digest"] for entry in json.loads(run("ls", "--json").stdout)["entries"]]
    assert listed == [late, "0" * 64, early]


@pytest.mark.parametrize("kind", ["directory", "pipe", "device", "writable"])
def test_what_is_no_private_file_is_listed_and_not_followed(
    kind: str, store: DirectoryStore, record: Record, run: Run
) -> None:
    """A directory, a pipe, a link or a file that others may write has a row with its reason, and nothing hangs."""
    record()
    path = _path(store, "f" * 64)
    if kind == "writable":
        path.touch()
        path.chmod(0o666)
    else:
        NO_FILE[kind](path)
    states = {entry["digest"]: entry["state"] for entry in json.loads(run("ls", "--json").stdout)["entries"]}
    assert states["f" * 64] == ("store_unsafe" if kind == "writable" else "entry_unreadable")


def test_an_entry_that_vanishes_meanwhile_is_no_row(record: Record, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry deleted between the listing and the reading is left out."""
    record()
    monkeypatch.setattr(DirectoryStore, "get", lambda *_: None)
    assert json.loads(run("ls", "--json").stdout)["entries"] == []


@pytest.mark.parametrize("made", [False, True])
def test_an_empty_store_is_no_error(made: bool, store: DirectoryStore, run: Run) -> None:
    """A store that is empty or does not exist yet says so on stderr, and is not created."""
    if made:
        store.directory.mkdir(mode=0o700)
    result = run("ls")
    assert result.exit_code == 0
    assert result.stdout == ""
    assert f"no entries in {store.directory}" in result.stderr
    assert store.directory.exists() is made


@pytest.mark.parametrize(("damaged", "said"), [(1, "1 damaged file was set aside"), (2, "2 damaged files were")])
def test_files_set_aside_are_counted(damaged: int, said: str, store: DirectoryStore, record: Record, run: Run) -> None:
    """What boots moved aside is no row, but is mentioned."""
    kept = record()
    for n in range(damaged):
        digest = f"{n}" * 64
        store.put(digest, b"damaged")
        assert store.set_aside(digest)
    result = run("ls")
    assert said in result.stderr
    assert [line.split()[0] for line in result.stdout.splitlines()[1:]] == [kept[:12]]
    assert json.loads(run("ls", "--json").stdout)["set_aside"] == damaged


def test_digests_are_as_long_as_it_takes_to_tell_them_apart(store: DirectoryStore, run: Run) -> None:
    """Digests that share their first 12 digits are shown longer."""
    store.put("a" * 20 + "b" * 44, b"")
    store.put("a" * 20 + "c" * 44, b"")
    listed = {line.split()[0] for line in run("ls").stdout.splitlines()[1:]}
    assert listed == {"a" * 20 + "b", "a" * 20 + "c"}


def test_short_digests_have_twelve_digits() -> None:
    """Also a single one, and none."""
    assert short_length(["a" * 64]) == 12
    assert short_length([]) == 12
    assert short_length(["a" * 64, "a" * 63 + "b"]) == 64


def test_json_is_one_document_alone(store: DirectoryStore, record: Record, run: Run) -> None:
    """Stdout is the document, with the store and whole digests in it and its keys in order."""
    digest = record()
    result = run("ls", "--json")
    document = json.loads(result.stdout)
    assert list(document) == ["schema", "store", "set_aside", "entries", "unreadable", "misplaced"]
    assert (document["schema"], document["store"]) == (1, str(store.directory))
    (entry,) = document["entries"]
    assert entry | {"age_s": 0, "modified_at": ""} == {
        "digest": digest,
        "state": "ok",
        "detail": None,
        "engine": "scripted",
        "verify_points": 8,
        "draft_points": 3,
        "capture_limit": 16,
        "recorded_at": "2030-01-01T00:00:00+00:00",
        "modified_at": "",
        "age_s": 0,
        "host": "node-1",
        "bytes": _path(store, digest).stat().st_size,
        "path": store.describe(digest),
        "quarantined_on": [],
        "unstable_on": [],
    }


def test_a_healthy_history_is_no_column(record: Record, remember: Remember, run: Run) -> None:
    """Neither rejections that are fewer, nor those of an entry that was replaced, nor a change of once make noise."""
    digest = record()
    before = run("ls").stdout
    remember(digest, "a", rejections=2, sizes_dearer=(1.0, 1.5))
    remember(digest, "b", rejections=5, entry="0" * 64)
    result = run("ls")
    assert (result.stdout, result.stderr) == (before, "")


def test_a_copy_at_the_wrong_level_is_told(store: DirectoryStore, record: Record, run: Run) -> None:
    """A store without entries says where some lie and where they belong, and so does the document of any store."""
    record()
    entries = store.directory / "v1"
    for named in (entries, store.directory.parent):
        told = f"entries lie in {entries}, where no boot looks: they belong into {named}/v1\n"
        assert run("ls", "--store", named).stderr.endswith(told)
        assert json.loads(run("ls", "--json", "--store", named).stdout)["misplaced"] == [str(entries)]
    assert json.loads(run("ls", "--json").stdout)["misplaced"] == []


def test_quarantine_and_instability_are_a_column(record: Record, remember: Remember, run: Run) -> None:
    """It says on how many machines; entries without either have nothing in it, and the document names the machines."""
    bad, good = record("a", after_s=60), record("b")
    remember(bad, "a", rejections=3)
    remember(bad, "b", rejections=4, sizes_dearer=(1.0, 1.5, 1.0))
    remember(good, "c", rejections=2)
    title, *rows = run("ls").stdout.splitlines()
    assert title.endswith("  machines")
    assert rows[0].endswith("  quarantined on 2, unstable 1")
    assert rows[0].split()[1] == "ok"
    assert rows[1].endswith("  -")
    found = {each["digest"]: each for each in json.loads(run("ls", "--json").stdout)["entries"]}
    assert (found[bad]["quarantined_on"], found[bad]["unstable_on"]) == (["a", "b"], ["b"])
    assert (found[good]["quarantined_on"], found[good]["unstable_on"]) == ([], [])


@pytest.mark.parametrize(("after", "quarantined"), [("0", []), ("1", ["x"]), ("4", []), ("", ["x"])])
def test_how_many_rejections_quarantine_is_a_setting(
    after: str, quarantined: list[str], record: Record, remember: Remember, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for a boot in the same environment."""
    remember(record(), "x", rejections=3)
    monkeypatch.setenv("WARMCURVE_QUARANTINE", after)
    (entry,) = json.loads(run("ls", "--json").stdout)["entries"]
    assert entry["quarantined_on"] == quarantined


def test_histories_that_cannot_be_read_are_named(
    store: DirectoryStore, record: Record, remember: Remember, run: Run
) -> None:
    """A damaged one, and a directory that others may write, once; entries are listed all the same."""
    path = remember(record("a"), rejections=3)
    record("b")
    path.write_bytes(b"damaged")
    result = run("ls")
    assert result.exit_code == 0
    assert result.stderr == f"not read, since damaged or unsafe: {path}\n"
    path.parent.chmod(0o777)
    result = run("ls")
    assert (result.exit_code, len(result.stdout.splitlines())) == (0, 3)
    assert result.stderr == f"not read, since damaged or unsafe: {path.parent}\n"
    assert json.loads(run("ls", "--json").stdout)["unreadable"] == [str(path.parent)]


def test_json_of_an_empty_store_is_a_document_too(run: Run) -> None:
    """The friendly line is on stderr, and stdout still parses."""
    assert json.loads(run("ls", "--json").stdout)["entries"] == []


def test_escape_sequences_are_shown_not_obeyed(record: Record, run: Run) -> None:
    """A host name with control characters cannot write on the terminal."""
    record(host="\x1b[31mred\n\ud7ff")
    row = run("ls").stdout.splitlines()[1]
    assert "\x1b" not in row
    assert r"\x1b[31mred\n" in row


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (59, "59s"), (60, "1m"), (3599, "59m"), (7200, "2h"), (86399, "23h"), (172800, "2d"), (-7200, "-2h")],
)
def test_ages_are_short(seconds: int, text: str) -> None:
    """The largest unit that fits, rounded down; negative where the other clock is ahead."""
    assert age(seconds) == text
