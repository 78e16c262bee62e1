"""Reads facts about one device from NVML, the library behind nvidia-smi. The library is opened only for these
questions.

Nothing is ever set. The functions and their errors: https://docs.nvidia.com/deploy/nvml-api/
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Final

from warmcurve.errors import FactorError
from warmcurve.outcome import Reason
from warmcurve.storage.fingerprint import Value
from warmcurve.vllm.device.facts import Fact

# What has no answer now has none later. Other errors (a lost device, a time-out) pass, and are no answers.
_NONE: Final = (
    "NVML_ERROR_DRIVER_NOT_LOADED",
    "NVML_ERROR_FUNCTION_NOT_FOUND",
    "NVML_ERROR_INVALID_ARGUMENT",
    "NVML_ERROR_LIBRARY_NOT_FOUND",
    "NVML_ERROR_NOT_FOUND",
    "NVML_ERROR_NOT_SUPPORTED",
    "NVML_ERROR_NO_PERMISSION",
)


def _is_none(library: Any, error: Any) -> bool:
    return error.value in [getattr(library, name) for name in _NONE]


def _answer(library: Any, function: str, *arguments: Any) -> Any:
    """NVML's answer, or None if this part, its driver or this user gets no answer."""
    try:
        return getattr(library, function)(*arguments)
    except library.NVMLError as error:
        if _is_none(library, error):
            return None
        raise ValueError(f"{function}: {error}") from error


class Board:
    """A device that NVML knows. A MIG slice has no power or memory mode of its own. It has those of its board."""

    def __init__(self, library: Any, device: Any) -> None:
        self._library = library
        self._device = device

    @cached_property
    def is_slice(self) -> bool:
        return bool(self.ask("nvmlDeviceIsMigDeviceHandle"))

    @cached_property
    def _board(self) -> Any:
        whole = self.ask("nvmlDeviceGetDeviceHandleFromMigDeviceHandle") if self.is_slice else None
        return self._device if whole is None else whole

    def ask(self, function: str, *arguments: Any) -> Any:
        """The answer for the device itself."""
        return _answer(self._library, function, self._device, *arguments)

    def ask_board(self, function: str, *arguments: Any) -> Any:
        """The answer for the whole board."""
        return _answer(self._library, function, self._board, *arguments)

    def driver(self) -> Value:
        version = _answer(self._library, "nvmlSystemGetDriverVersion")
        return version.decode() if isinstance(version, bytes) else version

    def clock(self, kind: str) -> Any:
        return self.ask_board("nvmlDeviceGetClockInfo", getattr(self._library, kind))

    def temperature(self) -> Any:
        return self.ask_board("nvmlDeviceGetTemperature", self._library.NVML_TEMPERATURE_GPU)


def _watts(milliwatts: int | None) -> int | None:
    return None if milliwatts is None else milliwatts // 1000


def _mode(current_and_pending: Any) -> int | None:
    return None if current_and_pending is None else int(current_and_pending[0])


def _slice(board: Board) -> Value:
    if not board.is_slice or (attributes := board.ask("nvmlDeviceGetAttributes")) is None:
        return None
    return {
        "board": attributes.gpuInstanceSliceCount,
        "compute": attributes.computeInstanceSliceCount,
        "processors": attributes.multiprocessorCount,
        "copy_engines": attributes.sharedCopyEngineCount,
        "memory_mib": attributes.memorySizeMB,
    }


FACTS: Final = (
    Fact("driver", "it compiles kernels and sets clocks", Board.driver),
    Fact("power_limit_w", "a capped board lowers its clocks under load; unified parts have no limit of their own",
         lambda board: _watts(board.ask_board("nvmlDeviceGetEnforcedPowerLimit")), optional=True),
    Fact("mig", "slices share a board's power and memory; older parts have none",
         lambda board: _mode(board.ask_board("nvmlDeviceGetMigMode")), optional=True),
    Fact("mig_slice", "its share of the board; a whole board is none", _slice, optional=True),
    Fact("ecc", "it takes bandwidth, or memory; unified parts have none",
         lambda board: _mode(board.ask_board("nvmlDeviceGetEccMode")), optional=True),
)  # fmt: skip

CONDITIONS: Final = (
    Fact("sm_clock_mhz", "informs", lambda board: board.clock("NVML_CLOCK_SM"), optional=True),
    Fact("memory_clock_mhz", "informs", lambda board: board.clock("NVML_CLOCK_MEM"), optional=True),
    Fact("temperature_c", "informs", Board.temperature, optional=True),
    Fact("power_w", "informs", lambda board: _watts(board.ask_board("nvmlDeviceGetPowerUsage")), optional=True),
)


@contextmanager
def opened(library: Any, uuid: Any) -> Iterator[Board | None]:
    """The device with this UUID, or None if NVML is missing or does not know it. Raises `FactorError`.

    The UUID is needed because NVML's indices count all boards, also those that CUDA_VISIBLE_DEVICES or `--device-ids`
    leave out.
    """
    try:
        library.nvmlInit()
    except library.NVMLError as error:
        if not _is_none(library, error):
            raise FactorError(Reason.FACTOR_UNKNOWN, "device", f"nvmlInit: {error}") from error
        yield None
        return
    try:
        yield _board(library, uuid)
    finally:
        # Calls of init and shutdown are counted: vLLM's own use is not disturbed.
        library.nvmlShutdown()


def _board(library: Any, uuid: Any) -> Board | None:
    try:
        for kind in ("GPU", "MIG"):
            handle = _answer(library, "nvmlDeviceGetHandleByUUID", f"{kind}-{uuid}")
            if handle is not None:
                return Board(library, handle)
    except ValueError as error:
        raise FactorError(Reason.FACTOR_UNKNOWN, "device", str(error)) from error
    return None
