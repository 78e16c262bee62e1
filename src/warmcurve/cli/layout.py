"""Lines that fit: how wide the output is, and text broken to that width."""

import shutil
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from warmcurve.cli.output import clean, shown

GAP: Final = "  "
_FALLBACK: Final = (100, 24)
"""Where the output is no terminal and COLUMNS is not set."""
_NARROWEST: Final = 40


def output_width() -> int:
    """Columns of the terminal, or of COLUMNS."""
    return max(_NARROWEST, shutil.get_terminal_size(_FALLBACK).columns)


def cut(text: str, width: int) -> str:
    """At most `width` characters; an ellipsis stands for the rest."""
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"


def wrap(text: str, width: int, indent: str = "") -> Iterator[str]:
    """Lines of at most `width` characters. All but the first begin with `indent`, and no line is broken in its first
    `len(indent)` characters. A line ends at a blank, else after a slash or a comma, else anywhere.
    """
    start, head = 0, ""
    room = max(width - len(indent), 1)
    # The first line carries its own indentation, which may be shorter.
    end = width
    floor = min(len(indent), width - 1)
    while len(text) - start > end:
        limit = start + end
        # The character at the limit may be the blank that ends the line.
        at = text.rfind(" ", start + floor + 1, limit + 1)
        if at < 0:
            at = 1 + max(text.rfind(mark, start + floor, limit) for mark in "/,")
        if at <= start + floor:
            at = limit
        yield head + text[start:at].rstrip()
        start = at
        while start < len(text) and text[start] == " ":
            start += 1
        head, end, floor = indent, room, 0
    if start < len(text) or not head:
        yield head + text[start:]


def aligned(fields: Mapping[str, Any], indent: str = "", width: int | None = None) -> Iterator[str]:
    """Names and values in two columns. A name that is much longer than the others has its value after it."""
    columns = width or output_width()
    names = {name: clean(name) for name in fields}
    widest = (columns - len(indent)) // 2
    column = max((len(name) for name in names.values() if len(name) <= widest), default=0)
    for name, value in fields.items():
        begin = f"{indent}{names[name]:{column}}{GAP}"
        line = begin + shown(value)
        if len(line) <= columns or len(names[name]) <= column:
            yield from wrap(line, columns, " " * (len(indent) + column + len(GAP)))
        else:
            yield from wrap(begin.rstrip(), columns, f"{indent}{GAP}")
            hanging = " " * (len(indent) + column + len(GAP))
            yield from wrap(hanging + shown(value), columns, hanging)


class Field(NamedTuple):
    """A column of fixed width, for rows that are printed before the next one is known. Of several columns that do not
    fit, the one with the largest `drop` goes first; one with 0 always stays. Where there is room, a column may grow to
    `most`.
    """

    title: str
    width: int
    right: bool = False
    drop: int = 0
    most: int = 0


def fitting(fields: tuple[Field, ...], width: int) -> tuple[Field, ...]:
    """Those for which there is room. The last one takes what is left."""
    kept = list(fields)
    while _total(kept) > width and any(field.drop for field in kept):
        kept.remove(max(kept, key=lambda field: field.drop))
    for index, field in enumerate(kept):
        spare = max(0, width - _total(kept))
        kept[index] = field._replace(width=max(field.width, min(field.most, field.width + spare)))
    last = kept[-1]
    kept[-1] = last._replace(width=max(1, last.width + width - _total(kept)))
    return tuple(kept)


def fixed_line(fields: tuple[Field, ...], cells: Mapping[str, str]) -> tuple[str, ...]:
    """The cells of one row by the titles of their columns, cut and padded; the last one is not padded."""
    texts = [
        cut(cells[field.title], field.width).rjust(field.width)
        if field.right
        else cut(cells[field.title], field.width).ljust(field.width)
        for field in fields
    ]
    return (*texts[:-1], texts[-1].rstrip())


def _total(fields: list[Field]) -> int:
    return sum(field.width for field in fields) + len(GAP) * (len(fields) - 1)
