"""Which hardware a rank runs on, and in which state.

Start with `identity.py`; `accelerator.py` asks torch, `nvml.py` and `amdgpu.py` ask the drivers.
"""
