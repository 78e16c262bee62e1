"""Bytes that are not exactly a good entry are refused, each with its own reason."""

import json
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.corpus import make
from warmcurve.curves.calibration import profile_from
from warmcurve.curves.profile import Sample
from warmcurve.errors import EntryError, FactorError
from warmcurve.outcome import Reason
from warmcurve.storage import entry

FILES = sorted(make.HERE.glob("*.jsonl"))
BAD = [path for path in FILES if path.name != "good.ok.jsonl"]


def test_the_good_entry_is_read_back():
    """An entry that was encoded decodes to itself, with and without the digest it is asked for."""
    assert entry.decode(make.GOOD, make.DIGEST) == entry.decode(make.GOOD) == make.ENTRY
    assert entry.encode(entry.decode(make.GOOD)) == make.GOOD


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.name)
def test_a_bad_entry_is_refused_with_its_reason(path: Path):
    """Every file of the corpus is refused for the reason in its name, with a detail of text that can be written."""
    with pytest.raises(EntryError) as refused:
        entry.decode(path.read_bytes(), make.DIGEST)
    assert refused.value.reason is Reason(path.name.split(".")[1])
    assert refused.value.detail.encode("utf-8")


def test_the_corpus_is_what_its_maker_writes():
    """Making the corpus again gives the committed files, byte by byte, and no other."""
    assert {path.name: path.read_bytes() for path in FILES} == make.corpus()
    assert len(BAD) >= 28


@pytest.mark.parametrize("reason", [reason for reason in Reason if reason.startswith("entry_")])
def test_every_reason_of_bytes_has_a_bad_entry(reason: Reason):
    """The corpus has an entry for every reason that bytes alone can have, but for the one too large to keep."""
    elsewhere = {Reason.ENTRY_UNREADABLE, Reason.ENTRY_INCOMPLETE, Reason.ENTRY_TOO_LARGE}
    elsewhere |= {Reason.ENTRY_EXPIRED, Reason.ENTRY_QUARANTINED}
    assert any(f".{reason}." in path.name for path in BAD) != (reason in elsewhere)


def test_an_oversized_entry_is_not_parsed():
    """One byte more than the limit is too large, though everything else about it is right."""
    good = make.sealed(b'{"engine":"' + b"x" * entry.MAX_BYTES + b'"}')
    with pytest.raises(EntryError) as refused:
        entry.decode(good[: entry.MAX_BYTES + 1])
    assert refused.value.reason is Reason.ENTRY_TOO_LARGE
    with pytest.raises(EntryError) as refused:
        entry.decode(good[: entry.MAX_BYTES])
    assert refused.value.reason is Reason.ENTRY_TRUNCATED


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_a_hundred_thousand_levels_are_refused(opening: str):
    """Nesting deeper than any stack is malformed, in the header and in the payload."""
    deep = opening.encode() * 100_000
    for data in (make.sealed(deep), deep + b"\n" + make.GOOD):
        with pytest.raises(EntryError) as refused:
            entry.decode(data)
        assert refused.value.reason is Reason.ENTRY_MALFORMED


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_no_depth_of_a_factor_overruns_the_stack(opening: str, closing: str):
    """Factors nested to any depth, under a right checksum, are refused for this digest in the plain way."""
    for depth in range(20, 1000, 20):
        value = opening * depth + "1" + closing * depth
        payload = make.GOOD.splitlines()[1].replace(b'"0123abcd"', value.encode())
        with pytest.raises(EntryError):
            entry.decode(make.sealed(payload), make.DIGEST)


def test_every_truncation_is_refused():
    """No beginning of an entry is an entry, but the whole."""
    for length in range(len(make.GOOD)):
        with pytest.raises(EntryError) as refused:
            entry.decode(make.GOOD[:length], make.DIGEST)
        assert refused.value.reason is Reason.ENTRY_TRUNCATED


def test_every_flipped_bit_is_found():
    """No single bit of an entry can change without the entry being refused."""
    for position in range(len(make.GOOD)):
        for bit in range(8):
            damaged = bytearray(make.GOOD)
            damaged[position] ^= 1 << bit
            with pytest.raises(EntryError):
                entry.decode(bytes(damaged), make.DIGEST)


@given(st.binary(max_size=200), st.integers(0, len(make.GOOD)), st.integers(0, len(make.GOOD)))
@example(b"\t", 0, 0)
@example(b" ", 1, 1)
@example(b"\r", make.GOOD.index(b"\n"), make.GOOD.index(b"\n"))
def test_any_splice_is_refused(inserted: bytes, start: int, end: int):
    """Any stretch replaced by any bytes is refused, unless it leaves the entry as it was."""
    damaged = make.GOOD[: min(start, end)] + inserted + make.GOOD[max(start, end) :]
    if damaged != make.GOOD:
        with pytest.raises(EntryError):
            entry.decode(damaged, make.DIGEST)


@given(st.binary() | st.text().map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_any_bytes_are_refused(data: bytes):
    """Whatever the bytes, the refusal is an EntryError; also where they stand for a payload with a right checksum."""
    for refused in (data, data + b"\n", make.sealed(data)):
        with pytest.raises(EntryError):
            entry.decode(refused)


FRAGMENTS = (
    *("NaN", "-Infinity", "1e999", "-0.0", "5e-324", "9" * 4300, "1" + "0" * 400, '"\\ud800"', '{"\\udc00":1}', "[[]]"),
    *("true", "null", "0", "-1", "1", "4", "1.0", "{}", '""', '{"a":1,"a":1}', '"' + "x" * 999 + '"'),
)
FIELDS = json.loads(make.GOOD.splitlines()[1])


def _places(value: object) -> list[tuple[str | int, ...]]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [(), *((key, *path) for key, item in pairs for path in _places(item))]


PLACES = [path for path in _places(FIELDS) if path]


def _with(changes: list[tuple[tuple[str | int, ...], str | None]]) -> bytes:
    """The good entry with a fragment put in at each place, or what is there left out, under a right checksum."""
    fields = json.loads(json.dumps(FIELDS))
    for index, (path, fragment) in enumerate(changes):
        parent = fields
        with suppress(KeyError, IndexError, TypeError):
            for key in path[:-1]:
                parent = parent[key]
            parent[path[-1]] = f"<{index}>"
            if fragment is None:
                del parent[path[-1]]
    text = json.dumps(fields)
    for index, (_, fragment) in enumerate(changes):
        text = text.replace(f'"<{index}>"', fragment or "")
    return make.sealed(text.encode())


def _refused_or_sound(data: bytes) -> None:
    try:
        found = entry.decode(data)
    except EntryError as refused:
        assert refused.detail.encode("utf-8")  # noqa: PT017
        return
    assert profile_from(found.profile.samples, found.profile.capture_limit) == found.profile
    assert found.protocol == entry.protocol(found.protocol.replays)
    assert entry.decode(entry.encode(found), found.digest) == found


@pytest.mark.parametrize("fragment", [None, *FRAGMENTS], ids=lambda fragment: str(fragment)[:20])
def test_what_decodes_keeps_every_promise(fragment: str | None):
    """A value put in or left out at any place behind a right checksum is refused, or the entry is still sound."""
    for place in PLACES:
        _refused_or_sound(_with([(place, fragment)]))


@given(st.lists(st.tuples(st.sampled_from(PLACES), st.none() | st.sampled_from(FRAGMENTS)), min_size=2, max_size=4))
def test_what_decodes_after_several_changes_keeps_every_promise(
    changes: list[tuple[tuple[str | int, ...], str | None]],
):
    """Several changes at once are refused, or the entry is still sound."""
    _refused_or_sound(_with(changes))


MS = st.floats(min_value=5e-324, max_value=1e307)
LEAVES = st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(st.characters(codec="utf-8"))
KEYS = st.text(st.characters(max_codepoint=127))
FACTORS = st.dictionaries(
    KEYS, st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner), max_leaves=10)
)
SAMPLES = st.lists(st.builds(Sample, st.integers(1, 9), st.integers(1, 4), MS, MS, st.just(True)), min_size=1)


@given(FACTORS, SAMPLES, st.text(st.characters(codec="utf-8")), st.dictionaries(KEYS, LEAVES | st.floats(-1e9, 1e9)))
def test_every_entry_is_read_back(factors, samples, engine, conditions):
    """Whatever is recorded is read back exactly, times to the last bit."""
    limit = max(sample.tokens for sample in samples)
    recorded = entry.Entry(factors, engine, entry.protocol(5), profile_from(samples, limit), conditions)
    assert entry.decode(entry.encode(recorded), recorded.digest) == recorded


def test_factors_without_a_canonical_form_are_not_encoded():
    """Nothing is encoded that could never be found again."""
    with pytest.raises(FactorError):
        entry.encode(entry.Entry({"temperature": 1.5}, "", make.ENTRY.protocol, make.ENTRY.profile, {}))


def test_the_entry_of_other_factors_is_foreign():
    """An entry that lies under another digest is refused, and the refusal names its own."""
    with pytest.raises(EntryError, match=make.DIGEST) as refused:
        entry.decode(make.GOOD, "0" * 64)
    assert refused.value.reason is Reason.ENTRY_FOREIGN


@pytest.mark.parametrize(
    ("stored", "found"),
    [
        ("2030-01-01T02:00:00+02:00", datetime(2030, 1, 1, tzinfo=UTC)),
        ("2030-01-01T00:00:00", datetime(2030, 1, 1, tzinfo=UTC)),
        ("yesterday", None),
        ("0001-01-01T00:00:00+14:00", None),
        (1893456000, None),
        (None, None),
    ],
)
def test_a_time_that_is_none_is_not_known(stored, found: datetime | None):
    """Conditions are informative: what is not a time, or beyond all times, is simply unknown."""
    assert msgspec.structs.replace(make.ENTRY, conditions={"recorded_at": stored}).recorded_at == found
    assert msgspec.structs.replace(make.ENTRY, conditions={}).recorded_at is None
