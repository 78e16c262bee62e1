"""Let vLLM use PyPI's triton on a CPU: its kernels run in triton's interpreter.

vLLM on a CPU asks only whether triton has a back end named "cpu" with an active driver
(`vllm/triton_utils/importing.py`), which PyPI's build lacks. Under the interpreter no back end compiles
anything, so a name is enough.
"""

import os
from types import ModuleType


class Driver:
    @staticmethod
    def is_active() -> bool:
        return True


class Backend:
    compiler = None
    driver = Driver


def interpret() -> None:
    """Before triton is imported: `triton.jit` reads this when it decorates a kernel."""
    os.environ["TRITON_INTERPRET"] = "1"


def patch(backends: ModuleType) -> None:
    """Patch the module `triton.backends`."""
    backends.backends.setdefault("cpu", Backend)
