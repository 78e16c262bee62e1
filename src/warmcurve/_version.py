__version__ = "0.1.0"
RELEASED = "2026-12-07"
"""The day of this version's release, or while it is being made a day before it: no clock that is right is earlier."""
