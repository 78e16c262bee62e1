"""`warmcurve demo`: the embedded engine boots cold, boots warm, and serves with what it has."""

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from warmcurve.cli.output import document, json_option, note
from warmcurve.cli.table import Column, table
from warmcurve.outcome import Outcome
from warmcurve.storage.store import DirectoryStore

if TYPE_CHECKING:
    from warmcurve.embedded.trial import Booted, Serving, Shown

_ROUNDS: Final = 3
_BOOTS: Final = (
    Column("boot"),
    Column("outcome"),
    Column("calibration runs", right=True),
    Column("sentinel runs", right=True),
    Column("calibration ms", right=True),
    Column("boot ms", right=True),
)
_SERVING: Final = (
    Column("batch", right=True),
    Column("mode"),
    Column("bytes/s", right=True),
    Column("accepted/step", right=True),
    Column("output (sha256)"),
)


class _Missing(click.ClickException):
    exit_code = 3


@click.command(
    "demo",
    epilog="""\b
Examples:
  warmcurve demo
  warmcurve demo --out build/demo
  warmcurve demo --json | jq '.serving[] | [.batch, .mode, .tokens_per_s]'""",
)
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), metavar="DIR", help="Write a page into DIR.")
@click.option("--small", type=click.IntRange(1, 64), default=1, show_default=True, help="Requests at once: few.")
@click.option("--large", type=click.IntRange(1, 64), default=32, show_default=True, help="Requests at once: many.")
@json_option
def demo_command(out: Path | None, small: int, large: int, *, as_json: bool) -> None:
    """Boot a small engine cold and warm, then serve with the curves.

    A model of a few million weights, on the CPU, without a network. It calibrates and stores its curves, boots again
    from them, and completes files of the standard library without speculation, with all 7 drafted bytes, with fresh and
    with stored curves: the output is the same, what it costs is not. Nothing is left behind but the page.
    """
    # Products here are small: threads of one product would wait for each other.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        from warmcurve.embedded import startup
    except ImportError as error:
        raise _Missing(f"{error}: the demonstration needs numpy (pip install 'warmcurve[demo]')") from error
    progress = _Progress()
    try:
        if out:
            out.mkdir(parents=True, exist_ok=True)
        shown = _show(small, large, progress)
    except OSError as error:
        raise _Missing(str(error)) from error
    finally:
        progress.end()
    limits = startup.NOISY
    summary = (
        f"Sentinel limits are wider here than by default, for a CPU that others share: measured / stored "
        f"{limits.scale_low:g} to {limits.scale_high:g}, loss bound {limits.max_regret:.0%}. A calibration is "
        f"stored however noisy it was."
    )
    if as_json:
        document(**_described(shown))
    else:
        click.echo(table(_BOOTS, [_boot_cells(name, booted) for name, booted in shown.boots.items()]))
        click.echo()
        click.echo(table(_SERVING, [_serving_cells(each) for each in shown.serving]))
        click.echo()
        click.echo(f"stored and fresh curves give the same tables: {_yes(shown.identical_tables())}")
        click.echo(f"all modes emit the same replies:             {_yes(shown.identical_output())}")
        note(summary)
    if out:
        from warmcurve.cli.page import page

        path = out / "demo.html"
        path.write_text(page(shown, summary), encoding="utf-8")
        note(f"page: {path}")
    warm = shown.boots["warm"].report
    if warm.outcome is not Outcome.REUSED:
        raise click.ClickException(f"the warm boot calibrated again: {warm.reason}, {warm.detail}")
    if not (shown.identical_tables() and shown.identical_output()):
        raise click.ClickException("what must be the same is not")


def _show(small: int, large: int, progress: "_Progress") -> "Shown":
    from warmcurve.embedded.engine import Policy
    from warmcurve.embedded.trial import Shown, boot, serve

    with tempfile.TemporaryDirectory(prefix="warmcurve-demo-") as directory:
        large = max(small, large)
        store = DirectoryStore(Path(directory) / "adaptive_verification")
        boots = {name: boot(store, large, progress.named(name)) for name in ("cold", "warm")}
    engine = boots["warm"].engine
    policies = {
        "plain": Policy(0),
        "fixed": Policy(),
        "adaptive-fresh": Policy(tables=boots["cold"].tables),
        "adaptive-stored": Policy(tables=boots["warm"].tables),
    }
    serving: list[Serving] = []
    for batch in dict.fromkeys((small, large)):
        serving += serve(engine, policies, batch, max(12, 2 * batch), _ROUNDS, progress.named("serve"))
    return Shown(boots, serving)


def _described(shown: "Shown") -> dict[str, Any]:
    first = next(iter(shown.boots.values()))
    boots = [
        {
            "name": name,
            "outcome": booted.report.outcome,
            "reason": booted.report.reason,
            "calibration_runs": booted.report.calibration_runs,
            "sentinel_runs": booted.report.sentinel_runs,
            "calibration_ms": round(booted.report.calibration_ms, 3),
            "boot_ms": round(booted.boot_ms, 3),
            "digest": booted.report.digest,
        }
        for name, booted in shown.boots.items()
    ]
    return {
        "engine": first.report.engine,
        "bits_independent_of_shape": first.engine.exact,
        "boots": boots,
        "identical_tables": shown.identical_tables(),
        "identical_output": shown.identical_output(),
        "serving": [
            each._asdict()
            | {"tokens_per_s": round(each.tokens_per_s, 1), "accepted_per_step": round(each.accepted_per_step, 3)}
            for each in shown.serving
        ],
    }


def _boot_cells(name: str, booted: "Booted") -> list[str]:
    report = booted.report
    return [
        name,
        report.outcome if report.reason is None else f"{report.outcome} ({report.reason})",
        str(report.calibration_runs),
        str(report.sentinel_runs),
        f"{report.calibration_ms:.0f}",
        f"{booted.boot_ms:.0f}",
    ]


def _serving_cells(each: "Serving") -> list[str]:
    speed, accepted = f"{each.tokens_per_s:.0f}", f"{each.accepted_per_step:.2f}"
    return [str(each.batch), each.mode, speed, accepted, each.output_sha256[:12]]


def _yes(value: bool) -> str:  # noqa: FBT001
    return "yes" if value else "NO"


class _Progress:
    """What is going on, on stderr: one line that is written over where someone looks, else one line a phase."""

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix
        self._last_phase = ""

    def named(self, prefix: str) -> "_Progress":
        self.end()
        return _Progress(prefix)

    def __call__(self, text: str) -> None:
        if sys.stderr.isatty():
            click.echo(f"\r\033[K{self._prefix}: {text}", nl=False, err=True)
        elif self._phase(text) != self._last_phase:
            note(f"{self._prefix}: {self._phase(text)}")
        self._last_phase = self._phase(text)

    def end(self) -> None:
        if sys.stderr.isatty():
            click.echo("\r\033[K", nl=False, err=True)

    @staticmethod
    def _phase(text: str) -> str:
        return text.partition(",")[0] if text.startswith("calibrating") else text.partition(", round")[0]
