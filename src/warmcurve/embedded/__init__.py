"""The embedded engine: a small language model, its drafter and its scheduler in numpy, without a GPU.

It serves bytes of Python source with speculative decoding and adaptive verification, and boots through `warmcurve.boot`
as any engine would. The order to read it in: `engine.py` (a step from schedule to tokens), `model.py`, `cache.py`.
"""
