"""A boot's report is one line in a log and one file that can be read again."""

import json
import os
import stat
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.faults import FaultySystem, raising
from tests.support import A, boot, run
from warmcurve.curves.sentinel import Evidence, Limits
from warmcurve.errors import StoreError
from warmcurve.outcome import MEANINGS, Outcome, Reason, Step
from warmcurve.reporting.report import KEPT, BootReport, ReportDirectory
from warmcurve.storage.store import DirectoryStore
from warmcurve.testing import MemoryStore, ScriptedEngine

REPORT = BootReport(
    at="2030-01-01T00:00:00.000Z",
    warmcurve="0.1.0",
    engine="scripted 1.0",
    host="host",
    pid=1,
    outcome=Outcome.RECORDED,
    reason=None,
    missed=Reason.ABSENT,
    limits=Limits(),
)


def _with(**changes) -> BootReport:
    return msgspec.structs.replace(REPORT, **changes)


def _at(index: int) -> BootReport:
    return _with(at=f"2030-01-01T00:{index // 60:02}:{index % 60:02}.000Z", pid=index)


@pytest.fixture
def reports(tmp_path: Path) -> ReportDirectory:
    return ReportDirectory(tmp_path / "store")


def test_the_line_of_a_first_boot():
    """A first boot says that it recorded, how many runs it made and how long they took."""
    line = _with(calibration_runs=40, calibration_ms=302.8, digest=A).log_line()
    assert line == (
        "warmcurve: recorded missed=absent sentinel_runs=0 calibration_runs=40 calibration_ms=303 digest=aaaaaaaaaaaa"
    )


def test_the_line_of_a_hit():
    """A hit says what its recording took, and what the sentinels showed."""
    line = _with(
        outcome=Outcome.REUSED, missed=None, sentinel_runs=2, recorded_ms=302.8, evidence=Evidence((), 1.5, 0.0123)
    ).log_line()
    assert line == (
        "warmcurve: reused sentinel_runs=2 calibration_runs=0 calibration_ms=0 recorded_ms=303 scale=1.5 "
        "loss_bound=0.0123 (saved 303 ms)"
    )


@pytest.mark.parametrize(
    ("calibration_ms", "told"),
    [
        (132_135, " (saved 43 min 30 s; the clock is early)"),
        (2_742_135, " (the clock is early)"),
        (3_000_000, " (the clock is early)"),
    ],
)
def test_the_line_of_a_hit_says_what_it_saved(calibration_ms: float, told: str):
    """In words, if it saved anything, and with what else is to be known. A miss saved nothing."""
    known = {"recorded_ms": 2_742_135.0, "calibration_ms": calibration_ms, "note": "the clock\nis early"}
    assert _with(outcome=Outcome.REUSED, missed=None, **known).log_line().endswith(f"recorded_ms=2742135{told}")
    assert _with(detail="met", **known).log_line().endswith("recorded_ms=2742135 (the clock is early; met)")


def test_the_line_of_a_boot_that_could_not_store():
    """A boot that stored nothing says why, what was met, and what can be done."""
    line = _with(outcome=Outcome.UNRECORDED, reason=Reason.STORE_FULL, step=Step.PUT, detail="/x: full").log_line()
    assert line.startswith("warmcurve: unrecorded reason=store_full missed=absent step=put sentinel_runs=0 ")
    assert line.endswith(f" (/x: full) - {MEANINGS[Reason.STORE_FULL].remedy}")


@pytest.mark.parametrize("outcome", Outcome)
@pytest.mark.parametrize("reason", [None, *Reason])
def test_a_reason_is_said_once(outcome: Outcome, reason: Reason | None):
    """The reason stands in the line, once, also where it is why the entry was missed."""
    line = _with(outcome=outcome, reason=reason, missed=reason).log_line()
    assert line.count(f"={reason} ") == (reason is not None)
    assert (MEANINGS[reason].remedy in line if reason else False) == bool(reason and outcome is Outcome.UNRECORDED)


@given(st.text() | st.text(st.sampled_from("\n\r\v\f\x1b\x1c\x1d\x1e\x85\u2028\u2029\0\t\x7f\u202e\ud800 a")))
def test_the_line_is_one_line_whatever_the_detail(detail: str):
    """No detail, of whatever file or error, breaks the line, makes it long, or sends a terminal control characters."""
    line = _with(detail=detail).log_line()
    assert len(line.splitlines()) == 1
    assert line.isprintable()
    assert len(line) < 700
    assert line.encode("utf-8")


def test_a_report_is_read_back(reports: ReportDirectory):
    """A written report is the same report when read, private to its user, in a private directory."""
    path = reports.write(REPORT)
    assert msgspec.json.decode(path.read_bytes(), type=BootReport) == REPORT
    assert reports.paths() == (path,)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == stat.S_IMODE(reports.directory.stat().st_mode) == 0o700


def test_reports_of_boots_are_read_back(reports: ReportDirectory):
    """The reports of a first boot, a hit and a rejection are the same reports when read."""
    engine, store = ScriptedEngine(), MemoryStore()
    for factor in (1, 1, 3):
        engine.verify_ms = lambda tokens, factor=factor: factor * (4.0 + tokens / 8)  # type: ignore[misc]
        report = boot(engine, store)
        assert msgspec.json.decode(reports.write(report).read_bytes(), type=BootReport) == report


def test_no_report_is_there_before_the_first(reports: ReportDirectory):
    """Asking for reports creates nothing."""
    assert reports.paths() == ()
    assert not reports.directory.exists()


def test_the_newest_reports_are_kept(reports: ReportDirectory):
    """Of more reports than are kept the oldest are removed, and nothing else in the directory is."""
    reports.write(_at(0))
    stranger = reports.directory / "reports" / "README"
    stranger.write_bytes(b"")
    for index in range(1, KEPT + 7):
        reports.write(_at(index))
    kept = [json.loads(path.read_bytes())["pid"] for path in reports.paths()]
    assert kept == list(range(7, KEPT + 7))
    assert len(list(stranger.parent.iterdir())) == KEPT + 1


def test_a_clock_that_goes_back_loses_no_new_report(reports: ReportDirectory):
    """The newest is what was written last, whatever time it tells."""
    for index in range(1, KEPT + 1):
        reports.write(_at(index))
    last = reports.write(_at(0))
    assert last.exists()
    assert len(reports.paths()) == KEPT


def test_a_report_that_cannot_be_removed_is_left(reports: ReportDirectory):
    """A directory with a report's name does not keep the others from being written and removed."""
    (reports.write(REPORT).parent / "0.json").mkdir()
    for index in range(KEPT + 3):
        reports.write(_at(index))
    assert len(reports.paths()) <= KEPT + 1


def test_two_reports_of_one_moment_are_two_files(reports: ReportDirectory):
    """Boots of one host, moment and process do not overwrite each other's reports."""
    assert len({reports.write(REPORT) for _ in range(8)}) == 8


@pytest.mark.parametrize("host", ["a/b", "../../etc", "x" * 300])
def test_the_hosts_name_does_not_lead_out(reports: ReportDirectory, host: str, monkeypatch: pytest.MonkeyPatch):
    """Whatever the host is called, its reports lie in the directory."""
    monkeypatch.setattr("socket.gethostname", lambda: host)
    assert reports.write(REPORT).resolve().parent == reports.directory.resolve() / "reports"


def test_an_unwritable_directory_is_a_refusal(tmp_path: Path):
    """Where no directory can be made, writing is a StoreError and asking gives nothing."""
    (tmp_path / "file").write_bytes(b"")
    for reports in (ReportDirectory(tmp_path / "file"), ReportDirectory(Path("/proc/warmcurve"))):
        with pytest.raises(StoreError) as refused:
            reports.write(REPORT)
        assert refused.value.reason in {Reason.STORE_UNAVAILABLE, Reason.STORE_READ_ONLY}
        assert reports.paths() == ()


@pytest.mark.parametrize("inner", ["", "reports"])
def test_a_directory_that_others_may_write_is_refused(reports: ReportDirectory, inner: str):
    """Reports go nowhere where others could put links in their way, and the refusal is not its own cause."""
    reports.write(REPORT)
    (reports.directory / inner).chmod(0o777)
    with pytest.raises(StoreError) as refused:
        reports.write(REPORT)
    assert refused.value.reason is Reason.STORE_UNSAFE
    assert refused.value.__cause__ is not refused.value


def test_reports_are_read_newest_first(reports: ReportDirectory):
    """What was written is read back in full, the newest first, and no more than are kept."""
    assert reports.read() == ()
    written = [reports.write(_at(index)) for index in range(3)]
    assert reports.read() == tuple((path, path.read_bytes()) for path in reversed(written))
    for index in range(KEPT + 3):
        (written[0].parent / f"1999-{index}.json").write_bytes(b"")
    assert [path for path, _ in reports.read()][:3] == written[::-1]
    assert len(reports.read()) == KEPT


@pytest.mark.parametrize("lasting", [False, True])
def test_any_failing_call_of_reading_is_an_error_of_the_directory_or_of_one_report(
    reports: ReportDirectory, lasting: bool
):
    """With the n-th of the system's calls failing, for every n, a StoreError escapes or stands in a report's place."""
    for index in range(2):
        reports.write(_at(index))
    nth, reached, escaped, inside = 0, True, 0, 0
    while reached:
        nth += 1
        with FaultySystem(nth, raising(5), lasting=lasting) as system:
            try:
                inside += sum(isinstance(data, StoreError) for _, data in reports.read())
            except StoreError as refused:
                assert refused.reason is Reason.STORE_UNAVAILABLE  # noqa: PT017
                escaped += 1
        reached = system.reached
    assert escaped
    assert inside or lasting


@pytest.mark.parametrize("lasting", [False, True])
def test_any_failing_call_leaves_no_temporary_file(tmp_path: Path, lasting: bool):
    """With the n-th of the system's calls failing, for every n, only a StoreError escapes."""
    nth, reached = 0, True
    while reached:
        nth += 1
        reports = ReportDirectory(tmp_path / str(nth))
        with FaultySystem(nth, raising(28), lasting=lasting) as system:
            try:
                reports.write(REPORT)
            except StoreError as refused:
                assert refused.reason is Reason.STORE_FULL  # noqa: PT017
        reached = system.reached
        assert "unlink" in system.failed or not list(reports.directory.rglob(".tmp-*"))


def test_a_full_disk_is_a_refusal(tmp_path: Path):
    """On a full file system no report is written, and no part of one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if not run("mount", "-t", "tmpfs", "-o", "size=16k,mode=700", "tmpfs", disk):
        pytest.skip("this user may not mount a file system")
    try:
        with pytest.raises(StoreError) as refused:
            ReportDirectory(disk / "store").write(_with(factors={"large": "x" * 40_000}))
        assert refused.value.reason is Reason.STORE_FULL
        assert [path for path in disk.rglob("*") if path.is_file()] == []
    finally:
        assert run("umount", disk)


UNWRITABLE = {
    "detail": _with(detail="\ud800"),
    "entry": _with(entry="/cache/\udcff/v1"),
    "host": _with(host="\udcff"),
}


@pytest.mark.parametrize("what", UNWRITABLE)
def test_text_that_is_no_text_is_written(reports: ReportDirectory, what: str):
    """Paths, names and errors that are no UTF-8 do not keep a report from being written and read again."""
    path = reports.write(UNWRITABLE[what])
    assert msgspec.json.decode(path.read_bytes(), type=BootReport).pid == REPORT.pid


def test_a_store_at_a_path_that_is_no_text_is_reported(tmp_path: Path):
    """A boot with its store below a directory whose name is no UTF-8 has a report like any other."""
    directory = tmp_path / os.fsdecode(b"cach\xe9")
    report = boot(ScriptedEngine(), DirectoryStore(directory))
    assert report.outcome is Outcome.RECORDED
    assert ReportDirectory(directory).write(report).exists()
    assert report.log_line().encode("utf-8")
