"""`warmcurve show`: what one entry holds."""

import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from warmcurve.cli import machines
from warmcurve.cli.inspection import Inspection, inspect_entry
from warmcurve.cli.layout import aligned, output_width, wrap
from warmcurve.cli.location import open_store, store_option
from warmcurve.cli.machines import Machines
from warmcurve.cli.output import clean, document, json_option
from warmcurve.cli.plot import marks_for, plot, short_ms
from warmcurve.cli.table import Column, plain
from warmcurve.curves.profile import CostCurve, CostProfile
from warmcurve.durations import in_words
from warmcurve.reporting import explain
from warmcurve.storage.entry import Entry
from warmcurve.storage.fingerprint import leaves
from warmcurve.storage.store import DirectoryStore

PREFIX: Final = re.compile(r"[0-9a-f]{4,64}")
_TABLE_ROWS: Final = 12
_BETWEEN: Final = "     "


class NoSuchEntry(click.ClickException):
    def __init__(self, store: DirectoryStore, prefix: str) -> None:
        super().__init__(f"no entry in {clean(store.directory)} begins with {prefix}; see `warmcurve ls`")


@click.command(
    "show",
    epilog="""\b
Examples:
  warmcurve show 3f9a
  warmcurve show 3f9a --factors
  warmcurve show 3f9a --factors configuration.cache_config
  warmcurve show 3f9a02c1b7de --json | jq .entry.conditions""",
)
@click.argument("digest")
@click.option(
    "--factors",
    "opened",
    is_flag=False,
    flag_value="",
    metavar="[SECTION]",
    help="Print each factor, or only those whose dotted names begin with SECTION. It stands after DIGEST.",
)
@store_option
@json_option
def show_command(digest: str, opened: str | None, directory: Path | None, *, as_json: bool) -> None:
    """Print one entry: curves, history, conditions, factors.

    DIGEST is the digest of the entry, or its first four digits or more, if no other digest begins with them.

    The line "a hit" says what one round of the sentinels takes, by the stored times. A history has the last
    calibrations of a machine, and the rejections of an entry in a row. After WARMCURVE_QUARANTINE rejections (3) the
    entry is in quarantine on that machine.

    --json prints all of it, with every factor.
    """
    prefix = digest.lower()
    if not PREFIX.fullmatch(prefix):
        raise click.BadParameter("4 to 64 hexadecimal digits are needed.", param_hint="DIGEST")
    store = open_store(directory)
    item = find(store, prefix)
    if item.entry is None:
        raise item.located()
    remembering = Machines(store)
    histories = remembering.of(item.digest, item.checksum, item.entry.profile)
    if as_json:
        document(
            digest=item.digest,
            path=str(item.path),
            entry=msgspec.to_builtins(item.entry),
            checksum=item.checksum,
            sentinels=_sentinels(item.entry.profile),
            histories=[machines.fields(machine) for machine in histories],
            unreadable=[str(path) for path in remembering.unreadable],
        )
    else:
        lines = [*_head(item.entry, item), *_curves(item.entry.profile)]
        for machine in histories:
            lines += machines.page(machine)
        lines += ["\nConditions", *aligned(item.entry.conditions, "  "), *_factors(item.entry.factors, opened)]
        click.echo("\n".join(lines))
    remembering.note_unreadable()


def find(store: DirectoryStore, prefix: str, argument: str = "DIGEST") -> Inspection:
    """The one entry whose digest begins with the prefix. Raises `NoSuchEntry`, and click's error where several do."""
    candidates = [digest for digest in store.list() if digest.startswith(prefix)]
    if len(candidates) > 1:
        listed = "".join(f"\n  {digest}" for digest in candidates)
        raise click.BadParameter(f"{len(candidates)} entries begin with {prefix}:{listed}", param_hint=argument)
    item = inspect_entry(store, candidates[0]) if candidates else None
    if item is None:
        raise NoSuchEntry(store, prefix)
    return item


def _head(entry: Entry, item: Inspection) -> Iterator[str]:
    profile, protocol = entry.profile, entry.protocol
    two, sweep = _sentinels(profile).values()
    yield from aligned(
        {
            "digest": item.digest,
            "path": str(item.path),
            "engine": entry.engine,
            "measured": f"{protocol.statistic} of {protocol.replays} replays, in {protocol.unit}",
            "took": _took(entry),
            "captured": f"{len(profile.captured())} sizes up to {profile.capture_limit} tokens",
            "lookup": f"{protocol.lookup_captured} where captured, {protocol.lookup_tail} above",
            "a hit": f"two sentinels take at most {short_ms(two['at_most_ms'])} ms, "
            f"a sweep of {sweep['replays']} replays takes {short_ms(sweep['ms'])} ms",
        }
    )


def _curves(profile: CostProfile) -> Iterator[str]:
    limit = profile.capture_limit
    marks = marks_for(sys.stdout.encoding)
    tail = f" (captured up to {limit}, at {marks.limit})" if limit < profile.verify.sizes[-1] else ""
    yield ""
    yield from wrap(f"Verify cost in ms, by target tokens{tail}", output_width())
    yield from plot(profile.verify.points(), output_width(), captured=limit, marks=marks)
    yield ""
    yield from _rows(profile.verify, ((sample.tokens, sample.verify_ms) for sample in profile.samples))
    yield "\nDraft cost in ms, by requests"
    yield from plot(profile.draft.points(), output_width(), marks=marks)
    yield ""
    # As the curve itself: a step that is no full graph does not price the drafter.
    yield from _rows(profile.draft, ((s.requests, s.draft_ms) for s in profile.samples if s.full_graph))


def _factors(factors: Mapping[str, Any], opened: str | None) -> Iterator[str]:
    found = leaves(factors)
    sections: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for name, text in sorted(found.items()):
        sections[explain.section(name)][name] = text
    if opened is None:
        yield ""
        text = f"Factors: {len(found)} in {len(sections)} sections; --factors prints them, --factors SECTION some"
        yield from wrap(text, output_width())
        yield from aligned({name: len(members) for name, members in sections.items()}, "  ")
        return
    chosen = {
        section: {name: text for name, text in members.items() if name.startswith(opened)}
        for section, members in sections.items()
    }
    if not any(chosen.values()):
        known = ", ".join(clean(name) for name in sections)
        problem = f"no factor begins with {clean(opened)!r}; the sections are {known}."
        raise click.BadParameter(problem, param_hint="--factors")
    yield "\nFactors"
    for section, members in chosen.items():
        if members:
            values = {name: json.loads(text) for name, text in members.items()}
            if list(values) == [section]:
                yield from aligned(values, "  ")
            else:
                yield f"  {clean(section)}"
                yield from aligned({name.removeprefix(f"{section}."): value for name, value in values.items()}, "    ")


def _took(entry: Entry) -> str:
    """The calibration, in words."""
    ms = entry.conditions.get("calibration_ms")
    return f"{in_words(ms / 1e3)} to calibrate" if isinstance(ms, float) and ms >= 0 else "a time that is not recorded"


def _sentinels(profile: CostProfile) -> dict[str, dict[str, Any]]:
    """What one round of each policy replays, and costs by the stored times; `two` where it draws the dearest size."""
    sizes = profile.captured()
    anchor, dearest = sizes[-1], max(sizes[:-1] or sizes, key=lambda size: profile.expected_ms((size,)))
    sweep = sizes if len(sizes) > 1 else (anchor, anchor)
    return {
        "two": {"replays": 2, "at_most_ms": round(profile.expected_ms((anchor, dearest)), 6)},
        "sweep": {"replays": len(sweep), "ms": round(profile.expected_ms(sweep), 6)},
    }


def _rows(curve: CostCurve, samples: Iterable[tuple[int, float]]) -> Iterator[str]:
    """The stored costs beside the spread of their samples; of many sizes as several tables side by side."""
    grouped: defaultdict[int, list[float]] = defaultdict(list)
    for size, ms in samples:
        grouped[size].append(ms)
    rows = [
        [str(size), _ms(ms), str(len(grouped[size])), _ms(min(grouped[size])), _ms(max(grouped[size]))]
        for size, ms in curve.points()
    ]
    columns = [Column(title, right=True) for title in ("size", "ms", "samples", "min", "max")]
    title, *lines = plain(columns, rows).splitlines()
    beside = max(1, (output_width() + len(_BETWEEN)) // (len(title) + len(_BETWEEN)))
    height = max(_TABLE_ROWS, -(-len(lines) // beside))
    blocks = [lines[start : start + height] for start in range(0, len(lines), height)]
    yield _BETWEEN.join([title] * len(blocks))
    yield from (_BETWEEN.join(filter(None, row)) for row in zip_longest(*blocks))


def _ms(ms: float) -> str:
    return f"{ms:.4f}" if ms >= 0.01 else f"{ms:.3g}"
