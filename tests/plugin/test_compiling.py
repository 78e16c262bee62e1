"""What compiled while vLLM calibrated is noticed, but for the first run of a size of the eager tail."""

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from warmcurve.vllm.seam.compiling import Watch, compilations


@pytest.fixture
def counters(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """vLLM's counter and Dynamo's, as their modules hold them."""
    found = SimpleNamespace(
        vllm=SimpleNamespace(num_backend_compilations=3, num_inductor_compiles=1, num_cudagraph_captured=0),
        dynamo={"stats": {"unique_graphs": 2, "calls_captured": 9}},
    )
    monkeypatch.setitem(sys.modules, "vllm.compilation.counter", SimpleNamespace(compilation_counter=found.vllm))
    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", SimpleNamespace(counters=found.dynamo))
    return found


def _watched(counters: Any, runs: list[tuple[int, bool]]) -> str | None:
    watch = Watch(16)
    for tokens, compiles in runs:
        watch.before()
        counters.vllm.num_backend_compilations += compiles
        counters.vllm.num_cudagraph_captured += 1
        watch.after(tokens)
    return watch.found


@pytest.mark.parametrize(
    ("runs", "told"),
    [
        ([(8, False), (16, False), (24, False)], None),
        ([(8, True), (16, False)], 8),
        ([(8, False), (8, True), (16, True)], 8),
        ([(24, True), (24, False), (32, True)], None),
        ([(24, False), (24, True)], 24),
    ],
)
def test_a_compilation_is_noticed(counters: SimpleNamespace, runs: list[tuple[int, bool]], told: int | None) -> None:
    """In any run of a captured size, and in all but the first of a size above; captures are no compilations."""
    found = f"something compiled while a run of {told} tokens was timed" if told else None
    assert _watched(counters, runs) == found


def test_dynamo_counts(counters: SimpleNamespace) -> None:
    """A graph that Dynamo traced anew is a compilation."""
    watch = Watch(16)
    watch.before()
    counters.dynamo["stats"]["unique_graphs"] += 1
    watch.after(8)
    assert watch.found


@pytest.mark.parametrize("odd", [None, SimpleNamespace(), SimpleNamespace(compilation_counter=None, counters="none")])
def test_what_cannot_be_read_counts_as_none(odd: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another release may count in other words; that is no error."""
    for name in ("vllm.compilation.counter", "torch._dynamo.utils"):
        monkeypatch.setitem(sys.modules, name, odd)
    assert compilations() == 0
