"""Finds entries where no boot looks for them: in a store that was copied one level too high or too deep.

The result is only reported. This file reads the names in a few directories, and no contents. Errors are ignored.
"""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final

_ENTRY: Final = re.compile(r"[0-9a-f]{64}\.jsonl")
_NAMES: Final = 256
"""Of one directory that are looked at."""
_DIRECTORIES: Final = 32
"""In one directory that are looked into."""
_TOLD: Final = 3


def misplaced(entries: Path, enough: Callable[[], bool] = lambda: False, *, beside: bool = True) -> tuple[Path, ...]:
    """The directories near `<store>/v1` that have entries although no boot looks there: at most three, nearest first.

    It stops when `enough()` is true. A boot does not look into the directories `beside` the store: one may be a mount
    that does not answer, and no deadline interrupts a system call.
    """
    found: list[Path] = []
    with suppress(OSError):
        # The working directory may be gone, and a relative path has no parents.
        entries = Path(os.path.abspath(entries))  # noqa: PTH100  Path.resolve follows links, and raises on a loop
        for directory in dict.fromkeys(_near(entries, beside=beside)):
            if enough() or len(found) == _TOLD:
                break
            if _holds_entries(directory) and not _same(directory, entries):
                found.append(directory)
    return tuple(found)


def _near(entries: Path, *, beside: bool) -> Iterator[Path]:
    """One level up or down: of the entries, of the store, and of the cache's root in which the store lies."""
    store, both = entries.parent, Path(entries.parent.name, entries.name)
    yield store
    yield store.parent / entries.name
    yield store / both
    yield store.parent.parent / both
    yield store.parent
    for child in _directories(store):
        yield from (child, child / entries.name, child / both)
    for child in _directories(store.parent) if beside else ():
        yield child / both


def _directories(directory: Path) -> Iterator[Path]:
    with suppress(OSError), os.scandir(directory) as listed:
        found = (Path(each.path) for each in islice(listed, _NAMES) if each.is_dir(follow_symlinks=False))
        yield from islice(found, _DIRECTORIES)


def _holds_entries(directory: Path) -> bool:
    with suppress(OSError), os.scandir(directory) as listed:
        return any(_ENTRY.fullmatch(each.name) for each in islice(listed, _NAMES))
    return False


def _same(directory: Path, other: Path) -> bool:
    with suppress(OSError):
        return directory.samefile(other)
    return False
