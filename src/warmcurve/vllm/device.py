"""Which device the curves were measured on, behind one small protocol.

Only the CPU's answers were read off a live machine. The accelerator's follow the documentation of torch and of NVML; no
GPU has run them yet.
"""

import os
import platform
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
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
    """The device that this model runner runs on. Raises `FactorError` for a kind that cannot be told apart yet."""
    from vllm.platforms import current_platform

    if current_platform.is_cpu():
        return Cpu()
    if not current_platform.is_cuda_alike():
        problem = f"no way yet to tell devices of {current_platform.device_name}"
        raise FactorError(Reason.FACTOR_UNKNOWN, "device", problem)
    import torch
    from vllm.utils.import_utils import import_pynvml

    nvml = import_pynvml() if current_platform.is_cuda() else None
    return Accelerator(torch.cuda.get_device_properties(runner.device), nvml)


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
    """A CUDA or ROCm device by its `properties` as torch has them, and NVML where there is one.

    Torch is asked about the runner's own device. vLLM's platform functions take logical indices, which are other
    numbers where devices are chosen (`--device-ids`), and NVML's indices count boards, not MIG slices.
    """

    def __init__(self, properties: Any, nvml: Any = None, driver: Path = Path("/proc/driver/nvidia/version")) -> None:
        self._properties = properties
        self._nvml = nvml
        self._driver = driver

    def factors(self) -> dict[str, Value]:
        properties = self._properties
        factors: dict[str, Value] = {
            "platform": "rocm" if self._nvml is None else "cuda",
            "name": str(properties.name),
            "architecture": str(getattr(properties, "gcnArchName", f"{properties.major}.{properties.minor}")),
            # Tell the slices of a board apart, too.
            "processors": int(properties.multi_processor_count),
            "memory_gib": round(properties.total_memory / 2**30),
        }
        return factors | ({"driver": platform.release()} if self._nvml is None else self._nvidia())

    def _nvidia(self) -> dict[str, Value]:
        nvml = self._nvml
        with self._opened() as handle:
            if handle is None:
                # Jetson and Thor have no NVML: https://docs.nvidia.com/jetson (vLLM: NonNvmlCudaPlatform)
                return {"driver": self._module(), "power_limit_w": None, "mig": None, "ecc": None}
            return {
                "driver": _text(nvml.nvmlSystemGetDriverVersion()),
                "power_limit_w": _ask(nvml, lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle) // 1000),
                "mig": _ask(nvml, lambda: nvml.nvmlDeviceGetMigMode(handle)[0]),
                "ecc": _ask(nvml, lambda: nvml.nvmlDeviceGetEccMode(handle)[0]),
            }

    def _module(self) -> str:
        try:
            return self._driver.read_text().splitlines()[0]
        except (OSError, IndexError, UnicodeDecodeError) as error:
            raise FactorError(Reason.FACTOR_UNKNOWN, "device.driver", f"neither NVML nor {self._driver}") from error

    def conditions(self) -> Conditions:
        nvml = self._nvml
        if nvml is None:
            return {}
        with suppress(Exception), self._opened() as handle:
            if handle is not None:
                return {
                    "sm_clock_mhz": _ask(nvml, lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)),
                    "memory_clock_mhz": _ask(nvml, lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM)),
                    "temperature_c": _ask(
                        nvml, lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)
                    ),
                    "power_w": _ask(nvml, lambda: nvml.nvmlDeviceGetPowerUsage(handle) // 1000),
                }
        return {}

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        """NVML's handle of this very device, or None where NVML does not know it."""
        nvml = self._nvml
        try:
            nvml.nvmlInit()
        except nvml.NVMLError:
            yield None
            return
        try:
            yield self._handle()
        finally:
            # Calls of init and shutdown are counted: vLLM's own use is not disturbed.
            nvml.nvmlShutdown()

    def _handle(self) -> Any:
        identity = getattr(self._properties, "uuid", None)
        for kind in ("GPU", "MIG"):
            with suppress(self._nvml.NVMLError):
                return self._nvml.nvmlDeviceGetHandleByUUID(f"{kind}-{identity}")
        return None


def _ask(nvml: Any, question: Callable[[], int]) -> int | None:
    """The answer, or None where this part, its driver or this user gets none: that too tells parts apart."""
    try:
        return int(question())
    except nvml.NVMLError:
        return None


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
