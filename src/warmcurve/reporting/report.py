"""What a boot says of itself: one log line, and one JSON file under the store.

    <store>/reports/<UTC time>-<host>-<pid>-<random>.json

The newest reports are kept, so that the directory stays small.
"""

import json
import math
import secrets
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from warmcurve.curves.sentinel import Evidence, Limits
from warmcurve.durations import in_words
from warmcurve.errors import StoreError
from warmcurve.outcome import MEANINGS, Outcome, Reason, Step
from warmcurve.printable import printable
from warmcurve.ranks.vote import Decision
from warmcurve.storage.files import Directory

KEPT: Final = 64
MAX_BYTES: Final = 4 << 20
"""More than any report has: its factors are those of an entry, a line each."""


class VoteReport(msgspec.Struct, frozen=True):
    """What all ranks decided last, this rank's own vote, and the time spent on votes in ms."""

    decision: Decision | None
    own: Decision | None
    waited_ms: float


class RegretReport(msgspec.Struct, frozen=True):
    """Shares of throughput that are lost, over declared batches of `drafts` drafted tokens a request.

    `stored_*` is lost by planning with the stored curves if the fresh ones are true. `fresh_*` is lost by planning with
    the fresh curves if the stored ones are true. `worst` is the batch that loses most, `mean` is over all batches.
    """

    stored_worst: float
    stored_mean: float
    fresh_worst: float
    fresh_mean: float
    drafts: int
    batches: int


class BootReport(msgspec.Struct, frozen=True, kw_only=True):
    """One boot of one rank.

    `reason` is why the boot did not end as planned. `missed` is why no stored curve was used. Both are None after a
    hit. They differ if nothing could be stored: then `reason` says why not. `detail` is the reason in one line.

    `calibration_runs` and `sentinel_runs` count dummy runs. `calibration_ms` is the time from the start until the
    curves were in place, with sentinels. `recorded_ms` is the same time of the boot that recorded the entry.
    `expected_ms` is what one round of the sentinels costs by the stored curves.

    `step` is where an unforeseen error happened. `factors` are kept after a miss, to explain it later. If a report is
    `shortened`, they are left out. `regret` compares stored curves with fresh ones, if both are known. `unreviewed`
    names factors that no review knows; they count. `note` says what else a person should know. `vote` is null for a
    world of one.
    """

    schema: int = 1
    at: str
    warmcurve: str
    engine: str
    host: str
    pid: int
    rank: int = 0
    world: int = 1
    outcome: Outcome
    reason: Reason | None
    missed: Reason | None
    detail: str | None = None
    note: str | None = None
    step: Step | None = None
    digest: str | None = None
    entry: str | None = None
    calibration_runs: int = 0
    sentinel_runs: int = 0
    mode: str = "reuse"
    expected_ms: float | None = None
    calibration_ms: float = 0.0
    recorded_ms: float | None = None
    evidence: Evidence | None = None
    regret: RegretReport | None = None
    limits: Limits
    factors: Mapping[str, Any] | None = None
    unreviewed: tuple[str, ...] = ()
    vote: VoteReport | None = None
    shortened: bool = False

    def without_factors(self) -> "BootReport":
        """The report for a disk that is full. The factors are the largest part of a report."""
        return msgspec.structs.replace(self, factors=None, shortened=True)

    def log_line(self) -> str:
        """`warmcurve: <outcome> name=value …`, in one line. If something went wrong, it ends with what to do."""
        evidence, regret, decision = self.evidence, self.regret, self.vote and self.vote.decision
        fields = {
            "mode": None if self.mode == "reuse" else self.mode,
            "reason": self.reason,
            "missed": None if self.missed == self.reason else self.missed,
            "by_rank": decision.rank if decision and decision.reason else None,
            "step": self.step,
            "sentinel_runs": self.sentinel_runs,
            "calibration_runs": self.calibration_runs,
            "calibration_ms": f"{self.calibration_ms:.0f}",
            "recorded_ms": None if self.recorded_ms is None else f"{self.recorded_ms:.0f}",
            "expected_ms": None if self.expected_ms is None else f"{self.expected_ms:.0f}",
            "scale": evidence and f"{evidence.scale:.3g}",
            "loss_bound": evidence and f"{evidence.loss_bound:.3g}",
            "regret": regret and f"{regret.stored_worst:.3g}",
            "unreviewed": len(self.unreviewed) or None,
            "digest": self.digest and self.digest[:12],
        }
        words = [f"warmcurve: {self.outcome}"]
        words += [f"{name}={value}" for name, value in fields.items() if value is not None]
        saved = time_saved(self.recorded_ms, self.calibration_ms) if self.outcome is Outcome.REUSED else None
        remarks = [printable(" ".join(text.split()))[:400] for text in (saved, self.note, self.detail) if text]
        if remarks:
            words.append(f"({'; '.join(remarks)})")
        if self.reason and self.outcome is Outcome.UNRECORDED:
            words.append(f"- {MEANINGS[self.reason].remedy}")
        return " ".join(words)


def time_saved(recorded_ms: float | None, calibration_ms: float | None) -> str | None:
    """What a boot saved that reused curves, in words, or None: the time of the recorded calibration less its own."""
    if recorded_ms is None or calibration_ms is None or recorded_ms <= calibration_ms:
        return None
    return f"saved {in_words((recorded_ms - calibration_ms) / 1e3)}"


class ReportDirectory:
    """The reports of a store's boots. Writing raises `StoreError`; a boot goes on without."""

    def __init__(self, directory: Path, *, trust_group: bool = False) -> None:
        self.directory = directory
        self._reports = Directory(directory, "reports", trust_group=trust_group)

    def write(self, report: BootReport) -> Path:
        moment = report.at.replace(":", "").replace("-", "")
        name = f"{moment}-{socket.gethostname().replace('/', '_')[:64]}-{report.pid}-{secrets.token_hex(2)}.json"
        data = json.dumps(_plain(report), indent=1, ensure_ascii=False).encode("utf-8") + b"\n"
        self._reports.publish(name, data)
        self._reports.keep_newest(_is_report, KEPT, name)
        return self._reports.path / name

    def paths(self) -> tuple[Path, ...]:
        """The reports, oldest first."""
        with suppress(StoreError):
            return tuple(self._reports.path / name for name in self._names())
        return ()

    def read(self) -> tuple[tuple[Path, bytes | StoreError], ...]:
        """The newest reports, newest first, and for one that cannot be read its error. Raises `StoreError` where the
        directory itself cannot be read or others may write to it.
        """
        found: list[tuple[Path, bytes | StoreError]] = []
        for name in self._names()[: -KEPT - 1 : -1]:
            try:
                data: bytes | StoreError | None = self._reports.read(name, MAX_BYTES)
            except StoreError as error:
                data = error
            if data is not None:
                found.append((self._reports.path / name, data))
        return tuple(found)

    def _names(self) -> list[str]:
        return list(filter(_is_report, self._reports.names()))


def _plain(value: Any) -> Any:
    """What JSON can hold of a report: paths and host names may be no Unicode, and an engine's numbers none at all."""
    if isinstance(value, msgspec.Struct):
        return {name: _plain(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, Mapping):
        return {_plain(str(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, int) else type(value).__qualname__


def _is_report(name: str) -> bool:
    return name.endswith(".json") and not name.startswith(".")
