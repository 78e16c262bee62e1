"""Describes a device by torch's properties of it, and by what its driver adds.

torch is asked about the runner's own device. vLLM's platform functions take logical indices, which are other numbers
with `--device-ids`. Nothing that identifies a single board is read: no UUID, serial number, address or index.
"""

import math
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from warmcurve.errors import FactorError
from warmcurve.outcome import Reason
from warmcurve.storage.fingerprint import Value
from warmcurve.vllm.device import amdgpu, nvml
from warmcurve.vllm.device.facts import Conditions, Fact, answers


def _memory_gib(properties: Any) -> int:
    gib = int(properties.total_memory) / 2**30
    if getattr(properties, "is_integrated", 0):
        # The system's memory, of which kernel and firmware keep some: 119.7 to 121.7 GiB of 128 on a GB10
        # (https://github.com/leptonai/gpud/pull/1170, https://github.com/Syllo/nvtop/issues/449).
        return 1 << (math.ceil(gib) - 1).bit_length()
    # Boards and slices come in quarters of a GiB (a 1g.10gb has 9.5), of which single boards may lack some MiB: the
    # limit between two numbers is kept away from all quarters.
    return math.floor(gib + 0.375)


def _architecture(properties: Any) -> str:
    return str(getattr(properties, "gcnArchName", f"{properties.major}.{properties.minor}"))


_PROPERTIES: Final = (
    Fact("name", "the part", lambda properties: str(properties.name)),
    Fact("architecture", "which kernels can run", _architecture),
    Fact("processors", "how wide a kernel runs; slices of a board differ", lambda p: int(p.multi_processor_count)),
    Fact("memory_gib", "how much memory, as sold; slices of a board differ", _memory_gib),
)


class Nvidia:
    """A CUDA device, given NVML's Python module."""

    def __init__(self, properties: Any, library: Any, driver: Path = Path("/proc/driver/nvidia/version")) -> None:
        self._properties = properties
        self._library = library
        self._driver = driver

    def factors(self) -> dict[str, Value]:
        factors = {"platform": "cuda", **answers(_PROPERTIES, self._properties)}
        with nvml.opened(self._library, getattr(self._properties, "uuid", None)) as board:
            if board is not None:
                return factors | answers(nvml.FACTS, board)
        # Jetson and Thor may have no NVML: https://docs.nvidia.com/jetson (vLLM: NonNvmlCudaPlatform)
        return factors | {fact.name: None for fact in nvml.FACTS} | {"driver": self._module()}

    def _module(self) -> str:
        try:
            return self._driver.read_text().splitlines()[0]
        except (OSError, IndexError, UnicodeDecodeError) as error:
            raise FactorError(Reason.FACTOR_UNKNOWN, "device.driver", f"neither NVML nor {self._driver}") from error

    def conditions(self) -> Conditions:
        with suppress(Exception), nvml.opened(self._library, getattr(self._properties, "uuid", None)) as board:
            return {} if board is None else answers(nvml.CONDITIONS, board)  # type: ignore[return-value]
        return {}


class Amd:
    """A ROCm device."""

    def __init__(self, properties: Any, root: Path = Path("/sys")) -> None:
        self._properties = properties
        self._directory = amdgpu.Directory(properties, root)

    def factors(self) -> dict[str, Value]:
        properties = answers(_PROPERTIES, self._properties)
        return {"platform": "rocm", **properties, **answers(amdgpu.FACTS, self._directory)}

    def conditions(self) -> Conditions:
        with suppress(Exception):
            return answers(amdgpu.CONDITIONS, self._directory)  # type: ignore[return-value]
        return {}


# Ascend's container images mount it: https://docs.vllm.ai/projects/ascend/en/latest/installation.html
_ASCEND: Final = Path("/usr/local/Ascend/driver/version.info")
_COUNTS: Final = (
    "multi_processor_count",
    "cube_core_num",
    "vector_core_num",
    "max_compute_units",
    "gpu_eu_count",
    "gpu_subslice_count",
    "architecture",
)


class Other:
    """A device of another platform, as torch describes it: Ascend, Intel, and platforms of plugins."""

    def __init__(self, platform: str, properties: Any, runtime: str | None = None, driver: Path = _ASCEND) -> None:
        self._platform = platform
        self.properties = properties
        self.runtime = runtime
        self._driver = driver

    def factors(self) -> dict[str, Value]:
        return {"platform": self._platform, **answers(_OTHER, self)}

    def conditions(self) -> Conditions:
        return {}

    def text(self, name: str) -> str | None:
        value = getattr(self.properties, name, None)
        return None if value is None else str(value)

    def driver(self) -> str | None:
        if (version := self.text("driver_version")) is not None:
            return version
        for line in self._driver.read_text().splitlines():
            if line.startswith("Version="):
                return line.removeprefix("Version=")
        return None


_OTHER: Final = (
    Fact("name", "the part", lambda device: device.text("name")),
    Fact("memory_gib", "how much memory", lambda device: _memory_gib(device.properties)),
    Fact("processors", "how wide a kernel runs; platforms call and count them differently",
         lambda device: {name: device.text(name) for name in _COUNTS}),
    Fact("driver", "it schedules kernels and sets clocks", Other.driver),
    Fact("runtime", "the platform's own libraries", lambda device: device.runtime, optional=True),
)  # fmt: skip
