"""What the fingerprint reads from a running vLLM.

Start with `declared.py`: one row a factor, with the place it is read from and why it counts. The other files read
one kind each: configuration, environment, kernels, plugins, packages, toolchain, communicators.
"""
