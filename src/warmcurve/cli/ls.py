"""`warmcurve ls`: one row an entry."""

import os
import sys
from collections.abc import Generator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from warmcurve.cli.checking import NOT_CHECKED, Checked, check_entry, in_order, look_at_entry
from warmcurve.cli.layout import GAP, Field, fitting, fixed_line, output_width
from warmcurve.cli.location import note_misplaced, open_store, store_option
from warmcurve.cli.machines import Machine, Machines
from warmcurve.cli.output import clean, document, json_option, note
from warmcurve.cli.progress import Progress
from warmcurve.cli.table import NOTHING
from warmcurve.storage.entry import SCHEMA
from warmcurve.storage.store import DirectoryStore

_SHORT: Final = 12
Rows = Generator["Row", None, None]
_SOUND: Final = ("ok", NOT_CHECKED)


class Row(msgspec.Struct, frozen=True):
    """What is None is not known. `verify_points` and `draft_points` count the sizes with a stored cost; both times are
    ISO 8601 in UTC, so they sort as text. `quarantined_on` names the machines that keep the entry in quarantine,
    `unstable_on` those whose calibrations disagree.
    """

    digest: str | None
    state: str
    detail: str | None
    engine: str | None
    verify_points: int | None
    draft_points: int | None
    capture_limit: int | None
    recorded_at: str | None
    modified_at: str | None
    age_s: int | None
    host: str | None
    bytes: int | None
    path: str
    quarantined_on: tuple[str, ...]
    unstable_on: tuple[str, ...]


@click.command(
    "ls",
    epilog="""\b
Examples:
  warmcurve ls
  warmcurve ls --store /srv/cache/adaptive_verification
  warmcurve ls --check --json | jq -r '.entries[] | select(.state != "ok") | .path'
  warmcurve ls --json | jq -r '.entries[] | select(.quarantined_on != []) | .digest'""",
)
@click.option("--check", is_flag=True, help="Check every entry as a boot would.")
@store_option
@json_option
def ls_command(directory: Path | None, *, check: bool, as_json: bool) -> None:
    """List the entries of the store. The file that was written last comes first.

    Without --check an entry is only looked at, and its state is "not checked". An entry that cannot be read has the
    reason for a state. With --check the state is ok, or the reason why a boot would not use the entry.

    The columns verify and draft count the sizes with a stored cost of the target and of the drafter. The column
    captured has the largest captured size. The column machines says on how many machines the entry is in quarantine,
    and on how many the calibrations disagree; `show` names them. A narrow terminal gets fewer columns; --json has all.
    """
    store = open_store(directory)
    digests = store.list()
    machines = Machines(store)
    rows: list[Row] = []
    listed = 0
    with Progress(len(digests)) as progress, closing(_rows(store, digests, machines, check=check)) as found:
        lines = None if as_json else _Lines(digests)
        for row in found:
            listed += 1
            if lines:
                progress.erase()
                lines.print(row)
            else:
                rows.append(row)
            progress.step()
    aside = _set_aside(store.directory)
    if as_json:
        entries = [msgspec.to_builtins(row) for row in rows]
        unreadable = [str(path) for path in machines.unreadable]
        elsewhere = [str(path) for path in store.misplaced()]
        document(
            store=str(store.directory), set_aside=aside, entries=entries, unreadable=unreadable, misplaced=elsewhere
        )
    if not listed:
        note(f"no entries in {clean(store.directory)} yet: the first boot of a configuration stores one")
        note_misplaced(store)
    if aside:
        note(f"{aside} damaged {'file was' if aside == 1 else 'files were'} set aside (*.bad-*)")
    machines.note_unreadable()


def _rows(store: DirectoryStore, digests: Sequence[str], machines: Machines, *, check: bool) -> Rows:
    """One at a time, in the order of the times of the files."""
    now = datetime.now(UTC)
    status = {digest: _modified_and_size(Path(store.describe(digest))) for digest in digests}
    earliest = datetime.min.replace(tzinfo=UTC)
    order = sorted(digests, key=lambda digest: status[digest][0] or earliest, reverse=True)
    looked = (look_at_entry(store, digest) for digest in order)
    items = in_order(partial(check_entry, store), order) if check else looked
    with closing(items):
        # An entry that was deleted since it was listed is None.
        for item in filter(None, items):
            assert item.digest
            profile = item.outline.profile if item.outline else None
            remembering = machines.of(item.digest, item.checksum, profile)
            yield _row(item, now, remembering, *status[item.digest])


def _row(item: Checked, now: datetime, machines: Sequence[Machine], modified: datetime | None, size: int | None) -> Row:
    outline = item.outline
    conditions: dict[str, Any] = outline.conditions if outline else {}
    recorded = outline.recorded_at if outline else None
    return Row(
        digest=item.digest,
        state=item.state,
        detail=item.detail,
        engine=outline.engine if outline else None,
        verify_points=len(outline.profile.verify.sizes) if outline else None,
        draft_points=len(outline.profile.draft.sizes) if outline else None,
        capture_limit=outline.profile.capture_limit if outline else None,
        recorded_at=recorded.isoformat(timespec="seconds") if recorded else None,
        modified_at=modified.isoformat(timespec="seconds") if modified else None,
        age_s=round((now - recorded).total_seconds()) if recorded else None,
        host=str(conditions["host"]) if "host" in conditions else None,
        bytes=size,
        path=str(item.path),
        quarantined_on=tuple(each.history.machine for each in machines if each.quarantined),
        unstable_on=tuple(each.history.machine for each in machines if each.unstable),
    )


class _Lines:
    """Prints each row as it comes, in columns whose widths are known before."""

    def __init__(self, digests: Sequence[str]) -> None:
        self._length = short_length(digests)
        self._fields = fitting(columns(self._length), output_width())
        self._colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        self._titled = False

    def print(self, row: Row) -> None:
        if not self._titled:
            self._titled = True
            click.echo(GAP.join(fixed_line(self._fields, {field.title: field.title for field in self._fields})))
        texts = cells(row, self._length)
        parts = fixed_line(self._fields, texts)
        if self._colour:
            alarms = {"state": row.state not in _SOUND, "machines": texts["machines"] != NOTHING}
            parts = tuple(
                click.style(part, fg="red") if alarms.get(field.title) else part
                for field, part in zip(self._fields, parts, strict=True)
            )
        click.echo(GAP.join(parts))


def columns(length: int) -> tuple[Field, ...]:
    """For digests of so many digits."""
    return (
        Field("digest", length),
        Field("state", 16),
        Field("engine", 12, drop=3, most=24),
        Field("verify", 6, right=True, drop=6),
        Field("draft", 5, right=True, drop=7),
        Field("captured", 8, right=True, drop=5),
        Field("recorded (UTC)", 16, drop=4),
        Field("age", 6, right=True),
        Field("host", 9, drop=2, most=32),
        Field("bytes", 7, right=True, drop=8),
        Field("machines", 16, drop=1),
    )


def short_length(digests: Sequence[str]) -> int:
    """How many digits tell all of these apart; twelve or more."""
    return next(n for n in range(_SHORT, 65) if n == 64 or len({digest[:n] for digest in digests}) == len(digests))


def age(seconds: int) -> str:
    """In the largest unit that fits. The clock of the recording host, or of this one, may be wrong."""
    if seconds < 0:
        return "future"
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= length:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"


def cells(row: Row, length: int) -> dict[str, str]:
    """By the title of the column; the digest with so many digits."""
    recorded = row.recorded_at and f"{datetime.fromisoformat(row.recorded_at):%Y-%m-%d %H:%M}"
    counts = {"quarantined on": len(row.quarantined_on), "unstable": len(row.unstable_on)}
    texts = {
        "digest": row.digest and row.digest[:length],
        "state": row.state,
        "engine": row.engine,
        "verify": row.verify_points,
        "draft": row.draft_points,
        "captured": row.capture_limit,
        "recorded (UTC)": recorded,
        "age": None if row.age_s is None else age(row.age_s),
        "host": row.host,
        "bytes": row.bytes,
        "machines": ", ".join(f"{word} {count}" for word, count in counts.items() if count) or None,
    }
    return {title: NOTHING if text is None else clean(text) for title, text in texts.items()}


def _modified_and_size(path: Path) -> tuple[datetime | None, int | None]:
    try:
        status = path.lstat()
    except OSError:
        return None, None
    try:
        return datetime.fromtimestamp(status.st_mtime, UTC), status.st_size
    except (ValueError, OverflowError, OSError):
        # Some file systems hold times beyond the year 9999.
        return None, status.st_size


def _set_aside(directory: Path) -> int:
    return sum(1 for _ in (directory / f"v{SCHEMA}").glob("*.jsonl.bad-*"))
