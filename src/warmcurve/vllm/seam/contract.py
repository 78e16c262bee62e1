"""What the seam relies on, tried before the first run: vLLM's list of batches, and its collector of timings.

The gate has read the source of both (`releases.py`). This asks the live objects, which another plugin may have
wrapped. No batch is run, and nothing of vLLM's is changed.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from warmcurve.curves.calibration import Plan, plan
from warmcurve.errors import EngineUnknown
from warmcurve.vllm.releases import MANAGER, METHODS, RUNNER, TIMING

_BATCH: Final = {"num_tokens", "context_len"}


def check_classes(runner: Any, method: str) -> None:
    """The functions that the gate has read are those that run, and no subclass has its own."""
    read = [(runner, method, RUNNER), (runner.step_timing, "collect", TIMING)]
    read += [(runner.adaptive_verification, name, MANAGER) for name in METHODS]
    for owner, name, module in read:
        kind = next((each for each in type(owner).__mro__ if name in vars(each)), None)
        if kind is None or kind.__module__ != module:
            raise EngineUnknown(f"{name} is not {module}'s: {type(owner).__module__}.{type(owner).__qualname__}")


def check_batches(batches: Sequence[dict[str, Any]], captured: Sequence[int], max_tokens: int) -> Plan:
    """The plan of these batches: each captured size and the eager tail, in order, equally often."""
    for batch in batches:
        if batch.keys() != _BATCH or any(type(value) is not int for value in batch.values()):
            raise EngineUnknown(f"a batch to profile is {batch}")
        if batch["context_len"] != batches[0]["context_len"]:
            raise EngineUnknown("the batches to profile have different contexts")
    runs = tuple(batch["num_tokens"] for batch in batches)
    expected = plan(captured, max_tokens, replays=runs.count(runs[0]) if runs else 0)
    if runs != expected.runs or (captured and not runs):
        raise EngineUnknown(f"the batches to profile have {list(runs)} tokens, not {list(expected.runs)}")
    return Plan(runs, tuple(captured))


def check_collector(kind: Callable[[], Any]) -> None:
    """A new collector times one step as one sample, which can be taken out before its block ends."""
    collector = kind()
    with collector.collect() as samples:
        for call in ("forward_start", "forward_end", "drafter_start", "drafter_end"):
            getattr(collector, call)()
        timed = list(collector._timed)  # noqa: SLF001
    # No batch was recorded for it: what a collector says of none.
    if len(timed) != 1 or timed[0][1] != (False, 0, 0) or len(samples) != 1:
        raise EngineUnknown(f"a timed step leaves {len(timed)} records and {len(samples)} samples")
    sample = samples[0]
    if (sample.full_cudagraph, sample.num_target_tokens, sample.num_reqs) != (False, 0, 0):
        raise EngineUnknown(f"a timed step of no batch is {sample}")


def check_collecting(collector: Any) -> None:
    """The runner's own collector is timing, and nothing was timed yet."""
    if not collector._collecting or collector._timed:  # noqa: SLF001
        raise EngineUnknown("vLLM asks for its batches while no timings are collected")
