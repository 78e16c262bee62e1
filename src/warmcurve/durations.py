"""Durations as a person reads them. What a program reads stays in one unit."""

from typing import Final

_UNITS: Final = (
    (60, 1, 60, "min", "s"),
    (3600, 60, 24, "h", "min"),
    (86_400, 3600, 365, "day", "h"),
    (31_536_000, 86_400, None, "year", "day"),
)
"""Of two neighbouring units: the seconds of each, how many of the larger make the next, and their names."""


def in_words(seconds: float) -> str:
    """As `43 min 30 s`, of a duration that is not negative: the two largest units, rounded to the smaller."""
    if seconds < 0.00995:
        return f"{seconds * 1e3:.1f} ms"
    if round(seconds * 1e3) < 1000:
        return f"{seconds * 1e3:.0f} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if round(seconds) < 60:
        return f"{seconds:.0f} s"
    for long, short, most, *names in _UNITS:
        counts = divmod(round(seconds / short), long // short)
        if most is None or counts[0] < most:
            return " ".join(_counted(count, name) for count, name in zip(counts, names, strict=True) if count)
    raise AssertionError("the last unit counts without end")


def _counted(count: int, name: str) -> str:
    plural = "s" if count != 1 and name in {"day", "year"} else ""
    return f"{count} {name}{plural}"
