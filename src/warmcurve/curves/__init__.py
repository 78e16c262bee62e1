"""What was measured. Whether it may be stored. Whether it is still true.

This room has pure functions over frozen values. It must not know files, ranks or engines.
Start with `profile.py`; `calibration.py` is the plan of runs, `admission.py` judges a fresh measurement, `sentinel.py`
judges a stored one, `drift.py` says in words what moved.
"""
