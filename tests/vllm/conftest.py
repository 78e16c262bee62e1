"""Boots of the real vLLM in this process, with scripted step times: outcomes are the script's, not the machine's."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# vLLM loads its plugins once a process, so the switch must be on before the first engine.
os.environ["VLLM_ENABLE_ADAPTIVE_VERIFICATION_PROFILE_CACHE"] = "1"

import engine
import pytest
import scripted

from tests.vllm.booting import Booted, Machine


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine that has never run vLLM: an empty cache directory."""
    return Machine(tmp_path / "cache", monkeypatch)


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Booted:
    """The first boot of a machine, once for all tests: its entry can be laid into other machines."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        return Machine(tmp_path_factory.mktemp("recorded"), monkeypatch).boot()


@pytest.fixture
def warm(machine: Machine, recorded: Booted) -> Machine:
    """A machine whose cache holds the entry of the first boot."""
    machine.lay(recorded.entry.name, recorded.data)
    return machine


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The runner of an engine that has booted."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        machine = Machine(tmp_path_factory.mktemp("runner"), monkeypatch)
        with scripted.clock(machine.costs):
            llm = engine.start()
            yield engine.runner(llm)
            engine.stop(llm)
