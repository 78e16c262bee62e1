__version__ = "0.1.0"
RELEASED = "2026-12-07"
"""The day of this version's release; before that, a day that is not in the future. An earlier clock is wrong."""
