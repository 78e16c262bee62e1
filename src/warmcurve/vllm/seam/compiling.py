"""Finds out whether something compiled while vLLM calibrated. vLLM counts its compilations, and Dynamo does too.

A size of the eager tail may compile in its first run. vLLM says that these runs warm up kernels, and the median of the
other runs does not change.
"""

import sys
from typing import Any

# Counted when they start, not when they come out of a cache: vllm/compilation/counter.py.
_VLLM = ("num_backend_compilations", "num_inductor_compiles", "num_eager_compiles", "num_aot_compiles")


def compilations() -> int:
    """How many compilations this process has seen. It never raises. A count that cannot be read is 0."""
    return sum(_number(source, names) for source, names in (_vllm(), _dynamo()))


def _vllm() -> tuple[Any, tuple[str, ...]]:
    return getattr(sys.modules.get("vllm.compilation.counter"), "compilation_counter", None), _VLLM


def _dynamo() -> tuple[Any, tuple[str, ...]]:
    # https://docs.pytorch.org/docs/stable/user_guide/torch_compiler/torch.compiler_troubleshooting.html
    counters = getattr(sys.modules.get("torch._dynamo.utils"), "counters", None)
    return (counters.get("stats") if isinstance(counters, dict) else None), ("unique_graphs",)


def _number(source: Any, names: tuple[str, ...]) -> int:
    values = [source.get(name) if isinstance(source, dict) else getattr(source, name, None) for name in names]
    return sum(value for value in values if isinstance(value, int))


class Watch:
    """Watches one calibration: call `before` and `after` each run. `found` names the first run in which something
    compiled.
    """

    def __init__(self, capture_limit: int) -> None:
        self._capture_limit = capture_limit
        self._seen: set[int] = set()
        self._count = 0
        self.found: str | None = None

    def before(self) -> None:
        self._count = compilations()

    def after(self, tokens: int) -> None:
        warms_up = tokens > self._capture_limit and tokens not in self._seen
        self._seen.add(tokens)
        if compilations() != self._count and not warms_up and self.found is None:
            self.found = f"something compiled while a run of {tokens} tokens was timed"
