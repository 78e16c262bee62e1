"""A scripted clock for vLLM's timing events: every timed step takes what a cost model says, to the last bit.

with scripted.clock(CostModel(lambda tokens, full_graph: 1 + tokens / 8, lambda requests: 0.5)) as clock:
    llm = engine.start()
clock.steps                 # (tokens, requests, full_graph) of every timed step
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from types import ModuleType
from typing import Any, NamedTuple

import standins

COLLECTOR = "vllm.v1.worker.gpu.async_utils"


class CostModel(NamedTuple):
    """Milliseconds of a verification of so many tokens, replayed from a full graph or not, and of a draft."""

    verify_ms: Callable[[int, bool], float]
    draft_ms: Callable[[int], float]


class ScriptedClock:
    """Stands still but for what `model` costs. The model may be replaced at any time."""

    def __init__(self, model: CostModel, start_ns: int = 0) -> None:
        self.model = model
        self.steps: list[tuple[int, int, bool]] = []
        self._ns = start_ns

    def __call__(self) -> int:
        return self._ns

    def advance_ms(self, ms: float) -> None:
        # Whole nanoseconds: a difference of float sums would depend on where the clock stands.
        self._ns += round(ms * 1e6)


@contextmanager
def clock(model: CostModel, start_ns: int = 0) -> Iterator[ScriptedClock]:
    """Timing events read a scripted clock within the block."""
    script = ScriptedClock(model, start_ns)
    before, standins.clock = standins.clock, script
    standins.after_import.add(COLLECTOR, _patch_collector)
    try:
        yield script
    finally:
        standins.clock = before


def _patch_collector(module: ModuleType) -> None:
    """Let the scripted clock advance right before the ends of a timed step are recorded."""
    collector = module.StepTimingCollector
    if hasattr(collector.forward_end, "__wrapped__"):
        return
    forward_end, drafter_end = collector.forward_end, collector.drafter_end

    @wraps(forward_end)
    def advance_forward(self: Any) -> None:
        script = standins.clock
        if isinstance(script, ScriptedClock) and self._step is not None:
            full_graph, tokens, requests = self._batch
            # A step of no tokens is one of a collector that is tried out: nothing was run.
            if tokens:
                script.steps.append((tokens, requests, full_graph))
                script.advance_ms(script.model.verify_ms(tokens, full_graph))
        forward_end(self)

    @wraps(drafter_end)
    def advance_draft(self: Any) -> None:
        script = standins.clock
        if isinstance(script, ScriptedClock) and self._step is not None and self._batch[1]:
            script.advance_ms(script.model.draft_ms(self._batch[2]))
        drafter_end(self)

    collector.forward_end, collector.drafter_end = advance_forward, advance_draft
