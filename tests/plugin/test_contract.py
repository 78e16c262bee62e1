"""What the seam relies on is tried on live objects: the list of batches, the collector, whose functions run."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from warmcurve.boot.settings import Settings
from warmcurve.errors import CurvesRequired, EngineUnknown
from warmcurve.vllm.releases import MANAGER, METHODS, RUNNER, TIMING
from warmcurve.vllm.seam import contract
from warmcurve.vllm.seam.around import Capture
from warmcurve.vllm.seam.ranks import Ranks
from warmcurve.vllm.seam.reporting import Reporter

CAPTURED, MAX_TOKENS = [1, 2, 4], 16


def batches(*sizes: int) -> list[dict[str, Any]]:
    return [{"num_tokens": size, "context_len": 8} for size in sizes]


def stock() -> list[dict[str, Any]]:
    return batches(*(size for size in (1, 2, 4, 6, 8, 16) for _ in range(5)))


def test_the_batches_of_a_known_release() -> None:
    """Each captured size and the tail, in order, equally often: the plan is theirs. Nothing captured is no breach."""
    plan = contract.check_batches(stock(), CAPTURED, MAX_TOKENS)
    assert plan.runs == tuple(batch["num_tokens"] for batch in stock())
    assert plan.captured == (1, 2, 4)
    assert contract.check_batches([], [], MAX_TOKENS).runs == ()


@pytest.mark.parametrize(
    "change",
    {
        "another order": lambda: stock()[::-1],
        "one more run": lambda: [*stock(), *batches(16)],
        "one less run": lambda: stock()[1:],
        "no tail": lambda: stock()[:15],
        "no run at all": list,
        "another size": lambda: batches(*(size for size in (1, 3, 4, 6, 8, 16) for _ in range(5))),
        "round by round": lambda: batches(*[1, 2, 4, 6, 8, 16] * 5),
        "an argument more": lambda: [batch | {"uniform_decode": True} for batch in stock()],
        "an argument less": lambda: [{"num_tokens": batch["num_tokens"]} for batch in stock()],
        "a size that is no integer": lambda: [batch | {"num_tokens": True} for batch in stock()],
        "two contexts": lambda: [*stock()[:-1], {"num_tokens": 16, "context_len": 9}],
    }.values(),
)  # fmt: skip
def test_other_batches_break_the_contract(change: Callable[[], list[dict[str, Any]]]) -> None:
    """Whatever the sentinels could not stand for."""
    with pytest.raises(EngineUnknown, match="batch"):
        contract.check_batches(change(), CAPTURED, MAX_TOKENS)


class Collector:
    """As vLLM's `StepTimingCollector`, of one step at a time."""

    batch: tuple[bool, int, int] = (False, 0, 0)
    kept, sampled = 1, 1

    def __init__(self) -> None:
        self._timed: list[Any] = []
        self._collecting = False

    @contextmanager
    def collect(self) -> Iterator[list[Any]]:
        samples: list[Any] = []
        yield samples
        graph, tokens, requests = self.batch
        sample = SimpleNamespace(full_cudagraph=graph, num_target_tokens=tokens, num_reqs=requests)
        samples.extend([sample] * self.sampled)

    def forward_start(self) -> None: ...

    forward_end = drafter_start = forward_start

    def drafter_end(self) -> None:
        self._timed += [(object(), self.batch)] * self.kept


def test_a_collector_of_a_known_release() -> None:
    """One record while it times, one sample once it ends."""
    contract.check_collector(Collector)


@pytest.mark.parametrize(
    "changes",
    [{"kept": 0}, {"kept": 2}, {"sampled": 0}, {"sampled": 2}, {"batch": (True, 0, 0)}, {"batch": (False, 1, 0)}],
)
def test_other_collectors_break_the_contract(changes: dict[str, Any]) -> None:
    """None, two, or of another batch."""
    with pytest.raises(EngineUnknown, match="timed step"):
        contract.check_collector(type("Other", (Collector,), changes))


@pytest.mark.parametrize(("collecting", "timed"), [(False, []), (True, [1])])
def test_a_collection_must_have_just_begun(collecting: bool, timed: list[int]) -> None:
    """Where vLLM lists its batches outside a collection, or has timed something, no sentinel could be told apart."""
    collector = Collector()
    collector._collecting, collector._timed = True, []
    contract.check_collecting(collector)
    collector._collecting, collector._timed = collecting, timed
    with pytest.raises(EngineUnknown, match="no timings are collected"):
        contract.check_collecting(collector)


def made(module: str, *names: str, of: type = object) -> type:
    """A class of this module with these methods."""
    return type("Made", (of,), {**dict.fromkeys(names, lambda self: None), "__module__": module})


def test_the_functions_that_were_read_are_those_that_run() -> None:
    """A subclass may add what it likes, but not have a calibration of its own."""
    runner, manager, collector = made(RUNNER, "calibrate"), made(MANAGER, *METHODS), made(TIMING, "collect")

    def check(runner: type, manager: type, collector: type) -> None:
        live = runner()
        live.step_timing, live.adaptive_verification = collector(), manager()
        contract.check_classes(live, "calibrate")

    check(runner, manager, collector)
    check(made("plugin", "other", of=runner), made("plugin", "other", of=manager), made("plugin", of=collector))
    for own in (
        (made("plugin", "calibrate", of=runner), manager, collector),
        (runner, made("plugin", METHODS[0], of=manager), collector),
        (runner, made("plugin", METHODS[2], of=manager), collector),
        (runner, manager, made("plugin", "collect", of=collector)),
    ):
        with pytest.raises(EngineUnknown, match=r"plugin\.Made"):
            check(*own)


@pytest.mark.parametrize("calibrated", [True, False])
def test_a_capture_must_calibrate_where_curves_are_required(calibrated: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the calibration is a method of its own, a capture that never calls it has no curves that were confirmed."""
    runner = SimpleNamespace()
    ranks = Ranks(0, 1, lambda: pytest.fail("no vote in a world of one"))

    def capture(mode: Any) -> None:
        with Capture(runner, Settings(mode=mode), Reporter(None), ranks):
            within = Capture.of(runner)
            assert within
            within.calibrated = calibrated
        assert Capture.of(runner) is None

    capture("reuse")
    monkeypatch.setenv("WARMCURVE_MODE", "require")
    with nullcontext() if calibrated else pytest.raises(CurvesRequired, match="no run to be timed"):
        capture("require")
    assert Capture.of(runner) is None
