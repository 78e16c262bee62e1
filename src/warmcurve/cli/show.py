"""`warmcurve show`: all that one entry holds."""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from warmcurve.cli import machines
from warmcurve.cli.inspection import Inspection, inspect_entry
from warmcurve.cli.location import open_store, store_option
from warmcurve.cli.machines import Machines
from warmcurve.cli.output import clean, document, json_option
from warmcurve.cli.table import Column, table
from warmcurve.curves.profile import CostCurve, CostProfile
from warmcurve.durations import in_words
from warmcurve.storage.entry import Entry
from warmcurve.storage.store import DirectoryStore

PREFIX: Final = re.compile(r"[0-9a-f]{4,64}")


class NoSuchEntry(click.ClickException):
    def __init__(self, store: DirectoryStore, prefix: str) -> None:
        super().__init__(f"no entry in {clean(store.directory)} begins with {prefix}; see `warmcurve ls`")


@click.command(
    "show",
    epilog="""\b
Examples:
  warmcurve show 3f9a
  warmcurve show 3f9a02c1b7de --json | jq .entry.conditions""",
)
@click.argument("digest")
@store_option
@json_option
def show_command(digest: str, directory: Path | None, *, as_json: bool) -> None:
    """Print one entry: its conditions, factors and curves, what its sentinels cost, and its history on each machine.

    A machine remembers its last calibrations, and the rejections of one entry in a row: at WARMCURVE_QUARANTINE of them
    (3) the entry is in quarantine there. What one round of sentinels costs is told by the stored times.

    DIGEST may be cut short to four digits or more, while it is still the only one that begins so.
    """
    prefix = digest.lower()
    if not PREFIX.fullmatch(prefix):
        raise click.BadParameter("4 to 64 hexadecimal digits are needed.", param_hint="DIGEST")
    store = open_store(directory)
    item = find(store, prefix)
    if item.entry is None:
        raise item.located()
    remembering = Machines(store)
    histories = remembering.of(item)
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
        click.echo("\n".join(_page(item.entry, item)))
        for machine in histories:
            click.echo("\n".join(machines.page(machine)))
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


def _page(entry: Entry, item: Inspection) -> Iterator[str]:
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
            "two": f"{two['replays']} replays, at most {_rounded(two['at_most_ms'])} ms",
            "sweep": f"{sweep['replays']} replays, {_rounded(sweep['ms'])} ms",
        }
    )
    yield "\nConditions"
    yield from aligned(entry.conditions, "  ")
    yield "\nFactors"
    yield from _tree(entry.factors, "  ")
    yield "\nVerify cost by target tokens"
    yield _curve(profile.verify, ((sample.tokens, sample.verify_ms) for sample in profile.samples))
    yield "\nDraft cost by requests"
    # As the curve itself: a step that is no full graph does not price the drafter.
    yield _curve(profile.draft, ((s.requests, s.draft_ms) for s in profile.samples if s.full_graph))


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


def _rounded(ms: float) -> str:
    return f"{ms:.0f}" if ms >= 100 else f"{ms:.3g}"


def aligned(fields: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    """Names and values in two columns."""
    width = max((len(clean(name)) for name in fields), default=0)
    for name, value in fields.items():
        yield f"{indent}{clean(name):{width}}  {_value(value)}"


def _tree(factors: Mapping[str, Any], indent: str) -> Iterator[str]:
    """Leaves first, in columns; then each group under its name."""
    yield from aligned({k: v for k, v in sorted(factors.items()) if not _is_group(v)}, indent)
    for name, value in sorted(factors.items()):
        if _is_group(value):
            yield f"{indent}{clean(name)}"
            yield from _tree(value, indent + "  ")


def _is_group(value: object) -> bool:
    return isinstance(value, dict) and bool(value)


def _value(value: object) -> str:
    return clean(value if value and isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _curve(curve: CostCurve, samples: Iterable[tuple[int, float]]) -> str:
    grouped: defaultdict[int, list[float]] = defaultdict(list)
    for size, ms in samples:
        grouped[size].append(ms)
    titles = ("size", "ms", "samples", "min", "max")
    rows = [
        [str(size), _ms(ms), str(len(grouped[size])), _ms(min(grouped[size])), _ms(max(grouped[size]))]
        for size, ms in curve.points()
    ]
    return table([Column(title, right=True) for title in titles], rows)


def _ms(ms: float) -> str:
    return f"{ms:.4f}" if ms >= 0.01 else f"{ms:.3g}"
