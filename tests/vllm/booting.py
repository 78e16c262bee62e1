"""A machine on which vLLM boots: its cache directory, its costs, and what a boot left behind."""

import hashlib
import json
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import engine
import numpy as np
import pytest
import scripted

CAPTURED = engine.ENGINE["compilation_config"]["cudagraph_capture_sizes"]
# vLLM's own rule for the largest of these sizes and a budget of 64 tokens, written out.
TAIL = [24, 32, 64]
STOCK_RUNS = [size for size in [*CAPTURED, *TAIL] for _ in range(5)]
TOKENS = [[307, 507, 101, 329, 24, 373, 411, 64], [58, 146, 145, 492, 77, 145, 77, 432]]
"""What the non-speculative engine generates for the prompts."""


def verify_ms(tokens: int, full_graph: bool) -> float:
    """A floor, a slope, and a jump where graphs end."""
    return 3.0 + tokens / 16 + (0.0 if full_graph else 1.5)


def draft_ms(requests: int) -> float:
    return 0.75 + requests / 8


@dataclass
class Booted:
    """What one boot did. `runs` are the token counts of its timed dummy runs, sentinels included."""

    runs: list[int]
    report: dict[str, Any] | None
    tables: tuple[list[float], list[float]]
    tokens: list[list[int]]
    log: list[str]
    entry: Path
    data: bytes

    @property
    def words(self) -> tuple[str, str | None]:
        """Outcome and reason, as the report has them."""
        assert self.report is not None
        return self.report["outcome"], self.report["reason"]


@dataclass
class Failed:
    """What a boot did that failed. `manager` is vLLM's, whose methods the seam replaces for a while."""

    error: BaseException
    runs: list[int]
    report: dict[str, Any]
    log: list[str]
    manager: Any


class Machine:
    """`costs` is what steps take from now on; `cache` is vLLM's cache root."""

    def __init__(self, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cache = cache
        self.costs = scripted.CostModel(verify_ms, draft_ms)
        monkeypatch.setenv("VLLM_CACHE_ROOT", str(cache))

    @property
    def store(self) -> Path:
        return self.cache / "adaptive_verification"

    @property
    def entries(self) -> list[Path]:
        return sorted((self.store / "v1").glob("*.jsonl")) if self.store.is_dir() else []

    def lay(self, name: str, data: bytes) -> Path:
        """Put bytes where an entry lies."""
        for directory in (self.store, self.store / "v1"):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self.store / "v1" / name).write_bytes(data)
        (self.store / "v1" / name).chmod(0o600)
        return self.store / "v1" / name

    def boot(self, **overrides: Any) -> Booted:
        """Boot a new engine, let it generate, and stop it."""
        _forget_environment()
        before = set(self._reports())
        with scripted.clock(self.costs) as clock, _logged() as log:
            llm = engine.start(**overrides)
            try:
                runs = [tokens for tokens, _, _ in clock.steps]
                draft, verify = engine.runner(llm).adaptive_verification.cost_tables
                tokens = engine.tokens(llm)
            finally:
                engine.stop(llm)
        new = [path for path in self._reports() if path not in before]
        assert len(new) <= 1, new
        entry = self.entries[0] if self.entries else self.store / "none"
        return Booted(
            runs,
            json.loads(new[0].read_bytes()) if new else None,
            (np.asarray(draft).tolist(), np.asarray(verify).tolist()),
            tokens,
            log,
            entry,
            entry.read_bytes() if entry.is_file() else b"",
        )

    def fail(self, kind: type[BaseException], **overrides: Any) -> Failed:
        """Boot a new engine, which must fail with this error."""
        _forget_environment()
        before = set(self._reports())
        with scripted.clock(self.costs) as clock, _logged() as log, _managers() as managers:
            try:
                with pytest.raises(kind) as raised:
                    engine.start(**overrides)
            finally:
                engine.clear()
        (new,) = (path for path in self._reports() if path not in before)
        (manager,) = managers
        runs = [tokens for tokens, _, _ in clock.steps]
        return Failed(raised.value, runs, json.loads(new.read_bytes()), log, manager)

    def _reports(self) -> list[Path]:
        return sorted((self.store / "reports").glob("*.json")) if self.store.is_dir() else []


@contextmanager
def _logged() -> Iterator[list[str]]:
    """The lines that warmcurve adds to vLLM's log, whose logger hands nothing on to the root's handlers."""
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("vllm.warmcurve")
    logger.addHandler(handler)
    try:
        yield lines
    finally:
        logger.removeHandler(handler)


def lend_models(cache: Path) -> None:
    """Let a new cache have what vLLM found out about its models, for which it starts a process each."""
    shared = Path(sys.prefix) / "modelinfos"
    shared.mkdir(exist_ok=True)
    cache.mkdir(parents=True, exist_ok=True)
    if not (cache / shared.name).exists():
        (cache / shared.name).symlink_to(shared)


@contextmanager
def _managers() -> Iterator[list[Any]]:
    """The adaptive-verification managers that vLLM makes within the block."""
    from vllm.v1.worker.gpu.spec_decode.adaptive_verification import AdaptiveVerificationManager as Manager

    made: list[Any] = []
    original = Manager.__init__

    def remember(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        made.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Manager, "__init__", remember)
        yield made


def _forget_environment() -> None:
    # An engine that has started freezes what vLLM read of the environment (vllm.envs.enable_envs_cache).
    from vllm import envs

    if disable := getattr(envs, "disable_envs_cache", None):
        disable()


def tampered(data: bytes, change: Callable[[dict[str, Any]], None]) -> bytes:
    """The same entry with another payload, its checksum made right: what no checksum can find."""
    payload = json.loads(data.splitlines()[1])
    change(payload)
    body = json.dumps(payload, separators=(",", ":")).encode()
    header = {"format": "warmcurve", "schema": 1, "sha256": hashlib.sha256(body).hexdigest(), "length": len(body)}
    return json.dumps(header).encode() + b"\n" + body + b"\n"


def scaled(factor: float, only: int | None = None) -> Callable[[dict[str, Any]], None]:
    """All stored costs times a factor, or the target's at one size only; samples and curves alike."""

    def change(payload: dict[str, Any]) -> None:
        profile = payload["profile"]
        for sample in profile["samples"]:
            if only in (None, sample[0]):
                sample[2] *= factor
            if only is None:
                sample[3] *= factor
        for name, curve in (("verify", profile["verify"]), ("draft", profile["draft"])):
            for index, size in enumerate(curve["sizes"]):
                if only is None or (name == "verify" and size == only):
                    curve["costs_ms"][index] *= factor

    return change
