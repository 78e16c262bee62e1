"""The device behind its protocol: a CPU's own answers, an accelerator's from stand-ins of vLLM's platform and NVML."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from warmcurve.errors import FactorError
from warmcurve.fingerprint import fingerprint
from warmcurve.vllm.device import Accelerator, Cpu


class NotSupportedError(Exception):
    pass


class FakeNvml:
    """NVML as far as it is asked; `missing` names the queries that this part does not support."""

    NVMLError_NotSupported = NotSupportedError
    NVMLError_FunctionNotFound = AttributeError
    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0

    def __init__(self, missing: tuple[str, ...] = (), **answers: Any) -> None:
        self.missing = missing
        self.open = 0
        self.answers = {
            "nvmlSystemGetDriverVersion": "600.10",
            "nvmlDeviceGetHandleByIndex": "handle",
            "nvmlDeviceGetEnforcedPowerLimit": 700_000,
            "nvmlDeviceGetMigMode": [0, 0],
            "nvmlDeviceGetEccMode": [1, 1],
            "nvmlDeviceGetClockInfo": 1980,
            "nvmlDeviceGetTemperature": 45,
            "nvmlDeviceGetPowerUsage": 95_500,
        } | answers

    def nvmlInit(self) -> None:  # noqa: N802  NVML's own name
        self.open += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.open -= 1

    def __getattr__(self, name: str) -> Any:
        def answer(*_: Any) -> Any:
            assert self.open == 1
            if name in self.missing:
                raise NotSupportedError(name)
            return self.answers[name]

        return answer


def platform(name: str = "NVIDIA H200", memory: int | None = 150_754_820_096, **changes: Any) -> Any:
    def total(_: int) -> int:
        if memory is None:
            raise NotSupportedError
        return memory

    return SimpleNamespace(
        device_type="cuda",
        is_cuda=lambda: True,
        get_device_name=lambda _: name,
        get_device_capability=lambda _: SimpleNamespace(as_version_str=lambda: "9.0"),
        get_device_total_memory=total,
        device_id_to_physical_device_id=lambda index: index + 4,
        **changes,
    )


def test_boards_of_one_part_agree() -> None:
    """A board with a few MiB more or less, at another index, has the same factors."""
    one = Accelerator(platform(), 0, FakeNvml()).factors()
    assert one == Accelerator(platform(memory=150_754_820_096 - 2**25), 3, FakeNvml()).factors()
    assert one == {
        "platform": "cuda",
        "name": "NVIDIA H200",
        "capability": "9.0",
        "memory_gib": 140,
        "driver": "600.10",
        "power_limit_w": 700,
        "mig": 0,
        "ecc": 1,
    }


@pytest.mark.parametrize(
    "nvml",
    [
        FakeNvml(nvmlDeviceGetEnforcedPowerLimit=500_000),
        FakeNvml(nvmlDeviceGetMigMode=[1, 1]),
        FakeNvml(nvmlSystemGetDriverVersion=b"590.1"),
        FakeNvml(("nvmlDeviceGetEccMode",)),
    ],
)
def test_limits_and_drivers_tell_boards_apart(nvml: FakeNvml) -> None:
    """A power cap, MIG, another driver, a query that is not supported: another fingerprint."""
    stock = fingerprint(Accelerator(platform(), 0, FakeNvml()).factors())
    assert fingerprint(Accelerator(platform(), 0, nvml).factors()) != stock
    assert nvml.open == 0


def test_an_nvml_that_fails_is_an_unknown_factor() -> None:
    """Where NVML cannot be asked at all, the device is not known."""
    nvml = FakeNvml()
    nvml.nvmlInit = lambda: (_ for _ in ()).throw(RuntimeError("no driver"))  # type: ignore[method-assign]
    with pytest.raises(FactorError, match=r"device\.driver: NVML: no driver"):
        Accelerator(platform(), 0, nvml).factors()


def test_conditions_never_raise() -> None:
    """What the device does right now is told where it can be, and is empty where it cannot."""
    told = Accelerator(platform(), 0, FakeNvml(("nvmlDeviceGetPowerUsage",))).conditions()
    assert told == {"sm_clock_mhz": 1980, "memory_clock_mhz": 1980, "temperature_c": 45, "power_w": None}
    broken = FakeNvml()
    broken.nvmlInit = lambda: (_ for _ in ()).throw(RuntimeError("no driver"))  # type: ignore[method-assign]
    assert Accelerator(platform(), 0, broken).conditions() == {}


def test_a_cpu_is_its_model_and_its_cores(tmp_path: Path) -> None:
    """x86 and Arm kernels tell the model in different words; a kernel that tells nothing makes it unknown."""
    x86, arm, none = tmp_path / "x86", tmp_path / "arm", tmp_path / "none"
    x86.write_text("processor\t: 0\nmodel name\t: Example 9000\nprocessor\t: 1\nmodel name\t: Example 9000\n")
    arm.write_text("processor : 0\nCPU implementer\t: 0x41\nCPU variant\t: 0x1\nCPU part\t: 0xd4f\n")
    none.write_text("")
    assert Cpu(x86).factors()["name"] == "Example 9000"
    assert Cpu(arm).factors()["name"] == "0x41 0xd4f 0x1"
    with pytest.raises(FactorError, match=r"device\.name"):
        Cpu(none).factors()
    assert isinstance(Cpu().conditions()["load_1m"], float)
