"""Boot reports, read back: from a store, or any file. Reading never changes anything."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from warmcurve.cli.inspection import read_file
from warmcurve.cli.output import Unreadable
from warmcurve.durations import in_words
from warmcurve.errors import FactorError, StoreError
from warmcurve.outcome import Outcome, Reason
from warmcurve.reporting.report import MAX_BYTES, ReportDirectory, time_saved
from warmcurve.storage.fingerprint import fingerprint

HINT: Final = "Name a JSON file of the store's reports/ directory, or a copy of one."


class Regret(msgspec.Struct, frozen=True):
    """Shares of throughput lost by planning with the stored curves where the fresh ones are true, and with the fresh
    ones where the stored ones are.
    """

    stored_worst: float | None = None
    stored_mean: float | None = None
    fresh_worst: float | None = None
    fresh_mean: float | None = None
    drafts: int | None = None
    batches: int | None = None


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What a boot said of itself, in any version's words: a later one may know reasons that this one does not."""

    at: str | None = None
    engine: str | None = None
    host: str | None = None
    pid: int | None = None
    rank: int = 0
    world: int = 1
    mode: str | None = None
    outcome: str | None = None
    reason: str | None = None
    missed: str | None = None
    detail: str | None = None
    note: str | None = None
    calibration_runs: int = 0
    calibration_ms: float | None = None
    recorded_ms: float | None = None
    digest: str | None = None
    regret: Regret | None = None
    factors: dict[str, Any] | None = None
    shortened: bool = False

    @property
    def is_miss(self) -> bool:
        return self.outcome not in (None, Outcome.REUSED)

    @property
    def time(self) -> str | None:
        """How long it took to have curves in place, and what a reuse saved, in words."""
        if not self.calibration_ms:
            return None
        took = in_words(max(0.0, self.calibration_ms / 1e3))
        if self.calibration_runs or self.is_miss:
            return f"{took}, with {self.calibration_runs} runs of the calibration"
        saved = time_saved(self.recorded_ms, self.calibration_ms)
        return f"{took}, {saved} of the calibration that recorded the entry" if saved else took

    @property
    def cause(self) -> str | None:
        """Why no stored curve was used. A boot that was stopped before it had looked says it in its detail alone."""
        first = (self.detail or "").partition(":")[0]
        return first if self.missed == Reason.CURVES_REQUIRED and first in set(Reason) else self.missed

    @property
    def met(self) -> str | None:
        """The detail; that of a boot that was stopped begins with the cause, which is told beside it."""
        if self.reason == Reason.CURVES_REQUIRED and self.detail and self.cause:
            return self.detail.removeprefix(self.cause).removeprefix(": ")
        return self.detail


class FoundReport(NamedTuple):
    path: Path
    report: Report


class _NoReport(ValueError):
    pass


def parse(data: bytes) -> Report:
    """Raises ValueError for what is no report, or damaged."""
    if len(data) > MAX_BYTES:
        raise _NoReport("larger than any report")
    try:
        report = msgspec.json.decode(data, type=Report)
        own = report.digest if report.factors is None else fingerprint(report.factors)
    except FactorError as error:
        raise _NoReport(error.detail) from error
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise _NoReport(str(error)) from error
    if report.digest not in (None, own):
        raise _NoReport("its factors are not those of its digest")
    return report


def named_report(path: Path) -> Report:
    """The report in a file anywhere: only its content is judged, not who may write it. Raises `Unreadable`."""
    try:
        return parse(read_file(path, MAX_BYTES))
    except StoreError as error:
        raise Unreadable(f"{path}: {error.detail}", HINT) from error
    except ValueError as error:
        raise Unreadable(f"{path}: not a boot report: {error}", HINT) from error


def stored_reports(directory: ReportDirectory) -> tuple[list[FoundReport], list[Path]]:
    """The reports that can be read, newest first, and the paths of those that cannot."""
    found, unreadable = [], []
    for path, data in directory.read():
        try:
            if isinstance(data, StoreError):
                raise data
            found.append(FoundReport(path, parse(data)))
        except (StoreError, ValueError):
            unreadable.append(path)
    return found, unreadable


def last_miss(newest_first: Sequence[FoundReport]) -> FoundReport | None:
    """The newest miss; of a boot of several ranks, what rank 0 says."""
    misses = [each for each in newest_first if each.report.is_miss]
    boot: dict[int, FoundReport] = {}
    for miss in misses:
        # No field says which reports are of one boot: they lie side by side, each rank once.
        if miss.report.rank in boot or miss.report.world != misses[0].report.world:
            break
        boot[miss.report.rank] = miss
    return boot.get(0, misses[0]) if misses else None
