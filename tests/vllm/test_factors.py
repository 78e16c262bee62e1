"""Each declared factor, on a live runner: another value is another fingerprint, and the difference names the factor."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import engine
import pytest
import scripted

from tests.vllm.booting import Machine
from warmcurve.fingerprint import diff, fingerprint
from warmcurve.vllm import factors, releases
from warmcurve.vllm.device import device_of

SIZES = (1, 2, 4, 8, 16, 24, 32, 64)


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The runner of an engine that has booted."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        machine = Machine(tmp_path_factory.mktemp("factors"), monkeypatch)
        with scripted.clock(machine.costs):
            llm = engine.start()
            yield engine.runner(llm)
            engine.stop(llm)


def read(runner: Any) -> dict[str, Any]:
    return factors.read(factors.Subject(runner, device_of(runner), dict(os.environ), SIZES))


@dataclass
class Change:
    """Sets another value for the length of a test."""

    patch: pytest.MonkeyPatch
    runner: Any

    @property
    def config(self) -> Any:
        return self.runner.vllm_config

    def set(self, target: Any, name: str, value: Any) -> None:
        assert getattr(target, name) != value
        self.patch.setattr(target, name, value)

    def retype(self, target: Any) -> None:
        self.patch.setattr(target, "__class__", type("Other", (type(target),), {"__module__": "other"}))


def _other_groups(change: Change) -> Any:
    (group,) = change.runner.attn_groups[0]
    spec = type(group.kv_cache_spec)
    fields = {name: getattr(group.kv_cache_spec, name) for name in spec.__dataclass_fields__}
    other = object.__new__(spec)
    for name, value in fields.items():
        object.__setattr__(other, name, value + 1 if name == "num_kv_heads" else value)
    return [[SimpleNamespace(backend=group.backend, kv_cache_spec=other, layer_names=group.layer_names)]]


def _float16() -> Any:
    import torch

    return torch.float16


def _nccl(change: Change) -> None:
    from vllm.distributed.parallel_state import get_tp_group

    communicator = SimpleNamespace(pynccl_comm=SimpleNamespace(nccl_version=22703))
    change.patch.setattr(get_tp_group(), "device_communicator", communicator)


def _speculative(name: str, value: Any) -> Callable[[Change], None]:
    return lambda change: change.set(change.config.speculative_config, name, value)


def _config(section: str, name: str, value: Any) -> Callable[[Change], None]:
    return lambda change: change.set(getattr(change.config, section), name, value)


def _runner(name: str, value: Any) -> Callable[[Change], None]:
    return lambda change: change.set(change.runner, name, value)


def _speculator(name: str, value: Any) -> Callable[[Change], None]:
    return lambda change: change.patch.setattr(change.runner.speculator, name, value, raising=False)


# Factor (or a leaf of it) → a change of it.
CHANGES: dict[str, Callable[[Change], None]] = {
    "engine.vllm.version": lambda c: c.patch.setattr("vllm.__version__", "9.9"),
    "engine.profiler": lambda c: c.patch.setattr(releases, "_MEASURED", {}),
    "engine.runner": lambda c: c.retype(c.runner),
    "engine.config": _config("cache_config", "block_size", 64),
    "engine.sections.attention_config": _config("attention_config", "flash_attn_max_num_splits_for_cuda_graph", 7),
    "engine.sections.kernel_config": _config("kernel_config", "enable_flashinfer_autotune", "never"),
    "engine.sections.mamba_config": _config("mamba_config", "enable_stochastic_rounding", "maybe"),
    "engine.sections.offload_config": _config("offload_config", "offload_backend", "uva"),
    "engine.sections.speculative_config.draft_sample_method": _speculative("draft_sample_method", "probabilistic"),
    "engine.sections.speculative_config.rejection_sample_method": _speculative("rejection_sample_method", "synthetic"),
    "engine.sections.speculative_config.kv_cache_dtype": _speculative("kv_cache_dtype", "fp8"),
    "engine.sections.speculative_config.use_local_argmax_reduction": _speculative(
        "use_local_argmax_reduction", "maybe"
    ),
    "engine.sections.speculative_config.num_speculative_tokens_per_batch_size": _speculative(
        "num_speculative_tokens_per_batch_size", [[1, 4, 3]]
    ),
    "engine.sections.speculative_config.moe_backend": _speculative("moe_backend", "triton"),
    "engine.fp64_gumbel": _config("model_config", "use_fp64_gumbel", "yes"),
    "host": lambda c: c.patch.setattr("os.sched_getaffinity", lambda _: range(99)),
    "runtime.threads": lambda c: c.patch.setattr("torch.get_num_threads", lambda: 99),
    "runtime.python": lambda c: c.patch.setattr("platform.python_version_tuple", lambda: ("3", "99", "0")),
    "runtime.torch.version": lambda c: c.patch.setattr("torch.__version__", "9.9"),
    "runtime.packages": lambda c: c.patch.setattr("importlib.metadata.version", lambda _: "9.9"),
    "runtime.nccl": _nccl,
    "runtime.environment.NCCL_ALGO": lambda c: c.patch.setenv("NCCL_ALGO", "Ring"),
    "device": lambda c: c.patch.setattr("platform.machine", lambda: "other"),
    "target.model": lambda c: c.set(c.config.model_config, "model", str(engine.MODELS / "moe")),
    "target.class": lambda c: c.retype(c.runner.model),
    "target.dtype": lambda c: c.set(c.config.model_config, "dtype", _float16()),
    "target.quantization": _config("model_config", "quantization", "fp8"),
    "target.overrides": _config("model_config", "hf_overrides", {"rope_theta": 1}),
    "target.modules": lambda c: c.retype(next(iter(c.runner.model.model.layers))),
    "draft.model": lambda c: c.set(
        c.config.speculative_config.draft_model_config, "model", str(engine.MODELS / "draft-wide")
    ),
    "draft.class": lambda c: c.retype(c.runner.speculator),
    "draft.quantization": lambda c: c.set(c.config.speculative_config.draft_model_config, "quantization", "fp8"),
    "draft.modules": lambda c: c.retype(c.runner.speculator.model.model.norm),
    "attention.target": lambda c: c.patch.setattr(c.runner, "attn_groups", _other_groups(c)),
    "attention.draft": lambda c: c.patch.setattr(c.runner.speculator, "attn_groups", _other_groups(c)),
    "kv.dtype": lambda c: c.set(c.runner, "kv_cache_dtype", _float16()),
    "kv.cache_dtype": _config("cache_config", "cache_dtype", "fp8"),
    "kv.wraps": lambda c: c.set(c.runner.kv_cache_config, "num_blocks", 1),
    "parallel.enable_dbo": _config("parallel_config", "enable_dbo", "yes"),
    "speculation.method": _speculative("method", "eagle3"),
    "speculation.draft_tokens": _runner("num_speculative_steps", 9),
    "speculation.queries": _speculator("num_query_per_req", 9),
    "speculation.draft_topk": _speculator("_draft_topk", 9),
    "speculation.draft_logits": _speculator("draft_logits", "kept"),
    "scheduler.max_requests": _runner("max_num_reqs", 9),
    "scheduler.max_tokens": _runner("max_num_tokens", 99),
    "scheduler.max_model_len": _runner("max_model_len", 99),
    "sampler": lambda c: c.retype(c.runner.rejection_sampler),
    "graphs.mode": lambda c: c.set(c.runner.cudagraph_manager, "cudagraph_mode", "other"),
    "graphs.compilation": lambda c: c.set(c.config.compilation_config, "mode", "other"),
    "graphs.draft": lambda c: c.patch.setattr(c.runner.speculator.query_cudagraph_manager, "graphs", {}),
    "profile.context_len": lambda c: c.patch.setattr(
        "vllm.envs.VLLM_ADAPTIVE_VERIFICATION_PROFILE_CONTEXT_LEN", 64, raising=False
    ),
}
# What is told twice: a class is among the modules too, and on a CPU the host is the device. vLLM's own hash and the
# sections cover some of what is declared on its own.
TWICE = ("engine.config", "engine.sections", "engine.runner", "host", "device", "target.modules", "draft.modules")


@pytest.mark.parametrize("name", CHANGES)
def test_another_value_is_another_fingerprint(runner: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One thing changed: another digest, and the difference names it, and nothing that did not change."""
    before = read(runner)
    CHANGES[name](Change(monkeypatch, runner))
    after = read(runner)
    assert fingerprint(before) != fingerprint(after)
    names = [difference.factor for difference in diff(before, after)]
    assert [found for found in names if found.startswith(name)]
    assert [found for found in names if not found.startswith((name, *TWICE))] == []


def test_every_factor_is_changed_by_a_test() -> None:
    """A factor that is declared and in no change above would be one whose loss nobody noticed."""
    declared = {factor.name for factor in factors.FACTORS}
    assert {name for name in declared if not any(change.startswith(name) for change in CHANGES)} == set()
    assert {change for change in CHANGES if not any(change.startswith(name) for name in declared)} == set()


def test_reading_twice_is_the_same(runner: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing in the factors depends on when, where or by which process they are read."""
    before = read(runner)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VLLM_CACHE_ROOT", str(tmp_path))
    monkeypatch.setenv("VLLM_PORT", "1")
    monkeypatch.setattr("os.getpid", lambda: 1)
    monkeypatch.setattr("socket.gethostname", lambda: "another")
    assert read(runner) == before


@pytest.mark.parametrize("factor", factors.FACTORS, ids=lambda factor: factor.name)
def test_a_factor_that_cannot_be_read_is_unknown(
    runner: Any, factor: factors.Factor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is raised while one is read, the factor is unknown by its own name, never null."""
    from warmcurve.errors import FactorError

    def fail(_: Any) -> Any:
        raise AttributeError("planted")

    broken = factors.Factor(factor.name, factor.why, fail)
    changed = tuple(broken if other is factor else other for other in factors.FACTORS)
    monkeypatch.setattr(factors, "FACTORS", changed)
    with pytest.raises(FactorError, match=f"{factor.name}: AttributeError: planted"):
        read(runner)
