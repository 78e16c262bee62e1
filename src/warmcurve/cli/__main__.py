"""`python -m warmcurve.cli`."""

from warmcurve.cli import main

main(prog_name="warmcurve")
