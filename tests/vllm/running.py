"""Engines of this process. One that has booted calibrates many times: to warmcurve each is a boot, and takes a second.

vLLM keeps groups and workspace of an engine in its modules, so there is one at a time: a new one ends the shared one.
"""

import gc
import sys
import tempfile
from pathlib import Path
from typing import Any

import engine
import pytest
import scripted


def verify_ms(tokens: int, full_graph: bool) -> float:
    """A floor, a slope, and a jump where graphs end."""
    return 3.0 + tokens / 16 + (0.0 if full_graph else 1.5)


def draft_ms(requests: int) -> float:
    return 0.75 + requests / 8


class Running:
    """One engine of this process. `calibrations` counts its own at the boot as well."""

    def __init__(self) -> None:
        self._llm: Any = None
        self.calibrations = 0

    @property
    def runner(self) -> Any:
        """The engine's GPUModelRunner."""
        return engine.runner(self._llm)

    def start(self, **overrides: Any) -> None:
        forget_environment()
        self.calibrations += 1
        self._llm = engine.start(**overrides)

    def calibrate(self) -> None:
        """Capture and calibrate anew, as at a boot."""
        assert self._llm is not None, "planted faults would strike its boot: ask for the fixture `runner`"
        forget_environment()
        self.calibrations += 1
        release(self.runner)
        self.runner.capture_model()

    def tokens(self, calibration: int) -> list[list[int]]:
        """What the engine generates after this calibration, which must be its last."""
        assert calibration == self.calibrations
        generated: list[list[int]] = engine.tokens(self._llm)
        return generated

    def stop(self) -> None:
        if self._llm is not None:
            llm, self._llm = self._llm, None
            engine.stop(llm)


shared = Running()
"""The one that tests share."""


def shared_runner() -> Any:
    """The runner of the shared engine, which is booted if it does not run."""
    if shared._llm is None:
        with tempfile.TemporaryDirectory() as cache, pytest.MonkeyPatch.context() as patch:
            patch.setenv("VLLM_CACHE_ROOT", cache)
            lend_models(Path(cache))
            with scripted.clock(scripted.CostModel(verify_ms, draft_ms)):
                shared.start()
    return shared.runner


def release(runner: Any) -> None:
    """Undo what `capture_model` did: graphs, curves, the lock on the workspace, which capturing may have to grow."""
    # capture_model collects garbage, which takes longer than the calibration where all modules are searched.
    gc.freeze()
    from vllm.v1.worker import workspace
    from vllm.v1.worker.gpu.cudagraph_utils import CudaGraphManager

    for manager in (runner.cudagraph_manager, *vars(runner.speculator).values()):
        if isinstance(manager, CudaGraphManager):
            manager.release_graphs()
    runner.adaptive_verification.cost_tables = None
    workspace.unlock_workspace()


def forget_environment() -> None:
    """An engine that has started freezes what vLLM read of the environment (vllm.envs.enable_envs_cache)."""
    from vllm import envs

    if disable := getattr(envs, "disable_envs_cache", None):
        disable()


def lend_models(cache: Path) -> None:
    """Let a new cache have what vLLM found out about its models, for which it starts a process each."""
    shared = Path(sys.prefix) / "modelinfos"
    shared.mkdir(exist_ok=True)
    cache.mkdir(parents=True, exist_ok=True)
    if not (cache / shared.name).exists():
        (cache / shared.name).symlink_to(shared)
