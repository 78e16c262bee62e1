"""Which of vLLM's settings count for the fingerprint, which do not, and why: the reviewed lists.

Start with `review.py`, the words of a review; `sections.py` gathers the configuration's classes, `variables.py` is the
environment. A setting that no list has counts.
"""
