"""Many checks, spread over processes."""

import os
from contextlib import closing
from itertools import islice
from pathlib import Path

import pytest

from tests.cli.conftest import Record
from warmcurve.cli import checking
from warmcurve.cli.checking import check_entry, in_order, look_at_entry
from warmcurve.errors import StoreError
from warmcurve.outcome import Reason
from warmcurve.storage.store import DirectoryStore

JOBS = range(400)


def process_of(job: int) -> tuple[int, int]:
    return job, os.getpid()


def failing(job: int) -> int:
    if job == 200:
        raise StoreError(Reason.STORE_UNAVAILABLE, "the server went away")
    return job


def dying(job: int) -> int:
    if job == 200 and os.getpid() != int(os.environ["WARMCURVE_TEST_PARENT"]):
        os._exit(1)
    return job


def test_results_have_the_order_of_the_jobs() -> None:
    """Several processes take part, and the first results are of this one, which need not wait for them."""
    found = list(in_order(process_of, JOBS, 3))
    assert [job for job, _ in found] == list(JOBS)
    processes = [process for _, process in found]
    assert set(processes[:64]) == {os.getpid()}
    assert os.getpid() not in processes[64:]


@pytest.mark.parametrize(("jobs", "processes"), [(400, 1), (64, 3), (70, 3), (0, 3)])
def test_few_jobs_or_processors_start_no_process(jobs: int, processes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which would cost more than it saves."""
    monkeypatch.setattr(checking, "_pool", None)
    assert list(in_order(process_of, range(jobs), processes)) == [(job, os.getpid()) for job in range(jobs)]


def test_where_no_process_can_start_there_is_this_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container without /dev/shm has no semaphores."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError("no semaphores")

    monkeypatch.setattr("concurrent.futures.ProcessPoolExecutor", refuse)
    assert list(in_order(process_of, JOBS, 3)) == [(job, os.getpid()) for job in JOBS]


def test_an_error_of_the_store_arrives() -> None:
    """After the results before it, but for those of its own chunk."""
    results = in_order(failing, JOBS, 2)
    assert list(islice(results, 192)) == list(range(192))
    with pytest.raises(StoreError, match="the server went away"):
        next(results)


def test_a_process_that_dies_costs_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as one that was killed for its memory: the rest is checked here, each job once."""
    monkeypatch.setenv("WARMCURVE_TEST_PARENT", str(os.getpid()))
    assert list(in_order(dying, JOBS, 2)) == list(JOBS)


def test_it_may_be_left_early() -> None:
    """Whoever has read enough closes it, and no process is left."""
    with closing(in_order(process_of, range(100_000), 2)) as results:
        workers = {process for _, (_, process) in zip(range(200), results, strict=False)} - {os.getpid()}
    assert workers
    assert not [worker for worker in workers if Path(f"/proc/{worker}").exists()]


def test_a_look_sees_what_a_check_sees(store: DirectoryStore, record: Record) -> None:
    """The same content of a sound entry; only its state differs."""
    digest = record()
    looked, checked = look_at_entry(store, digest), check_entry(store, digest)
    assert looked
    assert checked
    assert looked._replace(state="ok") == checked
