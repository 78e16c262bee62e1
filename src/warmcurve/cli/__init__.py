"""The command line: look at entries, never change them.

Exit codes: 0 all is well, 1 a finding (a damaged or missing entry, factors that differ, curves that cost too much), 2 a
usage error, 3 the environment (a store that was named and does not exist, is unsafe or cannot be read; a setting that
cannot be understood; a file to compare or explain that cannot be read).
"""

import io
import signal
import sys
from typing import Any

import click

from warmcurve._version import __version__
from warmcurve.cli.compare import compare_command
from warmcurve.cli.demo import demo_command
from warmcurve.cli.diff import diff_command
from warmcurve.cli.explain import explain_command
from warmcurve.cli.ls import ls_command
from warmcurve.cli.output import clean, note
from warmcurve.cli.show import show_command
from warmcurve.cli.verify import verify_command
from warmcurve.errors import WarmcurveError
from warmcurve.outcome import Reason

__all__ = ["main"]


class _Edge(click.Group):
    """Where errors of warmcurve become a line, a hint and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        if isinstance(sys.stdout, io.TextIOWrapper):
            # Factors and hosts are any text, and the encoding of a terminal may have fewer characters.
            sys.stdout.reconfigure(errors="backslashreplace")
        try:
            return super().invoke(ctx)
        except WarmcurveError as error:
            note(f"error: {clean(str(error))}")
            note(f"hint: {error.hint()}")
            ctx.exit(_exit_code(error.reason))
        except KeyboardInterrupt:
            # As a shell says it; 1 would be a finding.
            ctx.exit(128 + signal.SIGINT)


def _exit_code(reason: Reason) -> int:
    return 1 if reason.startswith("entry_") else 3


@click.group(
    cls=_Edge,
    epilog="""\b
Examples:
  warmcurve ls
  warmcurve show 3f9a
  warmcurve verify
  warmcurve explain
  warmcurve diff 3f9a 7065
  warmcurve compare 3f9a 7065
  warmcurve demo
\b
Exit codes: 0 ok, 1 a finding, 2 usage, 3 environment.""",
)
@click.version_option(__version__, prog_name="warmcurve")
def main() -> None:
    """Look at the stored cost curves of adaptive verification. No command changes a stored entry."""


main.add_command(compare_command)
main.add_command(demo_command)
main.add_command(diff_command)
main.add_command(explain_command)
main.add_command(ls_command)
main.add_command(show_command)
main.add_command(verify_command)
