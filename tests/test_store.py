"""Stores keep whole values, for their user alone, whatever the operating system answers."""

import errno
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.faults import FaultySystem, raising
from tests.support import A, B, C, boot, run
from warmcurve.errors import StoreError
from warmcurve.outcome import Outcome, Reason
from warmcurve.reporting.report import ReportDirectory
from warmcurve.storage.entry import MAX_BYTES
from warmcurve.storage.files import KEPT_ASIDE
from warmcurve.storage.history import History, HistoryDirectory
from warmcurve.storage.store import DirectoryStore, Store
from warmcurve.testing import FaultStore, MemoryStore, ScriptedEngine, StoreContract

AS_ROOT = os.geteuid() == 0
OTHER_USER = 12345

needs_root = pytest.mark.skipif(not AS_ROOT, reason="only root may give files away")


class NthOf(FaultySystem):
    """`fail` is called before the n-th call of one name, which is then made."""

    def __init__(self, call: str, nth: int, fail: Callable[[str], None]) -> None:
        super().__init__(nth, fail)
        self._call = call

    def _counted(self, name: str, call: Callable[..., Any]):
        return super()._counted(name, call) if name == self._call else call


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def _temporary(directory: Path) -> list[Path]:
    return list(directory.rglob(".tmp-*"))


def _reason(operation: Callable[[], object]) -> Reason:
    with pytest.raises(StoreError) as refused:
        operation()
    assert refused.value.detail
    return refused.value.reason


@pytest.fixture
def store(tmp_path: Path) -> DirectoryStore:
    return DirectoryStore(tmp_path / "parent" / "store")


class TestDirectoryStore(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return DirectoryStore(tmp_path / "store")


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def store(self) -> Store:
        return MemoryStore()


class TestFaultStoreWithoutFaults(StoreContract):
    @pytest.fixture
    def store(self) -> Store:
        return FaultStore()


class StoresAgree(RuleBasedStateMachine):
    """Whatever is done to it, a directory store answers as the perfect one in memory does."""

    digests = st.sampled_from((A, B, C))

    def __init__(self) -> None:
        super().__init__()
        self.place = TemporaryDirectory()
        self.real = DirectoryStore(Path(self.place.name) / "store")
        self.perfect = MemoryStore()

    @rule(digest=digests, data=st.binary(max_size=64))
    def put(self, digest: str, data: bytes) -> None:
        self.real.put(digest, data)
        self.perfect.put(digest, data)

    @rule(digest=digests)
    def get(self, digest: str) -> None:
        assert self.real.get(digest) == self.perfect.get(digest)

    @rule(digest=digests)
    def delete(self, digest: str) -> None:
        assert self.real.delete(digest) == self.perfect.delete(digest)

    @rule(digest=digests)
    def set_aside(self, digest: str) -> None:
        assert self.real.set_aside(digest) == self.perfect.set_aside(digest)

    @rule()
    def open_again(self) -> None:
        self.real = DirectoryStore(self.real.directory)

    @invariant()
    def agree(self) -> None:
        assert self.real.list() == self.perfect.list()
        assert not _temporary(self.real.directory)
        for digest in (A, B, C):
            kept = sorted(path.read_bytes() for path in self.real.directory.glob(f"v1/{digest}.jsonl.bad-*"))
            assert kept == sorted(self.perfect.aside.get(digest, []))

    def teardown(self) -> None:
        self.place.cleanup()


TestStoresAgree = StoresAgree.TestCase
TestStoresAgree.settings = settings(max_examples=40, stateful_step_count=20)


def test_nothing_is_created_before_the_first_put(store: DirectoryStore):
    """Reading, listing, deleting and setting aside leave no trace."""
    assert (store.get(A), store.list(), store.delete(A), store.set_aside(A)) == (None, (), False, False)
    assert str(store.directory) in store.describe(A)
    assert not store.directory.parent.exists()


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_modes_are_private_under_any_umask(store: DirectoryStore, mask: int):
    """The directories have mode 0700 and the entry 0600; the parents are made by the umask."""
    before = os.umask(mask)
    try:
        store.put(A, b"1")
    finally:
        os.umask(before)
    assert _mode(store.directory) == _mode(store.directory / "v1") == 0o700
    assert _mode(Path(store.describe(A))) == 0o600
    assert _mode(store.directory.parent) == 0o777 & ~mask


def _refused_everywhere(store: DirectoryStore) -> None:
    for operation in (lambda: store.get(A), lambda: store.put(A, b"2"), store.list, lambda: store.delete(A)):
        assert _reason(operation) is Reason.STORE_UNSAFE
    assert store.set_aside(A) is False


@pytest.mark.parametrize("inner", ["", "v1"])
@pytest.mark.parametrize("mode", [0o770, 0o707, 0o720, 0o702, 0o1777])
def test_a_directory_that_others_may_write_is_refused(store: DirectoryStore, inner: str, mode: int):
    """Neither the store's directory nor the one inside may be writable by group or others."""
    store.put(A, b"1")
    (store.directory / inner).chmod(mode)
    _refused_everywhere(store)
    (store.directory / inner).chmod(0o755)
    assert store.get(A) == b"1"


@pytest.mark.parametrize("inner", ["", "v1"])
def test_a_trusted_group_may_write(store: DirectoryStore, inner: str):
    """With trust in the group its members may write, and still nobody else."""
    store.put(A, b"1")
    trusting = DirectoryStore(store.directory, trust_group=True)
    (store.directory / inner).chmod(0o2770)
    Path(store.describe(A)).chmod(0o660)
    trusting.put(B, b"2")
    assert (trusting.get(A), trusting.get(B)) == (b"1", b"2")
    (store.directory / inner).chmod(0o2777)
    _refused_everywhere(trusting)


@needs_root
@pytest.mark.parametrize("inner", ["", "v1"])
def test_a_directory_of_another_user_is_refused(store: DirectoryStore, inner: str):
    """A directory that belongs to neither this user nor root is not trusted."""
    store.put(A, b"1")
    os.chown(store.directory / inner, OTHER_USER, OTHER_USER)
    _refused_everywhere(store)


def _unsafe_entry(store: DirectoryStore) -> None:
    assert _reason(lambda: store.get(A)) is Reason.STORE_UNSAFE
    store.put(A, b"2")
    assert store.get(A) == b"2"


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_an_entry_that_others_may_write_is_refused(store: DirectoryStore, mode: int):
    """An entry that group or others may write is not read, and a put replaces it by a private one."""
    store.put(A, b"1")
    Path(store.describe(A)).chmod(mode)
    _unsafe_entry(store)


@needs_root
def test_an_entry_of_another_user_is_refused(store: DirectoryStore):
    """An entry that belongs to neither this user nor root is not read, and a put replaces it."""
    store.put(A, b"1")
    os.chown(store.describe(A), OTHER_USER, OTHER_USER)
    _unsafe_entry(store)


def _bind(path: Path) -> None:
    # The path of a socket has a short limit, its name relative to the working directory does not reach it.
    with socket.socket(socket.AF_UNIX) as listening, pytest.MonkeyPatch.context() as patch:
        patch.chdir(path.parent)
        listening.bind(path.name)


SPECIAL: dict[str, Callable[[Path], object]] = {
    "link": lambda path: path.symlink_to(path.parent.parent / "elsewhere"),
    "dangling link": lambda path: path.symlink_to("nowhere"),
    "link to itself": lambda path: path.symlink_to(path.name),
    "pipe": os.mkfifo,
    "socket": _bind,
    "device": lambda path: os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 3)),
    "directory": Path.mkdir,
}


def _lay(kind: str, path: Path) -> None:
    try:
        SPECIAL[kind](path)
    except PermissionError:
        pytest.skip(f"this user may not make a {kind}")


@pytest.mark.parametrize("kind", SPECIAL)
def test_what_is_no_file_is_unreadable_and_replaced(store: DirectoryStore, kind: str):
    """A link, pipe, socket, device or directory in the entry's place is not read, without waiting, and told in words; a
    put replaces it.
    """
    store.put(B, b"other")
    elsewhere = store.directory / "elsewhere"
    elsewhere.write_bytes(b"elsewhere")
    _lay(kind, Path(store.describe(A)))
    with pytest.raises(StoreError) as refused:
        store.get(A)
    assert refused.value.reason is Reason.ENTRY_UNREADABLE
    word = "symbolic link, which is not followed" if "link" in kind else kind
    assert f"{store.describe(A)} is a {word}" in refused.value.detail
    store.put(A, b"new")
    assert (store.get(A), store.get(B), store.list()) == (b"new", b"other", (A, B))
    assert elsewhere.read_bytes() == b"elsewhere"


def test_the_newest_that_were_set_aside_are_kept(store: DirectoryStore):
    """Whatever damages an entry at each boot fills no disk; entries are not counted."""
    store.put(B, b"whole")
    for number in range(KEPT_ASIDE + 5):
        store.put(A, b"%d" % number)
        assert store.set_aside(A) is True
    aside = list((store.directory / "v1").glob("*.bad-*"))
    assert len(aside) == KEPT_ASIDE
    assert b"%d" % (KEPT_ASIDE + 4) in {path.read_bytes() for path in aside}
    assert store.list() == (B,)


@pytest.mark.parametrize("kind", SPECIAL)
def test_what_is_no_file_can_be_set_aside(store: DirectoryStore, kind: str):
    """A link, pipe, socket, device or directory is set aside as a damaged entry is."""
    store.put(B, b"other")
    _lay(kind, Path(store.describe(A)))
    assert store.set_aside(A) is True
    assert (store.get(A), store.list()) == (None, (B,))


def test_a_directory_in_the_way_is_kept(store: DirectoryStore):
    """A put moves a directory in its place aside, with what is in it."""
    store.put(B, b"other")
    Path(store.describe(A)).mkdir()
    (Path(store.describe(A)) / "precious").write_bytes(b"1")
    store.put(A, b"new")
    (kept,) = (store.directory / "v1").glob(f"{A}.jsonl.bad-*")
    assert (kept / "precious").read_bytes() == b"1"
    store.put(A, b"newer")
    assert len(list((store.directory / "v1").iterdir())) == 3


def test_a_directory_in_the_way_is_no_entry_to_delete(store: DirectoryStore):
    """Deleting a directory in the entry's place is refused, and the directory stays."""
    store.put(B, b"other")
    Path(store.describe(A)).mkdir()
    assert _reason(lambda: store.delete(A)) is Reason.STORE_UNAVAILABLE
    assert Path(store.describe(A)).is_dir()


def test_reading_is_bounded(store: DirectoryStore):
    """Of a file of any size no more is read than shows that it is too large."""
    store.put(A, b"")
    os.truncate(store.describe(A), 1 << 40)
    assert len(store.get(A) or b"") == MAX_BYTES + 1


def test_only_entries_are_listed(store: DirectoryStore):
    """Set-aside, temporary and unknown files are not entries."""
    store.put(A, b"1")
    store.put(B, b"2")
    store.set_aside(B)
    for name in (".tmp-host-1-00", "README", f"{C}.json", f"{C[1:]}.jsonl", f"{'C' * 64}.jsonl"):
        (store.directory / "v1" / name).write_bytes(b"")
    assert store.list() == (A,)


def test_a_refusal_is_not_its_own_cause(store: DirectoryStore):
    """Whoever walks the causes of a refusal comes to an end."""
    store.put(A, b"1")
    store.directory.chmod(0o777)
    for operation in (lambda: store.get(A), lambda: store.put(A, b"2"), store.list, lambda: store.delete(A)):
        with pytest.raises(StoreError) as refused:
            operation()
        assert refused.value.__cause__ is not refused.value


@pytest.mark.parametrize("where", ["file/store", "file/parent/store", "file"])
def test_a_store_below_a_file_is_unavailable(tmp_path: Path, where: str):
    """Where a file stands in the way of the store's directory, every operation says so."""
    (tmp_path / "file").write_bytes(b"")
    store = DirectoryStore(tmp_path / where)
    for operation in (lambda: store.get(A), lambda: store.put(A, b"1"), store.list, lambda: store.delete(A)):
        assert _reason(operation) is Reason.STORE_UNAVAILABLE
    assert store.set_aside(A) is False


@pytest.mark.parametrize("where", ["/proc/warmcurve", "/proc/self/warmcurve/store", "/dev/null/store", "/" + "x" * 300])
def test_a_store_that_cannot_be_created_refuses_a_put(where: str):
    """Where no directory can be made, a put is refused; it is never made elsewhere."""
    reason = _reason(lambda: DirectoryStore(Path(where)).put(A, b"1"))
    assert reason in {Reason.STORE_UNAVAILABLE, Reason.STORE_READ_ONLY}


def _permissions_hold(place: Path) -> bool:
    place.chmod(0o500)
    try:
        (place / "probe").mkdir()
    except PermissionError:
        return True
    else:
        (place / "probe").rmdir()
        return False
    finally:
        place.chmod(0o700)


def test_missing_permissions_are_read_only(tmp_path: Path):
    """Without permission to write, a put and a delete are refused as read-only, and reading goes on."""
    if not _permissions_hold(tmp_path):
        pytest.skip("permissions do not bind this user")
    store = DirectoryStore(tmp_path / "parent" / "store")
    store.put(A, b"1")
    for directory in (store.directory / "v1", store.directory):
        directory.chmod(0o500)
    assert _reason(lambda: store.put(A, b"2")) is Reason.STORE_READ_ONLY
    assert _reason(lambda: store.delete(A)) is Reason.STORE_READ_ONLY
    assert store.set_aside(A) is False
    assert (store.get(A), store.list()) == (b"1", (A,))
    Path(store.describe(A)).chmod(0)
    assert _reason(lambda: store.get(A)) is Reason.ENTRY_UNREADABLE
    store.directory.chmod(0o000)
    assert _reason(lambda: store.get(A)) is Reason.STORE_UNAVAILABLE
    store.directory.chmod(0o700)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB and 8 names."""
    place = tmp_path / "disk"
    place.mkdir()
    if not run("mount", "-t", "tmpfs", "-o", "size=64k,nr_inodes=8,mode=700", "tmpfs", place):
        pytest.skip("this user may not mount a file system")
    yield place
    assert run("umount", place)


def test_a_full_disk_keeps_the_old_value(small_disk: Path):
    """Where no space is left, a put is refused, the old value stays, and no temporary file fills the disk for good."""
    store = DirectoryStore(small_disk / "store")
    old = bytes(20_000)
    store.put(A, old)
    assert _reason(lambda: store.put(A, bytes(60_000))) is Reason.STORE_FULL
    assert _reason(lambda: store.put(B, bytes(60_000))) is Reason.STORE_FULL
    assert (store.get(A), store.get(B), _temporary(small_disk)) == (old, None, [])
    store.put(A, b"small")
    assert store.get(A) == b"small"


def test_what_a_dead_writer_left_makes_room(small_disk: Path):
    """On a disk that is full of a killed writer's file, a put removes it first."""
    store = DirectoryStore(small_disk / "store")
    store.put(B, b"1")
    child = os.fork()
    if not child:
        try:
            with NthOf("rename", 1, _die):
                store.put(A, bytes(40_000))
        finally:
            os._exit(1)
    os.waitpid(child, 0)
    assert len(_temporary(small_disk)) == 1
    store.put(A, bytes(40_000))
    assert (store.get(A), _temporary(small_disk)) == (bytes(40_000), [])


def test_a_disk_without_names_left_refuses(small_disk: Path):
    """Where no name is left, a first and a later put are refused as full."""
    names = [small_disk / str(index) for index in range(9)]
    assert not run("touch", *names)
    store = DirectoryStore(small_disk / "store")
    for freed in names[:3]:
        assert _reason(lambda: store.put(A, b"1")) is Reason.STORE_FULL
        assert store.get(A) is None
        freed.unlink()
    store.put(A, b"1")
    assert _reason(lambda: store.put(A, b"2")) is Reason.STORE_FULL
    assert store.get(A) == b"1"


def test_a_read_only_disk_is_read(small_disk: Path):
    """On a file system that is mounted read-only entries are found, and every write is refused as read-only."""
    store, absent = DirectoryStore(small_disk / "store"), DirectoryStore(small_disk / "absent")
    store.put(A, b"1")
    assert run("mount", "-o", "remount,ro", small_disk)
    assert (store.get(A), store.get(B), store.list(), absent.get(A)) == (b"1", None, (A,), None)
    for operation in (lambda: store.put(A, b"2"), lambda: store.delete(A), lambda: absent.put(A, b"1")):
        assert _reason(operation) is Reason.STORE_READ_ONLY
    assert store.set_aside(A) is False
    assert store.get(A) == b"1"


WRITER = """
import sys
from pathlib import Path
from warmcurve.storage.store import DirectoryStore

directory, letter, size, times = sys.argv[1:]
store = DirectoryStore(Path(directory))
print("ready", flush=True)
for _ in range(int(times)):
    store.put("a" * 64, letter.encode() * int(size))
"""


def _writer(directory: Path, letter: str, size: int, times: int) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-c", WRITER, str(directory), letter, str(size), str(times)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})


def test_readers_see_whole_values_of_many_writers(store: DirectoryStore):
    """While many processes put under one digest, from before it exists, every read gives one of their whole values."""
    sizes = {letter: 40_000 + 20_000 * index for index, letter in enumerate("pqrstu")}
    whole = {letter.encode() * size for letter, size in sizes.items()}
    writers = [_writer(store.directory, letter, size, times=60) for letter, size in sizes.items()]
    seen: set[bytes | None] = set()
    while any(writer.poll() is None for writer in writers):
        value = store.get(A)
        assert value in whole or (value is None and seen <= {None})
        seen.add(value)
    for writer in writers:
        writer.communicate()
        assert writer.returncode == 0
    assert store.get(A) in whole
    assert _temporary(store.directory) == []


def _forget(path: Path, seconds: int) -> None:
    """Set a file's time back."""
    then = path.stat().st_mtime - seconds
    os.utime(path, (then, then))


def test_a_killed_writer_leaves_a_whole_value(store: DirectoryStore):
    """However often writers are killed, readers get a whole value, and what they left is swept by the next put."""
    store.put(A, b"o" * 900_000)
    for index in range(12):
        with _writer(store.directory, "opqrst"[index % 6], 900_000, times=10_000) as writer:
            assert writer.stdout is not None
            writer.stdout.readline()
            for _ in range(7 * index):
                value = store.get(A) or b""
                assert len(value) == 900_000
                assert value == value[:1] * 900_000
            writer.kill()
    store.put(B, b"2")
    assert _temporary(store.directory) == []


def _stop(name: str) -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def test_a_living_writer_is_not_disturbed(store: DirectoryStore):
    """A writer that is stopped for as long as others put keeps its temporary file, and stores its value in the end."""
    store.put(B, b"1")
    child = os.fork()
    if not child:
        try:
            with NthOf("rename", 1, _stop):
                store.put(A, b"late")
        finally:
            os._exit(0)
    try:
        assert os.WIFSTOPPED(os.waitpid(child, os.WUNTRACED)[1])
        store.put(B, b"2")
        assert len(_temporary(store.directory)) == 1
    finally:
        os.kill(child, signal.SIGCONT)
        os.waitpid(child, 0)
    assert (store.get(A), _temporary(store.directory)) == (b"late", [])


PREFIX = "from warmcurve.storage import files; print(files._writer())"


def _prefix(*words: str) -> str:
    """How a process that is started so begins the names of its temporary files."""
    command = [*words, sys.executable, "-c", PREFIX]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(command, capture_output=True, check=True, text=True, env=environment).stdout.strip()


def test_only_a_process_that_is_looked_for_where_it_lived_is_dead(store: DirectoryStore):
    """The file of a process id that nobody has is swept at once. That of one that is given again stays, and so do that
    of another pid namespace and that of another boot under the same host name.
    """
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        pass
    ours = _prefix()
    assert ours == _prefix()
    names = {"dead": f"{ours}{gone.pid}-0", "living": f"{ours}1-0", "no number": f"{ours}x-0", "nothing": ours}
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip().replace("-", "")
    names["another boot"] = names["dead"].replace(boot_id, "0" * len(boot_id))
    assert names["another boot"] != names["dead"]
    if run("unshare", "--pid", "--fork", "true"):
        names["another namespace"] = f"{_prefix('unshare', '--pid', '--fork')}{gone.pid}-0"
        assert names["another namespace"] != names["dead"]
    store.put(A, b"1")
    for name in names.values():
        (store.directory / "v1" / name).touch()
    store.put(A, b"2")
    assert {path.name for path in _temporary(store.directory)} == set(names.values()) - {names["dead"]}


def test_without_proc_nobody_is_known_to_be_dead(store: DirectoryStore, monkeypatch: pytest.MonkeyPatch):
    """Where the kernel tells no boot id, a dead writer's file stays for an hour."""
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: raising(errno.ENOENT)("read"))
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        pass
    store.put(A, b"1")
    left = store.directory / "v1" / f".tmp-{socket.gethostname()}-{gone.pid}-0"
    left.touch()
    store.put(A, b"2")
    assert _temporary(store.directory) == [left]
    _forget(left, 3700)
    store.put(A, b"3")
    assert _temporary(store.directory) == []


def _die(name: str) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("old", [None, b"old"])
def test_a_writer_killed_before_any_call_leaves_a_whole_value(store: DirectoryStore, old: bytes | None):
    """Killed before the n-th of the system's calls, for every n, a writer leaves the old value or the new."""
    nth, status, seen, left = 0, -1, set(), 0
    while status:
        nth += 1
        if old is not None:
            store.put(A, old)
        child = os.fork()
        if not child:
            try:
                with FaultySystem(nth, _die):
                    store.put(A, b"new")
            finally:
                os._exit(0)
        status = os.waitpid(child, 0)[1]
        left += len(_temporary(store.directory))
        seen.add(store.get(A))
        store.delete(A)
    assert seen == {old, b"new"}
    assert left
    store.put(B, b"2")
    assert _temporary(store.directory) == []


def test_temporary_files_are_swept_by_the_file_systems_clock(store: DirectoryStore):
    """A temporary file is swept when more than an hour older than the newest, and nothing else is."""
    store.put(A, b"1")
    entries = store.directory / "v1"
    names = {".tmp-forgotten": 3700, ".tmp-young": 3500, "stranger": 9999, f"{C}.jsonl.bad-00000000": 9999}
    for name, age in names.items():
        (entries / name).write_bytes(b"")
        _forget(entries / name, age)
    _forget(Path(store.describe(A)), 9999)
    (entries / ".tmp-directory").mkdir()
    _forget(entries / ".tmp-directory", 9999)
    store.put(B, b"2")
    left = {path.name for path in entries.iterdir()}
    assert left == names.keys() - {".tmp-forgotten"} | {".tmp-directory", f"{A}.jsonl", f"{B}.jsonl"}


def test_a_link_to_a_forgotten_file_is_swept_not_followed(store: DirectoryStore, tmp_path: Path):
    """The age of a temporary name is its own, and what it leads to stays."""
    store.put(A, b"1")
    target = tmp_path / "target"
    target.write_bytes(b"1")
    _forget(target, 9999)
    link = store.directory / "v1" / ".tmp-link"
    link.symlink_to(target)
    store.put(A, b"2")
    assert link.is_symlink()
    os.utime(link, (0, 0), follow_symlinks=False)
    store.put(A, b"3")
    assert not link.is_symlink()
    assert target.exists()


def _directory_in_place(store: DirectoryStore) -> None:
    store.put(B, b"other")
    Path(store.describe(A)).mkdir()


OPERATIONS: dict[str, Callable[[DirectoryStore], object]] = {
    "put": lambda store: store.put(A, b"new"),
    "get": lambda store: store.get(A),
    "list": lambda store: store.list(),
    "delete": lambda store: store.delete(A),
    "set_aside": lambda store: store.set_aside(A),
}
ERRORS = ("EIO", "ENOSPC", "EACCES", "EROFS", "ESTALE", "EDQUOT")
REASONS = {
    Reason.STORE_READ_ONLY: {"EACCES", "EROFS"},
    Reason.STORE_CANNOT_RENAME: {"EACCES"},
    Reason.STORE_FULL: {"ENOSPC", "EDQUOT"},
    Reason.STORE_UNAVAILABLE: {"EIO", "ESTALE"},
}
BEFORE: dict[str, Callable[[DirectoryStore], object]] = {
    "nothing": lambda store: None,
    "old value": lambda store: store.put(A, b"old"),
    "directory": _directory_in_place,
}


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "from then on"])
@pytest.mark.parametrize("name", ERRORS)
@pytest.mark.parametrize(
    ("operation", "before"),
    [*(("put", before) for before in BEFORE), *((name, "old value") for name in OPERATIONS if name != "put")],
)
def test_any_failing_call_leaves_a_whole_value(tmp_path: Path, operation: str, before: str, name: str, lasting: bool):
    """With the n-th of the system's calls failing, for every n, only a StoreError escapes. Where one does nothing has
    changed, else all is done, and no open descriptor is left, nor a file but the mark of one that was not renamed.
    """
    nth, reached = 0, True
    while reached:
        nth += 1
        store = DirectoryStore(tmp_path / str(nth) / "store")
        BEFORE[before](store)
        opened = _descriptors()
        refusal = None
        with FaultySystem(nth, raising(getattr(errno, name)), lasting=lasting) as system:
            try:
                answer = OPERATIONS[operation](store)
            except StoreError as error:
                refusal = error
        reached = system.reached
        assert _descriptors() == opened
        if "unlink" not in system.failed:
            marked = refusal is not None and refusal.reason is Reason.STORE_CANNOT_RENAME
            assert len(_temporary(store.directory)) <= marked
        if operation == "put":
            _put_held(store, before, refusal)
            if refusal:
                assert name in REASONS[refusal.reason]
                not_renamed = name == "EACCES" and "rename" in system.failed
                assert (refusal.reason is Reason.STORE_CANNOT_RENAME) == not_renamed
        elif operation == "get":
            assert refusal or answer == b"old"
        elif operation == "delete":
            assert store.get(A) == (b"old" if refusal else None)
        elif operation == "set_aside":
            assert refusal is None
            assert store.get(A) == (None if answer else b"old")
    assert refusal is None
    assert nth > 1


def _put_held(store: DirectoryStore, before: str, refusal: StoreError | None) -> None:
    if refusal is None:
        assert store.get(A) == b"new"
        return
    try:
        value = store.get(A)
    except StoreError as unreadable:
        assert (before, unreadable.reason) == ("directory", Reason.ENTRY_UNREADABLE)  # noqa: PT017
    else:
        assert value == (b"old" if before == "old value" else None)


class NoDirectorySync(FaultySystem):
    """A file system that answers with this error when a directory is to be synced."""

    def __init__(self, number: int) -> None:
        super().__init__(0, raising(number))

    def __getattr__(self, name: str):
        if name != "fsync":
            return getattr(os, name)
        return lambda descriptor: self._fail(name) if stat.S_ISDIR(os.fstat(descriptor).st_mode) else None


@pytest.mark.parametrize("name", ["EINVAL", "EBADF", "ENOTSUP", "ENOSYS", "EIO", "ENOSPC", "ESTALE"])
def test_what_is_renamed_is_stored_though_its_directory_cannot_be_synced(store: DirectoryStore, name: str):
    """A put and a delete are done all the same; only an error that may have lost something is told."""
    with NoDirectorySync(getattr(errno, name)):
        told = store.put(A, b"1")
        assert (store.get(A), store.delete(B), store.delete(A), store.get(A)) == (b"1", False, True, None)
    supported = name in {"EIO", "ENOSPC", "ESTALE"}
    assert ("a loss of power may undo it" in (told or "")) == supported


def test_a_boot_whose_entry_may_be_lost_says_so(store: DirectoryStore):
    """It has recorded, with a word on it in its line; its report is there, and the next boot is warm."""
    engine, reports = ScriptedEngine(), ReportDirectory(store.directory)
    with NoDirectorySync(errno.EIO):
        recorded = boot(engine, store)
        reports.write(recorded)
    assert (recorded.outcome, recorded.reason) == (Outcome.RECORDED, None)
    assert "stored, but a loss of power may undo it" in recorded.log_line()
    assert len(reports.read()) == 1
    assert boot(engine, store).outcome is Outcome.REUSED


READS: dict[str, Callable[[DirectoryStore], object]] = {
    "get": lambda store: store.get(A),
    "list": lambda store: store.list(),
    "history": lambda store: HistoryDirectory(store.directory, "machine").read(A).machine,
    "histories": lambda store: [kept.history is None for kept in HistoryDirectory(store.directory).of(A)],
    "reports": lambda store: [type(data) for _, data in ReportDirectory(store.directory).read()],
}


@pytest.mark.parametrize("number", [errno.ESTALE, errno.EAGAIN, errno.EINTR])
@pytest.mark.parametrize("what", READS)
def test_what_is_stale_is_read_once_more(store: DirectoryStore, what: str, number: int):
    """With the n-th of the system's calls answering once that a file was replaced, for every n, all is read. Where the
    answer stays the same there is no third attempt; any other error is no reason for a second.
    """
    store.put(A, b"1")
    HistoryDirectory(store.directory, "machine").write(A, History("machine"))
    ReportDirectory(store.directory).write(boot(ScriptedEngine(), MemoryStore()))
    with FaultySystem(0, _die) as system:
        expected = READS[what](store)
    opened = system.calls.count("open")
    nth, reached = 0, True
    while reached:
        nth += 1
        with FaultySystem(nth, raising(number)) as system:
            assert READS[what](store) == expected
        reached = system.reached
        if nth <= 3:
            with suppress(StoreError), FaultySystem(nth, raising(number), lasting=True) as system:
                READS[what](store)
            assert system.calls.count("open") <= 2 * opened
        with suppress(StoreError), FaultySystem(nth, raising(errno.EIO)) as system:
            READS[what](store)
        assert system.calls.count("open") <= opened


class NoRename(FaultySystem):
    """Object storage as a directory: files are made and read, and neither renamed nor, with `keeps`, removed."""

    def __init__(self, number: int, *, keeps: bool) -> None:
        super().__init__(0, raising(number))
        self._keeps = keeps

    def __getattr__(self, name: str):
        self.calls.append(name)
        if name == "rename":
            return self._refuse
        return (lambda *_, **__: raising(errno.EPERM)(name)) if name == "unlink" and self._keeps else getattr(os, name)

    def _refuse(self, old: str, new: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        os.stat(old, dir_fd=src_dir_fd)
        self._fail("rename")


@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOTSUP, errno.EPERM, errno.EACCES])
def test_a_file_system_that_cannot_rename_is_told(store: DirectoryStore, number: int, *, keeps: bool):
    """Nothing is stored, and the reason is neither its state nor a permission. The first attempt leaves an empty file
    in each directory, and what cannot be removed. Later attempts write nothing. What can rename again is used again.
    """
    reports, histories = ReportDirectory(store.directory), HistoryDirectory(store.directory, "machine")
    report = boot(ScriptedEngine(), MemoryStore())
    writes = (lambda: store.put(A, b"1"), lambda: histories.write(A, History("machine")), lambda: reports.write(report))
    left = []
    for attempt in range(3):
        with NoRename(number, keeps=keeps) as system:
            assert [_reason(write) for write in writes] == [Reason.STORE_CANNOT_RENAME] * 3
        assert ("write" in system.calls) == (attempt == 0)
        left.append(sorted(_temporary(store.directory)))
    assert left == [left[0]] * 3
    assert len(left[0]) == (6 if keeps else 3)
    assert (store.get(A), store.list(), reports.read(), histories.of(A)) == (None, (), (), ())
    for write in writes:
        write()
    assert (store.get(A), len(reports.read()), len(histories.of(A))) == (b"1", 1, 1)
    assert len(_temporary(store.directory)) == (3 if keeps else 0)


def test_a_directory_that_only_grows_is_one_that_cannot_rename(store: DirectoryStore):
    """On a real file system: an append-only directory takes files and gives none back."""
    store.put(B, b"other")
    entries = store.directory / "v1"
    if not run("chattr", "+a", entries):
        pytest.skip("this user or file system cannot make a directory append-only")
    try:
        for _ in range(3):
            assert _reason(lambda: store.put(A, b"1")) is Reason.STORE_CANNOT_RENAME
        assert len(list(entries.iterdir())) == 3
        assert store.get(B) == b"other"
    finally:
        assert run("chattr", "-a", entries)
    store.put(A, b"1")
    assert store.get(A) == b"1"


@pytest.mark.parametrize("inner", ["", "v1"])
def test_a_link_in_the_place_of_a_directory_is_followed(store: DirectoryStore, tmp_path: Path, inner: str):
    """Entries are read and stored where it leads, if only trusted users may write there."""
    store.put(A, b"1")
    place, elsewhere = store.directory / inner, tmp_path / "elsewhere"
    place.rename(elsewhere)
    place.symlink_to(elsewhere)
    store.put(B, b"2")
    assert (store.get(A), store.get(B), store.list()) == (b"1", b"2", (A, B))
    elsewhere.chmod(0o777)
    _refused_everywhere(store)


@pytest.mark.parametrize("inner", ["", "v1", ".."])
@pytest.mark.parametrize("target", ["nowhere", None])
def test_a_link_that_leads_nowhere_is_told(tmp_path: Path, inner: str, target: str | None):
    """In the place of a directory of the store, or of one above it: no entry is absent, and nothing is made there."""
    store = DirectoryStore(tmp_path / "parent" / "store")
    place = {"": store.directory, "v1": store.directory / "v1", "..": store.directory.parent}[inner]
    place.parent.mkdir(parents=True, mode=0o700, exist_ok=True)
    place.symlink_to(target or place.name)
    for operation in (lambda: store.get(A), lambda: store.put(A, b"1"), store.list, lambda: store.delete(A)):
        with pytest.raises(StoreError, match=f"{place} is a symbolic link that leads nowhere") as refused:
            operation()
        assert refused.value.reason is Reason.STORE_UNAVAILABLE
    assert not place.exists()


def test_a_write_may_take_less_than_all(store: DirectoryStore):
    """A value is stored whole also where each write takes a byte and each read gives one."""

    class Slow(FaultySystem):
        def __getattr__(self, name: str):
            if name == "write":
                return lambda descriptor, data: os.write(descriptor, data[:1])
            if name == "read":
                return lambda descriptor, size: os.read(descriptor, 1)
            return getattr(os, name)

    with Slow(0, _die):
        store.put(A, b"every byte")
        assert store.get(A) == b"every byte"


def test_a_put_outlives_a_loss_of_power(store: DirectoryStore):
    """The file is synced between its last write and the rename, and the directory after it."""
    with FaultySystem(0, _die) as system:
        store.put(A, b"1")
    published = system.calls.index("rename")
    assert "fsync" in system.calls[system.calls.index("write") : published]
    assert "fsync" in system.calls[published:]


def test_an_interrupted_put_leaves_nothing(store: DirectoryStore):
    """A put that is interrupted from the keyboard leaves the old value and no temporary file."""
    store.put(A, b"old")

    def interrupt(name: str) -> None:
        raise KeyboardInterrupt

    nth, reached = 0, True
    while reached:
        nth += 1
        opened = _descriptors()
        with FaultySystem(nth, interrupt) as system:
            try:
                store.put(A, b"new")
            except KeyboardInterrupt:
                assert store.get(A) in {b"old", b"new"}
        reached = system.reached
        assert _descriptors() == opened
        assert _temporary(store.directory) == [] or system.failed == ["unlink"]
