"""How a vLLM process tells of a boot: a line in vLLM's own log, a file beside the entries."""

import logging
import os
import platform
from datetime import UTC, datetime
from typing import Final

from warmcurve._version import __version__
from warmcurve.boot.audit import HOLDS
from warmcurve.boot.settings import Mode
from warmcurve.curves.sentinel import Limits
from warmcurve.errors import StoreError
from warmcurve.outcome import Outcome, Reason, Step
from warmcurve.ranks.vote import Course, Decision
from warmcurve.reporting.report import BootReport, ReportDirectory, VoteReport
from warmcurve.vllm.seam.ranks import Ranks

# vLLM configures the logger "vllm" and no other (vllm/logger.py): a name of our own would print warnings alone.
logger = logging.getLogger("vllm.warmcurve")

_STOPS: Final = frozenset({Reason.VOTE_LOST, Reason.CURVES_REQUIRED})
_ASKED_FOR: Final = frozenset({Reason.MODE_VERIFY, Reason.SWITCHED_OFF})


class Reporter:
    """Publishes reports; nothing it meets goes further. Without a directory it only logs."""

    def __init__(self, directory: ReportDirectory | None) -> None:
        self._directory = directory

    def publish(self, report: BootReport) -> None:
        try:
            if report.rank == 0 or _speaks(report):
                recorded = report.outcome is not Outcome.UNRECORDED and report.reason is None
                failed_audit = report.evidence is not None and report.detail != HOLDS
                ordinary = recorded or (report.reason in _ASKED_FOR and not failed_audit)
                level = logging.INFO if ordinary else logging.ERROR if report.reason in _STOPS else logging.WARNING
                logger.log(level, "%s", report.log_line())
        except Exception as error:  # noqa: BLE001  the adapter's edge
            self._failed(error)
        try:
            if self._directory is not None:
                _write(self._directory, report)
        except StoreError as error:
            logger.info("warmcurve: no report written, so `warmcurve explain` cannot tell of this boot (%s)", error)
        except Exception as error:  # noqa: BLE001  the adapter's edge
            self._failed(error)

    def _failed(self, error: Exception) -> None:
        logger.warning("warmcurve: step=%s reason=%s (%s)", Step.REPORT, Reason.INTERNAL_ERROR, describe_error(error))


def _write(directory: ReportDirectory, report: BootReport) -> None:
    """Raises `StoreError`."""
    try:
        directory.write(report)
    except StoreError as error:
        if error.reason is not Reason.STORE_FULL or report.factors is None:
            raise
        directory.write(report.without_factors())
        logger.info(
            "warmcurve: report written without its factors, so `warmcurve explain` cannot compare this boot (%s)", error
        )


def _speaks(report: BootReport) -> bool:
    """Whether a follower has something to say. One line a boot is enough: all decide the same, and the leader says it.
    But a rank that stops must, and so must one for a leader that is not there.
    """
    decision = report.vote.decision if report.vote else None
    silent = decision is not None and decision.reason is Reason.RANK_ABSENT and decision.rank == 0
    return report.reason in _STOPS or bool(silent and report.rank == 1)


def describe_error(error: BaseException) -> str:
    """An error in words. Never raises, though some errors raise when they are asked for theirs."""
    name = type(error).__qualname__
    try:
        return f"{name}: {error}"
    except Exception:  # noqa: BLE001  the adapter's edge
        return name


def engine_failure(error: BaseException) -> tuple[Reason, str]:
    """Why the engine did not calibrate: it raised an error, or the process is ending.

    Whatever ends a process is no `Exception`: vLLM's workers turn SIGTERM and SIGINT into a `SystemExit`
    (`WorkerProc.worker_main`), Python turns SIGINT into a `KeyboardInterrupt`.
    """
    if isinstance(error, Exception):
        return Reason.ENGINE_FAILED, describe_error(error)
    code = error.code if isinstance(error, SystemExit) else None
    ended_by = f"{type(error).__qualname__}, exit status {code}" if isinstance(code, int) else describe_error(error)
    return Reason.BOOT_INTERRUPTED, f"the process is ending: {ended_by.rstrip(': ')}"


def engine_name() -> str:
    try:
        import vllm

        # Wheels for other devices carry a local version such as +cpu; the release is what people name.
        return f"vllm {vllm.__version__.partition('+')[0]}"
    except Exception:  # noqa: BLE001  the adapter's edge
        return "vllm"


def stood_aside(
    reason: Reason,
    detail: str,
    ranks: Ranks | None,
    decision: Decision | None = None,
    *,
    missed: Reason | None = None,
    mode: Mode = "reuse",
) -> BootReport:
    """The report of a boot in which warmcurve touched nothing. `missed` is the reason, unless told."""
    rank = 0 if ranks is None else ranks.rank
    own = Decision(Course.CALIBRATE, reason, detail, rank)
    return BootReport(
        at=datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        warmcurve=__version__,
        engine=engine_name(),
        host=platform.node(),
        pid=os.getpid(),
        rank=rank,
        world=1 if ranks is None else ranks.world,
        outcome=Outcome.UNRECORDED,
        reason=reason,
        missed=missed or reason,
        detail=detail,
        mode=mode,
        limits=Limits(),
        vote=None if ranks is None or ranks.world == 1 else VoteReport(decision, own, 0.0),
    )
