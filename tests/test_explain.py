"""The nearest entries of a miss are those that share most, and a boot's line about them is short and never fails."""

import copy
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.corpus import make
from tests.support import A, B, C
from tests.test_fingerprint import SMALL, TREES
from warmcurve.errors import FactorError, StoreError
from warmcurve.outcome import Reason
from warmcurve.printable import printable
from warmcurve.reporting.explain import (
    SURVEYED,
    Stored,
    change,
    first_differences,
    nearest,
    section,
    sections,
    survey,
)
from warmcurve.storage import entry
from warmcurve.storage.fingerprint import Difference, diff, fingerprint, leaves
from warmcurve.storage.store import Store
from warmcurve.testing import FaultStore, MemoryStore

NOW = datetime(2030, 1, 1, tzinfo=UTC)
BASE: dict[str, Any] = {"device": "example", "speculation": {"draft_tokens": 7, "method": "dspark"}, "k": [1, 2]}


def _stored(factors: Any, recorded_at: datetime | None = None) -> Stored:
    return Stored(fingerprint(factors), factors, recorded_at)


def _with(**changes: Any) -> dict[str, Any]:
    return copy.deepcopy(BASE) | changes


def _put(store: Store, factors: dict[str, Any]) -> str:
    changed = msgspec.structs.replace(make.ENTRY, factors=factors)
    store.put(changed.digest, entry.encode(changed))
    return changed.digest


def _nested(depth: int, innermost: Any = 1) -> dict[str, Any]:
    tree: dict[str, Any] = {"a": innermost}
    for _ in range(depth):
        tree = {"a": tree}
    return tree


@given(SMALL, st.lists(SMALL, max_size=5), st.integers(1, 6))
def test_an_equal_entry_is_the_nearest(factors, others, count):
    """Whatever else is stored, an entry of the same factors comes first, without a difference."""
    entries = [_stored(each) for each in (*others, factors)]
    first = nearest(factors, entries, count)[0]
    assert first.differences == ()
    assert first.stored.digest == fingerprint(factors)
    assert first.equal == len(leaves(factors))


@given(TREES, TREES)
def test_nearness_is_symmetric(left, right):
    """Seen from either side two trees share as many leaves and differ in as many."""
    (there,), (back,) = nearest(left, [_stored(right)], 1), nearest(right, [_stored(left)], 1)
    assert there.equal == back.equal
    assert [(d.factor, d.left, d.right) for d in there.differences] == [
        (d.factor, d.right, d.left) for d in back.differences
    ]


@given(SMALL, st.lists(SMALL, max_size=6), st.integers(0, 7))
def test_those_that_share_most_come_first(factors, others, count):
    """Of all entries the first by equal leaves, then by fewest differences; no more than asked for."""
    entries = [_stored(each) for each in others]
    found = nearest(factors, entries, count)
    ranks = [(-each.equal, len(each.differences)) for each in found]
    own = leaves(factors).items()
    every = sorted((-len(own & leaves(each).items()), len(diff(each, factors))) for each in others)
    assert ranks == every[:count]


@given(SMALL, st.lists(SMALL, max_size=6, unique_by=fingerprint), st.randoms())
def test_the_order_of_the_entries_does_not_count(factors, others, random):
    """Ties are broken by what entries hold, not by where they come from."""
    entries = [_stored(each, NOW) for each in others]
    shuffled = random.sample(entries, len(entries))
    assert nearest(factors, entries, 3) == nearest(factors, shuffled, 3)


def test_of_entries_as_near_the_newest_comes_first():
    """One that does not say when it was recorded is the oldest; of one moment the digest decides."""
    old, new, unknown = (_with(device=name) for name in ("old", "new", "unknown"))
    entries = [_stored(unknown), _stored(old, NOW - timedelta(days=9)), _stored(new, NOW)]
    assert [each.stored.factors["device"] for each in nearest(BASE, entries, 3)] == ["new", "old", "unknown"]
    same = [_stored(_with(device=name), NOW) for name in "abcdef"]
    found = [each.stored.digest for each in nearest(BASE, same, 6)]
    assert found == sorted(found)


def test_an_entry_with_factors_of_its_own_is_farther():
    """Of two that share as much, the one that holds more besides is not the nearer."""
    more = _with(another=1)
    assert [each.equal for each in nearest(BASE, [_stored(more), _stored(BASE)], 2)] == [4, 4]
    assert nearest(BASE, [_stored(more, NOW), _stored(BASE)], 1)[0].differences == ()


def test_nothing_is_near_where_nothing_is_stored():
    """No entry, no neighbour, no line."""
    assert nearest(BASE, [], 3) == ()
    assert first_differences(BASE, []) is None


def test_the_line_names_the_first_differences():
    """The nearest entry's digest, the first two factors that differ with both values, and how many more do."""
    far = _with(device="other", k=[1], speculation={"draft_tokens": 5, "method": "eagle"})
    near = _with(speculation={"draft_tokens": 5, "method": "dspark"})
    assert first_differences(BASE, [_stored(far), _stored(near)]) == (
        f"nearest {fingerprint(near)[:12]}: speculation.draft_tokens 5 -> 7"
    )
    assert first_differences(BASE, [_stored(far)]) == (
        f'nearest {fingerprint(far)[:12]}: device "other" -> "example", k [1] -> [1, 2], and 2 more'
    )


def test_the_boots_own_entry_is_not_its_neighbour():
    """What the boot has just recorded is passed over, also where it is all there is."""
    other = _with(device="other")
    line = first_differences(BASE, [_stored(BASE), _stored(other)])
    assert line == f'nearest {fingerprint(other)[:12]}: device "other" -> "example"'
    assert first_differences(BASE, [_stored(BASE)]) is None


@given(TREES, st.lists(TREES, max_size=3))
def test_the_line_is_short_and_printable(factors, others):
    """Whatever the factors are called and hold, the line is one line of a few hundred printable characters."""
    text = first_differences(factors, [_stored(each) for each in others])
    assert text is None or (text.isprintable() and len(text) < 300)


def test_giant_factors_make_no_giant_line():
    """Names and values of megabytes are cut, and still told apart."""
    giant: dict[str, Any] = {"n" * 100_000: "x" * 100_000 + "1", "m": {"\x1b[31m\n\u202e" * 10_000: 1}}
    other: dict[str, Any] = {"n" * 100_000: "x" * 100_000 + "2", "m": {}}
    text = first_differences(giant, [_stored(other)])
    assert text is not None
    assert text.isprintable()
    assert len(text) < 300
    (value,) = [each for each in diff(other, giant) if each.factor.startswith("n")]
    left, right = change(value).split(" -> ")
    assert left != right
    assert len(left) <= 60


@pytest.mark.parametrize(
    ("left", "right", "text"),
    [
        ("5", "7", "5 -> 7"),
        (None, '"on"', 'absent -> "on"'),
        ("null", None, "null -> absent"),
        ('"absent"', "{}", '"absent" -> {}'),
        ('"a\x7fb"', '"\u202e"', '"a\\x7fb" -> "\\u202e"'),
    ],
)
def test_a_change_has_both_sides(left: str | None, right: str | None, text: str):
    """A missing value is told from null and from the text `absent`, and nothing is printed that is not printable."""
    assert change(Difference("a.b", left, right)) == text


TEXTS = st.text(st.characters(codec="utf-8"), max_size=200)


@given(TEXTS, TEXTS, TEXTS, TEXTS, st.integers(24, 80))
def test_a_cut_value_shows_where_it_differs(before, left, right, after, width):
    """However long two values are, the line is bounded, and different values read differently."""
    one, two = before * 3 + left + after, before * 3 + right + after
    text = change(Difference("name", one, two), width)
    assert len(text) <= 2 * width + len(" -> ")
    assert text.isprintable()
    half = text[: (len(text) - len(" -> ")) // 2]
    assert (text == f"{half} -> {half}") == (printable(one) == printable(two))


@given(SMALL, SMALL)
def test_sections_hold_every_difference_once(left, right):
    """Grouping loses nothing, and each section is the first part of its names: a key of the tree."""
    differences = diff(left, right)
    groups = sections(differences)
    assert sorted(each.factor for group in groups.values() for each in group) == sorted(d.factor for d in differences)
    assert all(section(each.factor) == name for name, group in groups.items() for each in group)
    keys = {section(each.factor) for tree in (left, right) for key in tree for each in diff({}, {key: 1})}
    assert set(groups) <= keys


def test_sections_are_not_split_by_their_neighbours():
    """A name that sorts between those of a section does not cut it in two, and dots inside quotes do not end a name."""
    differences = diff({}, {"a": {"x": 1, "b.c": {"d": 1}}, "a-b": 1, "a.b": {"c": 1}, 'q"u.o': {"t": 1}})
    assert {name: len(group) for name, group in sections(differences).items()} == {
        "a": 2,
        "a-b": 1,
        '"a.b"': 1,
        '"q\\"u.o"': 1,
    }


def test_a_survey_is_what_can_be_read():
    """Entries that are damaged, foreign, vanished or unreadable are left out without a word."""
    store = MemoryStore()
    good = [_put(store, _with(device=name)) for name in "abc"]
    for digest, data in ((A, b""), (B, b"damaged\n"), (C, make.GOOD)):
        store.put(digest, data)
    found = survey(store)
    assert sorted(each.digest for each in found) == sorted(good)
    assert {each.recorded_at for each in found} == {make.ENTRY.recorded_at}
    for each in found:
        assert fingerprint(each.factors) == each.digest


@pytest.mark.parametrize("path", sorted(make.HERE.glob("*.jsonl")), ids=lambda path: path.name)
def test_no_bad_entry_ends_a_survey(path):
    """Each of the corpus beside a good one: the good one is found, and nothing is raised."""
    store = MemoryStore()
    good = _put(store, BASE)
    store.put(make.DIGEST, path.read_bytes())
    assert {each.digest for each in survey(store)} - {make.DIGEST} == {good}


@pytest.mark.parametrize("reason", [Reason.ENTRY_UNREADABLE, Reason.STORE_UNSAFE])
def test_an_entry_that_cannot_be_read_is_left_out(reason: Reason):
    """A pipe or a file that others may write in an entry's place is no failure of the store."""
    store = FaultStore()
    _put(store, BASE)
    store.errors["get"] = StoreError(reason, "planted")
    assert survey(store) == ()


@pytest.mark.parametrize("operation", ["list", "get"])
def test_a_store_that_fails_is_a_store_error(operation: str):
    """A store that cannot be listed, or goes away meanwhile, is the one error of a survey."""
    store = FaultStore()
    _put(store, BASE)
    store.errors[operation] = StoreError(Reason.STORE_UNAVAILABLE, "planted")
    with pytest.raises(StoreError, match="planted"):
        survey(store)


class _Counting(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.reads = 0

    def get(self, digest: str) -> bytes | None:
        self.reads += 1
        return super().get(digest)


def test_a_survey_is_bounded():
    """No more entries are read than the limit, damaged ones included, and none once it is enough."""
    store = _Counting()
    for number in range(SURVEYED + 9):
        store.put(f"{number:064x}", b"damaged")
    good = _put(store, BASE)
    assert survey(store, SURVEYED) == ()
    assert store.reads == SURVEYED
    store.reads = 0
    assert [each.digest for each in survey(store)] == [good]
    store.reads = 0
    survey(store, enough=lambda: store.reads >= 3)
    assert store.reads == 3


@pytest.mark.parametrize("depth", [100, 150, 200, 220, 240, 260, 280, 300, 320, 340, 400, 480, 900, 3000])
def test_depth_is_at_worst_a_miss_of_neighbours(depth: int):
    """However deep factors are nested, comparing them gives a result or a FactorError, and the boot's line nothing."""
    deep = _nested(depth)
    try:
        entries = [_stored(deep)]
    except FactorError:
        entries = [Stored(A, deep)]
    assert len(nearest(BASE, [*entries, _stored(_with(device="x"))], 9)) in {1, 2}
    text = first_differences(deep, [_stored(BASE)])
    assert text is None or text.startswith("nearest ")
    with suppress(FactorError):
        assert nearest(deep, [_stored(BASE)], 1)[0].equal == 0


def test_factors_beyond_all_depth_are_refused():
    """What has no fingerprint has no neighbours."""
    with pytest.raises(FactorError):
        nearest(_nested(3000), [_stored(BASE)], 1)


def test_a_time_of_any_kind_has_its_place():
    """Recording times at the ends of the calendar are compared like others."""
    entries = [_stored(_with(device=str(n)), moment) for n, moment in enumerate((datetime.min, datetime.max, None))]
    entries = [
        msgspec.structs.replace(each, recorded_at=each.recorded_at and each.recorded_at.replace(tzinfo=UTC))
        for each in entries
    ]
    assert [each.stored.factors["device"] for each in nearest(BASE, entries, 3)] == ["1", "0", "2"]
