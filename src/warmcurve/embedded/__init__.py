"""The embedded engine: a small language model, its drafter and its scheduler in numpy, without a GPU.

It completes Python source byte by byte, with speculative decoding and adaptive verification, and boots through
`warmcurve.boot` as any engine would. Read `startup.py` first (how it boots), then `engine.py` (a step from schedule to
tokens), `model.py`, `cache.py`, `weights.py`.
"""
