"""Durations in words say what was measured, to the smaller of two units."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmcurve.durations import in_words

SECONDS = {"ms": 0.001, "s": 1, "min": 60, "h": 3600, "day": 86_400, "year": 31_536_000}
NEXT = {"ms": 1000, "s": 60, "min": 60, "h": 24, "day": 365, "year": float("inf")}
durations = st.floats(0, 1e12) | st.floats(0, 100) | st.floats(0, 1) | st.integers(0, 10**9)


def _parts(text: str) -> list[tuple[float, str]]:
    assert re.fullmatch(r"[0-9.]+ [a-z]+( [0-9]+ [a-z]+)?", text)
    words = text.split()
    return [
        (float(count), unit if unit in SECONDS else unit.removesuffix("s"))
        for count, unit in zip(words[::2], words[1::2], strict=True)
    ]


def _read(text: str) -> float:
    return sum(count * SECONDS[unit] for count, unit in _parts(text))


@given(durations)
def test_words_are_as_precise_as_they_look(seconds: float):
    """They differ from the duration by half of what stands last at most, or of the smaller unit of the pair."""
    text = in_words(seconds)
    (*_, (last, unit)) = _parts(text)
    units = list(SECONDS)
    smaller = units[max(0, units.index(unit) - 1)] if len(_parts(text)) == 1 and unit not in {"ms", "s"} else unit
    step = 0.1 if "." in text else 1
    assert abs(_read(text) - seconds) <= SECONDS[smaller] * step / 2 * (1 + 1e-6) + 1e-9 * seconds
    assert last >= 0


@given(durations, durations)
def test_a_longer_duration_reads_no_shorter(one: float, other: float):
    """Whichever units they are told in."""
    short, long = sorted((one, other))
    assert _read(in_words(short)) <= _read(in_words(long))


@given(durations)
def test_no_unit_counts_to_the_next(seconds: float):
    """There are no 60 s, and no 24 h beside a day; two units are neighbours, and a rest of nothing is not told."""
    parts = _parts(in_words(seconds))
    assert all(count < NEXT[unit] for count, unit in parts)
    if len(parts) == 2:
        (_, long), (rest, short) = parts
        units = list(SECONDS)
        assert units.index(long) == units.index(short) + 1
        assert rest > 0


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0 ms"),
        (0.00324, "3.2 ms"),
        (0.127, "127 ms"),
        (0.9999, "1.0 s"),
        (2.222, "2.2 s"),
        (59.7, "1 min"),
        (2610, "43 min 30 s"),
        (3599.7, "1 h"),
        (86_400, "1 day"),
        (273_600, "3 days 4 h"),
        (7 * 86_400, "7 days"),
        (1_796_601_600, "56 years 354 days"),
    ],
)
def test_durations_read_like_these(seconds: float, text: str):
    """From parts of a millisecond to the age of a clock that was never set."""
    assert in_words(seconds) == text
