"""`warmcurve explain`: why the last boot found nothing to reuse."""

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import click
import msgspec

from warmcurve.cli.diff import as_rows, grouped
from warmcurve.cli.layout import aligned, output_width, wrap
from warmcurve.cli.location import misplaced_words, note_misplaced, open_reports, open_store, store_option
from warmcurve.cli.ls import short_length
from warmcurve.cli.output import Unreadable, clean, document, json_option, note
from warmcurve.cli.progress import Progress
from warmcurve.cli.reports import HINT, FoundReport, Regret, Report, last_miss, named_report, stored_reports
from warmcurve.outcome import MEANINGS, OUTCOMES, Meaning, Outcome, Reason
from warmcurve.reporting.explain import Neighbour, nearest, survey
from warmcurve.storage.fingerprint import fingerprint
from warmcurve.storage.store import DirectoryStore

_NEIGHBOURS: Final = 3
_LINES: Final = 20
_FOUND: Final = ("entry_", "sentinel_", "install_", "ranks_differ", "rank_absent", "vote_", "mode_verify")
"""Reasons of boots that found an entry of their very factors and could not use it, or in which the ranks of one world
parted: no other entry explains them.
"""
_MODES: Final = {
    "switched_off": "In this mode a boot looks for no entry, so none was missed.",
    "mode_record": "In this mode a boot looks for no entry, so none was missed.",
    "mode_verify": "Its entry was there: in this mode a boot compares it and plans with fresh curves.",
}
_SHORTENED: Final = "The store was full, so the report lacks the factors: the boot cannot be compared with entries."
_REMEMBERED: Final = frozenset({Reason.ENTRY_QUARANTINED, Reason.MACHINE_UNSTABLE, Reason.MACHINES_DIFFER})
_CALIBRATES: Final = frozenset(
    {Reason.ABSENT, Reason.SENTINEL_SHAPE, *(reason for reason in Reason if reason.startswith("entry_"))}
) - {Reason.ENTRY_UNREADABLE, Reason.ENTRY_QUARANTINED}
"""What to do about these is that a boot calibrates and replaces the entry, which one that was stopped does not."""


class Explanation(NamedTuple):
    """`stored` says whether an entry of the boot's own factors is there now, of `others` how many more there are."""

    store: DirectoryStore
    report: Report
    path: Path
    found: bool
    stored: bool
    others: int
    neighbours: tuple[Neighbour, ...]

    def meanings(self) -> dict[str, Meaning | None]:
        """By word, why nothing was used and then why nothing was stored; None for words of other versions."""
        words = (self.report.cause, self.report.reason)
        return {word: MEANINGS[Reason(word)] if word in set(Reason) else None for word in words if word is not None}

    def remedies(self) -> list[str]:
        stopped = self.report.reason == Reason.CURVES_REQUIRED
        known = {word: meaning for word, meaning in self.meanings().items() if meaning}
        return [meaning.remedy for word, meaning in known.items() if not (stopped and word in _CALIBRATES)]


@click.command(
    "explain",
    epilog="""\b
Examples:
  warmcurve explain
  warmcurve explain reports/20300101T000000.000Z-node-1-123-ab12.json
  warmcurve explain --json | jq -r '.nearest[0].differences[].factor'""",
)
@click.argument(
    "file", metavar="[REPORT]", required=False, type=click.Path(exists=True, readable=False, path_type=Path)
)
@store_option
@json_option
def explain_command(file: Path | None, directory: Path | None, *, as_json: bool) -> None:
    """Explain why the last boot that reused nothing was a miss.

    The command prints what the miss means, what to do, and how the nearest entries differ.

    Without REPORT the command takes the newest report in the store of a boot that reused nothing. A REPORT may lie
    anywhere. The nearest entries are those that share most factors with the boot. A line has the value of the entry, an
    arrow, and the value of the boot.
    """
    store = open_store(directory)
    miss, unreadable = (_named(file), []) if file else _last(store)
    explanation = miss and _explanation(store, miss)
    if as_json:
        _document(store, explanation, unreadable)
    elif explanation:
        click.echo("\n".join(_page(explanation)))
    else:
        store.list()
        note(f"no miss is reported in {clean(store.directory)}: no boot has left a report, or all of them were hits")
        note_misplaced(store)
    if unreadable:
        note(f"not read, since damaged or unsafe: {', '.join(clean(path) for path in unreadable)}")


def _named(path: Path) -> FoundReport:
    report = named_report(path)
    if report.outcome is None:
        raise Unreadable(f"{path}: not a boot report: it names no outcome", HINT)
    return FoundReport(path, report)


def _last(store: DirectoryStore) -> tuple[FoundReport | None, list[Path]]:
    reports, unreadable = stored_reports(open_reports(store))
    miss = last_miss(reports)
    if miss and miss.report.factors is None:
        comparable = last_miss([each for each in reports if each.report.factors is not None])
        if comparable:
            path = shlex.quote(clean(comparable.path))
            note(f"a miss that can be compared with entries: warmcurve explain {path}")
    return miss, unreadable


def _explanation(store: DirectoryStore, miss: FoundReport) -> Explanation:
    report, factors = miss.report, miss.report.factors
    cause = report.cause or report.reason or ""
    found = cause.startswith(_FOUND)
    with Progress() as progress:
        entries = survey(store, enough=progress.step)
    own = report.digest if factors is None else fingerprint(factors)
    others = [entry for entry in entries if entry.digest != own]
    explained = found or cause in _MODES or not report.is_miss
    neighbours = () if factors is None or explained else nearest(factors, others, _NEIGHBOURS)
    return Explanation(store, report, miss.path, found, len(others) < len(entries), len(others), neighbours)


def _document(store: DirectoryStore, explanation: Explanation | None, unreadable: list[Path]) -> None:
    fields: dict[str, Any] = {"miss": None, "nearest": []}
    if explanation and explanation.report.is_miss:
        report, neighbours = explanation.report, explanation.neighbours
        fields["miss"] = {
            "path": str(explanation.path),
            **{name: value for name, value in msgspec.to_builtins(report).items() if name != "factors"},
            "found": explanation.found,
            "stored": explanation.stored,
            "meanings": {word: meaning and meaning._asdict() for word, meaning in explanation.meanings().items()},
        }
        fields["nearest"] = [
            {
                "digest": each.stored.digest,
                "path": store.describe(each.stored.digest),
                "recorded_at": each.stored.recorded_at and each.stored.recorded_at.isoformat(timespec="seconds"),
                "equal": each.equal,
                "differences": as_rows(each.differences),
            }
            for each in neighbours
        ]
    fields |= {"unreadable": [str(path) for path in unreadable], "misplaced": [str(each) for each in store.misplaced()]}
    document(store=str(store.directory), **fields)


def _page(explanation: Explanation) -> Iterator[str]:
    report, neighbours = explanation.report, explanation.neighbours
    yield from aligned(_head(explanation))
    yield ""
    if verdict := _verdict(explanation):
        yield from wrap(verdict, output_width())
    if explanation.stored and {report.cause, report.reason} & _REMEMBERED:
        words = shlex.join((report.digest or "", "--store", clean(explanation.store.directory)))
        yield f"What each machine remembers of the entry: warmcurve show {words}"
    if neighbours:
        yield f"Nearest of {explanation.others} other{'s' * (explanation.others > 1)}, entry -> boot:"
    elif report.is_miss and report.factors is not None and not explanation.found and report.cause not in _MODES:
        yield f"No other entry is stored in {clean(explanation.store.directory)}, so there is nothing to compare with."
    if report.cause == Reason.ABSENT and (found := misplaced_words(explanation.store)):
        yield found
    length = short_length([each.stored.digest for each in neighbours])
    for each in neighbours:
        yield ""
        yield from _neighbour(explanation, each, length)


def _verdict(explanation: Explanation) -> str | None:
    """What factors have to do with it, or None where the neighbours say it."""
    report = explanation.report
    if not report.is_miss:
        return "This boot was a hit: there is no miss to explain."
    if report.cause in _MODES:
        return _MODES[report.cause]
    if report.factors is None and not report.shortened:
        return "It kept no factors, so it cannot be compared with entries."
    if explanation.found:
        return "No factor explains this miss: its reason does."
    if explanation.stored and report.outcome == Outcome.RECORDED:
        return "This boot recorded its entry, which is still there: the same boot finds it now."
    if explanation.stored:
        return "Its entry has been recorded since: the same boot finds it now."
    return _SHORTENED if report.shortened else None


def _head(explanation: Explanation) -> dict[str, str]:
    report, meanings = explanation.report, explanation.meanings()
    rank = f"rank {report.rank} of {report.world}" if report.world > 1 else ""
    process = "" if report.pid is None else f"process {report.pid}"
    outcome = OUTCOMES[Outcome(report.outcome)] if report.outcome in set(Outcome) else None
    lines = {
        "boot": ", ".join(filter(None, (report.at, report.engine, report.host, process, rank))),
        "report": str(explanation.path),
        "digest": report.digest,
        "mode": report.mode if report.mode != "reuse" else None,
        "outcome": _meant(report.outcome, outcome),
        "missed": report.cause and _meant(report.cause, _text(meanings[report.cause])),
        "reason": report.reason and _meant(report.reason, _text(meanings[report.reason])),
        "detail": report.met,
        "note": report.note,
        "time": report.time,
        "regret": report.regret and _regret(report.regret),
        "to do": " ".join(explanation.remedies()),
    }
    if report.reason == report.cause:
        del lines["reason"]
    return {name: text for name, text in lines.items() if text}


def _regret(regret: Regret) -> str:
    ways = (
        ("with the stored curves where the fresh ones are true", regret.stored_worst, regret.stored_mean),
        ("with the fresh curves where the stored ones are true", regret.fresh_worst, regret.fresh_mean),
    )
    known = [(way, worst, mean) for way, worst, mean in ways if worst is not None and mean is not None]
    if not known:
        return ""
    over = f"over {regret.batches} batches of {regret.drafts} drafts a request"
    if not any(worst for _, worst, _ in known):
        return f"none either way, {over}"
    losses = [f"planning {way} loses {worst:.1%} at worst, {mean:.1%} on average" for way, worst, mean in known]
    return f"of throughput, {over}: {'; '.join(losses)}"


def _meant(word: str | None, text: str | None) -> str:
    return f"{word}: {text or 'a word that this version does not know.'}"


def _text(meaning: Meaning | None) -> str | None:
    return meaning and meaning.text


def _neighbour(explanation: Explanation, neighbour: Neighbour, length: int) -> Iterator[str]:
    digest, recorded, differ = neighbour.stored.digest, neighbour.stored.recorded_at, len(neighbour.differences)
    equal = f"{neighbour.equal} factors equal, {differ} {'differs' if differ == 1 else 'differ'}"
    when = f", recorded {recorded:%Y-%m-%d %H:%M}" if recorded else ""
    yield from wrap(f"{digest[:length]}  {equal}{when}", output_width(), "  ")
    lines = list(grouped(neighbour.differences, "  "))
    yield from lines[:_LINES]
    if len(lines) > _LINES:
        # Paths, since a digest alone is looked for in the default store. One line however long, to be copied.
        paths = shlex.join(clean(path) for path in (explanation.store.describe(digest), explanation.path))
        yield f"  ... all of them: warmcurve diff {paths}"
