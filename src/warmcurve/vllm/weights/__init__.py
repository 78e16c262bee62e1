"""Which model this is, by the content of its files and not by their place.

Start with `models.py`; `checkpoint.py`, `gguf.py` and `archive.py` read one format each, `hub.py` finds snapshots.
"""
