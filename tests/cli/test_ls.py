"""`warmcurve ls`."""

import json
import os
from pathlib import Path

import pytest

from tests.cli.conftest import Record, Remember, Run
from tests.support import NO_FILE
from warmcurve.cli import inspection
from warmcurve.cli.ls import age, short_length
from warmcurve.errors import StoreError
from warmcurve.outcome import Reason
from warmcurve.storage.files import Directory
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
        *(
            "digest",
            "state",
            "engine",
            "verify",
            "draft",
            "captured",
            "recorded",
            "(UTC)",
            "age",
            "host",
            "bytes",
            "machines",
        )
    ]
    cells = row.split()
    assert cells[:9] == [digest[:12], "not", "checked", "scripted", "8", "3", "16", "2030-01-01", "00:00"]
    assert cells[10:] == ["node-1", size, "-"]


@pytest.mark.parametrize("check", [False, True])
def test_the_last_written_comes_first(check: bool, store: DirectoryStore, record: Record, run: Run) -> None:
    """Rows have the order of the times of the files, and by digest where those are equal; checked or not."""
    digests = [record(str(n)) for n in range(6)]
    for n, digest in enumerate(digests):
        os.utime(_path(store, digest), (n // 2, n // 2))
    listed = [line.split()[0] for line in run("ls", *["--check"] * check).stdout.splitlines()[1:]]
    pairs = [sorted(digests[n : n + 2]) for n in (4, 2, 0)]
    assert listed == [digest[:12] for pair in pairs for digest in pair]


def test_only_a_check_is_told_as_one(store: DirectoryStore, record: Record, run: Run) -> None:
    """An entry whose payload was changed is not called ok without --check, and has its reason with it."""
    digest, sound = record("a"), record("b")
    path = _path(store, digest)
    path.write_bytes(path.read_bytes().replace(b"node-1", b"node-2"))
    for options, damaged, other in (((), "not checked", "not checked"), (("--check",), "entry_checksum", "ok")):
        result = run("ls", *options, "--json")
        states = {entry["digest"]: entry["state"] for entry in json.loads(result.stdout)["entries"]}
        assert (result.exit_code, states) == (0, {digest: damaged, sound: other})


DAMAGES = {
    Reason.ENTRY_TRUNCATED: lambda data: data[:-10],
    Reason.ENTRY_MALFORMED: lambda data: b"[]\n" + data,
    Reason.ENTRY_SCHEMA: lambda data: data.replace(b'"schema":1', b'"schema":2', 1),
    Reason.ENTRY_CHECKSUM: lambda data: data.replace(b'{"factors"', b'["factors"', 1),
}


@pytest.mark.parametrize("reason", DAMAGES)
def test_damage_that_is_seen_at_a_look_has_its_reason(
    reason: Reason, store: DirectoryStore, record: Record, run: Run
) -> None:
    """A header that does not fit its file, or a payload that is no JSON: the state is what the checks say."""
    digest = record()
    path = _path(store, digest)
    path.write_bytes(DAMAGES[reason](path.read_bytes()))
    result = run("ls")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[1].split()[:3] == [digest[:12], str(reason), "-"]


def test_looking_at_sound_entries_checks_none(record: Record, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The checks are what takes the time, so no list waits for them."""
    record()
    monkeypatch.setattr(inspection, "decode", None)
    assert "not checked" in run("ls").stdout


def test_rows_are_printed_before_the_last_entry_is_read(
    record: Record, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store fails at the third entry, and the first two rows are there."""
    for revision in "abc":
        record(revision)
    get, asked = DirectoryStore.get, []

    def fail(store: DirectoryStore, digest: str) -> bytes | None:
        asked.append(digest)
        if len(asked) == 3:
            raise StoreError(Reason.STORE_UNAVAILABLE, "the server went away")
        return get(store, digest)

    monkeypatch.setattr(DirectoryStore, "get", fail)
    result = run("ls")
    assert result.exit_code == 3
    assert [line.split()[0] for line in result.stdout.splitlines()[1:]] == [digest[:12] for digest in asked[:2]]


def test_histories_are_listed_once(
    record: Record, remember: Remember, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thousands of histories cost one listing of their directory, not one for each entry."""
    for revision in "abcd":
        remember(record(revision), rejections=3)
    names, listed = Directory.names, []

    def counted(directory: Directory) -> tuple[str, ...]:
        listed.append(directory.path.name)
        return names(directory)

    monkeypatch.setattr(Directory, "names", counted)
    assert run("ls").stdout.count("quarantined on 1") == 4
    assert listed.count("history") == 1


@pytest.mark.parametrize("width", [40, 60, 80, 100, 132])
def test_rows_are_as_wide_as_the_terminal(
    width: int, record: Record, remember: Remember, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Less important columns are left out, long texts end with an ellipsis, and digest and state are always whole."""
    digest = record(host="a-host-with-a-very-long-name-" * 4)
    remember(digest, rejections=3, sizes_dearer=(1.0, 1.5, 1.0))
    monkeypatch.setenv("COLUMNS", str(width))
    lines = run("ls").stdout.splitlines()
    assert all(len(line) <= width for line in lines)
    assert lines[1].startswith(f"{digest[:12]}  not checked ")
    assert ("…" in lines[1]) == (width > 40)
    assert ("machines" in lines[0]) == (width > 40)


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
        "state": "not checked",
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


def test_a_healthy_history_is_no_alarm(record: Record, remember: Remember, run: Run) -> None:
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
        told = f"entries lie in {entries}, where no boot looks: move them to {named}/v1\n"
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
    told = {row.split()[0]: row.rsplit("  ", 1)[1] for row in rows}
    assert title.endswith("  machines")
    assert told == {bad[:12]: "quarantined on 2, unstable 1", good[:12]: "-"}
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
    [
        (0, "0s"),
        (59, "59s"),
        (60, "1m"),
        (3599, "59m"),
        (7200, "2h"),
        (86399, "23h"),
        (172800, "2d"),
        (-7200, "future"),
    ],
)
def test_ages_are_short(seconds: int, text: str) -> None:
    """The largest unit that fits, rounded down; negative where the other clock is ahead."""
    assert age(seconds) == text
