"""`warmcurve compare`: the throughput lost by planning with one entry's curves where the other's are true."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from warmcurve.cli.diff import named_entry, side_lines
from warmcurve.cli.layout import output_width, wrap
from warmcurve.cli.location import store_option
from warmcurve.cli.output import Unreadable, clean, document, json_option, note
from warmcurve.cli.table import Column, table
from warmcurve.curves.profile import CostProfile
from warmcurve.storage.entry import Entry

if TYPE_CHECKING:
    from warmcurve.planning.workload import Case

DRAFTS: Final = 7
"""K where neither side's factors say it: DSpark's usual block."""
_FACTORS: Final = (("speculation", "draft_tokens"), ("positions",))
"""Where adapters keep K: vLLM's, the embedded engine's."""
_COLUMNS: Final = (
    Column("requests", right=True),
    Column("plan A, true B: mean", right=True),
    Column("worst", right=True),
    Column("plan B, true A: mean", right=True),
    Column("worst", right=True),
)


class Row(NamedTuple):
    """Shares of throughput lost at a batch size: planned with A where B is true, and the other way round."""

    requests: int
    a_mean: float
    a_worst: float
    b_mean: float
    b_worst: float


@click.command(
    "compare",
    epilog="""\b
Examples:
  warmcurve compare 3f9a 7065
  warmcurve compare 3f9a /mnt/image/entry.jsonl --within 0.02
  warmcurve compare 3f9a 7065 --json | jq .worst

Exit codes: 0 at most --within is lost, 1 more, or they cannot be compared, 2 usage, 3 environment or not readable.""",
)
@click.argument("left", metavar="A")
@click.argument("right", metavar="B")
@click.option(
    "--within",
    type=click.FloatRange(0, 1),
    default=0.1,
    show_default=True,
    metavar="SHARE",
    help="The largest loss of a batch that is allowed, both ways.",
)
@click.option(
    "--drafts", type=click.IntRange(1, 64), metavar="K", help="Drafted tokens a request.  [default: as the factors say]"
)
@store_option
@json_option
@click.pass_context
def compare_command(
    ctx: click.Context,
    left: str,
    right: str,
    within: float,
    drafts: int | None,
    directory: Path | None,
    *,
    as_json: bool,
) -> None:
    """Print the loss of planning with the curves of another entry.

    A and B are each the digest of a stored entry or the file of an entry. The first four digits of a digest are enough
    if no other digest begins with them.

    "plan A, true B" is the share of throughput that is lost where the curves of B are true and a boot plans with those
    of A. The batches are a declared set: sizes that double, seven ways in which drafted tokens survive, no prompts.
    Costs that are all the same multiple of the others lose nothing. `diff` prints which factors differ.
    """
    try:
        from warmcurve.planning.workload import cases, request_counts
    except ImportError as error:
        raise Unreadable(f"{error}: comparing needs numpy", "pip install 'warmcurve[demo]'") from error
    (left_path, ours), (right_path, theirs) = (
        named_entry(text, name, directory) for text, name in ((left, "A"), (right, "B"))
    )
    kept = drafts or _drafts(ours) or _drafts(theirs) or DRAFTS
    obstacles = list(_obstacles(ours, theirs, drafts))
    last = _last_common_size(ours.profile, theirs.profile)
    most = ours.profile.draft.sizes[-1]
    rows = [] if obstacles else _rows(ours.profile, theirs.profile, cases(most, kept, last))
    left_out = [] if obstacles else sorted(set(request_counts(most)) - {row.requests for row in rows})
    if not obstacles and not rows:
        obstacles.append(f"a step of one request with {kept} drafts exceeds the {last} tokens that both price")
    worst = max((max(row.a_worst, row.b_worst) for row in rows), default=None)
    equal = ours.digest == theirs.digest
    if as_json:
        document(
            left={"path": str(left_path), "digest": ours.digest},
            right={"path": str(right_path), "digest": theirs.digest},
            equal_factors=equal,
            obstacles=obstacles,
            drafts=kept,
            within=within,
            worst=worst,
            a_planned=_summary([(row.a_mean, row.a_worst) for row in rows]),
            b_planned=_summary([(row.b_mean, row.b_worst) for row in rows]),
            batches=[row._asdict() for row in rows],
            left_out=left_out,
        )
    else:
        for name, entry, path in (("A", ours, left_path), ("B", theirs, right_path)):
            click.echo("\n".join(side_lines(name, entry.digest, path)))
        click.echo()
        lines = [line for each in obstacles for line in wrap(f"not comparable: {each}", output_width(), "  ")]
        click.echo("\n".join(lines) or _page(rows, kept))
        if left_out and not obstacles:
            listed = ", ".join(map(str, left_out))
            note(f"left out: steps of {listed} requests may exceed the {last} tokens that both price alike")
        if not equal:
            note(f"factors differ: warmcurve diff {clean(left)} {clean(right)}")
    if worst is None or worst > within:
        ctx.exit(1)


def _drafts(entry: Entry) -> int | None:
    """K, if the factors say it."""
    for path in _FACTORS:
        value: Any = entry.factors
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        # A boolean is an integer, and no number of drafts.
        if type(value) is int and 1 <= value <= 64:
            return value
    return None


def _obstacles(ours: Entry, theirs: Entry, drafts: int | None) -> Iterator[str]:
    """Why no batch means the same on both sides: its steps would be padded, drafted or spread in another way."""
    a, b = _drafts(ours), _drafts(theirs)
    if drafts is None and a and b and a != b:
        yield f"{a} and {b} drafted tokens a request; --drafts K compares the curves all the same"
    for name, one, other in (
        ("captured sizes", ours.profile.captured(), theirs.profile.captured()),
        ("requests that the drafter's curve prices", ours.profile.draft.sizes, theirs.profile.draft.sizes),
    ):
        if one != other:
            only = [sorted(set(x) - set(y)) for x, y in ((one, other), (other, one))]
            yield f"other {name}: only A has {only[0] or 'none'}, only B has {only[1] or 'none'}"


def _last_common_size(a: CostProfile, b: CostProfile) -> int:
    """Where the eager tails have other points their costs are other interpolations: captured sizes are left."""
    return a.verify.sizes[-1] if a.verify.sizes == b.verify.sizes else a.capture_limit


def _rows(a: CostProfile, b: CostProfile, declared: "Sequence[Case]") -> list[Row]:
    from warmcurve.planning.planner import losses

    batches = [case.batch for case in declared]
    lost = defaultdict(list)
    for case, *both in zip(declared, losses(b, a, batches), losses(a, b, batches), strict=True):
        lost[case.requests].append([float(share) for share in both])
    rows = []
    for requests, pairs in lost.items():
        planned_a, planned_b = zip(*pairs, strict=True)
        rows.append(Row(requests, fmean(planned_a), max(planned_a), fmean(planned_b), max(planned_b)))
    return rows


def _summary(shares: list[tuple[float, float]]) -> dict[str, float] | None:
    """Every batch size has as many batches, so the mean of means is that of all."""
    return {"mean": fmean(mean for mean, _ in shares), "worst": max(worst for _, worst in shares)} if shares else None


def _page(rows: list[Row], drafts: int) -> str:
    both = [
        _summary([(row.a_mean, row.a_worst) for row in rows]),
        _summary([(row.b_mean, row.b_worst) for row in rows]),
    ]
    cells = [[str(row.requests), *(f"{share:.2%}" for share in row[1:])] for row in rows]
    cells.append(["all", *(f"{each[name]:.2%}" for each in both if each for name in ("mean", "worst"))])
    title = f"Throughput lost by planning with the other's curves, {drafts} drafted tokens a request"
    return "\n".join([*wrap(title, output_width()), "", table(_COLUMNS, cells)])
