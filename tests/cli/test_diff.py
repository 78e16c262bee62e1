"""`warmcurve diff`."""

import json
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.cli.conftest import Record, Run
from tests.support import NO_FILE
from tests.test_report import REPORT
from warmcurve.reporting.report import ReportDirectory
from warmcurve.storage import entry
from warmcurve.storage.fingerprint import fingerprint
from warmcurve.storage.store import DirectoryStore


def _report(directory: Path, **fields: Any) -> Path:
    directory.mkdir(exist_ok=True)
    path = directory / "report.json"
    path.write_text(json.dumps(fields))
    return path


def _copy(store: DirectoryStore, digest: str, path: Path, **conditions: Any) -> Path:
    """The entry under another name, with conditions of its own."""
    data = store.get(digest)
    assert data is not None
    found = entry.decode(data)
    changed = msgspec.structs.replace(found, conditions=found.conditions | conditions)
    path.write_bytes(entry.encode(changed))
    return path


def test_only_what_differs_is_printed(store: DirectoryStore, record: Record, run: Run) -> None:
    """Both sides by digest and path, then a line a factor below its section; exit code 1."""
    one, two = record("a"), record("b")
    result = run("diff", one[:8], two)
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        f"A  {one}  {store.describe(one)}",
        f"B  {two}  {store.describe(two)}",
        "",
        "model",
        '  target.revision: "a" -> "b"',
    ]


def test_equal_entries_are_equal(record: Record, run: Run) -> None:
    """An entry does not differ from itself: exit code 0."""
    digest = record()
    result = run("diff", digest[:4], digest.upper())
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines()[2:] == ["", "equal factors"]


def test_conditions_inform_and_do_not_count(store: DirectoryStore, record: Record, run: Run, tmp_path: Path) -> None:
    """Two recordings of the same factors are equal, and what was different about them is told apart."""
    digest = record()
    other = _copy(store, digest, tmp_path / "copy.jsonl", host="node-2", clock_mhz=1410.5)
    result = run("diff", digest, other)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[3:] == [
        "equal factors",
        "",
        "Conditions, which are no factors",
        "  clock_mhz: absent -> 1410.5",
        '  host: "node-1" -> "node-2"',
    ]


def test_a_boot_report_has_factors_too(store: DirectoryStore, record: Record, run: Run, tmp_path: Path) -> None:
    """The report of a miss is compared like an entry, and one without a digest gets its own."""
    digest = record()
    factors: dict[str, Any] = {"model": {"target": {"revision": "c"}, "draft": None}, "k": 5}
    report = _report(tmp_path / "reports", factors=factors)
    result = run("diff", digest, report, "--json")
    found = json.loads(result.stdout)
    assert result.exit_code == 1
    assert found["right"] == {"kind": "report", "path": str(report), "digest": fingerprint(factors)}
    changes = [(each["section"], each["factor"], each.get("left"), each.get("right")) for each in found["differences"]]
    assert changes[:2] == [("k", "k", 7, 5), ("model", "model.target.revision", "a", "c")]
    assert {each[0] for each in changes[2:]} == {"plan"}
    assert all("right" not in each for each in found["differences"][2:])
    assert found["conditions"] == []


def test_json_tells_the_same(store: DirectoryStore, record: Record, run: Run) -> None:
    """One document, with values as they are and the kind of each side."""
    one, two = record("a"), record("b", host="node-2")
    result = run("diff", one, two, "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout) == {
        "schema": 1,
        "equal": False,
        "left": {"kind": "entry", "path": store.describe(one), "digest": one},
        "right": {"kind": "entry", "path": store.describe(two), "digest": two},
        "differences": [{"section": "model", "factor": "model.target.revision", "left": "a", "right": "b"}],
        "conditions": [{"section": "host", "factor": "host", "left": "node-1", "right": "node-2"}],
    }


def test_null_is_not_absent(run: Run, tmp_path: Path) -> None:
    """A side without a value has no field for it, one with null has one."""
    one = _report(tmp_path / "one", factors={"a": None})
    two = _report(tmp_path / "two", factors={"b": None})
    found = json.loads(run("diff", one, two, "--json").stdout)["differences"]
    assert found == [
        {"section": "a", "factor": "a", "left": None},
        {"section": "b", "factor": "b", "right": None},
    ]
    assert run("diff", one, two).stdout.splitlines()[3:] == ["a: null -> absent", "b: absent -> null"]


def test_long_values_are_cut_for_the_line_alone(run: Run, tmp_path: Path) -> None:
    """Two giant values are a short line that shows where they differ, and whole in the document."""
    one, two = "x" * 500_000 + "1" + "y" * 500_000, "x" * 500_000 + "2" + "y" * 500_000
    paths = (_report(tmp_path / "one", factors={"a": one}), _report(tmp_path / "two", factors={"a": two}))
    last = run("diff", *paths).stdout.splitlines()[-1]
    left, right = last.removeprefix("a: ").split(" -> ")
    assert len(last) < 140
    assert left == right.replace("2", "1") != right
    (found,) = json.loads(run("diff", *paths, "--json").stdout)["differences"]
    assert (found["left"], found["right"]) == (one, two)


def test_named_files_need_no_store(store: DirectoryStore, record: Record, run: Run) -> None:
    """A store that is unsafe does not matter where files are named."""
    one, two = (store.describe(record(name)) for name in "ab")
    store.directory.chmod(0o777)
    assert run("diff", one, two).exit_code == 1
    assert run("diff", one, one).exit_code == 0
    assert run("diff", Path(one).name[:8], two).exit_code == 3


def test_an_entry_is_known_by_its_content_too(store: DirectoryStore, record: Record, run: Run, tmp_path: Path) -> None:
    """An entry and a report are told apart whatever their files are called."""
    digest = record()
    other = tmp_path / "saved.json"
    shutil.copy(store.describe(digest), other)
    report = _report(tmp_path / "reports", factors={"k": 7}).rename(tmp_path / "saved.txt")
    found = json.loads(run("diff", other, report, "--json").stdout)
    assert (found["left"]["kind"], found["right"]["kind"]) == ("entry", "report")


def test_digits_are_a_digest_and_no_file(
    record: Record, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file whose name could be a digest is meant only with its directory."""
    digest = record()
    monkeypatch.chdir(tmp_path)
    name = ("0" if digest[0] != "0" else "1") * 4
    Path(name).write_text('{"factors": {"k": 7}}')
    assert run("diff", name, digest).exit_code == 2
    assert run("diff", f"./{name}", digest).exit_code == 1


@pytest.mark.parametrize("text", ["", "abc", "wxyz", "../../etc/nothing", "abcd\n", "x" * 5000, "\udcff"])
@pytest.mark.parametrize("side", ["A", "B"])
def test_what_is_neither_digest_nor_file_is_a_usage_error(text: str, side: str, record: Record, run: Run) -> None:
    """Exit code 2, with the argument's name, nothing on stdout, and nothing that a terminal would obey."""
    digest = record()
    result = run("diff", *((text, digest) if side == "A" else (digest, text)))
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"Invalid value for {side}: " in result.stderr


def test_an_unknown_digest_is_not_a_difference(record: Record, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """No entry begins so, also where it vanishes meanwhile: exit code 2, since 1 would say that both differ."""
    digest = record()
    unknown = ("0" if digest[0] != "0" else "1") + digest[1:]
    result = run("diff", digest, unknown)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Invalid value for B: no entry in " in result.stderr
    monkeypatch.setattr(DirectoryStore, "get", lambda *_: None)
    assert run("diff", digest, digest).exit_code == 2


def test_an_ambiguous_digest_is_a_usage_error(store: DirectoryStore, record: Record, run: Run) -> None:
    """Exit code 2, with all that begin so."""
    digest = record()
    one, two = digest[:4] + "0" * 60, digest[:4] + "1" * 60
    store.put(one, b"")
    store.put(two, b"")
    result = run("diff", digest, digest[:4])
    assert result.exit_code == 2
    assert "Invalid value for B: 3 entries" in result.stderr
    assert all(each in result.stderr for each in (one, two, digest))


@pytest.mark.parametrize("place", ["stored", "named"])
def test_a_damaged_entry_is_not_a_difference(
    place: str, store: DirectoryStore, record: Record, run: Run, tmp_path: Path
) -> None:
    """Its reason and what to do are on stderr, and the exit code is 3, since 1 would say that both differ."""
    good, bad = record("a"), record("b")
    path = Path(store.describe(bad))
    path.write_bytes(path.read_bytes()[:-10])
    result = run("diff", good, bad if place == "stored" else path)
    assert (result.exit_code, result.stdout) == (3, "")
    error, hint = result.stderr.splitlines()
    assert error.startswith(f"error: entry_truncated: {path}: ")
    assert hint.startswith("hint: ")


def test_the_name_of_an_entry_makes_it_one(record: Record, run: Run, tmp_path: Path) -> None:
    """A file called like an entry is judged as one, so that the error is an entry's."""
    path = tmp_path / "saved.jsonl"
    path.write_bytes(b"damaged\n")
    result = run("diff", record(), path)
    assert result.exit_code == 3
    assert result.stderr.startswith(f"error: entry_malformed: {path}: ")


DAMAGED = {
    "empty": b"",
    "no JSON": b"\x00\xff\xfe",
    "no UTF-8": b'{"factors": {"a": "\xff"}}',
    "cut short": b'{"factors": {"a": 1',
    "a list": b"[]",
    "a number": b"1" * 10_000,
    "no factors": b"{}",
    "null factors": b'{"outcome": "reused", "factors": null}',
    "factors of another type": b'{"factors": [1]}',
    "a float": b'{"factors": {"a": 1.5}}',
    "an integer without end": b'{"factors": {"a": ' + b"9" * 10_000 + b"}}",
    "not a number": b'{"factors": {"a": NaN}}',
    "a lone surrogate": b'{"factors": {"a": "\\ud800"}}',
    "a key not ASCII": '{"factors": {"é": 1}}'.encode(),
    "too deep": b'{"factors": ' + b'{"a": ' * 3000 + b"1" + b"}" * 3001,
    "lists too deep": b'{"factors": {"a": ' + b"[" * 3000 + b"]" * 3000 + b"}}",
    "another's digest": json.dumps({"digest": "0" * 64, "factors": {"a": 1}}).encode(),
    "a digest of another type": b'{"digest": 7, "factors": {"a": 1}}',
    "an escape sequence": b'{"factors": {"\\u001b[31m": 1.5}}',
    "too large": b'{"outcome": "unrecorded", "factors": {"a": 1}}' + b" " * (5 << 20),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_report_is_an_error_of_the_environment(damage: str, run: Run, tmp_path: Path) -> None:
    """Whatever is wrong with a report, it is said in two printable lines with the path: exit code 3."""
    good = _report(tmp_path / "good", factors={"a": 1})
    bad = tmp_path / "bad.json"
    bad.write_bytes(DAMAGED[damage])
    result = run("diff", good, bad)
    assert (result.exit_code, result.stdout) == (3, "")
    error, hint = result.stderr.splitlines()
    assert error.startswith(f"error: {bad}: ")
    assert error.isprintable()
    assert hint.startswith("hint: ")


@pytest.mark.parametrize("kind", NO_FILE)
@pytest.mark.parametrize("suffix", ["json", "jsonl"])
def test_what_is_no_file_is_not_read(kind: str, suffix: str, run: Run, tmp_path: Path) -> None:
    """A directory, a pipe without a writer or a device ends with an error, not with a wait."""
    path = tmp_path / f"thing.{suffix}"
    NO_FILE[kind](path)
    result = run("diff", path, path)
    assert (result.exit_code, result.stdout) == (2 if kind == "link to nothing" else 3, "")
    assert str(path) in result.stderr


def test_escape_sequences_are_shown_not_obeyed(record: Record, run: Run, tmp_path: Path) -> None:
    """Control characters in names, values, conditions and paths cannot write on the terminal."""
    name = "\x1b]0;title\x07\n\u202e"
    report = _report(tmp_path / "\x1b[2J", factors={"\x7f": {"\x1b[m": name}})
    one, two = record(name, note=f"one{name}"), record("b", note="two\x9b")
    for arguments in ((one, report), (report, two), (one, two)):
        text = run("diff", *arguments).stdout
        assert all(line.isprintable() for line in text.splitlines())
        assert "title" in text or arguments[0] == report


def test_depth_ends_in_an_error_or_a_difference(run: Run, tmp_path: Path) -> None:
    """Factors as deep as a fingerprint allows are compared or refused, never a traceback."""
    good = _report(tmp_path / "good", factors={"b": 1})
    codes = set()
    for depth in range(100, 500, 20):
        bad = tmp_path / "bad.json"
        bad.write_text('{"factors": ' + '{"a": ' * depth + "1" + "}" * (depth + 1))
        result = run("diff", good, bad)
        codes.add(result.exit_code)
        assert (result.exit_code == 1) == bool(result.stdout)
    assert {1, 3} >= codes


def test_a_written_report_is_read(store: DirectoryStore, record: Record, run: Run) -> None:
    """What a boot writes of a miss is what `diff` reads, and equal to the entry that it recorded."""
    digest = record()
    data = store.get(digest)
    assert data is not None
    report = msgspec.structs.replace(REPORT, digest=digest, factors=entry.decode(data).factors)
    path = ReportDirectory(store.directory).write(report)
    assert run("diff", digest, path).exit_code == 0
