"""Which entry, where, and in which bytes.

It knows the operating system and the file format. It must not know whether a curve is still true.
Start with `store.py`; `entry.py` turns bytes into an entry and back, `fingerprint.py` names it, `history.py` remembers
what became of it on one machine, `files.py` holds the hard facts about reading and publishing.
"""
