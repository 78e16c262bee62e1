"""What was measured, whether it may be stored, whether it is still true.

Pure functions over frozen values: it must not know files, ranks or engines.
Start with `profile.py`; `calibration.py` is the plan of runs, `admission.py` judges a fresh measurement, `sentinel.py`
judges a stored one, `drift.py` says in words what moved.
"""
