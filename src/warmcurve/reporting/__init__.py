"""What is told of a boot: its report and log line, and why it found no entry to use.

It knows entries and outcomes; it must not decide anything, and no error of its own may end a boot.
Start with `report.py`; `explain.py` finds the entries nearest to a miss.
"""
