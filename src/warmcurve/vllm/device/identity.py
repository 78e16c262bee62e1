"""Which device the curves were measured on, behind one small protocol.

vLLM's `current_platform` says which kind it is. torch, NVML and Linux say the rest. Only the answers of a CPU were read
from a real machine. Those of accelerators are published records of other people (`tests/plugin/devices/`).
"""

import os
import platform
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import msgspec

from warmcurve.errors import FactorError
from warmcurve.outcome import Reason
from warmcurve.storage.fingerprint import Value
from warmcurve.vllm.device.accelerator import Amd, Nvidia, Other
from warmcurve.vllm.device.facts import Conditions as Conditions


class Device(Protocol):
    def factors(self) -> dict[str, Value]:
        """The facts that its curves depend on: part, capability, memory in GiB, driver, limits.

        Boards of one part have the same facts. There is no index and no serial number. Raises `FactorError`.
        """

    def conditions(self) -> Conditions:
        """Facts that may differ between two boots on this device: clocks, temperature, load. It never raises."""


def device_of(runner: Any) -> Device:
    """The device that this model runner runs on. Raises `FactorError` for an unknown kind of device."""
    import torch
    from vllm.platforms import current_platform

    if current_platform.is_cpu():
        return Cpu()
    backend = getattr(torch, current_platform.device_type, None)
    if backend is None or not hasattr(backend, "get_device_properties"):
        problem = f"torch cannot tell devices of {current_platform.device_name}"
        raise FactorError(Reason.FACTOR_UNKNOWN, "device", problem)
    properties = backend.get_device_properties(runner.device)
    if current_platform.is_rocm():
        return Amd(properties)
    if not current_platform.is_cuda():
        runtime = getattr(torch.version, "cann", None) or getattr(torch.version, "xpu", None)
        return Other(current_platform.device_name, properties, runtime)
    from vllm.utils.import_utils import import_pynvml

    return Nvidia(properties, import_pynvml())


def machine_of(runner: Any) -> str:
    """A name for this machine that stays the same from boot to boot. It is the device's name, if it has one, because a
    container gets another host name at each start.
    """
    import torch

    with suppress(Exception):
        backend = getattr(torch, runner.device.type)
        if uuid := getattr(backend.get_device_properties(runner.device), "uuid", None):
            return f"{runner.device.type} {uuid}"
    return platform.node()


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
            raise FactorError(Reason.FACTOR_UNKNOWN, "device.name", f"{self.cpuinfo} does not have the CPU's model")
        return " ".join(found[name] for name in wanted if name in found)
