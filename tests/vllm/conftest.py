"""Boots of the real vLLM in this process, with scripted step times: outcomes are the script's, not the machine's."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# vLLM loads its plugins once a process, so the switch must be on before the first engine.
os.environ["VLLM_ENABLE_ADAPTIVE_VERIFICATION_PROFILE_CACHE"] = "1"
# No graph is captured here that a collection could invalidate; to keep it off, vLLM collects twice a calibration.
os.environ["VLLM_ENABLE_CUDAGRAPH_GC"] = "1"

import pytest

from tests.vllm import live, running
from tests.vllm.booting import Booted, Machine

TWO_RANKS = {"test_live.py", "test_modes_live.py"}
IN_THIS_PROCESS = {
    *("test_changes.py", "test_configuration.py", "test_contract.py", "test_damage.py", "test_edge.py"),
    *("test_factors.py", "test_modes.py", "test_sentinels.py", "test_two_calibrations.py", "test_warm_boot.py"),
}


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Tests that share an engine go to one of the processes that run tests; each other file goes to the next free one.

    Not by the marker `xdist_group`, which pytest-xdist 3.8 notes in `Item._nodeid`, where pytest 9 no longer looks.
    """
    from xdist.scheduler import LoadScopeScheduling

    class BySharedEngine(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0].rpartition("/")[2]
            if file in TWO_RANKS:
                return "EXPERTS_DATA_PARALLEL" if "[EXPERTS_DATA_PARALLEL" in nodeid else "TENSOR_PARALLEL"
            return "in this process" if file in IN_THIS_PROCESS else file

    return BySharedEngine(config, log)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine that has never run vLLM: an empty cache directory."""
    return Machine(tmp_path / "cache", monkeypatch)


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Booted:
    """The first boot of a machine, once for all tests: its entry can be laid into other machines."""
    cache = tmp_path_factory.mktemp("recorded")
    running.lend_models(cache)
    with pytest.MonkeyPatch.context() as monkeypatch:
        return Machine(cache, monkeypatch).boot()


@pytest.fixture
def warm(machine: Machine, recorded: Booted) -> Machine:
    """A machine whose cache holds the entry of the first boot."""
    machine.lay(recorded.entry.name, recorded.data)
    return machine


@pytest.fixture(scope="session", autouse=True)
def _ended() -> Iterator[None]:
    yield
    running.shared.stop()


@pytest.fixture
def runner(recorded: Booted) -> Any:
    """The runner of the engine that runs, booted before a test plants anything."""
    return running.shared_runner()


@pytest.fixture
def no_engine() -> None:
    """No engine in this process, and so no process group of torch."""
    running.shared.stop()


@pytest.fixture(scope="session")
def tensor_parallel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[live.Engine]:
    """An engine of two ranks, booted once."""
    with live.Engine(live.TENSOR_PARALLEL, tmp_path_factory.mktemp("live")) as engine:
        yield engine
