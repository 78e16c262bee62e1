"""`warmcurve verify`: is every entry whole?"""

from collections.abc import Generator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

import click
from click.core import ParameterSource

from warmcurve.cli.checking import Checked, check_entry, check_file, in_order
from warmcurve.cli.location import open_store, store_option
from warmcurve.cli.output import clean, document, json_option, note
from warmcurve.cli.progress import Progress
from warmcurve.storage.store import DirectoryStore


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

    Without FILE the command checks every entry of the store. A FILE may lie anywhere. A file with the name of an entry
    must hold that entry. The command changes and moves nothing. The exit code is 1 if any entry is bad.
    """
    if files and ctx.get_parameter_source("directory") is ParameterSource.COMMANDLINE:
        raise click.UsageError("FILE and --store exclude each other.", ctx)
    checked: list[Checked] = []
    bad, count = False, 0
    total, items = _files(files) if files else _stored(open_store(directory))
    with Progress(total) as progress, closing(items):
        # An entry that was deleted since it was listed is None.
        for item in filter(None, items):
            count += 1
            bad = bad or item.remedy is not None
            if as_json:
                checked.append(item)
            else:
                progress.erase()
                click.echo(_line(item))
            progress.step()
    if as_json:
        document(ok=not bad, files=[_fields(item) for item in checked])
    if not count:
        note("no entries to verify")
    if bad:
        ctx.exit(1)


def _files(paths: Sequence[Path]) -> tuple[int, Generator[Checked | None, None, None]]:
    return len(paths), in_order(check_file, paths)


def _stored(store: DirectoryStore) -> tuple[int, Generator[Checked | None, None, None]]:
    digests = store.list()
    return len(digests), in_order(partial(check_entry, store), digests)


def _line(item: Checked) -> str:
    line = f"{item.path}: {item.state}"
    return clean(f"{line}: {item.detail} - {item.remedy}" if item.remedy else line)


def _fields(item: Checked) -> dict[str, str | None]:
    return {
        "path": str(item.path),
        "digest": item.digest,
        "state": item.state,
        "detail": item.detail,
        "remedy": item.remedy,
    }
