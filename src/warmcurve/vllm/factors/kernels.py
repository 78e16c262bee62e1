"""Which classes of modules a model is made of, and which kernels they came to hold.

vLLM hands each layer a method of quantisation, and that method the kernel that the device, the shapes and the installed
packages allow (`quant_method.fp8_linear`, `scheme.kernel`, `moe_kernel.impl.fused_experts`): only the live objects
tell which it is.
"""

from collections import Counter
from collections.abc import Iterator
from enum import Enum
from functools import cache
from typing import Any, Final

from warmcurve.storage.fingerprint import Value
from warmcurve.vllm.plain import class_of

_HOME: Final = "vllm."
# Settings are counted by their own review. What the compiler leaves tells whether its cache was warm.
_ELSEWHERE: Final = ("vllm.config", "vllm.compilation")
_DEEPEST: Final = 4
# Set from the files and settings of generation, and by the length of a request:
# vllm/model_executor/models/llama4.py, Llama4ForCausalLM.__init__.
_FLAGS: Final = ("attn_temperature_tuning",)


def factors(model: Any) -> dict[str, Value]:
    """How many modules there are of each class with the same contents."""
    found = Counter(" ".join([str(class_of(module)), *sorted(set(_held(module, 1)))]) for module in model.modules())
    return dict(sorted(found.items()))


def _held(owner: Any, depth: int) -> Iterator[str]:
    # Slots and C++ objects have no fields to ask for.
    for name, value in getattr(owner, "__dict__", {}).items():
        kind: Any = type(value)
        if name in _FLAGS:
            yield f"{name}={bool(value)}"
        elif isinstance(value, Enum):
            yield f"{name}={class_of(value)}.{value.name}"
        elif isinstance(value, type):
            yield f"{name}={value.__module__}.{value.__qualname__}"
        elif _is_part(kind):
            yield f"{name}={class_of(value)}"
            if depth < _DEEPEST:
                yield from (f"{name}.{held}" for held in _held(value, depth + 1))


@cache
def _is_part(kind: Any) -> bool:
    """Whether objects of this class are asked what they hold: modules stand for themselves, tensors hold nothing."""
    if not kind.__module__.startswith(_HOME) or kind.__module__.startswith(_ELSEWHERE):
        return False
    return not any(base.__module__.startswith("torch.") or base.__name__ == "Tensor" for base in kind.__mro__)
