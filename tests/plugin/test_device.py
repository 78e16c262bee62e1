"""Devices behind their protocol: published records of real ones (`devices/`), and a CPU's own answers."""

import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmcurve.errors import FactorError
from warmcurve.storage.fingerprint import fingerprint
from warmcurve.vllm.device import amdgpu, nvml
from warmcurve.vllm.device.accelerator import Amd, Nvidia, Other
from warmcurve.vllm.device.identity import Cpu, Device, device_of

RECORDS = {path.stem: json.loads(path.read_bytes()) for path in sorted(Path(__file__).parent.glob("devices/*.json"))}
H200 = RECORDS["h200"]


class NvmlError(Exception):
    """As NVML's own: its number says which."""

    def __init__(self, value: int) -> None:
        super().__init__(f"error {value}")
        self.value = value


class FakeNvml:
    """NVML with these boards and slices. What a record has null is not supported."""

    NVMLError = NvmlError
    NVML_ERROR_INVALID_ARGUMENT, NVML_ERROR_NOT_SUPPORTED, NVML_ERROR_NO_PERMISSION = 2, 3, 4
    NVML_ERROR_NOT_FOUND, NVML_ERROR_DRIVER_NOT_LOADED, NVML_ERROR_LIBRARY_NOT_FOUND = 6, 9, 12
    NVML_ERROR_FUNCTION_NOT_FOUND = 13
    TIMEOUT = 10
    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 0, 1, 0

    def __init__(self, *boards: dict[str, Any], errors: dict[str, int] | None = None) -> None:
        self.boards = {board["uuid"]: board for board in boards}
        self.errors = errors or {}
        self.open = 0

    def nvmlInit(self) -> None:  # noqa: N802  NVML's own name
        if "nvmlInit" in self.errors:
            raise NvmlError(self.errors["nvmlInit"])
        self.open += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.open -= 1

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> Any:  # noqa: N802
        if "nvmlDeviceGetHandleByUUID" in self.errors:
            raise NvmlError(self.errors["nvmlDeviceGetHandleByUUID"])
        if uuid not in self.boards:
            raise NvmlError(self.NVML_ERROR_NOT_FOUND)
        return ("device", uuid)

    def __getattr__(self, name: str) -> Any:
        def answer(handle: Any = None, *arguments: Any) -> Any:
            assert self.open == 1
            if name in self.errors:
                raise NvmlError(self.errors[name])
            board = self.boards[handle[1]] if handle else next(iter(self.boards.values()))
            found = board.get(name)
            if isinstance(found, list) and name == "nvmlDeviceGetClockInfo":
                found = found[arguments[0]]
            if found is None:
                raise NvmlError(self.NVML_ERROR_NOT_SUPPORTED)
            if found == "board":
                return ("board", handle[1])
            if board["nvmlDeviceIsMigDeviceHandle"] and handle:
                # Of a slice only what is its own; the rest is its board's.
                assert (handle[0] == "device") is (name in ("nvmlDeviceIsMigDeviceHandle", "nvmlDeviceGetAttributes"))
            return SimpleNamespace(**found) if isinstance(found, dict) else found

        return answer


def torch_says(record: dict[str, Any], **changes: Any) -> Any:
    return SimpleNamespace(**record["torch"] | changes)


def build(record: dict[str, Any], place: Path, monkeypatch: pytest.MonkeyPatch) -> Device:
    """The device of a record."""
    if record["kind"] == "nvidia":
        return Nvidia(torch_says(record), FakeNvml(record["nvml"]), place / "none")
    if record["kind"] == "amd":
        monkeypatch.setattr("platform.release", lambda: record["kernel"])
        for name, text in record["files"].items():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_text(text)
        return Amd(torch_says(record), place)
    driver = place / "version.info"
    if record["driver"]:
        driver.write_text(record["driver"])
    return Other(record["platform"], torch_says(record), record["runtime"], driver)


@pytest.mark.parametrize("name", RECORDS)
def test_a_real_device(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the device answers makes these factors and conditions."""
    record = RECORDS[name]
    device = build(record, tmp_path, monkeypatch)
    assert device.factors() == record["factors"]
    assert device.conditions() == record["conditions"]


def test_real_devices_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No two of them share a fingerprint."""
    digests = set()
    for name, record in RECORDS.items():
        (tmp_path / name).mkdir()
        digests.add(fingerprint(build(record, tmp_path / name, monkeypatch).factors()))
    assert len(digests) == len(RECORDS)


NVIDIA = [name for name, record in RECORDS.items() if record["kind"] == "nvidia"]


@pytest.mark.parametrize("name", NVIDIA)
def test_boards_of_one_part_agree(name: str) -> None:
    """Another UUID, another place on the bus, a few MiB more or less, a hotter and busier board: the same factors."""
    record = RECORDS[name]
    kind = record["nvml"]["uuid"][:3]
    other = record["nvml"] | {
        "uuid": f"{kind}-5678",
        "nvmlDeviceGetTemperature": 80,
        "nvmlDeviceGetClockInfo": [999, None],
        "nvmlDeviceGetPowerUsage": 1,
    }
    memory = record["torch"]["total_memory"] - 2**25
    second = Nvidia(torch_says(record, uuid="5678", total_memory=memory, pci_bus_id=99), FakeNvml(other))
    assert second.factors() == record["factors"]
    assert second.conditions() != record["conditions"]


@given(st.integers(4, 4 * 512), st.integers(0, 2**26))
def test_a_few_missing_mib_change_nothing(quarters: int, missing: int) -> None:
    """Memory comes in quarters of a GiB; boards that lack up to 64 MiB of it agree."""
    memory = quarters * 2**28
    whole, less = (Nvidia(torch_says(H200, total_memory=m), FakeNvml(H200["nvml"])) for m in (memory, memory - missing))
    assert whole.factors() == less.factors()


def test_unified_memory_is_told_as_sold() -> None:
    """Kernel and firmware keep other shares of a GB10's 128 GiB: 119.7 and 121.6 GiB were seen; half of it differs."""
    record = RECORDS["gb10"]
    for memory, told in ((128_501_256_192, 128), (130_602_405_888, 128), (2**37, 128), (64_000_000_000, 64)):
        device = Nvidia(torch_says(record, total_memory=memory), FakeNvml(record["nvml"]))
        assert device.factors()["memory_gib"] == told


CHANGES: dict[str, dict[str, Any]] = {
    "power_limit_w": {"nvmlDeviceGetEnforcedPowerLimit": 500_000},
    "mig": {"nvmlDeviceGetMigMode": [1, 1]},
    "driver": {"nvmlSystemGetDriverVersion": b"590.1"},
    "ecc": {"nvmlDeviceGetEccMode": [0, 1]},
}


@pytest.mark.parametrize("name", CHANGES)
def test_another_state_is_another_key(name: str) -> None:
    """A power cap, MIG, another driver, ECC: each is another fingerprint, by its own name."""
    changed = Nvidia(torch_says(H200), FakeNvml(H200["nvml"] | CHANGES[name])).factors()
    assert {key for key in changed if changed[key] != H200["factors"][key]} == {name}
    assert fingerprint(changed) != fingerprint(H200["factors"])


def test_slices_are_told_apart() -> None:
    """Two profiles of one board, and the board itself."""
    record = RECORDS["a100-mig-1g.10gb"]
    profile = record["nvml"]["nvmlDeviceGetAttributes"]
    others = [profile, profile | {"computeInstanceSliceCount": 2}, profile | {"memorySizeMB": 19_968}]
    devices = [Nvidia(torch_says(record), FakeNvml(record["nvml"] | {"nvmlDeviceGetAttributes": a})) for a in others]
    # CUDA may give a slice its board's UUID: then torch's properties tell it.
    whole = H200["nvml"] | {"uuid": "GPU-28f9cfba-f647-5fbd-9ffc-289d76ab68c3", "nvmlDeviceGetMigMode": [1, 1]}
    devices += [Nvidia(torch_says(record, multi_processor_count=count), FakeNvml(whole)) for count in (14, 28)]
    assert len({fingerprint(device.factors()) for device in devices}) == len(devices)


def test_the_device_is_found_by_its_uuid() -> None:
    """Among several boards NVML is asked about torch's own, whatever index each of them gives it."""
    capped = H200["nvml"] | {"uuid": "GPU-1", "nvmlDeviceGetEnforcedPowerLimit": 500_000}
    library = FakeNvml(capped, H200["nvml"])
    assert Nvidia(torch_says(H200), library).factors()["power_limit_w"] == 700
    assert Nvidia(torch_says(H200, uuid="1"), library).factors()["power_limit_w"] == 500
    assert library.open == 0


@pytest.mark.parametrize("fact", [fact for fact in nvml.FACTS if fact.optional], ids=lambda fact: fact.name)
def test_an_optional_fact_that_is_not_told_is_null(fact: Any) -> None:
    """Not supported, not permitted, not in this library: null, which differs from any answer."""
    asked = {"power_limit_w": "EnforcedPowerLimit", "mig": "MigMode", "mig_slice": "Attributes", "ecc": "EccMode"}
    for value in (3, 4, 13):
        library = FakeNvml(H200["nvml"], errors={f"nvmlDeviceGet{asked[fact.name]}": value})
        assert Nvidia(torch_says(H200), library).factors()[fact.name] is None


QUESTIONS = {
    "nvmlInit": "device",
    "nvmlDeviceGetHandleByUUID": "device",
    "nvmlSystemGetDriverVersion": "device.driver",
    "nvmlDeviceIsMigDeviceHandle": "device.power_limit_w",
    "nvmlDeviceGetEnforcedPowerLimit": "device.power_limit_w",
    "nvmlDeviceGetMigMode": "device.mig",
    "nvmlDeviceGetEccMode": "device.ecc",
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_that_fails_for_now_is_unknown(question: str) -> None:
    """A time-out is no answer, not even "none": neither load nor store, with the factor's name."""
    library = FakeNvml(H200["nvml"], errors={question: FakeNvml.TIMEOUT})
    with pytest.raises(FactorError) as caught:
        Nvidia(torch_says(H200), library).factors()
    assert caught.value.factor == QUESTIONS[question]
    assert library.open == 0


def test_a_driver_that_is_not_told_is_unknown() -> None:
    """The driver is not optional."""
    library = FakeNvml(H200["nvml"] | {"nvmlSystemGetDriverVersion": None})
    with pytest.raises(FactorError, match=r"device\.driver: the device gave no answer"):
        Nvidia(torch_says(H200), library).factors()


@pytest.mark.parametrize("library", [FakeNvml(errors={"nvmlInit": 12}), FakeNvml(H200["nvml"] | {"uuid": "GPU-2"})])
def test_without_nvml_the_driver_is_the_kernel_modules(library: FakeNvml, tmp_path: Path) -> None:
    """Where NVML is missing or does not know the device, the loaded module tells the driver, or nothing is known."""
    module = tmp_path / "version"
    module.write_text("NVRM version: 540.4.0\nGCC version: 12\n")
    factors = Nvidia(torch_says(H200), library, module).factors()
    assert factors["driver"] == "NVRM version: 540.4.0"
    assert factors.keys() == H200["factors"].keys()
    assert factors["power_limit_w"] is None
    assert Nvidia(torch_says(H200), library, module).conditions() == {}
    assert library.open == 0
    with pytest.raises(FactorError, match=r"device\.driver"):
        Nvidia(torch_says(H200), library, tmp_path / "none").factors()


@pytest.mark.parametrize("property_", ["name", "multi_processor_count", "total_memory", "major"])
def test_a_property_that_torch_does_not_have_is_unknown(property_: str) -> None:
    """Another torch may call it otherwise: an error with the factor's name, no other."""
    says = torch_says(H200)
    delattr(says, property_)
    with pytest.raises(FactorError, match=r"^factor_unknown: device\."):
        Nvidia(says, FakeNvml(H200["nvml"])).factors()


def test_conditions_never_raise() -> None:
    """Whatever is raised while they are read, conditions only inform."""

    class Broken:
        def __getattr__(self, name: str) -> Any:
            raise RuntimeError(name)

    assert Nvidia(Broken(), FakeNvml()).conditions() == {}
    assert Nvidia(torch_says(H200), Broken()).conditions() == {}
    told = FakeNvml(H200["nvml"], errors={"nvmlDeviceGetPowerUsage": 3})
    assert Nvidia(torch_says(H200), told).conditions() == H200["conditions"] | {"power_w": None}


def test_partitions_and_caps_of_an_amd_board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each file of the driver is another key; a sensor that fails is unknown; without an address there are none."""
    record = RECORDS["mi350x"]
    device = build(record, tmp_path, monkeypatch)
    place = tmp_path / "bus/pci/devices/0000:05:00.0"
    digests = {fingerprint(device.factors())}
    for name, text in {
        "current_compute_partition": "CPX\n",
        "current_memory_partition": "NPS4\n",
        "hwmon/hwmon4/power1_cap": "750000000\n",
    }.items():
        (place / name).write_text(text)
        digests.add(fingerprint(device.factors()))
    assert len(digests) == 4
    (place / "hwmon/hwmon4/power1_cap").write_text("much")
    with pytest.raises(FactorError, match=r"device\.power_limit_w"):
        device.factors()
    assert device.conditions() == record["conditions"]
    (place / "current_compute_partition").unlink()
    (place / "current_compute_partition").mkdir()
    with pytest.raises(FactorError, match=r"device\.(power_limit_w|compute_partition)"):
        device.factors()
    says = torch_says(record)
    del says.pci_bus_id
    factors = Amd(says, tmp_path).factors()
    assert [factors[fact.name] for fact in amdgpu.FACTS if fact.optional] == [None, None, None]


def test_another_platform_without_a_driver_is_unknown(tmp_path: Path) -> None:
    """Neither torch nor the file of the driver tells it."""
    says = torch_says(RECORDS["ascend-910b2c"])
    with pytest.raises(FactorError, match=r"device\.driver"):
        Other("npu", says, None, tmp_path / "none").factors()
    (tmp_path / "version.info").write_text("ascendhal_version=7\n")
    with pytest.raises(FactorError, match=r"device\.driver: the device gave no answer"):
        Other("npu", says, None, tmp_path / "version.info").factors()


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Stands in for vLLM's platform and for torch: two devices of another power limit."""
    asked: list[Any] = []

    def get_device_properties(device: Any) -> Any:
        asked.append(device)
        return torch_says(H200, uuid=f"{device}")

    platform = SimpleNamespace(kind="cuda", device_type="cuda", device_name="cuda")
    for kind in ("cpu", "cuda", "rocm"):
        setattr(platform, f"is_{kind}", lambda kind=kind: platform.kind == kind)
    modules: dict[str, dict[str, Any]] = {
        "torch": {
            "cuda": SimpleNamespace(get_device_properties=get_device_properties),
            "npu": SimpleNamespace(get_device_properties=get_device_properties),
            "version": SimpleNamespace(cann="8.3"),
        },
        "vllm": {},
        "vllm.platforms": {"current_platform": platform},
        "vllm.utils": {},
        "vllm.utils.import_utils": {
            "import_pynvml": lambda: FakeNvml(
                H200["nvml"] | {"uuid": "GPU-cuda:0"},
                H200["nvml"] | {"uuid": "GPU-cuda:1", "nvmlDeviceGetEnforcedPowerLimit": 500_000},
            )
        },
    }
    for name, contents in modules.items():
        module = ModuleType(name)
        for key, value in contents.items():
            setattr(module, key, value)
        monkeypatch.setitem(sys.modules, name, module)
    return SimpleNamespace(platform=platform, asked=asked)


def test_the_runners_own_device_is_asked(machine: Any) -> None:
    """Not the platform's first one, nor one of a logical index."""
    for device, limit in (("cuda:1", 500), ("cuda:0", 700)):
        assert device_of(SimpleNamespace(device=device)).factors()["power_limit_w"] == limit
    assert machine.asked == ["cuda:1", "cuda:0"]


def test_the_platform_says_which_kind_it_is(machine: Any) -> None:
    """A CPU, ROCm, a plugin's platform by torch's module for it, and one that torch does not know."""
    runner = SimpleNamespace(device="d")
    machine.platform.kind = "cpu"
    assert isinstance(device_of(runner), Cpu)
    machine.platform.kind = "rocm"
    assert isinstance(device_of(runner), Amd)
    machine.platform.kind, machine.platform.device_type = "oot", "npu"
    assert isinstance(device_of(runner), Other)
    machine.platform.device_type, machine.platform.device_name = "tpu", "TPU v7"
    with pytest.raises(FactorError, match="torch cannot tell devices of TPU v7"):
        device_of(runner)


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
