"""Files in a directory that only trusted users may write: the operating system's truth about reading and publishing.

Every call opens the directory, checks the *open* directory, and works relative to its descriptor, so that nobody can
swap the directory between the check and the use. No call takes a lock, and reading never needs to write: caches that
wanted locks on shared file systems hung on stale ones (pytorch#189245, flashinfer#993).
"""

import errno
import os
import secrets
import socket
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from warmcurve.errors import StoreError
from warmcurve.outcome import Reason

TEMPORARY: Final = ".tmp-"
_FORGOTTEN_AFTER_S: Final = 3600

_WRITE_REASONS: Final = {
    errno.EROFS: Reason.STORE_READ_ONLY,
    errno.EACCES: Reason.STORE_READ_ONLY,
    errno.EPERM: Reason.STORE_READ_ONLY,
    errno.ENOSPC: Reason.STORE_FULL,
    errno.EDQUOT: Reason.STORE_FULL,
}


@contextmanager
def open_directory(path: Path, *, trust_group: bool, create: bool = False) -> Iterator[int]:
    """A descriptor of the directory, once it is known that no untrusted user may write to it.

    With `create` it is made with mode 0700, its parents by the umask. Raises FileNotFoundError or `StoreError`.
    """
    if create:
        with suppress(FileExistsError):
            path.parent.mkdir(parents=True, exist_ok=True)
            # mkdir's own mode, not a chmod after it: there is no moment at which others may enter.
            path.mkdir(mode=0o700)
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _refuse_unsafe(os.fstat(descriptor), path, trust_group=trust_group)
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def open_nested(parent: Path, directory: Path, *, trust_group: bool, create: bool = False) -> Iterator[int]:
    """The same for a directory in one that is checked as well: whoever may write the parent may swap it."""
    with (
        open_directory(parent, trust_group=trust_group, create=create),
        open_directory(directory, trust_group=trust_group, create=create) as descriptor,
    ):
        yield descriptor


def _refuse_unsafe(status: os.stat_result, path: Path, *, trust_group: bool) -> None:
    if status.st_uid not in (os.geteuid(), 0):
        raise StoreError(Reason.STORE_UNSAFE, f"{path} belongs to user {status.st_uid}, not to {os.geteuid()} or root")
    # Kubernetes' fsGroup makes a volume's files group-writable at every mount, hence the way to trust the group:
    # https://kubernetes.io/docs/tasks/configure-pod-container/security-context/
    writers = stat.S_IWOTH if trust_group else stat.S_IWOTH | stat.S_IWGRP
    if status.st_mode & writers:
        raise StoreError(Reason.STORE_UNSAFE, f"{path} has mode {stat.S_IMODE(status.st_mode):04o}: others may write")


def _refuse_special(status: os.stat_result, path: Path) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise StoreError(Reason.ENTRY_UNREADABLE, f"{path} is not a regular file")


def read(directory: int, name: str, path: Path, limit: int, *, trust_group: bool) -> bytes:
    """At most limit + 1 bytes of a regular file. Raises FileNotFoundError, or `StoreError` for anything else."""
    try:
        # O_NONBLOCK: opening a pipe would wait for a writer. O_NOFOLLOW: a link leads out of the checked directory.
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        descriptor = os.open(name, flags, dir_fd=directory)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StoreError(Reason.ENTRY_UNREADABLE, f"{path / name}: {error.strerror}") from error
    try:
        _refuse_special(os.fstat(descriptor), path / name)
        _refuse_unsafe(os.fstat(descriptor), path / name, trust_group=trust_group)
        parts: list[bytes] = []
        wanted = limit + 1
        while wanted and (part := os.read(descriptor, wanted)):
            parts.append(part)
            wanted -= len(part)
        return b"".join(parts)
    except StoreError:
        raise
    except OSError as error:
        # ESTALE, EIO, EBUSY: network file systems answer so when a file is replaced or a server restarts.
        raise StoreError(Reason.ENTRY_UNREADABLE, f"{path / name}: {error.strerror}") from error
    finally:
        os.close(descriptor)


def publish(directory: int, name: str, data: bytes) -> None:
    """The whole of `data` under `name`, or nothing: readers see the old file or the new one, also after a crash.

    Raises OSError, with nothing left behind.
    """
    # Containers that share a volume often have the same process id (triton#2688), hence the host and a random part.
    host = socket.gethostname().replace("/", "_")[:64]
    temporary = f"{TEMPORARY}{host}-{os.getpid()}-{secrets.token_hex(8)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, 0o600, dir_fd=directory)
    try:
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
            # Without it a power loss may leave the new name on an empty file: rename orders nothing by itself.
            os.fsync(descriptor)
            now = os.fstat(descriptor).st_mtime
        finally:
            os.close(descriptor)
        os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=directory)
        raise
    sync(directory)
    _sweep(directory, now)


def sync(directory: int) -> None:
    try:
        os.fsync(directory)
    except OSError as error:
        # Some FUSE and SMB mounts have no fsync of directories; the file is published all the same.
        if error.errno not in (errno.EINVAL, errno.EBADF, errno.ENOTSUP, errno.ENOSYS):
            raise


def _sweep(directory: int, now: float) -> None:
    """Remove what writers that were killed left behind. `now` is the file system's clock, not this machine's."""
    with suppress(OSError):
        for name in os.listdir(directory):
            if name.startswith(TEMPORARY):
                with suppress(OSError):
                    status = os.stat(name, dir_fd=directory, follow_symlinks=False)
                    if now - status.st_mtime > _FORGOTTEN_AFTER_S:
                        os.unlink(name, dir_fd=directory)


def keep_newest(directory: int, names: Iterable[str], count: int, last: str | None = None) -> None:
    """Remove the files longest unchanged, so that `count` are left. `last` counts as the newest.

    What cannot be removed is left: a directory may lie under any name, and others may remove files at the same time.
    """
    changed: dict[str, float] = {}
    for name in names:
        with suppress(OSError):
            changed[name] = os.stat(name, dir_fd=directory, follow_symlinks=False).st_mtime
    for name in sorted(changed, key=lambda name: (name == last, changed[name]))[:-count]:
        with suppress(OSError):
            os.unlink(name, dir_fd=directory)


def write_error(path: Path, error: OSError) -> StoreError:
    """The closed vocabulary's word for a failed write."""
    reason = _WRITE_REASONS.get(error.errno or 0, Reason.STORE_UNAVAILABLE)
    return StoreError(reason, f"{path}: {error.strerror}")
