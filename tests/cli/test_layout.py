"""Text broken to a width."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmcurve.cli.layout import Field, aligned, cut, fitting, fixed_line, output_width, wrap

WORDS = st.text(st.sampled_from("ab /,"), max_size=200)


@given(WORDS, st.integers(5, 60), st.integers(0, 4))
def test_wrapped_lines_fit_and_lose_nothing_but_blanks(text: str, width: int, indent: int) -> None:
    """Every character that is no blank comes again, in order."""
    lines = list(wrap(text, width, " " * indent))
    assert max(map(len, lines)) <= width
    assert "".join("".join(lines).split()) == "".join(text.split())
    assert all(line.startswith(" " * indent) for line in lines[1:])


def test_a_line_ends_at_a_blank_else_after_a_slash() -> None:
    """Else in the middle of a word."""
    assert list(wrap("one two three", 8)) == ["one two", "three"]
    assert list(wrap("/one/two/three", 9)) == ["/one/two/", "three"]
    assert list(wrap("abcdefgh", 3, " ")) == ["abc", " de", " fg", " h"]


def test_names_stand_before_values() -> None:
    """A name beyond half of the width has its value below, unless both fit in one line."""
    fields = {"a": 1, "bb": "x" * 12, "c" * 16: None, "d" * 18: "text"}
    assert list(aligned(fields, width=20)) == [
        "a   1",
        "bb  xxxxxxxxxxxx",
        "c" * 16,
        "    null",
        "d" * 18,
        "    text",
    ]


def test_columns_are_left_out_by_their_order() -> None:
    """The last one left takes what remains, and a cell that is too long ends with an ellipsis."""
    fields = (Field("a", 4), Field("b", 3, right=True, drop=2), Field("c", 3, drop=1, most=5), Field("d", 2))
    assert [[field.width for field in fitting(fields, width)] for width in (24, 18, 17, 13, 9)] == [
        [4, 3, 5, 6],
        [4, 3, 3, 2],
        [4, 5, 4],
        [4, 3, 2],
        [4, 3],
    ]
    cells = {"a": "long text", "b": "7", "c": "x", "d": "yes"}
    assert fixed_line(fields, cells) == ("lon…", "  7", "x  ", "y…")


@pytest.mark.parametrize(("text", "found"), [("abc", "abc"), ("abcd", "ab…"), ("", "")])
def test_a_cut_text_shows_that_it_is_cut(text: str, found: str) -> None:
    """By its last character."""
    assert cut(text, 3) == found


@pytest.mark.parametrize(("columns", "width"), [("120", 120), ("7", 40)])
def test_the_environment_says_how_wide(columns: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """But for widths in which nothing could be read."""
    monkeypatch.setenv("COLUMNS", columns)
    assert output_width() == width
