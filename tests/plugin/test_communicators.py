"""What is told of the collectives of a world: which came to be, and whether the boards' links allow them."""

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from warmcurve.vllm.factors import communicators


class CustomAllreduce:
    """As vLLM's: the fact of the links is there once they were looked at."""

    def __init__(self, **facts: bool) -> None:
        self.__dict__.update(facts)


class Wrapper:
    """As vLLM's of AITER's: `disabled` is handed on, the rest is not."""

    def __init__(self, inner: CustomAllreduce) -> None:
        self._impl = inner

    @property
    def disabled(self) -> bool:
        return self._impl.disabled  # type: ignore[attr-defined, no-any-return]


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """vLLM's groups by name, of which one that is absent is asserted to be there."""
    found: dict[str, Any] = {}

    def getter(name: str) -> Any:
        def get() -> Any:
            assert name in found, "is not initialized"
            return SimpleNamespace(device_communicator=found[name])

        return get

    state = ModuleType("vllm.distributed.parallel_state")
    for name in ("tp", "ep", "dp"):
        setattr(state, f"get_{name}_group", getter(name))
    package = ModuleType("vllm.distributed")
    package.parallel_state = state  # type: ignore[attr-defined]
    for module in (ModuleType("vllm"), package, state):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return found


def test_links_tell_two_worlds_apart(groups: dict[str, Any]) -> None:
    """Two boards over NVLink, two over PCIe and four over PCIe differ, where every setting is the same."""
    found = []
    for facts in ({"disabled": False, "fully_connected": True}, {"disabled": False, "fully_connected": False},
                  {"disabled": True}):  # fmt: skip
        groups["tp"] = SimpleNamespace(ca_comm=CustomAllreduce(**facts), qr_comm=None)
        found.append(communicators.factors())
    name = f"{__name__}.CustomAllreduce"
    assert found == [
        {"tp": {"ca_comm": {"class": name, "disabled": False, "fully_connected": True}}},
        {"tp": {"ca_comm": {"class": name, "disabled": False, "fully_connected": False}}},
        {"tp": {"ca_comm": {"class": name, "disabled": True, "fully_connected": None}}},
    ]


def test_what_exchanges_experts_is_told(groups: dict[str, Any]) -> None:
    """The manager of the experts' group by its class, and a wrapped collective by what it wraps."""
    groups["ep"] = SimpleNamespace(all2all_manager=CustomAllreduce())
    groups["dp"] = SimpleNamespace(aiter_ar_comm=Wrapper(CustomAllreduce(disabled=False, fully_connected=True)))
    found = communicators.factors()
    assert found is not None
    assert found["ep"] == {
        "all2all_manager": {"class": f"{__name__}.CustomAllreduce", "disabled": None, "fully_connected": None}
    }
    assert found["dp"] == {
        "aiter_ar_comm": {"class": f"{__name__}.Wrapper", "disabled": False, "fully_connected": True}
    }


def test_where_there_are_none_nothing_is_told(groups: dict[str, Any]) -> None:
    """One rank, whose group has no communicator, and a CPU's, which has no such collectives."""
    groups["tp"] = None
    assert communicators.factors() is None
    groups["tp"] = SimpleNamespace(dist_module=sys)
    assert communicators.factors() is None
