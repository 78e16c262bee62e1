"""`warmcurve ls`: one row an entry."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from warmcurve.cli.inspection import Inspection, inspect_store
from warmcurve.cli.location import note_misplaced, open_store, store_option
from warmcurve.cli.machines import Machine, Machines
from warmcurve.cli.output import clean, document, json_option, note
from warmcurve.cli.table import NOTHING, Column, table
from warmcurve.storage.entry import SCHEMA

_SHORT: Final = 12
_COLUMNS: Final = (
    Column("digest"),
    Column("state"),
    Column("engine"),
    Column("verify", right=True),
    Column("draft", right=True),
    Column("captured", right=True),
    Column("recorded (UTC)"),
    Column("age", right=True),
    Column("host"),
    Column("bytes", right=True),
)
_MACHINES: Final = Column("machines", alarms=True)


class Row(msgspec.Struct, frozen=True):
    """What is None is not known. `verify_points` and `draft_points` count the sizes with a stored cost; both times are
    ISO 8601 in UTC, so they sort as text. Machines that keep the entry in quarantine and those whose calibrations
    disagree are named.
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
  warmcurve ls --json | jq -r '.entries[] | select(.state != "ok") | .path'
  warmcurve ls --json | jq -r '.entries[] | select(.quarantined_on != []) | .digest'""",
)
@store_option
@json_option
def ls_command(directory: Path | None, *, as_json: bool) -> None:
    """List the entries of the store, newest first.

    Every entry is read and checked; its state is ok, or the reason why it would not be used. The columns verify and
    draft count the sizes with a stored cost, captured is the largest captured size. Where a machine keeps an entry in
    quarantine, or its calibrations disagree, a last column says how many do; `show` says more.
    """
    store = open_store(directory)
    now = datetime.now(UTC)
    machines = Machines(store)
    rows = [row(item, now, machines.of(item)) for item in inspect_store(store)]
    rows.sort(key=lambda listed: listed.recorded_at or listed.modified_at or "", reverse=True)
    aside = _set_aside(store.directory)
    if as_json:
        entries = [msgspec.to_builtins(listed) for listed in rows]
        unreadable = [str(path) for path in machines.unreadable]
        elsewhere = [str(path) for path in store.misplaced()]
        document(
            store=str(store.directory), set_aside=aside, entries=entries, unreadable=unreadable, misplaced=elsewhere
        )
    elif rows:
        click.echo(_table(rows))
    if not rows:
        note(f"no entries in {clean(store.directory)} yet: the first boot of a configuration stores one")
        note_misplaced(store)
    if aside:
        note(f"{aside} damaged {'file was' if aside == 1 else 'files were'} set aside (*.bad-*)")
    machines.note_unreadable()


def row(item: Inspection, now: datetime, machines: Sequence[Machine]) -> Row:
    entry = item.entry
    profile = entry.profile if entry else None
    conditions: dict[str, Any] = entry.conditions if entry else {}
    recorded = entry.recorded_at if entry else None
    modified, size = _modified_and_size(item.path)
    return Row(
        digest=item.digest,
        state=item.state,
        detail=item.detail,
        engine=entry.engine if entry else None,
        verify_points=len(profile.verify.sizes) if profile else None,
        draft_points=len(profile.draft.sizes) if profile else None,
        capture_limit=profile.capture_limit if profile else None,
        recorded_at=recorded.isoformat(timespec="seconds") if recorded else None,
        modified_at=modified.isoformat(timespec="seconds") if modified else None,
        age_s=round((now - recorded).total_seconds()) if recorded else None,
        host=str(conditions["host"]) if "host" in conditions else None,
        bytes=size,
        path=str(item.path),
        quarantined_on=tuple(each.history.machine for each in machines if each.quarantined),
        unstable_on=tuple(each.history.machine for each in machines if each.unstable),
    )


def short_length(digests: Sequence[str]) -> int:
    """How many digits tell all of these apart, and no fewer than are pleasant to copy."""
    return next(n for n in range(_SHORT, 65) if n == 64 or len({digest[:n] for digest in digests}) == len(digests))


def age(seconds: int) -> str:
    """Of the largest unit that fits; negative where the recording host's clock is ahead."""
    sign, rest = ("-", -seconds) if seconds < 0 else ("", seconds)
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if rest >= length:
            return f"{sign}{rest // length}{unit}"
    return f"{sign}{rest}s"


def _table(rows: Sequence[Row]) -> str:
    length = short_length([listed.digest or "" for listed in rows])
    cells = [_cells(listed, length) for listed in rows]
    notes = [_history_note(listed) for listed in rows]
    if not any(notes):
        return table(_COLUMNS, cells)
    return table((*_COLUMNS, _MACHINES), [[*line, text or NOTHING] for line, text in zip(cells, notes, strict=True)])


def _history_note(listed: Row) -> str:
    counts = {"quarantined on": len(listed.quarantined_on), "unstable": len(listed.unstable_on)}
    return ", ".join(f"{word} {count}" for word, count in counts.items() if count)


def _cells(listed: Row, length: int) -> list[str]:
    recorded = listed.recorded_at and f"{datetime.fromisoformat(listed.recorded_at):%Y-%m-%d %H:%M}"
    cells = (
        listed.digest and listed.digest[:length],
        listed.state,
        listed.engine,
        listed.verify_points,
        listed.draft_points,
        listed.capture_limit,
        recorded,
        None if listed.age_s is None else age(listed.age_s),
        listed.host,
        listed.bytes,
    )
    return [NOTHING if cell is None else clean(cell) for cell in cells]


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
