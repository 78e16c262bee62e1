"""`warmcurve verify`."""

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Record, Run
from tests.support import NO_FILE
from warmcurve.outcome import MEANINGS, Reason
from warmcurve.storage.store import DirectoryStore

DAMAGES: dict[Reason, Callable[[bytes], bytes]] = {
    Reason.ENTRY_TRUNCATED: lambda data: data[: len(data) // 2],
    Reason.ENTRY_MALFORMED: lambda data: b"[]\n" + data,
    Reason.ENTRY_CHECKSUM: lambda data: data.replace(b"node-1", b"node-2"),
    Reason.ENTRY_SCHEMA: lambda data: data.replace(b'"schema":1', b'"schema":2', 1),
    Reason.ENTRY_TOO_LARGE: lambda data: data + b" " * (1 << 20),
}


def _tree(directory: Path) -> list[tuple[str, int, int, bytes]]:
    """Everything below a directory that reading could change."""
    return sorted(
        (str(path), path.lstat().st_mode, path.lstat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in [directory, *directory.rglob("*")]
    )


def test_whole_entries_are_ok(store: DirectoryStore, record: Record, run: Run) -> None:
    """One line a file, exit code 0."""
    digests = sorted((record("a"), record("b")))
    result = run("verify")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [f"{store.describe(digest)}: ok" for digest in digests]
    assert result.stderr == ""


@pytest.mark.parametrize("reason", DAMAGES)
@pytest.mark.parametrize("named", [False, True])
def test_damage_is_told_with_its_reason_and_remedy(
    reason: Reason, named: bool, store: DirectoryStore, record: Record, run: Run
) -> None:
    """A bad entry has one line that says why and what to do, and makes the exit code 1; good ones are still told."""
    good, bad = (Path(store.describe(digest)) for digest in (record("a"), record("b")))
    bad.write_bytes(DAMAGES[reason](bad.read_bytes()))
    result = run("verify", *((good, bad) if named else ()))
    assert result.exit_code == 1
    lines = dict(line.split(": ", 1) for line in result.stdout.splitlines())
    assert lines[str(good)] == "ok"
    assert lines[str(bad)].startswith(f"{reason}: ")
    assert lines[str(bad)].endswith(f" - {MEANINGS[reason].remedy}")


def test_an_entry_under_another_name_is_foreign(store: DirectoryStore, record: Record, run: Run) -> None:
    """A file with an entry's name must hold that entry, in the store and when named."""
    wrong = Path(store.describe("0" * 64))
    Path(store.describe(record())).rename(wrong)
    for arguments in ((), (wrong,)):
        result = run("verify", *arguments)
        assert result.exit_code == 1
        assert f"{wrong}: entry_foreign: " in result.stdout


def test_a_file_without_an_entrys_name_only_has_to_be_whole(
    store: DirectoryStore, record: Record, run: Run, tmp_path: Path
) -> None:
    """An entry saved under a name of one's own is ok wherever it lies, and its digest is told."""
    digest = record()
    copy = tmp_path / "copy.jsonl"
    copy.write_bytes(Path(store.describe(digest)).read_bytes())
    copy.chmod(0o666)
    result = run("verify", copy, "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["files"][0]["digest"] == digest


def test_named_files_need_no_store(record: Record, run: Run, store: DirectoryStore) -> None:
    """A store that is unsafe does not matter where files are named."""
    path = Path(store.describe(record()))
    store.directory.chmod(0o777)
    assert run("verify", path).exit_code == 0
    assert run("verify").exit_code == 3


def test_named_files_are_checked_wherever_the_variable_points(
    record: Record, run: Run, store: DirectoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A WARMCURVE_STORE that does not exist does not matter where files are named."""
    path = store.describe(record())
    monkeypatch.setenv("WARMCURVE_STORE", str(tmp_path / "missing"))
    assert run("verify", path).exit_code == 0


@pytest.mark.parametrize("kind", ["directory", "pipe", "device"])
@pytest.mark.parametrize("stored", [False, True])
def test_what_is_no_file_is_unreadable(
    kind: str, stored: bool, store: DirectoryStore, record: Record, run: Run, tmp_path: Path
) -> None:
    """A directory, a pipe without a writer or a device is a finding, not a wait."""
    record()
    path = Path(store.describe("0" * 64)) if stored else tmp_path / "thing"
    NO_FILE[kind](path)
    result = run("verify", *(() if stored else (path,)))
    assert result.exit_code == 1
    assert f"{path}: entry_unreadable: " in result.stdout


def test_a_file_that_is_replaced_meanwhile_is_read(
    store: DirectoryStore, record: Record, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy on a network file system whose handle is stale is opened once more."""
    path = store.describe(record())
    opened, stale = os.open, [path]

    def open_(name: str, *arguments: int, **named: int) -> int:
        if name in stale:
            stale.remove(name)
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        return opened(name, *arguments, **named)

    monkeypatch.setattr(os, "open", open_)
    assert run("verify", path).exit_code == 0
    assert stale == []


def test_a_pipe_keeps_what_is_in_it(run: Run, tmp_path: Path) -> None:
    """Bytes that wait in a pipe for their reader are not taken from it."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(pipe, os.O_WRONLY)
    try:
        os.write(writer, b"for another")
        assert run("verify", pipe).exit_code == 1
        assert os.read(reader, 100) == b"for another"
    finally:
        os.close(reader)
        os.close(writer)


def test_a_huge_file_is_not_read_to_its_end(run: Run, tmp_path: Path) -> None:
    """More than any entry can hold is refused after as much."""
    huge = tmp_path / "huge"
    with huge.open("wb") as file:
        file.truncate(1 << 36)
    result = run("verify", huge)
    assert result.exit_code == 1
    assert "entry_too_large" in result.stdout


def test_a_link_to_an_entry_may_be_named(store: DirectoryStore, record: Record, run: Run, tmp_path: Path) -> None:
    """Whoever names a link means the file at its end."""
    link = tmp_path / "link"
    link.symlink_to(store.describe(record()))
    assert run("verify", link).stdout == f"{link}: ok\n"


def test_a_name_that_does_not_exist_is_a_usage_error(run: Run, tmp_path: Path) -> None:
    """A mistyped FILE is exit code 2, and no file is judged."""
    (tmp_path / "there").write_bytes(b"")
    result = run("verify", tmp_path / "there", tmp_path / "missing")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert str(tmp_path / "missing") in result.stderr


def test_a_file_and_a_store_exclude_each_other(store: DirectoryStore, record: Record, run: Run) -> None:
    """Naming both on the command line is a usage error."""
    path = store.describe(record())
    assert run("verify", "--store", store.directory, path).exit_code == 2


def test_nothing_to_verify_is_said(run: Run) -> None:
    """An empty store is no finding."""
    result = run("verify")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "no entries to verify\n")


def test_json_tells_the_same(store: DirectoryStore, record: Record, run: Run) -> None:
    """One document with the verdict over all and every file's own."""
    good = record()
    bad = "0" * 64
    store.put(bad, b"damaged\n")
    result = run("verify", "--json")
    document = json.loads(result.stdout)
    assert result.exit_code == 1
    assert list(document) == ["schema", "ok", "files"]
    assert (document["schema"], document["ok"]) == (1, False)
    verdicts = {file["digest"]: file for file in document["files"]}
    assert verdicts[good] == {
        "path": store.describe(good),
        "digest": good,
        "state": "ok",
        "detail": None,
        "remedy": None,
    }
    assert verdicts[bad]["state"] == "entry_malformed"
    assert verdicts[bad]["remedy"] == MEANINGS[Reason.ENTRY_MALFORMED].remedy


def test_a_path_is_told_once_a_line(store: DirectoryStore, record: Record, run: Run) -> None:
    """Where the store's own error names the path, the line does not repeat it."""
    path = Path(store.describe(record()))
    path.chmod(0o666)
    (line,) = run("verify").stdout.splitlines()
    assert line.count(str(path)) == 1
    assert line.startswith(f"{path}: store_unsafe: has mode 0666")


@pytest.mark.parametrize("arguments", [("ls",), ("ls", "--json"), ("verify",), ("show", "0000"), ("show", "ffff")])
def test_reading_changes_nothing(arguments: tuple[str, ...], store: DirectoryStore, record: Record, run: Run) -> None:
    """No command moves a damaged entry aside, tidies up or writes anything."""
    record()
    store.put("0" * 64, b"damaged")
    Path(store.describe("f" * 64)).mkdir()
    Path(store.describe("f" * 64)).with_name(".tmp-node-1-1-00").touch()
    before = _tree(store.directory)
    run(*arguments)
    assert _tree(store.directory) == before


def test_many_entries_are_told_in_order(store: DirectoryStore, record: Record, run: Run) -> None:
    """However many processes check them, each line stands where it would stand alone, and the damage is found."""
    data = store.get(record()) or b""
    for number in range(300):
        Path(store.describe(f"{number:064x}")).write_bytes(data if number % 2 else data[:-1])
    found = json.loads(run("verify", "--json").stdout)["files"][:300]
    assert [each["digest"] for each in found] == [f"{number:064x}" for number in range(300)]
    assert [each["state"] for each in found[::2]] == ["entry_truncated"] * 150
    assert [each["state"] for each in found[1::2]] == ["entry_foreign"] * 150
