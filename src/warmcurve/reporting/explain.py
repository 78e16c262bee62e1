"""Explains a miss: the stored entries nearest to the boot's factors, and what differs.

A miss without an explanation looks like a broken cache. Nothing here decides anything.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from heapq import nsmallest
from operator import itemgetter
from typing import Any, Final

import msgspec

from warmcurve.errors import EntryError, FactorError, StoreError
from warmcurve.outcome import Reason
from warmcurve.printable import printable
from warmcurve.storage.entry import decode
from warmcurve.storage.fingerprint import Difference, Factors, diff, leaves
from warmcurve.storage.store import Store

SURVEYED: Final = 64
"""How many entries a boot reads at most for one line of its log."""

_ABSENT: Final = "absent"
WIDTH: Final = 60
"""Characters of a value at most, where a difference is told."""
_SECTION: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[^.]*')
# Of a boot's line: how many differences it names, and how long each may be.
_NAMED: Final = 2
_NAME_WIDTH: Final = 64
_VALUE_WIDTH: Final = 24


class Stored(msgspec.Struct, frozen=True):
    """What is needed here of a stored entry. `recorded_at` is None if its conditions do not have it."""

    digest: str
    factors: Mapping[str, Any]
    recorded_at: datetime | None = None


class Neighbour(msgspec.Struct, frozen=True):
    """A stored entry beside the factors of a boot.

    `equal` counts the leaf factors that both have. In each difference, left is the entry and right is the boot.
    """

    stored: Stored
    equal: int
    differences: tuple[Difference, ...]


def survey(store: Store, limit: int | None = None, enough: Callable[[], bool] = lambda: False) -> tuple[Stored, ...]:
    """The entries that can be read. It tries at most `limit` entries, and stops when `enough()` is true.

    They come in the order of their digests, which is a random order. So of a larger store they are a sample. Damaged
    entries are left out. Raises `StoreError` if the store itself cannot be read.
    """
    found: list[Stored] = []
    for digest in store.list()[:limit]:
        if enough():
            break
        try:
            data = store.get(digest)
            entry = None if data is None else decode(data, digest)
        except EntryError:
            continue
        except StoreError as error:
            if error.reason is Reason.STORE_UNAVAILABLE:
                raise
            continue
        if entry is not None:
            found.append(Stored(digest, entry.factors, entry.recorded_at))
    return tuple(found)


def nearest(factors: Factors, entries: Iterable[Stored], count: int) -> tuple[Neighbour, ...]:
    """The entries that share most leaf factors, at most `count` of them.

    Of entries that share as many, those with fewer differences come first, then the newest, then by digest. Entries
    that are nested too deep to compare are left out. Raises `FactorError` if the factors themselves are.
    """
    ranked = nsmallest(count, _ranked(leaves(factors), entries), key=itemgetter(slice(4)))
    return tuple(Neighbour(stored, -unequal, diff(stored.factors, factors)) for unequal, *_, stored in ranked)


def in_brief(factors: Factors, store: Store, enough: Callable[[], bool]) -> str | None:
    """What a boot's log says about its miss. It reads entries of this store until `enough()` is true."""
    try:
        return first_differences(factors, survey(store, SURVEYED, enough))
    except StoreError:
        return None


def first_differences(factors: Factors, entries: Iterable[Stored]) -> str | None:
    """`nearest 7065153c327c: speculation.draft_tokens 5 -> 7, and 2 more`, short, printable and in one line.

    The boot's own entry is never the nearest. None if there is no other.
    """
    try:
        # Two, since the first may be the boot's own.
        neighbour = next((each for each in nearest(factors, entries, 2) if each.differences), None)
    except FactorError:
        return None
    if neighbour is None:
        return None
    named = [
        f"{_cut(printable(each.factor), _NAME_WIDTH)} {change(each, _VALUE_WIDTH)}"
        for each in neighbour.differences[:_NAMED]
    ]
    more = len(neighbour.differences) - len(named)
    rest = [f"and {more} more"] if more else []
    return f"nearest {neighbour.stored.digest[:12]}: {', '.join(named + rest)}"


def sections(differences: Iterable[Difference]) -> dict[str, list[Difference]]:
    """Differences by the first part of their names."""
    found: dict[str, list[Difference]] = {}
    for each in differences:
        found.setdefault(section(each.factor), []).append(each)
    return found


def section(factor: str) -> str:
    """The first part of a factor's name."""
    match = _SECTION.match(factor)
    assert match
    return match[0]


def change(difference: Difference, width: int = WIDTH) -> str:
    """`5 -> 7`. A value that one side lacks is `absent`, without quotes; a text has quotes."""
    sides = [_ABSENT if side is None else printable(side) for side in (difference.left, difference.right)]
    start = next((n for n, (a, b) in enumerate(zip(*sides, strict=False)) if a != b), min(map(len, sides)))
    return " -> ".join(_cut(side, width, start) for side in sides)


def _ranked(ours: Mapping[str, str], entries: Iterable[Stored]) -> Iterator[tuple[int, int, float, str, Stored]]:
    for stored in entries:
        try:
            theirs = leaves(stored.factors)
        except FactorError:
            continue
        equal = len(ours.items() & theirs.items())
        recorded = stored.recorded_at
        age = math.inf if recorded is None else -recorded.timestamp()
        yield -equal, len(ours.keys() | theirs.keys()) - equal, age, stored.digest, stored


def _cut(text: str, width: int, start: int = 0) -> str:
    """At most `width` characters, with what stands at `start` among them."""
    if len(text) <= width:
        return text
    begin = 0 if start < width // 2 else start - width // 4
    part = text[begin : begin + width - 6]
    return f"{'...' * (begin > 0)}{part}{'...' * (begin + len(part) < len(text))}"
