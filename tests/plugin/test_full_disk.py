"""On a full disk a boot says what its report lacks, and `warmcurve explain` reads what there is."""

import json
import logging
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from tests.support import boot, run
from warmcurve.cli.explain import explain_command
from warmcurve.outcome import MEANINGS, Outcome, Reason
from warmcurve.reporting.report import BootReport, ReportDirectory
from warmcurve.storage.store import DirectoryStore, Store
from warmcurve.testing import MemoryStore, ScriptedEngine
from warmcurve.vllm.seam.reporting import Reporter

WITHOUT_FACTORS = "report written without its factors, so `warmcurve explain` cannot compare this boot (store_full: "
NO_REPORT = "no report written, so `warmcurve explain` cannot tell of this boot (store_full: "


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 128 KiB."""
    place = tmp_path / "disk"
    place.mkdir()
    if not run("mount", "-t", "tmpfs", "-o", "size=128k,mode=700", "tmpfs", place):
        pytest.skip("this user may not mount a file system")
    (place / "store").mkdir(mode=0o700)
    yield place
    assert run("umount", place)


def _boot(store: Store, revision: str) -> BootReport:
    return boot(ScriptedEngine(), store, read_factors=lambda: {"large": "x" * 24_000, "revision": revision})


def _miss() -> BootReport:
    """As long as those of vLLM's boots."""
    return msgspec.structs.replace(_boot(MemoryStore(), "a"), outcome=Outcome.UNRECORDED, reason=Reason.STORE_FULL)


def _publish(disk: Path, report: BootReport, left: int, log: pytest.LogCaptureFixture) -> str:
    """What is logged after the boot's line, with so many bytes left on the disk."""
    reports = ReportDirectory(disk / "store")
    (disk / "store" / "reports").mkdir(mode=0o700)
    (disk / "filler").write_bytes(bytes(shutil.disk_usage(disk).free - left))
    with log.at_level(logging.INFO, "vllm.warmcurve"):
        Reporter(reports).publish(report)
    assert not list(disk.rglob(".tmp-*"))
    assert len(log.messages) == 2
    return log.messages[1]


def _explained(disk: Path, *arguments: str) -> str:
    words = [*arguments, "--store", str(disk / "store")]
    result = CliRunner().invoke(explain_command, words, catch_exceptions=False)
    assert result.exit_code == 0
    return result.output if "--json" in arguments else " ".join(result.output.split())


def test_a_report_that_does_not_fit_lacks_its_factors(disk: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The log says so, and `explain` tells the boot, what to do, and that it cannot be compared."""
    DirectoryStore(disk / "store").put(*_entry("b"))
    miss = _miss()
    assert WITHOUT_FACTORS in _publish(disk, miss, 16_384, caplog)
    ((_, data),) = ReportDirectory(disk / "store").read()
    assert isinstance(data, bytes)
    assert msgspec.json.decode(data, type=BootReport) == miss.without_factors()
    told = _explained(disk)
    assert MEANINGS[Reason.STORE_FULL].remedy in told
    lacking = "The store was full, so the report lacks the factors: the boot cannot be compared with entries."
    assert told.endswith(lacking)
    shown = json.loads(_explained(disk, "--json"))
    assert (shown["miss"]["shortened"], shown["miss"]["digest"], shown["nearest"]) == (True, miss.digest, [])


def test_a_short_report_tells_that_its_entry_is_there_by_now(disk: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The digest is enough for that."""
    _publish(disk, _miss(), 16_384, caplog)
    (disk / "filler").unlink()
    DirectoryStore(disk / "store").put(*_entry("a"))
    assert "Its entry has been recorded since: the same boot finds it now." in _explained(disk)


def test_a_disk_without_room_for_any_report(disk: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The log says that `explain` will not know of the boot."""
    assert NO_REPORT in _publish(disk, _miss(), 0, caplog)
    assert "no boot has left a report" in _explained(disk)


def test_another_refusal_is_met_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Where the store is not full a shorter report would not help either."""
    (tmp_path / "store").write_bytes(b"")
    with caplog.at_level(logging.INFO, "vllm.warmcurve"):
        Reporter(ReportDirectory(tmp_path / "store")).publish(_miss())
    assert len(caplog.messages) == 2
    assert "cannot tell of this boot (store_unavailable: " in caplog.messages[1]


def _entry(revision: str) -> tuple[str, bytes]:
    store = MemoryStore()
    _boot(store, revision)
    ((digest, data),) = store.entries.items()
    return digest, data
