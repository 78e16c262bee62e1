"""Waits for vLLM's model runner to be imported, then wraps two of its methods, and a third where vLLM has one for its
calibration.

A plugin is registered long before the runner's module is imported, and in processes that never import it. Importing
it from here would cost seconds and initialise the device in the front end, so a finder on `sys.meta_path` waits.
"""

import functools
import importlib.abc
import logging
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

RUNNER = "vllm.v1.worker.gpu.model_runner"

logger = logging.getLogger("vllm.warmcurve")


def install() -> None:
    """Wrap the runner now, if it is there, or when it is imported. Calling it again changes nothing."""
    if module := sys.modules.get(RUNNER):
        _wrap(module)
    elif not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the runner's module by the other finders, and has it wrapped once its own code has run.

    It stays on `sys.meta_path`: whoever asks for the module's spec without importing it must not use it up.
    """

    def __init__(self) -> None:
        self._asking = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        # Asked while asking: some tools wrap the finders of others, and so ask this one again.
        if fullname != RUNNER or self._asking:
            return None
        self._asking = True
        try:
            spec = _first_spec(fullname, path, target)
            if spec is not None and spec.loader is not None:
                _wrap_after(spec.loader)
        except Exception as error:  # the adapter's edge
            if _required(error):
                raise
            logger.warning("warmcurve could not hook vLLM's model runner; vLLM goes on", exc_info=True)
            return None
        else:
            return spec
        finally:
            self._asking = False


def _first_spec(fullname: str, path: Sequence[str] | None, target: ModuleType | None) -> ModuleSpec | None:
    specs = (finder.find_spec(fullname, path, target) for finder in sys.meta_path)
    return next((spec for spec in specs if spec is not None), None)


def _wrap_after(loader: Any) -> None:
    execute = loader.exec_module

    def execute_and_wrap(module: ModuleType) -> None:
        execute(module)
        _wrap(module)

    # On this one loader object: a loader class of ours would stand in the module's __loader__ for ever.
    loader.exec_module = execute_and_wrap


def _wrap(module: ModuleType) -> None:
    try:
        runner = module.GPUModelRunner
        if hasattr(runner.capture_model, "warmcurve"):
            return
        # Both before either is set: without the second, 0.29's throw-away pass would look like a boot.
        capture, profile = _calibrating(runner.capture_model), _profiling(runner.profile_cudagraph_memory)
        runner.capture_model, runner.profile_cudagraph_memory = capture, profile
    except Exception as error:  # the adapter's edge
        if _required(error):
            raise
        logger.warning("warmcurve could not hook vLLM's model runner; vLLM goes on", exc_info=True)


def _required(error: Exception) -> bool:
    """Whether a boot must fail rather than go on without stored curves; then the error says so."""
    stops = os.environ.get("WARMCURVE_MODE", "").strip().lower() == "require"
    if stops and not hasattr(error, "__notes__"):
        error.add_note("warmcurve: WARMCURVE_MODE=require lets no boot go on without stored curves")
    return stops


def _calibrating(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def calibrate(runner: Any, *args: Any, **kwargs: Any) -> Any:
        # Up to 0.32 the memory profiler captures and calibrates as well, with a throw-away manager over a minimal KV
        # cache (vllm/v1/worker/gpu/cudagraph_utils.py, profile_cudagraph_memory); 0.29 does not even say so.
        throw_away = kwargs.get("profile_only") or getattr(runner, "_warmcurve_profiling", False)
        if throw_away or getattr(runner, "adaptive_verification", None) is None:
            return original(runner, *args, **kwargs)
        with _around(runner, original.__name__):
            return original(runner, *args, **kwargs)

    calibrate.warmcurve = True  # type: ignore[attr-defined]
    return calibrate


def _around(runner: Any, method: str) -> AbstractContextManager[object]:
    try:
        from warmcurve.vllm.seam.around import around

        return around(runner, method, functools.partial(_wrap_another, type(runner)))
    except Exception as error:  # the adapter's edge
        if _required(error):
            raise
        logger.warning("warmcurve stands aside; vLLM goes on", exc_info=True)
        return nullcontext()


def _wrap_another(kind: type, method: str) -> None:
    """Wrap the method in which this runner calibrates: from 0.34 on it is one of its own, called from several places.

    Only a capture knows which: to read the source takes time, and most processes never calibrate.
    """
    owner = next(each for each in kind.__mro__ if method in vars(each))
    if not hasattr(vars(owner)[method], "warmcurve"):
        setattr(owner, method, _calibrating(vars(owner)[method]))


def _profiling(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def profile_cudagraph_memory(runner: Any, *args: Any, **kwargs: Any) -> Any:
        runner._warmcurve_profiling = True  # noqa: SLF001
        try:
            return original(runner, *args, **kwargs)
        finally:
            del runner._warmcurve_profiling  # noqa: SLF001

    profile_cudagraph_memory.warmcurve = True  # type: ignore[attr-defined]
    return profile_cudagraph_memory
