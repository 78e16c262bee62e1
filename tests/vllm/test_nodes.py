"""Two nodes of the real `vllm serve`, each a machine of its own: network, address, host name, disk."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.vllm import nodes, sessions
from tests.vllm.booting import STOCK_RUNS, TOKENS
from tests.vllm.nodes import Node


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[tuple[Node, Node]]:
    with nodes.on_two_machines(tmp_path) as both:
        yield both


@nodes.needs_root
@pytest.mark.timeout(900)
def test_tensor_parallel_ranks_on_two_machines(machines: tuple[Node, Node]) -> None:
    """Ranks on two machines, with two versions of warmcurve: each calibrates in full, stores nothing, and serves."""
    leader, follower = machines
    follower.install_version("9.9.9")
    with nodes.serve(nodes.TENSOR_PARALLEL, leader, follower) as server:
        assert [server.complete(0), server.complete(1)] == TOKENS
    for rank, node in enumerate(machines):
        assert node.report is not None
        assert (node.report["rank"], node.report["world"], node.report["host"]) == (rank, 2, node.name)
        assert (node.report["outcome"], node.report["reason"]) == ("unrecorded", "several_ranks")
        assert node.report["calibration_runs"] == len(STOCK_RUNS)
        assert node.entries == []
        assert (node.report["warmcurve"] == "9.9.9") == (node is follower)


@nodes.needs_root
@pytest.mark.timeout(900)
def test_replicas_on_two_machines_of_which_one_lacks_the_plugin(machines: tuple[Node, Node]) -> None:
    """Replicas of a mixture of experts on two machines, one without warmcurve: both calibrate and serve."""
    leader, follower = machines
    follower.settings |= nodes.WITHOUT_PLUGIN
    with nodes.serve(nodes.EXPERTS_DATA_PARALLEL, leader, follower) as server:
        first = [server.complete(prompt) for prompt in (0, 1, 0, 1)]
    # The requests went round both replicas.
    assert first[:2] == first[2:]
    assert leader.report is not None
    assert (leader.report["world"], leader.report["reason"]) == (2, "several_ranks")
    assert leader.report["calibration_runs"] == len(STOCK_RUNS)
    assert follower.report is None


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
