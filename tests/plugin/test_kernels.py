"""What is told of a model's modules: the kernels that they hold, wherever vLLM keeps them."""

from collections.abc import Iterator
from enum import Enum
from typing import Any

import pytest

from warmcurve.vllm.factors import kernels


class Module:
    """A module as far as it is asked: torch is not here."""

    def __init__(self, *inner: "Module", **fields: Any) -> None:
        self.__dict__.update(fields)
        self._inner = inner

    def modules(self) -> Iterator["Module"]:
        yield self
        for each in self._inner:
            yield from each.modules()


class Backend(Enum):
    TRITON = 1
    CUTLASS = 2


def part(name: str, home: str = "vllm.some", **fields: Any) -> Any:
    """An object of vLLM's of a class of this name."""
    found = type(name, (), {"__module__": home})()
    found.__dict__.update(fields)
    return found


def held(**fields: Any) -> dict[str, Any]:
    return kernels.factors(Module(**fields))


OTHERS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "method": ({"quant_method": part("Fp8")}, {"quant_method": part("Fp4")}),
    "kernel of the method": (
        {"quant_method": part("Fp8", fp8_linear=part("Cutlass"))},
        {"quant_method": part("Fp8", fp8_linear=part("Triton"))},
    ),
    "kernel of the scheme": (
        {"scheme": part("W8", kernel=part("Marlin"))},
        {"scheme": part("W8", kernel=part("Machete"))},
    ),
    "experts within the kernel": (
        {"quant_method": part("Moe", moe_kernel=part("Kernel", impl=part("Impl", fused_experts=part("DeepGemm"))))},
        {"quant_method": part("Moe", moe_kernel=part("Kernel", impl=part("Impl", fused_experts=part("Triton"))))},
    ),
    "member": (
        {"quant_method": part("Moe", fp8_backend=Backend.TRITON)},
        {"quant_method": part("Moe", fp8_backend=Backend.CUTLASS)},
    ),
    "class": ({"quant_method": part("Moe", experts_cls=int)}, {"quant_method": part("Moe", experts_cls=str)}),
    "attention's implementation": ({"impl": part("FlashAttentionImpl")}, {"impl": part("TritonAttentionImpl")}),
    "temperature of attention": ({"attn_temperature_tuning": True}, {"attn_temperature_tuning": False}),
}


@pytest.mark.parametrize("what", OTHERS)
def test_another_kernel_differs(what: str) -> None:
    """Whichever level it lies on, another kernel is another value, and the same one is the same."""
    one, other = OTHERS[what]
    assert held(**one) == held(**one)
    assert held(**one) != held(**other)


def test_settings_tensors_and_other_programs_objects_do_not_count() -> None:
    """Neither vLLM's settings, which have a review, nor its compiler's state, nor tensors, nor what is not vLLM's."""
    tensor = type("Tensor", (), {"__module__": "torch"})
    weight = type("Weight", (tensor,), {"__module__": "vllm.model_executor.parameter"})()
    seen = part("Fp8")
    plain = held(quant_method=seen)
    for other in (
        part("VllmConfig", "vllm.config.vllm"),
        part("VllmBackend", "vllm.compilation.backends"),
        part("Theirs", "theirs"),
        weight,
        "text",
        7,
    ):
        assert held(quant_method=seen, other=other) == plain


def test_modules_are_counted() -> None:
    """Those that hold the same are one line with their number, in order of their names; a circle has an end."""
    circle = part("Circle")
    circle.itself = circle
    first, second = Module(b=circle), Module(b=circle)
    found = kernels.factors(Module(first, second))
    assert set(found.values()) == {1, 2}
    assert list(found) == sorted(found)
