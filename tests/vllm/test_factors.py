"""Each declared factor, on a live runner: another value is another fingerprint, and the difference names it."""

import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import engine
import msgspec
import pytest

from warmcurve.errors import FactorError
from warmcurve.storage.fingerprint import diff, fingerprint
from warmcurve.vllm import releases
from warmcurve.vllm.device.identity import device_of
from warmcurve.vllm.factors import declared, environment, packages, plugins, toolchain

SIZES = (1, 2, 4, 8, 16, 24, 32, 64)


def read(runner: Any) -> dict[str, Any]:
    during_capture = not getattr(runner, "outside_capture", False)
    subject = declared.Subject(runner, device_of(runner), dict(os.environ), SIZES, during_capture=during_capture)
    return declared.read(subject)


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


class Collective:
    """One of vLLM's own collectives, as far as it is asked."""

    def __init__(self, **facts: bool) -> None:
        self.disabled = False
        self.__dict__.update(facts)


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


def _collectives(change: Change) -> None:
    from vllm.distributed.parallel_state import get_tp_group

    communicator = SimpleNamespace(ca_comm=Collective(fully_connected=True))
    change.patch.setattr(get_tp_group(), "device_communicator", communicator)


def _nccl_file() -> Path:
    file = Path(tempfile.mkdtemp()) / "nccl.conf"
    file.write_text("NCCL_ALGO=Ring")
    return file


def _world(change: Change) -> None:
    from vllm.distributed.parallel_state import get_world_group

    change.set(get_world_group(), "world_size", 2)


def _runner(name: str, value: Any) -> Callable[[Change], None]:
    return lambda change: change.set(change.runner, name, value)


def _speculator(name: str, value: Any) -> Callable[[Change], None]:
    return lambda change: change.patch.setattr(change.runner.speculator, name, value, raising=False)


def _environment(name: str, value: str) -> Callable[[Change], None]:
    return lambda change: change.patch.setenv(name, value)


def _configuration(path: str, value: Any) -> Callable[[Change], None]:
    *sections, name = path.split(".")

    def set_field(change: Change) -> None:
        target = change.config
        for section in sections:
            target = getattr(target, section)
        change.set(target, name, value)

    return set_field


def _architecture(model: str) -> Callable[[Change], None]:
    def set_layers(change: Change) -> None:
        config = change.config.model_config
        if model == "draft":
            config = change.config.speculative_config.draft_model_config
        change.set(config.model_arch_config, "total_num_hidden_layers", 99)

    return set_layers


# Field of the configuration → another value of it.
FIELDS: dict[str, Any] = {
    "additional_config": {"theirs": 1.5},
    "attention_config.backend_per_kind": {"mla_attention": "TRITON_MLA"},
    "attention_config.flash_attn_max_num_splits_for_cuda_graph": 7,
    "attention_config.flash_attn_version": 3,
    "attention_config.use_trtllm_attention": True,
    "cache_config.block_size": 64,
    "cache_config.cache_dtype": "fp8",
    "cache_config.enable_prefix_caching": False,
    "cache_config.kv_cache_dtype_skip_layers": ["0"],
    "cache_config.kv_cache_layout": "NHD",
    "compilation_config.compile_sizes": [1],
    "compilation_config.cudagraph_capture_sizes": [1, 2, 4],
    "compilation_config.cudagraph_mode": "other",
    "compilation_config.custom_ops": ["none"],
    "compilation_config.inductor_compile_config": {"max_autotune": True},
    "compilation_config.mode": "other",
    "compilation_config.pass_config.fuse_norm_quant": False,
    "kernel_config.enable_flashinfer_autotune": "never",
    "kernel_config.ir_op_priority.rms_norm": ["vllm_c"],
    "kernel_config.linear_backend": "cutlass",
    "kernel_config.moe_backend": "triton",
    "load_config.load_format": "safetensors",
    "mamba_config.enable_stochastic_rounding": "maybe",
    "model_config.code_revision": "0123abc",
    "model_config.dtype": "float16",
    "model_config.enforce_eager": True,
    "model_config.hf_overrides": {"rope_theta": 1},
    "model_config.logits_processors": ["theirs.Processor"],
    "model_config.logprobs_mode": "processed_logits",
    "model_config.max_model_len": 99,
    "model_config.model_impl": "transformers",
    "model_config.quantization": "fp8",
    "model_config.use_fp64_gumbel": True,
    "observability_config.enable_layerwise_nvtx_tracing": True,
    "offload_config.offload_backend": "uva",
    "offload_config.uva.cpu_offload_gb": 1.5,
    "offload_config.uva.cpu_offload_params": {"experts", "embed"},
    "optimization_level": "O0",
    "parallel_config.all2all_backend": "deepep_low_latency",
    "parallel_config.data_parallel_size": 2,
    "parallel_config.decode_context_parallel_size": 2,
    "parallel_config.disable_custom_all_reduce": False,
    "parallel_config.enable_dbo": True,
    "parallel_config.enable_eplb": True,
    "parallel_config.enable_expert_parallel": True,
    "parallel_config.eplb_config.num_redundant_experts": 2,
    "parallel_config.nnodes": 2,
    "parallel_config.tensor_parallel_size": 2,
    "performance_mode": "throughput",
    "profiler_config.profiler": "torch",
    "scheduler_config.async_scheduling": True,
    "scheduler_config.max_num_batched_tokens": 99,
    "scheduler_config.max_num_seqs": 9,
    "speculative_config.draft_model_config.quantization": "fp8",
    "speculative_config.draft_parallel_config.tensor_parallel_size": 2,
    "speculative_config.draft_sample_method": "probabilistic",
    "speculative_config.dspark_draft_topk": 9,
    "speculative_config.kv_cache_dtype": "fp8",
    "speculative_config.method": "eagle3",
    "speculative_config.moe_backend": "triton",
    "speculative_config.num_speculative_tokens": 5,
    "speculative_config.num_speculative_tokens_per_batch_size": [(1, 4, 3)],
    "speculative_config.rejection_sample_method": "synthetic",
    "speculative_config.use_local_argmax_reduction": True,
}
VARIABLES = {
    "VLLM_BATCH_INVARIANT": "1",
    "VLLM_USE_FLASHINFER_SAMPLER": "1",
    "VLLM_A_SWITCH_OF_TOMORROW": "1",
    "NCCL_ALGO": "Ring",
    "CUDA_DEVICE_MAX_CONNECTIONS": "1",
    "CUBLAS_WORKSPACE_CONFIG": ":16:8",
    "TORCHINDUCTOR_MAX_AUTOTUNE": "1",
    "TRITON_DISABLE_LINE_INFO": "1",
    "FLASHINFER_DISABLE_JIT": "1",
    "DG_JIT_USE_NVRTC": "1",
    "AITER_ENABLE_X": "1",
    "HSA_NO_SCRATCH_RECLAIM": "1",
    "OMP_NUM_THREADS": "7",
}
# Leaf of the tree, or a branch whose leaves change together → a change of it.
CHANGES: dict[str, Callable[[Change], None]] = {
    **{f"configuration.{path}": _configuration(path, value) for path, value in FIELDS.items()},
    **{f"runtime.environment.{name}": _environment(name, value) for name, value in VARIABLES.items()},
    "engine.vllm.version": lambda c: c.patch.setattr("vllm.__version__", "9.9"),
    "engine.profiler": lambda c: c.patch.setattr(releases, "MEASURED", {}),
    "engine.plugins": lambda c: c.patch.setattr(plugins, "_points", lambda _: [EntryPoint("a", "a:b", "group")]),
    "runtime.toolchain.nvcc": lambda c: c.patch.setattr(toolchain, "nvcc", lambda _: "99.9"),
    "engine.runner": lambda c: c.retype(c.runner),
    "placement.nodes": lambda c: c.patch.setattr("vllm.distributed.parallel_state.get_node_count", lambda: 2),
    "placement.ranks": _world,
    "placement.communicators": _collectives,
    "runtime.nccl_settings": lambda c: c.patch.setattr(environment, "_own_files", lambda: (_nccl_file(),)),
    "host": lambda c: c.patch.setattr("os.sched_getaffinity", lambda _: range(99)),
    "runtime.threads": lambda c: c.patch.setattr("torch.get_num_threads", lambda: 99),
    "runtime.python": lambda c: c.patch.setattr("platform.python_version_tuple", lambda: ("3", "99", "0")),
    "runtime.torch.version": lambda c: c.patch.setattr("torch.__version__", "9.9"),
    "runtime.packages": lambda c: c.patch.setattr(packages, "version", lambda _: "9.9"),
    "runtime.nccl": _nccl,
    "runtime.preloaded": _environment("LD_PRELOAD", "libjemalloc.so.2"),
    "device": lambda c: c.patch.setattr("platform.machine", lambda: "other"),
    "target.model": lambda c: c.set(c.config.model_config, "model", str(engine.MODELS / "moe")),
    "target.architecture.total_num_hidden_layers": _architecture("target"),
    "target.class": lambda c: c.retype(c.runner.model),
    "target.modules": lambda c: c.retype(next(iter(c.runner.model.model.layers))),
    "draft.model": lambda c: c.set(
        c.config.speculative_config.draft_model_config, "model", str(engine.MODELS / "draft-wide")
    ),
    "draft.architecture.total_num_hidden_layers": _architecture("draft"),
    "draft.class": lambda c: c.retype(c.runner.speculator),
    "draft.modules": lambda c: c.retype(c.runner.speculator.model.model.norm),
    "attention.target": lambda c: c.patch.setattr(c.runner, "attn_groups", _other_groups(c)),
    "attention.draft": lambda c: c.patch.setattr(c.runner.speculator, "attn_groups", _other_groups(c)),
    "kv.dtype": lambda c: c.set(c.runner, "kv_cache_dtype", _float16()),
    "kv.sharing": lambda c: c.set(c.runner.kv_cache_config, "num_blocks", 1),
    "speculation.draft_tokens": _runner("num_speculative_steps", 9),
    "speculation.queries": _speculator("num_query_per_req", 9),
    "speculation.draft_topk": _speculator("_draft_topk", 9),
    "speculation.draft_logits": _speculator("draft_logits", "kept"),
    "scheduler.max_requests": _runner("max_num_reqs", 9),
    "scheduler.max_tokens": _runner("max_num_tokens", 99),
    "scheduler.max_model_len": _runner("max_model_len", 99),
    "sampler": lambda c: c.retype(c.runner.rejection_sampler),
    "graphs.mode": lambda c: c.set(c.runner.cudagraph_manager, "cudagraph_mode", "other"),
    "graphs.draft.query_cudagraph_manager": lambda c: c.patch.setattr(
        c.runner.speculator.query_cudagraph_manager, "graphs", {}
    ),
    "profile.during_capture": lambda c: c.patch.setattr(c.runner, "outside_capture", True, raising=False),
    "profile.context_len": lambda c: c.patch.setattr(
        "vllm.envs.VLLM_ADAPTIVE_VERIFICATION_PROFILE_CONTEXT_LEN", 64, raising=False
    ),
}
# What is told twice: a model's class is among its modules, and on a CPU the host is the device.
TWICE = {"target.class": "target.modules", "host": "device", "device": "host"}


@pytest.mark.parametrize("name", CHANGES)
def test_another_value_is_another_fingerprint(runner: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One thing changed: another digest, and the difference names it, and nothing that did not change."""
    before = read(runner)
    CHANGES[name](Change(monkeypatch, runner))
    after = read(runner)
    assert fingerprint(before) != fingerprint(after)
    names = [difference.factor for difference in diff(before, after)]
    twice = (f"{TWICE[name]}.",) if name in TWICE else ()
    assert [found for found in names if found == name or found.startswith(f"{name}.")]
    assert [found for found in names if found != name and not found.startswith((f"{name}.", *twice))] == []


def test_a_kernel_that_a_layer_holds_is_told(runner: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another kernel below a layer and its method of quantisation, both as they were, is another fingerprint."""
    from vllm.model_executor.layers.linear import LinearBase

    before = read(runner)
    layer = next(each for each in runner.model.modules() if isinstance(each, LinearBase))
    kernel = type("Kernel", (), {"__module__": "vllm.model_executor.kernels.linear"})()
    monkeypatch.setattr(layer.quant_method, "kernel", kernel, raising=False)
    found = [difference.factor for difference in diff(before, read(runner))]
    assert [name for name in found if "quant_method.kernel=vllm.model_executor.kernels.linear.Kernel" in name]
    assert [name for name in found if not name.startswith("target.modules.")] == []


def test_every_factor_is_changed_by_a_test() -> None:
    """A factor that is declared and in no change above would be one whose loss nobody noticed."""
    names = {factor.name for factor in declared.FACTORS}
    assert {name for name in names if not any(change.startswith(name) for change in CHANGES)} == set()
    assert {change for change in CHANGES if not any(change.startswith(name) for name in names)} == set()
    assert len(CHANGES) >= 60


def _moved(change: Change, path: Path) -> None:
    """Both models under another path, one of them through a link."""
    shutil.copytree(engine.MODELS / "target", path / "a" / "moved")
    (path / "linked").symlink_to(engine.MODELS / "draft")
    change.set(change.config.model_config, "model", str(path / "a" / "moved"))
    change.set(change.config.speculative_config.draft_model_config, "model", str(path / "linked"))
    change.set(change.config.speculative_config, "model", str(path / "linked"))


def _another_configuration_path(change: Change, path: Path) -> None:
    """The configuration alone, beside the weights."""
    (path / "configuration").mkdir()
    shutil.copy(engine.MODELS / "target" / "config.json", path / "configuration")
    change.set(change.config.model_config, "hf_config_path", str(path / "configuration"))


def _same_preload(change: Change, path: Path) -> None:
    """A library that is to be preloaded for other processes, and is not in this one."""
    change.patch.setenv("LD_PRELOAD", f"{os.environ.get('LD_PRELOAD', '')}:{path}/libnone.so")


def _another_user(change: Change, _: Path) -> None:
    for name in ("USER", "LOGNAME", "HOME"):
        change.patch.setenv(name, "another")


def _elsewhere(name: str) -> Callable[[Change, Path], None]:
    return lambda change, path: change.patch.setenv(name, str(path))


def _unseen(field: str, value: Any) -> Callable[[Change, Path], None]:
    return lambda change, _: _configuration(field, value)(change)


# What → a change of it that makes no difference.
SAME: dict[str, Callable[[Change, Path], None]] = {
    "paths of the models": _moved,
    "where the configuration lies": _another_configuration_path,
    "the working directory": lambda c, path: c.patch.chdir(path),
    "the process": lambda c, _: c.patch.setattr("os.getpid", lambda: 1),
    "the host's name": lambda c, _: c.patch.setattr("socket.gethostname", lambda: "another"),
    "the node's name": lambda c, _: c.patch.setattr("platform.node", lambda: "another"),
    "the user": _another_user,
    "a library that is preloaded elsewhere": _same_preload,
    "the number of blocks": lambda c, _: c.set(c.runner.kv_cache_config, "num_blocks", 10_000_000),
    "the device's index": lambda c, _: c.set(c.config.device_config, "device", "cpu:7"),
    **{
        f"variable {name}": _elsewhere(name)
        for name in (
            "VLLM_CACHE_ROOT",
            "VLLM_PORT",
            "VLLM_HOST_IP",
            "VLLM_LOGGING_LEVEL",
            "VLLM_NO_USAGE_STATS",
            "VLLM_API_KEY",
            "VLLM_DP_RANK",
            "VLLM_DIST_IDENT",
            "VLLM_SERVICE_HOST",
            "VLLM_WORKER_MULTIPROC_METHOD",
            "CUDA_VISIBLE_DEVICES",
            "NCCL_DEBUG",
            "NCCL_IB_HCA",
            "OMP_PLACES",
            "KMP_AFFINITY",
            "GOMP_CPU_AFFINITY",
            "CCL_WORKER_AFFINITY",
            "GLOO_SOCKET_IFNAME",
            "TORCHINDUCTOR_CACHE_DIR",
            "TRITON_CACHE_DIR",
            "PATH",
        )
    },
    **{
        f"configuration.{path}": _unseen(path, value)
        for path, value in {
            "instance_id": "another",
            "model_config.seed": 7,
            "model_config.tokenizer": "/another",
            "model_config.tokenizer_revision": "another",
            "model_config.revision": "another",
            "model_config.served_model_name": "another",
            "model_config.hf_token": "another",
            "model_config.generation_config": "vllm",
            "load_config.download_dir": "/another",
            "load_config.use_tqdm_on_load": False,
            "cache_config.gpu_memory_utilization": 0.5,
            "cache_config.num_gpu_blocks": 7,
            "cache_config.kv_cache_memory_bytes": 7,
            "compilation_config.cache_dir": "/another",
            "compilation_config.debug_dump_path": Path("/another"),
            "compilation_config.compilation_time": 1.5,
            "parallel_config.data_parallel_master_port": 7,
            "parallel_config.data_parallel_rank": 1,
            "parallel_config.master_addr": "192.0.2.1",
            "parallel_config.node_rank": 1,
            "parallel_config.rank": 1,
            "parallel_config.assigned_physical_gpu_ids": [3],
            "scheduler_config.policy": "priority",
            "scheduler_config.stream_interval": 7,
            "observability_config.otlp_traces_endpoint": "another",
            "profiler_config.torch_profiler_dir": "/another",
            "shutdown_timeout": 7,
            "speculative_config.draft_model_config.seed": 7,
        }.items()
    },
}


def test_a_cache_that_has_yet_to_grow_is_another(runner: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an extensible KV cache the committed blocks count: with one it is another, with all it is the same."""
    before = read(runner)
    cache = SimpleNamespace(num_committed_blocks=1)
    monkeypatch.setattr(runner, "extensible_kv_cache", cache, raising=False)
    assert [each.factor for each in diff(before, read(runner))] == ["kv.sharing"]
    cache.num_committed_blocks = runner.kv_cache_config.num_blocks
    assert diff(before, read(runner)) == ()


def test_a_fitted_length_is_keyed_roughly(runner: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """With --max-model-len auto a little more memory is the same, unless the dummy contexts are clamped by it."""
    config = runner.vllm_config.model_config
    monkeypatch.setattr(config, "original_max_model_len", -1)
    told = []
    for length in (70_000, 80_000):
        monkeypatch.setattr(config, "max_model_len", length)
        monkeypatch.setattr(runner, "max_model_len", length)
        told.append(read(runner))
    assert diff(*told) == ()
    monkeypatch.setattr("vllm.envs.VLLM_ADAPTIVE_VERIFICATION_PROFILE_CONTEXT_LEN", 90_000, raising=False)
    before = read(runner)
    monkeypatch.setattr(runner, "max_model_len", 70_000)
    assert [each.factor for each in diff(before, read(runner))] == ["scheduler.max_model_len"]


def test_which_cores_are_bound_is_not_keyed(runner: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks that are given as many cores, others of them, read the same; with fewer they do not."""
    told = []
    for cores in ("0-3|4-7", "8-11|0,1,2,3", "0-3|4-6"):
        monkeypatch.setenv("VLLM_CPU_OMP_THREADS_BIND", cores)
        told.append(read(runner))
    assert diff(told[0], told[1]) == ()
    assert [each.factor for each in diff(told[1], told[2])] == ["runtime.environment.VLLM_CPU_OMP_THREADS_BIND"]


@pytest.mark.parametrize("what", SAME)
def test_what_prices_nothing_is_not_keyed(
    runner: Any, what: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Places, names, ports, seeds, logs and ranks may be others: the fingerprint is the same."""
    before = read(runner)
    SAME[what](Change(monkeypatch, runner), tmp_path)
    assert diff(before, read(runner)) == ()


@pytest.mark.parametrize("factor", declared.FACTORS, ids=lambda factor: factor.name)
def test_a_factor_that_cannot_be_read_is_unknown(
    runner: Any, factor: declared.Factor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is raised while one is read, the factor is unknown by its own name, never null."""

    def fail(_: Any) -> Any:
        raise AttributeError("planted")

    broken = msgspec.structs.replace(factor, read=fail)
    changed = tuple(broken if other is factor else other for other in declared.FACTORS)
    monkeypatch.setattr(declared, "FACTORS", changed)
    with pytest.raises(FactorError, match=f"{factor.name}: AttributeError: planted"):
        read(runner)


@pytest.mark.parametrize("factor", declared.FACTORS, ids=lambda factor: factor.name)
def test_nothing_is_a_value_only_of_an_optional_factor(
    runner: Any, factor: declared.Factor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a factor reads null, it is unknown, by its own name, unless it is declared as one that may be missing."""
    broken = msgspec.structs.replace(factor, read=lambda _: None)
    changed = tuple(broken if other is factor else other for other in declared.FACTORS)
    monkeypatch.setattr(declared, "FACTORS", changed)
    if factor.optional:
        assert read(runner)
    else:
        with pytest.raises(FactorError, match=f"{factor.name}: there is none"):
            read(runner)
