"""Curves drawn with characters."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmcurve.cli.plot import ASCII, BLOCKS, marks_for, plot

KNEE = ((1, 1.0), (2, 1.0), (4, 2.0), (8, 4.0))


def test_a_curve_is_drawn_from_zero_over_doubling_sizes() -> None:
    """Captured sizes are steps up to the next size, the tail is a slope; each size stands below its own cost."""
    assert plot(KNEE, 29, captured=4, height=4) == [
        "4 │                      ▁▃▅█",
        "  │                  ▂▃▅▇████",
        "2 │         █████████████████",
        "  │██████████████████████████",
        "0 └─────────────────┴────────",
        "   1       2        4       8",
    ]


def test_few_characters_are_enough() -> None:
    """Without block characters."""
    lines = plot(((1, 1.0), (2, 2.0)), 12, captured=2, height=2, marks=ASCII)
    assert lines == ["2 | ########", "1 |#########", "0 +--------^", "   1       2"]


def test_the_encoding_decides() -> None:
    """An output that lacks block characters gets the others."""
    assert marks_for("utf-8") is BLOCKS
    assert {marks_for(encoding) for encoding in ("ascii", "latin-1", "no such encoding", None)} == {ASCII}


@pytest.mark.parametrize("points", [((7, 3.0),), ((1, 1e-9), (2, 1e9)), tuple((n, 5.0) for n in range(1, 500))])
def test_any_curve_can_be_drawn(points: tuple[tuple[int, float], ...]) -> None:
    """One size, costs far apart, and more sizes than columns; the first and the last size are named."""
    lines = plot(points, 60)
    labels = lines[-1].split()
    assert (labels[0], labels[-1]) == (str(points[0][0]), str(points[-1][0]))
    assert max(map(len, lines)) <= 60


CURVES = st.lists(
    st.tuples(st.integers(1, 10**6), st.floats(1e-6, 1e6)), min_size=1, max_size=40, unique_by=lambda point: point[0]
)


@given(CURVES, st.integers(40, 200), st.integers(0, 10**6))
def test_a_plot_fits_and_has_a_column_for_its_dearest_size(
    curve: list[tuple[int, float]], width: int, captured: int
) -> None:
    """Whatever the curve: no line is too wide, and the largest cost fills a cell of the top row."""
    lines = plot(sorted(curve), width, captured=captured)
    assert max(map(len, lines)) <= width
    assert "█" in lines[0]
