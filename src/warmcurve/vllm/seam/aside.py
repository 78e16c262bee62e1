"""What becomes of a boot in which warmcurve takes no part, or which it must not let go on."""

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
    """Report it, and give the error with which the boot must end, in the mode `require`.

    Where other ranks vote they hear of it at once. Should that fail they wait until their time is up.
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
    """From the environment itself: where another variable cannot be understood there are no settings."""
    try:
        return settings_mode(os.environ)
    except SettingsError:
        return "reuse"


def stopping(error: VoteLost | CurvesRequired, ranks: Ranks | None, *, together: bool = False) -> BaseException:
    """What to raise so that vLLM notices, and a person reads what it is about in vLLM's own last words.

    Among several ranks a worker that raises an `Exception` lives on, and its executor waits for the others, which may
    wait for this one (`WorkerProc.worker_busy_loop`). An exit is noticed, but vLLM tells nothing of it: only where all
    ranks stop `together` does this one raise.
    """
    if isinstance(error, CurvesRequired):
        error = CurvesRequired(f"{MODE}=require lets no boot go on without stored curves that hold ({error.detail})")
    if ranks is not None and ranks.world > 1 and not together:
        return SystemExit(f"warmcurve: {error}. {error.hint()}")
    error.add_note(error.hint())
    return error
