"""Which device the curves were measured on, behind one small protocol.

Only the CPU's answers were read off a live machine. The accelerator's follow vLLM's platform interface and NVML's
documentation; no GPU has run them yet.
"""

import os
import platform
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import msgspec

from warmcurve.errors import FactorError
from warmcurve.fingerprint import Value
from warmcurve.outcome import Reason

Conditions = Mapping[str, str | int | float | bool | None]


class Device(Protocol):
    def factors(self) -> dict[str, Value]:
        """What makes this device's curves its own: part, capability, memory in GiB, driver, limits. Boards of one
        part agree; no index, no serial number. Raises `FactorError`.
        """

    def conditions(self) -> Conditions:
        """What may differ between two boots on this device: clocks, temperature, load. Never raises."""


def device_of(runner: Any) -> Device:
    """The device that this model runner runs on."""
    from vllm.platforms import current_platform

    if current_platform.is_cpu():
        return Cpu()
    return Accelerator(current_platform, runner.device.index or 0)


class Cpu(msgspec.Struct, frozen=True):
    cpuinfo: Path = Path("/proc/cpuinfo")

    def factors(self) -> dict[str, Value]:
        return {
            "platform": "cpu",
            "machine": platform.machine(),
            "name": self._model(),
            "cores": len(os.sched_getaffinity(0)),
        }

    def conditions(self) -> Conditions:
        return {"load_1m": round(os.getloadavg()[0], 2)}

    def _model(self) -> str:
        # Arm kernels print no "model name", but the numbers that stand for it.
        wanted = ("model name", "CPU implementer", "CPU part", "CPU variant")
        found: dict[str, str] = {}
        with suppress(OSError):
            for line in self.cpuinfo.read_text("utf-8", "replace").splitlines():
                name, _, value = line.partition(":")
                if name.strip() in wanted:
                    found.setdefault(name.strip(), value.strip())
        if not found:
            raise FactorError(Reason.FACTOR_UNKNOWN, "device.name", f"{self.cpuinfo} does not tell the CPU's model")
        return " ".join(found[name] for name in wanted if name in found)


class Accelerator:
    """`platform` is vLLM's `current_platform`, `nvml` the NVML module or None to use the one vLLM ships."""

    def __init__(self, platform: Any, index: int, nvml: Any = None) -> None:
        self._platform = platform
        self._index = index
        self._nvml = nvml

    def factors(self) -> dict[str, Value]:
        capability = self._platform.get_device_capability(self._index)
        factors: dict[str, Value] = {
            "platform": str(self._platform.device_type),
            "name": str(self._platform.get_device_name(self._index)),
            "capability": None if capability is None else str(capability.as_version_str()),
            "memory_gib": round(self._memory() / 2**30),
        }
        if self._platform.is_cuda():
            factors |= self._nvidia()
        return factors

    def _memory(self) -> int:
        # Unified-memory parts answer NVML's memory query with "not supported"; torch knows all the same.
        with suppress(Exception):
            return int(self._platform.get_device_total_memory(self._index))
        import torch

        return int(torch.cuda.get_device_properties(self._index).total_memory)

    def _nvidia(self) -> dict[str, Value]:
        try:
            with self._opened() as (nvml, handle):
                return {
                    "driver": _text(nvml.nvmlSystemGetDriverVersion()),
                    "power_limit_w": _ask(nvml, lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle) // 1000),
                    "mig": _ask(nvml, lambda: int(nvml.nvmlDeviceGetMigMode(handle)[0])),
                    "ecc": _ask(nvml, lambda: int(nvml.nvmlDeviceGetEccMode(handle)[0])),
                }
        except FactorError:
            raise
        except Exception as error:
            raise FactorError(Reason.FACTOR_UNKNOWN, "device.driver", f"NVML: {error}") from error

    def conditions(self) -> Conditions:
        if not self._platform.is_cuda():
            return {}
        with suppress(Exception), self._opened() as (nvml, handle):
            return {
                "sm_clock_mhz": _ask(nvml, lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)),
                "memory_clock_mhz": _ask(nvml, lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM)),
                "temperature_c": _ask(nvml, lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)),
                "power_w": _ask(nvml, lambda: nvml.nvmlDeviceGetPowerUsage(handle) // 1000),
            }
        return {}

    def _opened(self) -> "_Nvml":
        nvml = self._nvml
        if nvml is None:
            from vllm.utils.import_utils import import_pynvml

            nvml = import_pynvml()
        return _Nvml(nvml, self._platform.device_id_to_physical_device_id(self._index))


class _Nvml:
    """NVML between its init and its shutdown, which count: vLLM's own use is not disturbed."""

    def __init__(self, nvml: Any, physical: int) -> None:
        self._nvml = nvml
        self._physical = physical

    def __enter__(self) -> tuple[Any, Any]:
        self._nvml.nvmlInit()
        return self._nvml, self._nvml.nvmlDeviceGetHandleByIndex(self._physical)

    def __exit__(self, *exception: object) -> None:
        self._nvml.nvmlShutdown()


def _ask(nvml: Any, question: Any) -> int | None:
    """The answer, or None where this part or its driver does not know the question: that too tells parts apart."""
    try:
        return int(question())
    except (nvml.NVMLError_NotSupported, nvml.NVMLError_FunctionNotFound):
        return None


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
