"""`warmcurve verify`: is every entry whole?"""

from pathlib import Path

import click
from click.core import ParameterSource

from warmcurve.cli.inspection import Inspection, inspect_file, inspect_store
from warmcurve.cli.location import open_store, store_option
from warmcurve.cli.output import clean, document, json_option, note


@click.command(
    "verify",
    epilog="""\b
Examples:
  warmcurve verify
  warmcurve verify --store /srv/cache/adaptive_verification --json
  warmcurve verify image/v1/*.jsonl""",
)
@click.argument("files", metavar="[FILE]...", nargs=-1, type=click.Path(exists=True, readable=False, path_type=Path))
@store_option
@json_option
@click.pass_context
def verify_command(ctx: click.Context, files: tuple[Path, ...], directory: Path | None, *, as_json: bool) -> None:
    """Check entries as a boot would.

    Without FILE, every entry of the store. A FILE may lie anywhere; one with an entry's name must also hold the entry
    of that name. Nothing is changed or moved. The exit code is 1 if any is bad.
    """
    if files and ctx.get_parameter_source("directory") is ParameterSource.COMMANDLINE:
        raise click.UsageError("FILE and --store exclude each other.", ctx)
    items = map(inspect_file, files) if files else inspect_store(open_store(directory))
    checked, bad = [], False
    for item in items:
        checked.append(_fields(item))
        bad = bad or item.error is not None
        if not as_json:
            click.echo(_line(item))
    if as_json:
        document(ok=not bad, files=checked)
    if not checked:
        note("no entries to verify")
    if bad:
        ctx.exit(1)


def _line(item: Inspection) -> str:
    line = f"{item.path}: {item.state}"
    return clean(f"{line}: {item.detail} - {item.error.hint()}" if item.error else line)


def _fields(item: Inspection) -> dict[str, str | None]:
    return {
        "path": str(item.path),
        "digest": item.digest,
        "state": item.state,
        "detail": item.detail,
        "remedy": item.error.hint() if item.error else None,
    }
