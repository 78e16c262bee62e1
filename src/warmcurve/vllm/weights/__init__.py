"""Which model this is, by what its files hold and not by where they lie.

Start with `models.py`; `checkpoint.py`, `gguf.py` and `archive.py` read one format each, `hub.py` finds snapshots.
"""
