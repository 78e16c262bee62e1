"""The device behind its protocol: a CPU's own answers, an accelerator's from stand-ins of vLLM's platform and NVML."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from warmcurve.errors import FactorError
from warmcurve.fingerprint import fingerprint
from warmcurve.vllm.device import Accelerator, Cpu


class NvmlError(Exception):
    """As NVML's own, the parent of "not supported", "no permission" and the others."""


class FakeNvml:
    """NVML as far as it is asked; `missing` names what this part or its driver does not answer."""

    NVMLError = NvmlError
    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0

    def __init__(self, missing: tuple[str, ...] = (), uuid: str = "GPU-1234", **answers: Any) -> None:
        self.missing = missing
        self.uuid = uuid
        self.open = 0
        self.answers = {
            "nvmlSystemGetDriverVersion": "600.10",
            "nvmlDeviceGetEnforcedPowerLimit": 700_000,
            "nvmlDeviceGetMigMode": [0, 0],
            "nvmlDeviceGetEccMode": [1, 1],
            "nvmlDeviceGetClockInfo": 1980,
            "nvmlDeviceGetTemperature": 45,
            "nvmlDeviceGetPowerUsage": 95_500,
        } | answers

    def nvmlInit(self) -> None:  # noqa: N802  NVML's own name
        if "nvmlInit" in self.missing:
            raise NvmlError
        self.open += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.open -= 1

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:  # noqa: N802
        if uuid != self.uuid:
            raise NvmlError(uuid)
        return f"handle of {uuid}"

    def __getattr__(self, name: str) -> Any:
        def answer(*arguments: Any) -> Any:
            assert self.open == 1
            assert not arguments or arguments[0] == f"handle of {self.uuid}"
            if name in self.missing:
                raise NvmlError(name)
            return self.answers[name]

        return answer


def properties(**changes: Any) -> Any:
    """What torch says of a device."""
    given = {
        "name": "NVIDIA H200",
        "major": 9,
        "minor": 0,
        "multi_processor_count": 132,
        "total_memory": 150_754_820_096,
        "uuid": "1234",
    }
    return SimpleNamespace(**given | changes)


def test_boards_of_one_part_agree() -> None:
    """A board with a few MiB more or less and another serial number has the same factors."""
    one = Accelerator(properties(), FakeNvml()).factors()
    other = properties(total_memory=150_754_820_096 - 2**25, uuid="5678")
    assert one == Accelerator(other, FakeNvml(uuid="GPU-5678")).factors()
    assert one == {
        "platform": "cuda",
        "name": "NVIDIA H200",
        "architecture": "9.0",
        "processors": 132,
        "memory_gib": 140,
        "driver": "600.10",
        "power_limit_w": 700,
        "mig": 0,
        "ecc": 1,
    }


OTHERS = [
    (properties(), FakeNvml(nvmlDeviceGetEnforcedPowerLimit=500_000)),
    (properties(), FakeNvml(nvmlDeviceGetMigMode=[1, 1])),
    (properties(), FakeNvml(nvmlSystemGetDriverVersion=b"590.1")),
    (properties(), FakeNvml(("nvmlDeviceGetEccMode",))),
    (properties(name="NVIDIA H100"), FakeNvml()),
    (properties(minor=1), FakeNvml()),
    (properties(multi_processor_count=60, total_memory=2**36), FakeNvml(uuid="MIG-1234")),
    (properties(multi_processor_count=16, total_memory=2**34), FakeNvml(uuid="MIG-1234")),
]


def test_parts_limits_drivers_and_slices_are_told_apart() -> None:
    """Another part, a power cap, MIG and each of its slices, another driver, an unsupported query: all different."""
    digests = [fingerprint(Accelerator(*given).factors()) for given in OTHERS]
    digests.append(fingerprint(Accelerator(properties(), FakeNvml()).factors()))
    assert len(set(digests)) == len(digests)
    assert all(nvml.open == 0 for _, nvml in OTHERS)


@pytest.mark.parametrize("nvml", [FakeNvml(("nvmlInit",)), FakeNvml(uuid="GPU-another")])
def test_without_nvml_the_driver_is_the_kernel_modules(nvml: FakeNvml, tmp_path: Path) -> None:
    """Where NVML is missing or does not know the device, the loaded module tells the driver, or nothing is known."""
    module = tmp_path / "version"
    module.write_text("NVRM version: 540.4.0\nGCC version: 12\n")
    factors = Accelerator(properties(), nvml, module).factors()
    assert factors["driver"] == "NVRM version: 540.4.0"
    assert factors["power_limit_w"] is None
    assert nvml.open == 0
    with pytest.raises(FactorError, match=r"device\.driver"):
        Accelerator(properties(), nvml, tmp_path / "none").factors()


def test_a_rocm_device_is_its_architecture() -> None:
    """Without NVML torch's properties are what there is; the kernel brings the driver."""
    factors = Accelerator(properties(name="AMD Instinct MI350X", gcnArchName="gfx950:sramecc+:xnack-")).factors()
    assert factors["platform"] == "rocm"
    assert factors["architecture"] == "gfx950:sramecc+:xnack-"
    assert factors["driver"]


def test_conditions_never_raise() -> None:
    """What the device does right now is told where it can be, and is empty where it cannot."""
    told = Accelerator(properties(), FakeNvml(("nvmlDeviceGetPowerUsage",))).conditions()
    assert told == {"sm_clock_mhz": 1980, "memory_clock_mhz": 1980, "temperature_c": 45, "power_w": None}
    assert Accelerator(properties(), FakeNvml(("nvmlInit",))).conditions() == {}
    assert Accelerator(properties(), FakeNvml(uuid="GPU-another")).conditions() == {}
    assert Accelerator(properties()).conditions() == {}


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
