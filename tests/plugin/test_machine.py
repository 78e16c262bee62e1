"""The name by which a machine is known from boot to boot."""

import platform
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from warmcurve.vllm.device.identity import machine_of

UUID = "5a0b3d1e-7c0f-4f65-9a53-1e1a0f2d7c11"


class Uuid:
    """As torch's own: no text, but it has one."""

    def __str__(self) -> str:
        return UUID


def _fail(device: Any) -> Any:
    raise RuntimeError("planted")


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A torch with two boards behind `cuda`, none behind `cpu`, and some that do not tell."""

    def properties(device: Any) -> Any:
        return SimpleNamespace(uuid=Uuid() if device.index == 0 else "another")

    module: Any = ModuleType("torch")
    module.cpu = SimpleNamespace()
    module.cuda = SimpleNamespace(get_device_properties=properties)
    module.xpu = SimpleNamespace(get_device_properties=lambda device: SimpleNamespace())
    module.npu = SimpleNamespace(get_device_properties=lambda device: SimpleNamespace(uuid=None))
    module.broken = SimpleNamespace(get_device_properties=_fail)
    monkeypatch.setitem(sys.modules, "torch", module)
    return module


def _runner(kind: str, index: int | None = None) -> Any:
    return SimpleNamespace(device=SimpleNamespace(type=kind, index=index))


def test_a_board_is_its_uuid(torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runner's own board, whatever the host is called: containers get another name at each start."""
    monkeypatch.setattr(platform, "node", lambda: "container-1")
    assert machine_of(_runner("cuda", 0)) == f"cuda {UUID}"
    assert machine_of(_runner("cuda", 1)) == "cuda another"
    monkeypatch.setattr(platform, "node", lambda: "container-2")
    assert machine_of(_runner("cuda", 0)) == f"cuda {UUID}"


@pytest.mark.parametrize("kind", ["cpu", "xpu", "npu", "broken", "unheard-of"])
def test_what_has_no_uuid_is_its_host(torch: Any, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A CPU, a device that does not tell, one that raises when asked, and one that torch does not know."""
    monkeypatch.setattr(platform, "node", lambda: "host")
    assert machine_of(_runner(kind)) == "host"


def test_a_runner_without_a_device_is_its_host(torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a runner is, its machine has a name."""
    monkeypatch.setattr(platform, "node", lambda: "host")
    assert machine_of(object()) == "host"
