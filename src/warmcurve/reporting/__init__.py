"""What a boot reports: its log line, its JSON report, and why it found no entry to use.

It knows entries and outcomes. It must not decide anything, and no error of its own may end a boot.
Start with `report.py`. `explain.py` finds the entries nearest to a miss.
"""
