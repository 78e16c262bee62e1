"""What stands around one call of a method of vLLM's runner: the seam where it calibrates, or nothing."""

import copy
import logging
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Final

from warmcurve.boot.settings import Settings
from warmcurve.errors import EngineUnknown, SettingsError
from warmcurve.outcome import Reason
from warmcurve.reporting.report import ReportDirectory
from warmcurve.storage.history import HistoryDirectory
from warmcurve.storage.store import DirectoryStore
from warmcurve.vllm import releases
from warmcurve.vllm.device.identity import machine_of
from warmcurve.vllm.seam import contract
from warmcurve.vllm.seam.aside import stand_aside, stopping
from warmcurve.vllm.seam.calibration import Seam
from warmcurve.vllm.seam.ranks import Ranks
from warmcurve.vllm.seam.reporting import Reporter, describe_error, engine_name

logger = logging.getLogger("vllm.warmcurve")

CAPTURE: Final = "capture_model"


def around(runner: Any, method: str, hook: Callable[[str], None]) -> AbstractContextManager[object]:
    """The seam where this method calibrates, or nothing where warmcurve stands aside. Where another method calibrates,
    `hook` has this function called around that one.
    """
    within = Capture.of(runner)
    if within and within.aside:
        return nullcontext()
    reporter, ranks, settings = Reporter(None), None, Settings()
    cause: Exception | None = None
    try:
        from vllm import envs

        ranks = Ranks.of(runner)
        directory = Path(envs.VLLM_CACHE_ROOT) / "adaptive_verification"
        reporter = Reporter(ReportDirectory(directory))
        settings = Settings.from_environment(os.environ)
        reporter = Reporter(ReportDirectory(directory, trust_group=settings.trust_group))
        calibrates = calibrating_method(runner)
        if calibrates != method:
            hook(calibrates)
            return Capture(runner, settings, reporter, ranks)
        store = DirectoryStore(directory, trust_group=settings.trust_group)
        histories = HistoryDirectory(directory, machine_of(runner), trust_group=settings.trust_group)
        during_capture = within is not None or method == CAPTURE
        seam = Seam(runner, store, histories, settings, reporter, ranks, during_capture=during_capture).place()
        if within:
            within.calibrated = True
    except (SettingsError, EngineUnknown) as error:
        reason, detail = error.reason, error.detail
    except Exception as error:
        logger.debug("warmcurve stands aside", exc_info=True)
        reason, detail, cause = Reason.INTERNAL_ERROR, describe_error(error), error
    else:
        return seam
    required = stand_aside(reporter, ranks, settings, reason, detail)
    if required:
        raise stopping(required, ranks) from cause
    return Capture(runner, settings, reporter, ranks, aside=True) if method == CAPTURE else nullcontext()


class Capture(AbstractContextManager[object]):
    """A capture whose calibration is a method of its own, with a seam of its own. In the mode `require` that must have
    been called. If warmcurve stands `aside` from the capture, it also takes no part in a calibration inside it.
    """

    def __init__(
        self, runner: Any, settings: Settings, reporter: Reporter, ranks: Ranks | None, *, aside: bool = False
    ) -> None:
        self._runner = runner
        self._settings = settings
        self._reporter = reporter
        self._ranks = ranks
        self.aside = aside
        self.calibrated = False

    @staticmethod
    def of(runner: Any) -> "Capture | None":
        """The capture that is running."""
        found: Capture | None = vars(runner).get("_warmcurve_capture")
        return found

    def __enter__(self) -> None:
        self._runner._warmcurve_capture = self  # noqa: SLF001

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        vars(self._runner).pop("_warmcurve_capture", None)
        if error is None and not self.aside and not self.calibrated and self._settings.mode == "require":
            asked = "vLLM asked for no run to be timed"
            required = stand_aside(self._reporter, self._ranks, self._settings, Reason.ENGINE_FAILED, asked)
            if required:
                raise stopping(required, self._ranks)


def calibrating_method(runner: Any) -> str:
    """The runner's method that calibrates. Raises `EngineUnknown` for a vLLM that calibrates as no known release."""
    try:
        found = releases.calibration()
    except (LookupError, OSError, SyntaxError, ImportError) as error:
        raise EngineUnknown(f"{engine_name()}: what calibrates cannot be read: {error}") from error
    if found.releases:
        contract.check_classes(runner, found.loop.method)
        return found.loop.method
    new = f"{engine_name()} is none of {', '.join(releases.KNOWN)}; new: {', '.join(found.news)}"
    raise EngineUnknown(f"{new}; {_trial(runner)}" if found.only_loop else new)


def _trial(runner: Any) -> str:
    """Whether what a new loop calls does what the seam relies on: so much less is to be done to support it."""
    # A copy: listing sets the manager's capture limit.
    manager, sizes = copy.copy(runner.adaptive_verification), [1, 2]
    try:
        batches = list(manager.batches_to_profile(sizes))
        contract.check_batches(batches, sizes, manager.req_states.max_num_batched_tokens)
        contract.check_collector(type(runner.step_timing))
    except Exception as error:  # noqa: BLE001  another vLLM's objects
        return f"a trial of what it calls failed: {describe_error(error)}"
    return "a trial of what it calls passed, so please report this line"
