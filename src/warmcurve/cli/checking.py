"""Many entries, checked or only looked at: what a row or a line says of each. Checking takes all processors."""

import os
import signal
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from datetime import datetime
from hashlib import sha256
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import msgspec

from warmcurve.cli.inspection import Inspection, inspect_entry, inspect_file
from warmcurve.curves.profile import CostCurve, CostProfile
from warmcurve.errors import ProfileError, StoreError
from warmcurve.outcome import Reason
from warmcurve.storage.entry import FORMAT, SCHEMA, Header, recorded_at
from warmcurve.storage.store import DirectoryStore

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

Job = TypeVar("Job")
Result = TypeVar("Result")
NOT_CHECKED: Final = "not checked"
_HERE: Final = 64
"""Entries that are checked in this process, while the others start."""
_CHUNK: Final = 32
_MOST_PROCESSES: Final = 8


class Outline(msgspec.Struct, frozen=True):
    """What a list says of an entry's content. The profile has no samples."""

    engine: str
    profile: CostProfile
    conditions: dict[str, Any]

    @property
    def recorded_at(self) -> datetime | None:
        return recorded_at(self.conditions)


class Checked(NamedTuple):
    """`state` is "ok", the reason why the entry would not be used, or that it was not checked. No outline where the
    entry would not be used.
    """

    path: Path
    digest: str | None
    state: str
    detail: str | None = None
    remedy: str | None = None
    outline: Outline | None = None
    checksum: str | None = None


class _Curves(msgspec.Struct, frozen=True):
    verify: CostCurve
    draft: CostCurve
    capture_limit: int

    def profile(self) -> CostProfile:
        return CostProfile(self.verify, self.draft, self.capture_limit, ())


class _Payload(msgspec.Struct, frozen=True):
    engine: str
    profile: _Curves
    conditions: dict[str, Any]


def check_entry(store: DirectoryStore, digest: str) -> Checked | None:
    """As a boot would. None where there is no such entry. Raises `StoreError` where the store itself cannot be read."""
    item = inspect_entry(store, digest)
    return item and _checked(item)


def check_file(path: Path) -> Checked:
    """A file anywhere: only its content is judged, not who may write it."""
    return _checked(inspect_file(path))


def look_at_entry(store: DirectoryStore, digest: str) -> Checked | None:
    """The content without the checks of a boot, which take ten times as long. Where the header line does not fit the
    file, or the payload cannot be read, the checks say why.
    """
    try:
        data = store.get(digest)
    except StoreError as error:
        if error.reason is Reason.STORE_UNAVAILABLE:
            raise
        return check_entry(store, digest)
    if data is None:
        return None
    outline = _outline(data)
    if outline is None:
        return check_entry(store, digest)
    path, checksum = Path(store.describe(digest)), sha256(data).hexdigest()
    return Checked(path, digest, NOT_CHECKED, outline=outline, checksum=checksum)


def usable_processors() -> int:
    """Those that this process may run on, which in a container are fewer than the machine has."""
    return len(os.sched_getaffinity(0))


def in_order(
    check: Callable[[Job], Result], jobs: Sequence[Job], processes: int | None = None
) -> Generator[Result, None, None]:
    """The results in the order of the jobs. Many jobs are spread over processes, so `check` and its results must be
    such as can be sent to one. Close it to end the processes early.
    """
    rest = jobs[_HERE:]
    count = min(processes or usable_processors(), _MOST_PROCESSES, -(-len(rest) // _CHUNK))
    pool = _pool(count) if count > 1 else None
    received = 0
    try:
        results = _start(pool, check, rest)
        yield from map(check, jobs[:_HERE])
        try:
            for result in results:
                received += 1
                yield result
        except _broken_pool():
            pass  # A process was killed, or none could start: the rest is checked here.
        yield from map(check, rest[received:])
    finally:
        if pool:
            pool.shutdown(cancel_futures=True)


def _checked(item: Inspection) -> Checked:
    entry = item.entry
    outline = None
    if entry:
        bare = msgspec.structs.replace(entry.profile, samples=())
        outline = Outline(entry.engine, bare, entry.conditions)
    remedy = item.error.hint() if item.error else None
    return Checked(item.path, item.digest, item.state, item.detail, remedy, outline, item.checksum)


def _outline(data: bytes) -> Outline | None:
    line, _, rest = data.partition(b"\n")
    try:
        header = msgspec.json.decode(line, type=Header)
        if (header.format, header.schema, header.length + 1) != (FORMAT, SCHEMA, len(rest)):
            return None
        payload = msgspec.json.decode(rest, type=_Payload)
        return Outline(payload.engine, payload.profile.profile(), payload.conditions)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ProfileError):
        return None


def _pool(count: int) -> "ProcessPoolExecutor | None":
    from concurrent.futures import ProcessPoolExecutor

    try:
        return ProcessPoolExecutor(count, mp_context=get_context("spawn"), initializer=_end_with_parent)
    except (OSError, ImportError):
        # No /dev/shm, which semaphores need.
        return None


def _start(pool: "ProcessPoolExecutor | None", check: Callable[[Job], Result], jobs: Sequence[Job]) -> Iterator[Result]:
    """The results that processes will give; none where no process can be started."""
    if pool is None:
        return iter(())
    # Ctrl-C is sent to all processes of the terminal's job. The workers inherit that it is blocked: only this process
    # ends on it, and ends them.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return pool.map(check, jobs, chunksize=_CHUNK)
    except OSError:
        # EAGAIN and ENOMEM of fork: https://man7.org/linux/man-pages/man2/fork.2.html
        return iter(())
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _broken_pool() -> type[BaseException]:
    from concurrent.futures.process import BrokenProcessPool

    return BrokenProcessPool


def _end_with_parent() -> None:
    """A worker whose parent was killed would wait for its next task for ever."""
    parent = parent_process()
    assert parent

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
