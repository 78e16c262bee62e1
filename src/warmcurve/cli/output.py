"""What commands print: one JSON document alone on stdout, or text; notes on stderr."""

import json
from typing import IO, Any, Final

import click

from warmcurve.printable import printable

SCHEMA: Final = 1
"""Of every JSON document that the command line prints."""

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


class Unreadable(click.ClickException):
    """Something named by the user that cannot be read as what it should be: the environment's error."""

    exit_code = 3

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint

    def show(self, file: IO[Any] | None = None) -> None:  # noqa: ARG002  click's own signature
        note(f"error: {clean(self.message)}")
        note(f"hint: {self.hint}")


def document(**fields: Any) -> None:
    click.echo(json.dumps({"schema": SCHEMA, **fields}, indent=2, allow_nan=False))


def note(text: str) -> None:
    click.echo(text, err=True)


def shown(value: object) -> str:
    """A value as a person reads it: text without quotes, anything else as JSON."""
    return clean(value if value and isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def clean(value: object) -> str:
    """One line of text that a terminal only shows."""
    return printable(str(value))
