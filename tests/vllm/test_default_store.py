"""Votes over torch's own process group: real processes, real stores, ranks that are killed."""

import multiprocessing
import os
import signal
import socket
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch.distributed
from torch.distributed import FileStore, HashStore, PrefixStore, Store, TCPStore, distributed_c10d

from tests.support import boot_of
from warmcurve.boot.driver import drive
from warmcurve.clock import SystemClock
from warmcurve.errors import VoteError, VoteLost
from warmcurve.outcome import Outcome, Reason
from warmcurve.ranks.distributed import MAX_BYTES, DefaultStore
from warmcurve.ranks.register import Register
from warmcurve.storage.store import DirectoryStore
from warmcurve.testing import ScriptedEngine

PATIENT_S = 60.0
SOON_S = 1.0


def _free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _stores(directory: Path) -> dict[str, Callable[[], Store]]:
    return {
        "tcp": lambda: TCPStore("127.0.0.1", 0, 1, is_master=True),
        "file": lambda: FileStore(str(directory / "file"), 1),
        "hash": HashStore,
        "prefix": lambda: PrefixStore("outer", PrefixStore("inner", TCPStore("127.0.0.1", 0, 1, is_master=True))),
    }


@pytest.fixture(params=["tcp", "file", "hash", "prefix"])
def group_store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """The store of a process group, of each kind."""
    store = _stores(tmp_path)[request.param]()
    monkeypatch.setattr(distributed_c10d, "_get_default_store", lambda: store)
    return store


def test_a_decision_is_written_once(group_store: Store) -> None:
    """The first value proposed stays, whoever proposes; what is not there is None, at once."""
    del group_store
    store = DefaultStore(0)
    assert store.get("decision") is None
    assert store.compare_set("decision", b'{"first": "\xc3\xa9"}') == b'{"first": "\xc3\xa9"}'
    assert store.compare_set("decision", b"second") == b'{"first": "\xc3\xa9"}'
    assert store.get("decision") == b'{"first": "\xc3\xa9"}'
    store.set("offer", b"x" * 2_000_000)
    assert store.get("offer") == b"x" * 2_000_000
    store.close()


def test_a_namespace_is_fresh(group_store: Store) -> None:
    """What one calibration decided is not there for the next, and the engine's own keys are untouched."""
    group_store.set("decision", "the engine's")
    first, second = DefaultStore(0), DefaultStore(0)
    first.set("decision", b"go")
    assert second.get("decision") is None
    assert group_store.get("decision") == b"the engine's"


def test_a_store_that_does_not_answer_fails_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that keeps a connection open and says nothing is a failure when the time is up, and from then on."""
    server = TCPStore("127.0.0.1", 0, 1, is_master=True)
    monkeypatch.setattr(distributed_c10d, "_get_default_store", lambda: server)
    store = DefaultStore(0, answer_s=0.2)
    store._store = _Silent()
    for _ in range(2):
        with pytest.raises(VoteError, match=r"did not answer within 0\.2 s"):
            store.get("decision")


class _Silent:
    def check(self, keys: list[str]) -> bool:
        del keys
        signal.sigwait({signal.SIGUSR2})
        return False


def test_a_group_without_a_store_is_an_error_of_the_vote(no_engine: None) -> None:
    """No process group: `VoteError`, which an adapter takes for a vote that cannot be held."""
    assert not torch.distributed.is_initialized()
    threads = threading.active_count()
    with pytest.raises(VoteError):
        DefaultStore(0)
    assert threading.active_count() <= threads + 1


def test_ranks_of_unequal_pasts_meet_in_a_new_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """Namespaces are counted in the group's own store: what a process did in other groups does not matter."""
    for opened in (3, 1):
        group = HashStore()
        monkeypatch.setattr(distributed_c10d, "_get_default_store", lambda group=group: group)
        for _ in range(opened):
            DefaultStore(0).close()
    ahead, behind = DefaultStore(0), DefaultStore(1)
    ahead.set("decision", b"go")
    assert behind.get("decision") is None
    assert DefaultStore(1).get("decision") == b"go"


def test_a_value_that_would_break_the_connection_is_refused(group_store: Store) -> None:
    """torch's server hangs up on larger ones, and the connection is the engine's."""
    store = DefaultStore(0)
    for write in (store.set, store.compare_set):
        with pytest.raises(VoteError, match="at most"):
            write("offer", b"x" * (MAX_BYTES + 1))
    store.set("offer", b"x" * MAX_BYTES)
    assert store.get("offer") == b"x" * MAX_BYTES
    assert group_store.check(["warmcurve/opened/0"])


def _rank(rank: int, world: int, port: int, directory: str, plan: dict[str, Any], answers: Any, over: Any) -> None:
    """One process: joins a gloo group, boots as often as asked, and answers with what its boots said."""
    torch.distributed.init_process_group(
        "gloo", f"tcp://127.0.0.1:{port}", timeout=timedelta(seconds=60), rank=rank, world_size=world
    )
    store = DirectoryStore(Path(directory) / f"node{rank}")
    engine = ScriptedEngine()
    register: Any
    told: list[tuple[Any, ...]] = []
    for boot in range(plan["boots"]):
        torch.distributed.barrier()
        timeout_s = plan["timeout_s"]
        killed = plan.get("killed") == rank and boot == plan["boots"] - 1
        if killed and plan["when"] == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        key_values, register = None, None
        with suppress(VoteError):
            key_values = DefaultStore(rank, answer_s=min(timeout_s, 5.0))
            register = Register(key_values, SystemClock(), timeout_s)
        if killed and register:
            register = _Killing(register, plan["when"])
        engine.runs.clear()
        session = boot_of(engine, store, rank=rank, world=world, register=register)
        try:
            report = drive(session, engine)
        except VoteLost as error:
            told.append(("lost", error.reason, list(engine.runs), None))
        else:
            decision = report.vote.decision if report.vote else None
            told.append((report.outcome, report.reason, list(engine.runs), decision and decision.course))
        if key_values:
            key_values.close()
    answers.put((rank, told))
    # Rank 0's process is the store's server: it stays until the others are done.
    over.wait()


class _Killing:
    """Dies before the operation on a key that ends as told."""

    def __init__(self, register: Register, when: str) -> None:
        self._register = register
        self._when = when

    @property
    def waited_ns(self) -> int:
        return self._register.waited_ns

    def perform(self, operation: Any) -> Any:
        keys = getattr(operation, "keys", None) or (operation.key,)
        if any(key.startswith(self._when) for key in keys):
            os.kill(os.getpid(), signal.SIGKILL)
        return self._register.perform(operation)


def _world(directory: Path, world: int, **plan: Any) -> dict[int, list[Any]]:
    """What every rank that lived told, by rank."""
    context = multiprocessing.get_context("spawn")
    answers, over = context.Queue(), context.Event()
    port = _free_port()
    settings = {"boots": 1, "timeout_s": PATIENT_S} | plan
    processes = [
        context.Process(target=_rank, args=(rank, world, port, str(directory), settings, answers, over), daemon=True)
        for rank in range(world)
    ]
    for process in processes:
        process.start()
    living = world - ("killed" in plan)
    try:
        told = dict(answers.get(timeout=120) for _ in range(living))
    finally:
        over.set()
        for process in processes:
            process.join(20)
            process.kill()
    return told


@pytest.mark.timeout(300)
@pytest.mark.parametrize("world", [2, 4])
def test_processes_boot_cold_then_warm(tmp_path: Path, world: int) -> None:
    """Each with a disk of its own: the first boot is recorded by the leader, the second reused by all."""
    told = _world(tmp_path, world, boots=3)
    assert told.keys() == set(range(world))
    for boots in told.values():
        assert [(outcome, reason) for outcome, reason, _, _ in boots] == [
            (Outcome.RECORDED, None),
            (Outcome.REUSED, None),
            (Outcome.REUSED, None),
        ]
        assert [len(runs) for _, _, runs, _ in boots] == [40, 2, 2]
    assert len({tuple(boots[1][2]) for boots in told.values()}) == 1
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["node0"]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("when", "runs"), [("before", 40), ("1/", 40), ("2/", 42), ("3/", 42)], ids=["first", "vote", "verdict", "install"]
)
def test_a_follower_that_is_killed_is_waited_for_once(tmp_path: Path, when: str, runs: int) -> None:
    """Killed before it votes, with its vote on its way, or between phases: the others calibrate, in time and alike."""
    told = _world(tmp_path, 3, boots=2, killed=2, when=when, timeout_s=SOON_S)
    for rank in (0, 1):
        outcome, reason, ran, _ = told[rank][-1]
        assert (outcome, reason, len(ran)) == (Outcome.UNRECORDED, Reason.RANK_ABSENT, runs)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("when", ["before", "1/", "2/"])
def test_a_leader_that_is_killed_leaves_nobody_hanging(tmp_path: Path, when: str) -> None:
    """Its process is the store's server: the others calibrate if they had not voted yet, and stop if they had."""
    told = _world(tmp_path, 3, boots=2, killed=0, when=when, timeout_s=SOON_S)
    assert told.keys() == {1, 2}
    sentinels = [16, 4] if when == "2/" else []
    calibrated = [*sentinels, *ScriptedEngine().plan.runs]
    for rank in (1, 2):
        outcome, reason, ran, _ = told[rank][-1]
        # The leader may be gone before a follower has read its first decision.
        assert (ran, outcome) in (([], "lost"), (sentinels, "lost"), (calibrated, Outcome.UNRECORDED))
        assert (reason is Reason.VOTE_LOST) == (outcome == "lost")
