"""What happens to a boot in which warmcurve takes no part, or which must not go on."""

import logging
import os

from warmcurve.boot.settings import MODE, Mode, Settings
from warmcurve.boot.settings import mode as settings_mode
from warmcurve.errors import CurvesRequired, SettingsError, VoteLost
from warmcurve.outcome import Reason
from warmcurve.vllm.seam.ranks import Ranks
from warmcurve.vllm.seam.reporting import Reporter, stood_aside

logger = logging.getLogger("vllm.warmcurve")


def stand_aside(
    reporter: Reporter, ranks: Ranks | None, settings: Settings, reason: Reason, detail: str
) -> CurvesRequired | None:
    """Report that warmcurve takes no part. In the mode `require` it returns the error with which the boot must end.

    Other ranks that vote are told at once. If this fails, they wait until their time is up.
    """
    vote, required, missed, mode = None, None, reason, _mode()
    try:
        if ranks is not None:
            vote = ranks.withdraw(reason, detail, settings.vote_timeout_s)
    except Exception:
        logger.debug("warmcurve could not tell the other ranks", exc_info=True)
    finally:
        if ranks is not None:
            ranks.close()
    if mode == "require":
        required = CurvesRequired(f"{reason}: {detail}")
        reason, detail = required.reason, required.detail
    reporter.publish(stood_aside(reason, detail, ranks, vote, missed=missed, mode=mode))
    return required


def _mode() -> Mode:
    """The mode, read from the environment itself: there are no settings if another variable is wrong."""
    try:
        return settings_mode(os.environ)
    except SettingsError:
        return "reuse"


def stopping(error: VoteLost | CurvesRequired, ranks: Ranks | None, *, together: bool = False) -> BaseException:
    """What to raise so that vLLM ends, and its last log lines say why.

    With several ranks, a worker that raises an `Exception` lives on. Its executor waits for the other workers, and they
    may wait for this one (`WorkerProc.worker_busy_loop`). vLLM notices an exit, but does not log its reason. So this
    rank raises only if all ranks stop `together`. Otherwise it exits.
    """
    if isinstance(error, CurvesRequired):
        error = CurvesRequired(f"{MODE}=require lets no boot go on without stored curves that hold ({error.detail})")
    if ranks is not None and ranks.world > 1 and not together:
        return SystemExit(f"warmcurve: {error}. {error.hint()}")
    error.add_note(error.hint())
    return error
