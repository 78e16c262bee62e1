"""Python imports this at the start of every process that has this directory on PYTHONPATH: vLLM's spawned engine and
worker processes have the stand-ins as well. It does nothing unless WARMCURVE_VLLM_CPU=1.
"""

import os

if os.environ.get("WARMCURVE_VLLM_CPU") == "1":
    import standins

    standins.install()
