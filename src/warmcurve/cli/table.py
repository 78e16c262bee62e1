"""Tables: plain text, or rich's where it is installed and the output is a terminal. A row is one line, unless its
last column is text that is too long for the output.
"""

import io
import sys
from collections.abc import Sequence
from typing import Final, NamedTuple

from warmcurve.cli.layout import GAP, output_width, wrap
from warmcurve.outcome import Reason

NOTHING: Final = "-"
_NARROWEST: Final = 16
_ALARMS: Final = frozenset[str](Reason)


class Column(NamedTuple):
    """In a column of alarms every cell is one that is not `NOTHING`."""

    title: str
    right: bool = False
    alarms: bool = False


def table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> str:
    """Lines without a newline at the end. A pipe always gets plain text."""
    rows = _folded(columns, rows, output_width())
    if sys.stdout.isatty():
        try:
            return pretty(columns, rows)
        except ImportError:
            pass
    return plain(columns, rows)


def _folded(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> list[list[str]]:
    """Rows that fit. What does not fit of the last column stands in more rows, which are else empty."""
    lines = [[column.title for column in columns], *rows]
    start = sum(max(len(line[index]) for line in lines) + len(GAP) for index in range(len(columns) - 1))
    if columns[-1].right:
        return [list(row) for row in rows]
    found = []
    for row in rows:
        first, *more = wrap(row[-1], max(width - start, _NARROWEST))
        found.append([*row[:-1], first])
        found += [[*[""] * (len(columns) - 1), text] for text in more]
    return found


def plain(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> str:
    lines = [[column.title for column in columns], *rows]
    widths = [max(len(line[index]) for line in lines) for index in range(len(columns))]
    return "\n".join(
        GAP.join(
            cell.rjust(width) if column.right else cell.ljust(width)
            for column, cell, width in zip(columns, line, widths, strict=True)
        ).rstrip()
        for line in lines
    )


def pretty(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> str:
    """The same cells, styled. Raises ImportError where rich is not installed."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, pad_edge=False, padding=(0, len(GAP), 0, 0))
    for column in columns:
        grid.add_column(Text(column.title), justify="right" if column.right else "left")
    for row in rows:
        alarms = [
            cell in _ALARMS or (column.alarms and cell not in (NOTHING, ""))
            for column, cell in zip(columns, row, strict=True)
        ]
        # Text, since a str would be read as markup.
        grid.add_row(*(Text(cell, style="red" if alarm else "") for cell, alarm in zip(row, alarms, strict=True)))
    page = io.StringIO()
    # Without a height too, rich takes a dumb terminal for 80 columns wide.
    Console(file=page, force_terminal=True, width=sys.maxsize, height=1).print(grid)
    return page.getvalue().rstrip("\n")
