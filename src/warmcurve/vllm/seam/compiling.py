"""Did something compile while vLLM calibrated? It counts what its compiler does, and so does Dynamo.

A size of the eager tail may compile in its first run: vLLM says of these runs that they warm kernels up, and the median
of the others does not feel it.
"""

import sys
from typing import Any

# Counted when they start, not when they come out of a cache: vllm/compilation/counter.py.
_VLLM = ("num_backend_compilations", "num_inductor_compiles", "num_eager_compiles", "num_aot_compiles")


def compilations() -> int:
    """How many compilations this process has seen. Never raises; what cannot be read counts as none."""
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
    """One calibration: `before` and `after` each run. `found` says of the first run in which something compiled."""

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
