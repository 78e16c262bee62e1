"""A machine on which vLLM boots: its cache directory, its costs, and what a boot left behind."""

import hashlib
import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import engine
import numpy as np
import pytest
import scripted

from tests.vllm.running import Running, draft_ms, shared, verify_ms

RELEASE = tuple(map(int, engine.release().split(".")))
# From 0.34 on vLLM captures more sizes for adaptive verification, by a rule of its own, written out.
CAPTURED = [1, 2, 4, 8, 16] if RELEASE < (0, 34) else [1, 2, 4, 8, 10, 12, 14, 16]
# vLLM's own rule for the largest of these sizes and a budget of 64 tokens, written out.
TAIL = [24, 32, 64]
STOCK_RUNS = [size for size in [*CAPTURED, *TAIL] for _ in range(5)]
TOKENS = [[307, 507, 101, 329, 24, 373, 411, 64], [58, 146, 145, 492, 77, 145, 77, 432]]
"""What the non-speculative engine generates for the prompts."""


@dataclass
class Booted:
    """What one boot did. `runs` are the token counts of its timed dummy runs, sentinels included."""

    runs: list[int]
    report: dict[str, Any] | None
    tables: tuple[list[float], list[float]]
    log: list[str]
    entry: Path
    data: bytes
    generate: Callable[[], list[list[int]]]

    @cached_property
    def tokens(self) -> list[list[int]]:
        """What the engine generates after it; to be asked before the engine calibrates again."""
        return self.generate()

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
        shared.stop()
        new = Running()
        try:
            booted = self._booted(new, lambda: new.start(**overrides))
            assert booted.tokens
        finally:
            new.stop()
        return booted

    def calibrate(self) -> Booted:
        """What is a boot to warmcurve: the engine that tests share calibrates anew."""
        return self._booted(shared, shared.calibrate)

    def _booted(self, running: Running, boot: Callable[[], None]) -> Booted:
        before = set(self._reports())
        with scripted.clock(self.costs) as clock, logged() as log:
            boot()
        new = [path for path in self._reports() if path not in before]
        assert len(new) <= 1, new
        draft, verify = running.runner.adaptive_verification.cost_tables
        entry = self.entries[0] if self.entries else self.store / "none"
        return Booted(
            [tokens for tokens, _, _ in clock.steps],
            json.loads(new[0].read_bytes()) if new else None,
            (np.asarray(draft).tolist(), np.asarray(verify).tolist()),
            log,
            entry,
            entry.read_bytes() if entry.is_file() else b"",
            partial(running.tokens, running.calibrations),
        )

    def fail(self, kind: type[BaseException]) -> Failed:
        """`calibrate`, which must end with this error."""
        before = set(self._reports())
        with scripted.clock(self.costs) as clock, logged() as log, pytest.raises(kind) as raised:
            shared.calibrate()
        (new,) = (path for path in self._reports() if path not in before)
        runs = [tokens for tokens, _, _ in clock.steps]
        manager = shared.runner.adaptive_verification
        return Failed(raised.value, runs, json.loads(new.read_bytes()), log, manager)

    def _reports(self) -> list[Path]:
        return sorted((self.store / "reports").glob("*.json")) if self.store.is_dir() else []


@contextmanager
def logged() -> Iterator[list[str]]:
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


def tampered(data: bytes, change: Callable[[dict[str, Any]], None]) -> bytes:
    """The same entry with another payload, its checksum made right: what no checksum can find."""
    payload = json.loads(data.splitlines()[1])
    change(payload)
    body = json.dumps(payload, separators=(",", ":")).encode()
    header = {"format": "warmcurve", "schema": 1, "sha256": hashlib.sha256(body).hexdigest(), "length": len(body)}
    return json.dumps(header, separators=(",", ":")).encode() + b"\n" + body + b"\n"


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
