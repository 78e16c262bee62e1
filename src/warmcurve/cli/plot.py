"""A cost curve drawn with characters."""

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from typing import Final, NamedTuple

_HEIGHT: Final = 8
_WIDEST: Final = 72


class Marks(NamedTuple):
    """`levels` fill a cell from almost nothing to the whole of it."""

    levels: str
    side: str
    corner: str
    floor: str
    limit: str


BLOCKS: Final = Marks("▁▂▃▄▅▆▇█", "│", "└", "─", "┴")
ASCII: Final = Marks("#", "|", "+", "-", "^")


def marks_for(encoding: str | None) -> Marks:
    """Block characters where the output has them."""
    try:
        "".join(BLOCKS).encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return BLOCKS


def plot(
    points: Sequence[tuple[int, float]],
    width: int,
    *,
    captured: int = 0,
    height: int = _HEIGHT,
    marks: Marks = BLOCKS,
) -> list[str]:
    """Costs from 0 ms upwards, over sizes on a logarithmic axis; at most `width` characters wide.

    Up to the size `captured` a step costs as much as the next stored size, above it the cost lies on the line between
    two stored sizes: as the engine reads the curve. A mark on the axis shows where the captured sizes end.
    """
    sizes = [size for size, _ in points]
    top = max(ms for _, ms in points)
    labels = [short_ms(top), short_ms(top / 2), "0"]
    margin = max(map(len, labels))
    columns = max(1, min(width - margin - 2, _WIDEST))
    places = {size: _place(size, sizes, columns) for size in sizes}
    costs = [_cost(_size_at(column, sizes, columns), points, captured) for column in range(columns)]
    # A stored cost stands where its size is written; of several in one column the largest.
    stored: defaultdict[int, float] = defaultdict(float)
    for size, ms in points:
        stored[places[size]] = max(stored[places[size]], ms)
    for column, ms in stored.items():
        costs[column] = ms
    lines = []
    for row in range(height):
        label = labels[0] if row == 0 else labels[1] if row * 2 == height else ""
        cells = "".join(_cell(cost / top * height - (height - 1 - row), marks.levels) for cost in costs)
        lines.append(f"{label:>{margin}} {marks.side}{cells}".rstrip())
    floor = [marks.floor] * columns
    if captured in places:
        floor[places[captured]] = marks.limit
    lines.append(f"{labels[2]:>{margin}} {marks.corner}{''.join(floor)}")
    lines.append(" " * (margin + 2) + _axis(places, columns))
    return lines


def short_ms(ms: float) -> str:
    """Three digits that count."""
    return f"{ms:.0f}" if ms >= 100 else f"{ms:.3g}"


def _place(size: float, sizes: Sequence[int], columns: int) -> int:
    if sizes[0] == sizes[-1]:
        return 0
    share = math.log(size / sizes[0]) / math.log(sizes[-1] / sizes[0])
    return round(share * (columns - 1))


def _size_at(column: int, sizes: Sequence[int], columns: int) -> float:
    share = column / (columns - 1) if columns > 1 else 0.0
    size: float = sizes[0] * (sizes[-1] / sizes[0]) ** share
    return min(size, sizes[-1])


def _cost(size: float, points: Sequence[tuple[int, float]], captured: int) -> float:
    # The power above may end a hair beyond the size it stands for.
    index = min(bisect_left(points, size * (1 - 1e-9), key=lambda point: point[0]), len(points) - 1)
    right, ms = points[index]
    if index == 0 or right <= captured or size >= right:
        return ms
    left, before = points[index - 1]
    return before + (ms - before) * (size - left) / (right - left)


def _cell(filled: float, levels: str) -> str:
    """`filled` is how much of this cell lies below the curve; any cost leaves a trace in the lowest row."""
    count = math.ceil(min(filled, 1.0) * len(levels) - 0.5)
    return levels[count - 1] if count > 0 else " "


def _axis(places: dict[int, int], columns: int) -> str:
    """The sizes below their places, as many as fit: the first and the last one before the others."""
    line = [" "] * columns
    sizes = list(places)
    for size in dict.fromkeys((sizes[0], sizes[-1], *sizes)):
        text = str(size)
        start = max(0, min(places[size] - len(text) // 2, columns - len(text)))
        around = line[max(0, start - 1) : start + len(text) + 1]
        if not "".join(around).strip():
            line[start : start + len(text)] = text
    return "".join(line).rstrip()
