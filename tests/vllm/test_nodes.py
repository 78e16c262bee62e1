"""Two nodes of the real `vllm serve`, each a machine of its own: network, address, host name, disk."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.vllm import nodes, sessions
from tests.vllm.booting import STOCK_RUNS, TOKENS
from tests.vllm.nodes import Node

pytestmark = pytest.mark.full


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[tuple[Node, Node]]:
    with nodes.on_two_machines(tmp_path) as both:
        yield both


def _serve(shape: nodes.Shape, machines: tuple[Node, Node]) -> list[list[int]]:
    """One boot of both machines, and what the server completes."""
    with nodes.serve(shape, *machines) as server:
        return [server.complete(0), server.complete(1)]


def _words(node: Node) -> tuple[str, str | None, int, int]:
    assert node.report is not None
    return tuple(node.report[name] for name in ("outcome", "reason", "sentinel_runs", "calibration_runs"))


def _decision(node: Node) -> object:
    assert node.report is not None
    return node.report["vote"]["decision"]


SHAPES = pytest.mark.parametrize(
    "shape", [nodes.TENSOR_PARALLEL, nodes.EXPERTS_DATA_PARALLEL], ids=lambda shape: type(shape).__name__
)
COLD, WARM = ("recorded", None, 0, len(STOCK_RUNS)), ("reused", None, 2, 0)
ALONE = ("unrecorded", "rank_absent", 0, len(STOCK_RUNS))


@nodes.needs_root
@pytest.mark.timeout(2400)
@SHAPES
def test_two_machines_boot_cold_then_warm(machines: tuple[Node, Node], shape: nodes.Shape) -> None:
    """The real server on two machines: cold, then warm with the entry on the leader's disk alone, then with a machine
    that lacks the plugin: both calibrate, and serve. The completions are the same each time.
    """
    leader, follower = machines
    cold = _serve(shape, machines)
    if shape is nodes.TENSOR_PARALLEL:
        assert cold == TOKENS
    for rank, node in enumerate(machines):
        assert node.report is not None
        assert (node.report["rank"], node.report["world"], node.report["host"]) == (rank, 2, node.name)
        assert _words(node) == COLD
    assert (len(leader.entries), follower.entries) == (1, [])
    kept = leader.entries[0].read_bytes()

    assert _serve(shape, machines) == cold
    assert [_words(node) for node in machines] == [WARM, WARM]
    assert _decision(leader) == _decision(follower)
    assert follower.entries == []

    follower.settings |= nodes.WITHOUT_PLUGIN
    leader.settings |= {"WARMCURVE_VOTE_TIMEOUT": "3"}
    assert _serve(shape, machines) == cold
    assert (_words(leader), follower.report) == (ALONE, None)
    assert leader.entries[0].read_bytes() == kept


@pytest.mark.timeout(2400)
@SHAPES
def test_a_node_that_is_switched_off_or_of_another_version(shape: nodes.Shape, tmp_path: Path) -> None:
    """Real servers of two nodes, of which one is switched off, then of another version: all calibrate, and serve."""
    leader, follower = machines = nodes.on_loopback(tmp_path)
    follower.settings |= nodes.SWITCHED_OFF
    leader.settings |= {"WARMCURVE_VOTE_TIMEOUT": "3"}
    completed = _serve(shape, machines)
    if shape is nodes.TENSOR_PARALLEL:
        assert completed == TOKENS
    assert (_words(leader), follower.report, leader.entries) == (ALONE, None, [])

    follower.settings.update({nodes.SWITCH: "1"})
    leader.settings.pop("WARMCURVE_VOTE_TIMEOUT")
    follower.install_version("9.9.9")
    assert _serve(shape, machines) == completed
    differ = ("unrecorded", "ranks_differ", 0, len(STOCK_RUNS))
    assert [_words(node) for node in machines] == [differ, differ]
    assert _decision(leader) == _decision(follower)
    assert "9.9.9" in str(_decision(leader))
    assert leader.entries == []


class Misspelled(nodes.TensorParallel):
    def flags(self, leader: Node, ports: Sequence[int]) -> tuple[list[str], list[str], list[str]]:
        both, of_leader, of_follower = super().flags(leader, ports)
        return both, of_leader, [*of_follower, "--no-such-flag"]


@pytest.mark.timeout(120)
def test_a_node_that_ends_is_noticed(tmp_path: Path) -> None:
    """A node that ends before the server is ready: an error that shows both logs, and nothing left running."""
    leader, follower = nodes.on_loopback(tmp_path)
    with (
        pytest.raises(nodes.NodeDied, match="follower ended with 2") as raised,
        nodes.serve(Misspelled(), leader, follower),
    ):
        pass
    assert any("--no-such-flag" in note for note in raised.value.__notes__)
    for node in (leader, follower):
        assert node.process is not None
        assert sessions.living(node.process) == []


STUBBORN = "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); os.fork(); print(flush=True); {}"
ORPHAN = "import os, time; os.fork() and os._exit(0); print(flush=True); {}"


def test_a_session_ends_with_all_its_processes() -> None:
    """Processes that do not heed SIGTERM, and those whose parent is gone, end too."""
    codes = [code.format("time.sleep(600)") for code in (STUBBORN, ORPHAN)]
    started = [sessions.start([sys.executable, "-Sc", code], {}, stdout=subprocess.PIPE) for code in codes]
    try:
        for process in started:
            assert process.stdout is not None
            with process.stdout:
                assert process.stdout.readline() == b"\n"
        assert all(sessions.living(process) for process in started)
    finally:
        sessions.stop(*started)
    assert not any(sessions.living(process) for process in started)
