"""Reads and publishes files in a directory that only trusted users may write to.

Every call opens the directory, checks the *open* directory, and works relative to its descriptor. So nobody can swap
the directory between the check and the use. No call takes a lock, and reading never needs to write: caches that took
locks on shared file systems hung on stale ones (pytorch#189245, flashinfer#993).
"""

import errno
import os
import secrets
import socket
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, TypeVar

from warmcurve.errors import StoreError
from warmcurve.outcome import Reason

ASIDE: Final = ".bad-"
KEPT_ASIDE: Final = 16
"""Files of a directory that were set aside and are kept for inspection: whatever damages one at each boot must not fill
a disk.
"""
TEMPORARY: Final = ".tmp-"
_NOT_RENAMED: Final = f"{TEMPORARY}not-renamed"
"""An empty file, in a directory in which a file of ours could not be renamed."""
_FORGOTTEN_AFTER_S: Final = 3600

_WRITE_REASONS: Final = {
    errno.EROFS: Reason.STORE_READ_ONLY,
    errno.EACCES: Reason.STORE_READ_ONLY,
    errno.EPERM: Reason.STORE_READ_ONLY,
    errno.ENOSPC: Reason.STORE_FULL,
    errno.EDQUOT: Reason.STORE_FULL,
}
# rename answers so in a directory in which a file was made a moment ago: Mountpoint for Amazon S3 has no rename
# (https://github.com/awslabs/mountpoint-s3/blob/main/doc/SEMANTICS.md), and an append-only directory forbids it.
_NO_RENAME: Final = {errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EPERM, errno.EACCES}
# NFS answers ESTALE for a file or directory that was replaced on the server (RFC 1813, NFS3ERR_STALE); open with
# O_NONBLOCK answers EAGAIN while another process gives up its lease (open(2)).
_PASSING: Final = {errno.ESTALE, errno.EAGAIN, errno.EINTR}
_KINDS: Final = {
    stat.S_IFLNK: "is a symbolic link, which is not followed, since it may lead out of the directory: "
    "put a copy of the file in its place",
    stat.S_IFDIR: "is a directory, not a file",
    stat.S_IFIFO: "is a pipe, not a file",
    stat.S_IFSOCK: "is a socket, not a file",
    stat.S_IFCHR: "is a device, not a file",
    stat.S_IFBLK: "is a device, not a file",
}

T = TypeVar("T")


class Directory:
    """A directory of a store: for entries, reports or histories. Any error of the system becomes a `StoreError`."""

    def __init__(self, store: Path, name: str, *, trust_group: bool) -> None:
        self.path = store / name
        self._trust_group = trust_group

    def read(self, name: str, limit: int) -> bytes | None:
        """At most limit + 1 bytes of a regular file, or None if there is no file."""

        def attempt() -> bytes:
            with self._open() as directory:
                return self._read(directory, name, limit)

        return self._found(attempt)

    def names(self) -> tuple[str, ...]:
        """The names in the directory, in order. None of them if the directory does not exist."""

        def attempt() -> tuple[str, ...]:
            with self._open() as directory:
                return tuple(sorted(os.listdir(directory)))

        return self._found(attempt) or ()

    def publish(self, name: str, data: bytes) -> str | None:
        """Write all of `data` under `name`, or nothing. Readers see the old file or the new one, also after a crash.

        Returns None. If a loss of power may undo it, it returns the reason in words. If it raises `StoreError`, it
        leaves nothing behind, or an empty file in a directory that cannot rename.
        """
        with self._writing(name), self._open(create=True) as directory:
            self._write(directory, name, data)
            return _sync(directory)

    def remove(self, name: str) -> bool:
        """Remove a file. Returns whether there was one. A loss of power may undo it."""
        with self._writing(name):
            try:
                with self._open() as directory:
                    os.unlink(name, dir_fd=directory)
                    _sync(directory)
                    return True
            except FileNotFoundError:
                return False

    def set_aside(self, name: str) -> bool:
        """Move a file aside and keep it for inspection. Returns whether there was one. A loss of power may undo it."""
        with suppress(OSError), self._open() as directory:
            self._move_aside(directory, name)
            return True
        return False

    def keep_newest(self, ours: Callable[[str], bool], count: int, last: str | None = None) -> None:
        """Remove the oldest of these files, so that `count` are left. `last` counts as the newest.

        A file that cannot be removed stays. It may be a directory, or another process may remove it at the same time.
        """
        with suppress(OSError), self._open() as directory:
            _keep_newest(directory, ours, count, last)

    @contextmanager
    def _open(self, *, create: bool = False) -> Iterator[int]:
        """A descriptor. The store's own directory is checked too: whoever may write to it could swap its contents."""
        with (
            _open_directory(self.path.parent, trust_group=self._trust_group, create=create),
            _open_directory(self.path, trust_group=self._trust_group, create=create) as descriptor,
        ):
            yield descriptor

    def _found(self, attempt: Callable[[], T]) -> T | None:
        try:
            return twice(attempt)
        except FileNotFoundError:
            return None
        except StoreError:
            raise
        except OSError as error:
            raise StoreError(Reason.STORE_UNAVAILABLE, _met(self.path, error)) from error

    @contextmanager
    def _writing(self, name: str) -> Iterator[None]:
        try:
            yield
        except StoreError:
            raise
        except OSError as error:
            reason = _WRITE_REASONS.get(error.errno or 0, Reason.STORE_UNAVAILABLE)
            raise StoreError(reason, _met(self.path / name, error)) from error

    def _read(self, directory: int, name: str, limit: int) -> bytes:
        path = self.path / name
        try:
            # O_NONBLOCK: opening a pipe would wait for a writer. O_NOFOLLOW: a link leads out of the checked directory.
            flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
            descriptor = os.open(name, flags, dir_fd=directory)
        except FileNotFoundError:
            raise
        except OSError as error:
            # A link is ELOOP and a socket ENXIO, whose own words say nothing of either.
            kind = None
            with suppress(OSError):
                kind = kind_in_words(os.stat(name, dir_fd=directory, follow_symlinks=False))
            detail = f"{path} {kind}" if kind else _met(path, error)
            raise StoreError(Reason.ENTRY_UNREADABLE, detail) from error
        try:
            status = os.fstat(descriptor)
            _refuse_special(status, path)
            _refuse_unsafe(status, path, trust_group=self._trust_group)
            parts: list[bytes] = []
            wanted = limit + 1
            while wanted and (part := os.read(descriptor, wanted)):
                parts.append(part)
                wanted -= len(part)
            return b"".join(parts)
        except StoreError:
            raise
        except OSError as error:
            # Network file systems answer so when a file is replaced or a server restarts.
            raise StoreError(Reason.ENTRY_UNREADABLE, _met(path, error)) from error
        finally:
            _close(descriptor)

    def _write(self, directory: int, name: str, data: bytes) -> None:
        writer = _writer()
        temporary = f"{writer}{os.getpid()}-{secrets.token_hex(8)}"
        self._refuse_what_was_not_renamed(directory, temporary)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(temporary, flags, 0o600, dir_fd=directory)
        try:
            try:
                # First, since what was left behind may be what fills the disk. The clock is the file system's own.
                _sweep(directory, writer, os.fstat(descriptor).st_mtime)
                rest = memoryview(data)
                while rest:
                    rest = rest[os.write(descriptor, rest) :]
                # Without it a power loss may leave the new name on an empty file: rename orders nothing by itself.
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            try:
                self._rename(directory, temporary, name)
            except (IsADirectoryError, NotADirectoryError):
                # rename replaces files, links and pipes, but no directory.
                self._move_aside(directory, name)
                self._rename(directory, temporary, name)
        except BaseException as error:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=directory)
            if isinstance(error, StoreError) and error.reason is Reason.STORE_CANNOT_RENAME:
                _remember_not_renamed(directory)
            raise

    def _refuse_what_was_not_renamed(self, directory: int, temporary: str) -> None:
        """If no file can be renamed here, each boot would write in vain. So try the empty file of the first one.

        In any other directory this is one call, which finds nothing.
        """
        try:
            os.stat(_NOT_RENAMED, dir_fd=directory, follow_symlinks=False)
            self._rename(directory, _NOT_RENAMED, temporary)
        except FileNotFoundError:
            return
        with suppress(OSError):
            os.unlink(temporary, dir_fd=directory)

    def _rename(self, directory: int, old: str, new: str) -> None:
        try:
            os.rename(old, new, src_dir_fd=directory, dst_dir_fd=directory)
        except OSError as error:
            if error.errno not in _NO_RENAME:
                raise
            detail = f"{self.path}: files can be created there but not renamed ({error.strerror})"
            raise StoreError(Reason.STORE_CANNOT_RENAME, detail) from error

    def _move_aside(self, directory: int, name: str) -> None:
        aside = f"{name}{ASIDE}{secrets.token_hex(4)}"
        self._rename(directory, name, aside)
        with suppress(OSError):
            _keep_newest(directory, lambda other: ASIDE in other, KEPT_ASIDE, aside)


def twice(attempt: Callable[[], T]) -> T:
    """Try again from the start if the first attempt met an error that may be gone. A calibration costs more."""
    try:
        return attempt()
    except Exception as error:
        if getattr(error.__cause__ or error, "errno", None) not in _PASSING:
            raise
    return attempt()


def kind_in_words(status: os.stat_result) -> str | None:
    """In words what this is, if it is not a regular file. None for a regular file."""
    if stat.S_ISREG(status.st_mode):
        return None
    return _KINDS.get(stat.S_IFMT(status.st_mode), "is not a regular file")


def _met(path: Path, error: OSError) -> str:
    return f"{path}: {error.strerror}"


@contextmanager
def _open_directory(path: Path, *, trust_group: bool, create: bool) -> Iterator[int]:
    """A descriptor of the directory, once it is known that no untrusted user may write to it.

    A link is followed, and its target is checked. With `create` the directory is made with mode 0700, and its parents
    with the umask's mode. Raises FileNotFoundError or `StoreError`.
    """
    if create:
        with suppress(FileExistsError):
            path.parent.mkdir(parents=True, exist_ok=True)
            # mkdir's own mode, not a chmod after it: there is no moment at which others may enter.
            path.mkdir(mode=0o700)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        nowhere = error.errno in (errno.ENOENT, errno.ELOOP)
        links = (each for each in (path, *path.parents) if nowhere and each.is_symlink() and not each.exists())
        if (link := next(links, None)) is None:
            raise
        raise StoreError(Reason.STORE_UNAVAILABLE, f"{link} is a symbolic link that leads nowhere") from error
    try:
        _refuse_unsafe(os.fstat(descriptor), path, trust_group=trust_group)
        yield descriptor
    finally:
        _close(descriptor)


def _close(descriptor: int) -> None:
    """Close a file that was only read. An error is ignored: the bytes were read."""
    with suppress(OSError):
        os.close(descriptor)


def _refuse_unsafe(status: os.stat_result, path: Path, *, trust_group: bool) -> None:
    if status.st_uid not in (os.geteuid(), 0):
        raise StoreError(Reason.STORE_UNSAFE, f"{path} belongs to user {status.st_uid}, not to {os.geteuid()} or root")
    # Kubernetes' fsGroup makes a volume's files group-writable at every mount, hence the way to trust the group:
    # https://kubernetes.io/docs/tasks/configure-pod-container/security-context/
    writers = stat.S_IWOTH if trust_group else stat.S_IWOTH | stat.S_IWGRP
    if status.st_mode & writers:
        raise StoreError(Reason.STORE_UNSAFE, f"{path} has mode {stat.S_IMODE(status.st_mode):04o}: others may write")


def _refuse_special(status: os.stat_result, path: Path) -> None:
    if kind := kind_in_words(status):
        raise StoreError(Reason.ENTRY_UNREADABLE, f"{path} {kind}")


def _sync(directory: int) -> str | None:
    """None, or the reason why a loss of power may undo a rename. The rename itself has happened."""
    try:
        os.fsync(directory)
    except OSError as error:
        # Some FUSE and SMB mounts have no fsync of directories, and never say more.
        if error.errno not in (errno.EINVAL, errno.EBADF, errno.ENOTSUP, errno.ENOSYS):
            return f"stored, but a loss of power may undo it: the directory could not be synced: {error.strerror}"
    return None


def _writer() -> str:
    """The beginning of the names of temporary files from this host and process namespace: their ids can be checked."""
    # Containers that share a volume often have the same process id (triton#2688) and host name. The boot id is the
    # running kernel's own (proc_sys_kernel(5)), and in that kernel no two pid namespaces that live have one inode
    # (namespaces(7)): a writer of the same name that lives is one of the processes that this one can look for.
    host = socket.gethostname().replace("/", "_")[:64]
    try:
        kernel = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip().replace("-", "")
        namespace = f"{kernel}.{Path('/proc/self/ns/pid').stat().st_ino}"
    except (OSError, ValueError):
        # Then nobody's ids are known to mean the same.
        namespace = secrets.token_hex(8)
    return f"{TEMPORARY}{host}-{namespace}-"


def _is_dead(name: str, writer: str) -> bool:
    """Whether the process that made a temporary file is known to be gone.

    Its id is looked for where it was given. An id that another process has by now counts as alive.
    """
    if not name.startswith(writer):
        return False
    try:
        os.kill(int(name.removeprefix(writer).partition("-")[0]), 0)
    except ProcessLookupError:
        return True
    except (OSError, ValueError, OverflowError):
        return False
    return False


def _sweep(directory: int, writer: str, now: float) -> None:
    """Remove temporary files of writers that were killed. Those of other hosts are removed after an hour."""
    with suppress(OSError):
        for name in os.listdir(directory):
            if name.startswith(TEMPORARY):
                with suppress(OSError):
                    status = os.stat(name, dir_fd=directory, follow_symlinks=False)
                    if now - status.st_mtime > _FORGOTTEN_AFTER_S or _is_dead(name, writer):
                        os.unlink(name, dir_fd=directory)


def _remember_not_renamed(directory: int) -> None:
    with suppress(OSError):
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        os.close(os.open(_NOT_RENAMED, flags, 0o600, dir_fd=directory))


def _keep_newest(directory: int, ours: Callable[[str], bool], count: int, last: str | None) -> None:
    changed: dict[str, float] = {}
    for name in filter(ours, os.listdir(directory)):
        with suppress(OSError):
            changed[name] = os.stat(name, dir_fd=directory, follow_symlinks=False).st_mtime
    for name in sorted(changed, key=lambda name: (name == last, changed[name]))[:-count]:
        with suppress(OSError):
            os.unlink(name, dir_fd=directory)
