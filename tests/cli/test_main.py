"""What all commands share: exit codes, errors, where the store is, and what they print to."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import termios
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cli.conftest import Record, Remember, Run
from warmcurve import __version__
from warmcurve.cli import table as tables
from warmcurve.cli.location import default_directory
from warmcurve.cli.table import Column
from warmcurve.errors import StoreError
from warmcurve.outcome import MEANINGS, Reason
from warmcurve.storage.store import DirectoryStore

COMMANDS = [("ls",), ("show", "abcd"), ("verify",), ("explain",), ("diff", "abcd", "abce"), ("compare", "abcd", "abce")]


def _python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_an_unsafe_store_is_an_error_of_the_environment(
    command: tuple[str, ...], store: DirectoryStore, record: Record, run: Run
) -> None:
    """A store that others may write is exit code 3, with what was met and what to do on stderr alone."""
    record()
    store.directory.chmod(0o777)
    result = run(*command)
    assert result.exit_code == 3
    assert result.stdout == ""
    error, hint = result.stderr.splitlines()
    assert error.startswith(f"error: store_unsafe: {store.directory} has mode 0777")
    assert hint == f"hint: {MEANINGS[Reason.STORE_UNSAFE].remedy}"


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("inner", [False, True])
def test_a_store_that_is_no_directory_is_an_error_of_the_environment(
    command: tuple[str, ...], inner: bool, store: DirectoryStore, run: Run
) -> None:
    """A file in the store's place is exit code 3."""
    if inner:
        store.directory.mkdir(mode=0o700)
    (store.directory / "v1" if inner else store.directory).touch()
    result = run(*command)
    assert result.exit_code == 3
    assert "error: store_unavailable: " in result.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_a_setting_that_cannot_be_understood_is_an_error_of_the_environment(
    command: tuple[str, ...], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The variable is named, exit code 3."""
    monkeypatch.setenv("WARMCURVE_TRUST_GROUP", "perhaps")
    result = run(*command)
    assert result.exit_code == 3
    assert "error: settings_invalid: WARMCURVE_TRUST_GROUP" in result.stderr


@pytest.mark.parametrize("command", ["ls", "verify"])
def test_a_store_that_goes_away_is_no_damaged_entry(
    command: str, record: Record, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the store fails between the listing and the reading, no entry is blamed for it."""
    record()

    def fail(*_: object) -> None:
        raise StoreError(Reason.STORE_UNAVAILABLE, "the server went away")

    monkeypatch.setattr(DirectoryStore, "get", fail)
    result = run(command)
    assert (result.exit_code, result.stdout) == (3, "")
    assert "error: store_unavailable: the server went away" in result.stderr


def test_a_group_may_be_trusted(
    store: DirectoryStore, record: Record, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that its group may write is refused without WARMCURVE_TRUST_GROUP and read with it."""
    record()
    store.directory.chmod(0o770)
    assert run("verify").exit_code == 3
    monkeypatch.setenv("WARMCURVE_TRUST_GROUP", "1")
    assert run("verify").exit_code == 0


@pytest.mark.parametrize(
    "arguments", [("unknown",), ("ls", "--unknown"), ("show",), ("ls", "surplus"), ("diff", "abcd")]
)
def test_misuse_is_a_usage_error(arguments: tuple[str, ...], run: Run) -> None:
    """Exit code 2, nothing on stdout."""
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")


@pytest.mark.parametrize("command", [(), ("ls",), ("show",), ("verify",), ("explain",), ("diff",)])
def test_help_has_examples(command: tuple[str, ...], run: Run) -> None:
    """Every command shows how it is called."""
    result = run(*command, "--help")
    assert result.exit_code == 0
    assert f"\n    warmcurve {' '.join(command)}" in result.stdout.split("Examples:")[1]


def test_the_version_is_told(run: Run) -> None:
    """That of the package."""
    assert run("--version").stdout == f"warmcurve, version {__version__}\n"


def test_the_option_says_where_the_store_is(
    store: DirectoryStore, record: Record, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--store wins over WARMCURVE_STORE, which wins over VLLM_CACHE_ROOT."""
    digest = record()
    other = tmp_path / "other"
    other.mkdir(mode=0o700)

    def found(*arguments: str) -> list[str]:
        return [entry["digest"] for entry in json.loads(run("ls", "--json", *arguments).stdout)["entries"]]

    assert found("--store", str(other)) == []
    monkeypatch.setenv("WARMCURVE_STORE", str(other))
    assert found() == []
    assert found("--store", str(store.directory)) == [digest]
    monkeypatch.delenv("WARMCURVE_STORE")
    assert found() == [digest]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("named", ["option", "variable"])
@pytest.mark.parametrize("as_json", [False, True])
def test_a_named_store_must_exist(
    command: tuple[str, ...], named: str, as_json: bool, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A misspelt store is exit code 3 and not an empty one, so that a check of it cannot pass; nothing is created."""
    missing = tmp_path / "adaptive_verifcation"
    if named == "variable":
        monkeypatch.setenv("WARMCURVE_STORE", str(missing))
    options = (*(("--store", missing) if named == "option" else ()), *(("--json",) if as_json else ()))
    result = run(*command, *options)
    assert (result.exit_code, result.stdout) == (3, "")
    error, hint = result.stderr.splitlines()
    assert error == f"error: store_unavailable: {missing}: No such file or directory"
    assert hint.startswith("hint: Correct --store or WARMCURVE_STORE")
    assert not missing.exists()


@pytest.mark.parametrize("command", ["ls", "verify"])
@pytest.mark.parametrize("named", [False, True])
def test_a_store_without_entries_is_no_error(command: str, named: bool, store: DirectoryStore, run: Run) -> None:
    """The default location may be missing, and a named one may be empty: exit code 0 and a note."""
    if named:
        store.directory.mkdir(mode=0o700)
    result = run(command, *(("--store", store.directory) if named else ()))
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.startswith("no entries ")


def test_show_finds_nothing_where_nothing_is_yet(run: Run) -> None:
    """A missing default location holds no such entry, which is a finding and not the environment's error."""
    assert run("show", "abcd").exit_code == 1


@pytest.mark.parametrize("command", COMMANDS)
def test_an_empty_name_is_a_usage_error(command: tuple[str, ...], run: Run) -> None:
    """The variable that a script forgot to set does not make the working directory the store."""
    result = run(*command, "--store", "")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "'--store' (env var: 'WARMCURVE_STORE'): is empty." in result.stderr


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("place", ["below a file", "a loop"])
def test_a_store_that_cannot_be_reached_is_an_error_of_the_environment(
    command: tuple[str, ...], place: str, run: Run, tmp_path: Path
) -> None:
    """Where not even its existence can be asked for, the store says why."""
    file, loop = tmp_path / "file", tmp_path / "loop"
    file.touch()
    loop.symlink_to(loop)
    result = run(*command, "--store", file / "store" if place == "below a file" else loop)
    assert (result.exit_code, result.stdout) == (3, "")
    assert "error: store_unavailable: " in result.stderr


@pytest.mark.parametrize(
    ("environment", "directory"),
    [
        ({}, "/home/me/.cache/vllm/adaptive_verification"),
        ({"XDG_CACHE_HOME": "/var/cache"}, "/var/cache/vllm/adaptive_verification"),
        ({"XDG_CACHE_HOME": ""}, "vllm/adaptive_verification"),
        ({"VLLM_CACHE_ROOT": "/srv", "XDG_CACHE_HOME": "/var/cache"}, "/srv/adaptive_verification"),
        ({"VLLM_CACHE_ROOT": "~/vllm"}, "/home/me/vllm/adaptive_verification"),
    ],
)
def test_the_default_is_where_vllm_looks(
    environment: dict[str, str], directory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cache root is found from the same variables, in the same order."""
    monkeypatch.setenv("HOME", "/home/me")
    assert default_directory(environment) == Path(directory)


def test_the_module_runs_as_a_program(record: Record) -> None:
    """`python -m warmcurve.cli` is the same command, with the same exit codes."""
    digest = record()
    listed = _python("-m", "warmcurve.cli", "ls", "--json")
    assert json.loads(listed.stdout)["entries"][0]["digest"] == digest
    assert _python("-m", "warmcurve.cli", "show", "zzzz").returncode == 2
    helped = _python("-m", "warmcurve.cli", "--help")
    assert helped.stdout.startswith("Usage: warmcurve ")


def test_errors_have_no_traceback(store: DirectoryStore, record: Record) -> None:
    """A real process ends with the error, the hint and exit code 3."""
    record()
    store.directory.chmod(0o777)
    result = _python("-m", "warmcurve.cli", "verify")
    assert result.returncode == 3
    assert [line.split(":")[0] for line in result.stderr.splitlines()] == ["error", "hint"]


def test_the_import_is_light() -> None:
    """Neither an engine nor what only some commands need is loaded with the command line."""
    heavy = ["rich", "vllm", "torch", "numpy"]
    result = _python("-c", f"import sys, warmcurve.cli; print([name for name in {heavy} if name in sys.modules])")
    assert result.stdout == "[]\n"


def test_a_reader_that_goes_away_is_no_error(record: Record) -> None:
    """Output into a pipe that nobody reads any more ends quietly."""
    record()
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as pipe:
        process = subprocess.run(
            [sys.executable, "-m", "warmcurve.cli", "ls"], stdout=pipe, stderr=subprocess.PIPE, check=False
        )
    assert process.stderr == b""


def test_an_output_of_few_characters_gets_escapes(record: Record) -> None:
    """A factor that stdout's encoding lacks is written out instead of failing."""
    result = _python("-m", "warmcurve.cli", "show", record("模型"), "--factors", PYTHONIOENCODING="latin-1")
    assert result.returncode == 0
    assert "|####" in result.stdout
    assert r"revision  \u6a21\u578b" in result.stdout


def _unstyled(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def _on_a_terminal(*arguments: str, columns: int = 0, **environment: str) -> str:
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, columns))
    command = [sys.executable, "-m", "warmcurve.cli", *arguments]
    found = b""
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        process = subprocess.Popen(command, stdout=theirs, env={**os.environ, "TERM": "xterm", **environment})
        os.close(theirs)
        # EIO is how Linux says that nobody has the other end any more.
        with process, suppress(OSError):
            while part := terminal.read(1 << 16):
                found += part
    assert process.returncode == 0
    return found.decode().replace("\r\n", "\n")


def test_a_terminal_gets_the_same_cells_with_and_without_rich(
    record: Record, remember: Remember, run: Run, tmp_path: Path
) -> None:
    """Where rich is not installed the tables are plain; nothing else differs."""
    pytest.importorskip("rich")
    digest = record()
    remember(digest, rejections=3)
    (tmp_path / "without").mkdir()
    (tmp_path / "without" / "rich.py").write_text("raise ImportError('not installed')")
    path = os.pathsep.join([str(tmp_path / "without"), *sys.path])
    plain = _on_a_terminal("show", digest, PYTHONPATH=path)
    styled = _on_a_terminal("show", digest)
    assert "\x1b[" in styled
    assert "\x1b" not in plain
    assert plain == run("show", digest).stdout
    assert [line.rstrip() for line in _unstyled(styled).splitlines()] == plain.splitlines()


def test_the_width_is_that_of_the_terminal(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where COLUMNS does not say it; and damage is red in a list."""
    monkeypatch.delenv("COLUMNS")
    monkeypatch.delenv("NO_COLOR", raising=False)
    digest = record()
    assert max(map(len, _on_a_terminal("show", digest, columns=70).splitlines())) == 70
    store = DirectoryStore(default_directory(os.environ))
    store.put(digest, b"damaged")
    assert "\x1b[31mentry_truncated" in _on_a_terminal("ls")
    assert "\x1b" not in _on_a_terminal("ls", NO_COLOR="1")


@pytest.mark.parametrize("command", ["ls", "verify"])
def test_ctrl_c_ends_a_check_in_all_its_processes(command: str, store: DirectoryStore, record: Record) -> None:
    """As a terminal sends it, to all of them: no traceback, and the exit code of a shell."""
    data = store.get(record()) or b""
    # More lines than a pipe holds, so that the command cannot end before it is read.
    for number in range(1500):
        Path(store.describe(f"{number:064x}")).write_bytes(data)
    options = ("--check",) if command == "ls" else ()
    process = subprocess.Popen(
        [sys.executable, "-m", "warmcurve.cli", command, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        # A shell starts its jobs in the background with SIGINT ignored, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        text=True,
    )
    with process:
        assert process.stdout
        assert process.stderr
        for _ in range(100):
            process.stdout.readline()
        os.killpg(process.pid, signal.SIGINT)
        process.stdout.read()
        assert process.wait() == 130
        assert process.stderr.read().strip() == ""


def test_rich_takes_cells_by_the_letter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Square brackets are no markup, and what would not be used is red."""
    pytest.importorskip("rich")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    text = tables.pretty([Column("host"), Column("state")], [["[bold]x[/bold]", "entry_checksum"], ["y", "ok"]])
    assert _unstyled(text).split() == ["host", "state", "[bold]x[/bold]", "entry_checksum", "y", "ok"]
    assert "\x1b[31mentry_checksum" in text


def test_rich_shows_what_a_column_of_alarms_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """In red, but for the rows that have none."""
    pytest.importorskip("rich")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    text = tables.pretty([Column("host"), Column("machines", alarms=True)], [["x", "unstable 1"], ["y", "-"]])
    assert text.count("\x1b[31m") == 1
    assert "\x1b[31munstable 1" in text


@pytest.mark.parametrize("with_rich", [False, True])
def test_a_long_last_cell_takes_more_lines(with_rich: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Below its column, in either form; no other cell is touched."""
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERM", "xterm")
    if with_rich:
        pytest.importorskip("rich")
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    text = tables.table([Column("state"), Column("detail")], [["ok", "five words " * 5], ["bad", "short"]])
    assert [line.rstrip() for line in _unstyled(text).splitlines()] == [
        "state  detail",
        "ok     five words five words five words",
        "       five words five words",
        "bad    short",
    ]


def test_plain_tables_are_aligned() -> None:
    """Numbers to the right, text to the left, no blanks at the end of a line."""
    text = tables.plain([Column("size", right=True), Column("name")], [["1", "a"], ["10000", "long name"]])
    assert text == " size  name\n    1  a\n10000  long name"
