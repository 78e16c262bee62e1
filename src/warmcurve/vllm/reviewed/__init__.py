"""Which of vLLM's settings count for the fingerprint, which do not, and why: the reviewed lists.

Start with `review.py`, the types of a review. `sections.py` has the classes of the configuration, `variables.py` the
environment. A setting that is in no list counts.
"""
