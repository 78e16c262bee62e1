"""`warmcurve diff`: which factors tell two entries apart."""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import click
import msgspec

from warmcurve.cli.inspection import inspect_file, read_file
from warmcurve.cli.layout import output_width, wrap
from warmcurve.cli.location import open_store, store_option
from warmcurve.cli.output import Unreadable, clean, document, json_option
from warmcurve.cli.reports import named_report
from warmcurve.cli.show import PREFIX, NoSuchEntry, find
from warmcurve.errors import StoreError
from warmcurve.printable import printable
from warmcurve.reporting import explain
from warmcurve.storage.entry import Entry
from warmcurve.storage.fingerprint import Difference, diff, fingerprint

_VALUE: Final = 16
"""Characters that a value keeps at least, beside the name of its factor."""


class Side(NamedTuple):
    """`conditions` are an entry's alone."""

    kind: str
    path: Path
    digest: str
    factors: Mapping[str, Any]
    conditions: Mapping[str, Any] | None


@click.command(
    "diff",
    epilog="""\b
Examples:
  warmcurve diff 3f9a 7065
  warmcurve diff 3f9a /mnt/image/entry.jsonl
  warmcurve diff 3f9a reports/20300101T000000.000Z-node-1-123-ab12.json
  warmcurve diff 3f9a 7065 --json | jq -r '.differences[].factor'

Exit codes: 0 equal factors, 1 different ones, 2 usage, 3 environment or not readable.""",
)
@click.argument("left", metavar="A")
@click.argument("right", metavar="B")
@store_option
@json_option
@click.pass_context
def diff_command(ctx: click.Context, left: str, right: str, directory: Path | None, *, as_json: bool) -> None:
    """Print the factors in which A and B differ.

    A and B are each the digest of a stored entry, the file of an entry, or the boot report of a miss. The first four
    digits of a digest are enough if no other digest begins with them.

    A line has the value of A, an arrow, and the value of B. A long value is cut to the place of the difference; --json
    has it in full. Only factors count for the exit code. Conditions that differ are printed below.
    """
    sides = [_side(text, name, directory) for text, name in ((left, "A"), (right, "B"))]
    ours, theirs = sides
    differences = diff(ours.factors, theirs.factors)
    both = ours.conditions is not None and theirs.conditions is not None
    conditions = diff(ours.conditions or {}, theirs.conditions or {}) if both else ()
    if as_json:
        document(
            equal=not differences,
            left=_fields(ours),
            right=_fields(theirs),
            differences=as_rows(differences),
            conditions=as_rows(conditions),
        )
    else:
        click.echo("\n".join(_page(sides, differences, conditions)))
    if differences:
        ctx.exit(1)


def as_rows(differences: Iterable[Difference]) -> list[dict[str, Any]]:
    """For a document: the values in full, and no field for a side that has none."""
    return [
        {"section": explain.section(each.factor), "factor": each.factor}
        | ({} if each.left is None else {"left": json.loads(each.left)})
        | ({} if each.right is None else {"right": json.loads(each.right)})
        for each in differences
    ]


def grouped(differences: Iterable[Difference], indent: str = "") -> Iterator[str]:
    """One line each, below the name of its section and without that name."""
    for name, members in explain.sections(differences).items():
        if [each.factor for each in members] == [name]:
            yield from change_lines(members[0], indent)
        else:
            yield from wrap(f"{indent}{printable(name)}", output_width(), f"{indent}  ")
            for each in members:
                rest = msgspec.structs.replace(each, factor=each.factor.removeprefix(f"{name}."))
                yield from change_lines(rest, f"{indent}  ")


def change_lines(difference: Difference, indent: str = "") -> Iterator[str]:
    """`draft_tokens: 5 -> 7`. Long values are cut, and below a long name they have a line of their own."""
    width = output_width()
    name = f"{indent}{printable(difference.factor)}:"
    line = f"{name} {explain.change(difference)}"
    room = (width - len(name) - len("  -> ")) // 2
    if len(line) > width and room >= _VALUE:
        line = f"{name} {explain.change(difference, room)}"
    if len(line) <= width:
        yield line
    else:
        yield from wrap(name, width, f"{indent}  ")
        room = (width - len(indent) - len("     -> ")) // 2
        yield f"{indent}    {explain.change(difference, min(room, explain.WIDTH))}"


def _side(text: str, name: str, directory: Path | None) -> Side:
    if not _is_digest(text) and not _is_entry(path := _existing(text, name)):
        report = named_report(path)
        if report.factors is None:
            hint = "Only the report of a miss keeps factors; a hit's are those of its entry, named by its digest."
            raise Unreadable(f"{path}: the report holds no factors", hint)
        return Side("report", path, fingerprint(report.factors), report.factors, None)
    path, entry = named_entry(text, name, directory)
    return Side("entry", path, entry.digest, entry.factors, entry.conditions)


def named_entry(text: str, name: str, directory: Path | None) -> tuple[Path, Entry]:
    """The stored entry whose digest begins so, or the one in a file. Raises `Unreadable`, and click's error."""
    if _is_digest(text):
        try:
            item = find(open_store(directory), text.lower(), name)
        except NoSuchEntry as error:
            # Exit code 1 would say that they differ.
            raise click.BadParameter(error.message, param_hint=name) from error
    else:
        item = inspect_file(_existing(text, name))
    if item.entry is None:
        damage = item.located()
        raise Unreadable(str(damage), damage.hint())
    return item.path, item.entry


def _is_digest(text: str) -> bool:
    return PREFIX.fullmatch(text.lower()) is not None


def _existing(text: str, name: str) -> Path:
    """The path; raises click's error where there is nothing."""
    if not text or not _exists(Path(text)):
        raise click.BadParameter(f"{clean(text)!r} is neither 4 to 64 hexadecimal digits nor a file.", param_hint=name)
    return Path(text)


def _exists(path: Path) -> bool:
    try:
        path.stat()
    except (OSError, ValueError):
        return False
    return True


def _is_entry(path: Path) -> bool:
    if path.suffix == ".jsonl":
        return True
    try:
        return read_file(path, 16).startswith(b'{"format"')
    except StoreError:
        return False


def side_lines(name: str, digest: str, path: Path) -> Iterator[str]:
    """Which entry or report stands for A or B."""
    yield from wrap(f"{name}  {digest}  {clean(path)}", output_width(), "   ")


def _fields(side: Side) -> dict[str, str]:
    return {"kind": side.kind, "path": str(side.path), "digest": side.digest}


def _page(sides: list[Side], differences: tuple[Difference, ...], conditions: tuple[Difference, ...]) -> Iterator[str]:
    for name, side in zip("AB", sides, strict=True):
        yield from side_lines(name, side.digest, side.path)
    yield ""
    if differences:
        yield from grouped(differences)
    else:
        yield "equal factors"
    if conditions:
        yield "\nConditions, which are no factors"
        for each in conditions:
            yield from change_lines(each, "  ")
