"""Reads facts about an AMD device from the files of its Linux driver. ROCm's own libraries read the same files.

The files: https://docs.kernel.org/gpu/amdgpu/thermal.html and https://docs.kernel.org/gpu/amdgpu/driver-misc.html
"""

import errno
import platform
from pathlib import Path
from typing import Any, Final

from warmcurve.storage.fingerprint import Value
from warmcurve.vllm.device.facts import Fact

_ABSENT: Final = (errno.ENOENT, errno.ENOTDIR, errno.ENODEV, errno.ENODATA, errno.EOPNOTSUPP, errno.EINVAL)


class Directory:
    """The device's directory, found by its PCI address. torch has this address from 2.8 on."""

    def __init__(self, properties: Any, root: Path = Path("/sys")) -> None:
        self._root = root
        self._device: Path | None = None
        if hasattr(properties, "pci_bus_id"):
            address = f"{properties.pci_domain_id:04x}:{properties.pci_bus_id:02x}:{properties.pci_device_id:02x}.0"
            self._device = root / "bus/pci/devices" / address

    def driver(self) -> Value:
        """The version of the kernel, and that of the driver if it is not part of the kernel."""
        return " ".join(filter(None, (platform.release(), self._text(self._root / "module/amdgpu/version"))))

    def text(self, name: str) -> str | None:
        return None if self._device is None else self._text(self._device / name)

    def sensor(self, name: str, unit: int) -> int | None:
        """A number in thousandths or millionths, in whole units."""
        if self._device is None:
            return None
        for place in sorted((self._device / "hwmon").glob("hwmon*")):
            if found := self._text(place / name):
                return int(found) // unit
        return None

    def _text(self, path: Path) -> str | None:
        try:
            return path.read_text("ascii").strip()
        except OSError as error:
            if error.errno in _ABSENT:
                return None
            raise


FACTS: Final = (
    Fact("driver", "it schedules kernels and sets clocks", Directory.driver),
    Fact("power_limit_w", "a capped board lowers its clocks under load; virtual functions do not tell it",
         lambda device: device.sensor("power1_cap", 10**6), optional=True),
    Fact("compute_partition", "how many devices the board is cut into; older parts are not",
         lambda device: device.text("current_compute_partition"), optional=True),
    Fact("memory_partition", "which of its memory a device reaches", optional=True,
         ask=lambda device: device.text("current_memory_partition")),
)  # fmt: skip

CONDITIONS: Final = (
    Fact("sm_clock_mhz", "informs", lambda device: device.sensor("freq1_input", 10**6), optional=True),
    Fact("memory_clock_mhz", "informs", lambda device: device.sensor("freq2_input", 10**6), optional=True),
    Fact("temperature_c", "informs", lambda device: device.sensor("temp2_input", 10**3), optional=True),
    Fact("power_w", "informs", optional=True,
         ask=lambda device: device.sensor("power1_average", 10**6) or device.sensor("power1_input", 10**6)),
)  # fmt: skip
