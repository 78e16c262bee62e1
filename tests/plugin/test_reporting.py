"""What the adapter says of an engine that did not calibrate."""

import pytest

from warmcurve.outcome import Reason
from warmcurve.vllm.seam.reporting import engine_failure


class _Speechless(Exception):
    def __str__(self) -> str:
        raise ValueError


@pytest.mark.parametrize(
    ("error", "reason", "detail"),
    [
        (RuntimeError("out of memory"), Reason.ENGINE_FAILED, "RuntimeError: out of memory"),
        (_Speechless(), Reason.ENGINE_FAILED, "_Speechless"),
        (SystemExit(143), Reason.BOOT_INTERRUPTED, "the process is ending: SystemExit, exit status 143"),
        (SystemExit(0), Reason.BOOT_INTERRUPTED, "the process is ending: SystemExit, exit status 0"),
        (SystemExit(), Reason.BOOT_INTERRUPTED, "the process is ending: SystemExit"),
        (SystemExit("no GPU"), Reason.BOOT_INTERRUPTED, "the process is ending: SystemExit: no GPU"),
        (SystemExit(_Speechless()), Reason.BOOT_INTERRUPTED, "the process is ending: SystemExit"),
        (KeyboardInterrupt(), Reason.BOOT_INTERRUPTED, "the process is ending: KeyboardInterrupt"),
        (GeneratorExit(), Reason.BOOT_INTERRUPTED, "the process is ending: GeneratorExit"),
    ],
)
def test_an_error_is_told_from_an_end(error: BaseException, reason: Reason, detail: str):
    """What ends the process is no error of the engine; whatever it is, it is told in words."""
    assert engine_failure(error) == (reason, detail)
