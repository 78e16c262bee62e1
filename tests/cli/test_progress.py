"""The line that says how far a command is."""

import io
from itertools import count

from warmcurve.cli.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_only_a_terminal_gets_it() -> None:
    """A file or a pipe has nothing of it."""
    stream = io.StringIO()
    clock = count()
    with Progress(2, stream=stream, clock=lambda: next(clock)) as progress:
        progress.step()
    assert stream.getvalue() == ""


def test_it_is_erased_before_a_line_and_at_the_end() -> None:
    """Nothing of it is left beside what the command prints."""
    stream = Terminal()
    clock = count()
    with Progress(3, stream=stream, clock=lambda: next(clock)) as progress:
        progress.step()
        progress.erase()
        stream.write("a row\n")
        progress.erase()
        progress.step()
    assert stream.getvalue() == "\r1 of 3 entries\r\x1b[Ka row\n\r2 of 3 entries\r\x1b[K"


def test_a_short_command_has_none() -> None:
    """It appears after a fifth of a second, and is written anew as often; without a total it only counts."""
    stream, now = Terminal(), 0.0
    with Progress(stream=stream, clock=lambda: now) as progress:
        for _ in range(9):
            now += 0.0625
            progress.step()
    assert stream.getvalue() == "\r4 entries\r8 entries\r\x1b[K"
