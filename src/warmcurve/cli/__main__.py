"""`python -m warmcurve.cli`."""

from warmcurve.cli import main

if __name__ == "__main__":
    main(prog_name="warmcurve")
