"""The factors of a vLLM runner's fingerprint.

Every factor is declared below, with the place where it is read and the reason why it counts. Its name is its place in
the tree. A factor that cannot be read is an error (`factor_unknown`: the boot neither loads nor stores). So is a factor
that is null, unless it is declared as optional, because an engine may lack it.

Two factors are walks by reviewed lists: `configuration` over every field of `VllmConfig`, and `runtime.environment`
over the environment. The others are facts that only the running engine has. All ranks of one world read the same
values: nothing depends on a rank, a device's index or a node. docs/fingerprint.md is written from these lists.

Left out on purpose: the exact free memory and number of KV blocks, which vary from boot to boot and price nothing
(how far the dummy contexts share it does count). Left out because nobody can tell them apart:

- FlashInfer's chosen tactics and DeepGEMM's generated kernels: chosen while the engine warms up, in no object of it;
- the placement of experts after rebalancing: it follows requests, and no calibration has seen one;
- the links between boards where none of vLLM's own collectives looked at them (`--disable-custom-all-reduce`), and
  between nodes: which network cards and interfaces serve them is excluded, since it differs from node to node;
- the resolved revision of a hub model: its files' content is keyed instead.
"""

import math
import platform
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from warmcurve.errors import FactorError, WarmcurveError
from warmcurve.outcome import Reason
from warmcurve.storage.files import twice
from warmcurve.storage.fingerprint import Value
from warmcurve.vllm import releases
from warmcurve.vllm.device.identity import Cpu, Device
from warmcurve.vllm.factors import communicators, configuration, environment, kernels, packages, plugins, toolchain
from warmcurve.vllm.plain import class_of, plain
from warmcurve.vllm.weights import models

Read = Callable[["Subject"], Any]


class Subject(msgspec.Struct, frozen=True):
    """The live objects that factors are read from. `sizes` are the token counts of the planned runs, `during_capture`
    says whether vLLM is capturing graphs around them.
    """

    runner: Any
    device: Device
    variables: dict[str, str]
    sizes: tuple[int, ...]
    during_capture: bool = True

    @property
    def config(self) -> Any:
        return self.runner.vllm_config

    @property
    def speculator(self) -> Any:
        return self.runner.speculator


class Factor(msgspec.Struct, frozen=True):
    """`name` is dotted. `where` says what is read, and `why` says how another value would change the curves. An
    optional factor may be null.
    """

    name: str
    where: str
    why: str
    read: Read
    optional: bool = False


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


def _groups(groups: Iterable[Iterable[Any]]) -> list[Any]:
    """Of each attention group: back-end and the layout of its KV cache."""
    return [
        {
            "backend": ".".join(group.backend.full_cls_name()),
            "cache": plain(group.kv_cache_spec),
            "layers": len(group.layer_names),
        }
        for members in groups
        for group in members
    ]


def _context_len(_: Subject) -> int:
    from vllm import envs

    return int(envs.VLLM_ADAPTIVE_VERIFICATION_PROFILE_CONTEXT_LEN)


def _max_model_len(subject: Subject) -> Value:
    longest = int(subject.runner.max_model_len)
    if longest < _context_len(subject):
        return longest
    return configuration.length(subject.config.model_config, longest)


def _sharing(subject: Subject) -> list[int]:
    """Per KV group, how many blocks the dummy contexts of the largest batch want for each that they get, by the power
    of two above it: 1 where each has its own.
    """
    runner = subject.runner
    context = min(_context_len(subject), runner.max_model_len)
    requests = min(max(subject.sizes), runner.max_num_reqs)
    pool = _committed(runner)
    wanted = [requests * math.ceil(context / size) for size in runner.block_tables.block_sizes]
    return [1 << max(0, math.ceil(blocks / pool) - 1).bit_length() for blocks in wanted]


def _committed(runner: Any) -> int:
    """The blocks that dummy contexts lie in. An extensible cache grows to its size once graphs are captured; until then
    few are there, and what is read of them stays in the device's cache (`GPUModelRunner.execute_model`, 0.34).
    """
    extensible = getattr(runner, "extensible_kv_cache", None)
    return int(runner.kv_cache_config.num_blocks if extensible is None else extensible.num_committed_blocks)


def _draft_graphs(subject: Subject) -> dict[str, list[int]]:
    """The drafter's captured sizes, by the name of its graph manager: drafters differ in which they have."""
    from vllm.v1.worker.gpu.cudagraph_utils import CudaGraphManager

    return {
        name: sorted({int(graph.num_tokens) for graph in manager.graphs})
        for name, manager in sorted(vars(subject.speculator).items())
        if isinstance(manager, CudaGraphManager)
    }


def _nodes(_: Subject) -> int:
    from vllm.distributed.parallel_state import get_node_count

    return int(get_node_count())


def _ranks(_: Subject) -> int:
    from vllm.distributed.parallel_state import get_world_group

    return int(get_world_group().world_size)


FACTORS: Final = (
    Factor("engine.vllm", "vllm.__version__, vllm._version.__commit_id__", "another release runs other code", _vllm),
    Factor("engine.profiler", "the syntax trees of the calibration (its loop, the contexts around it, what it calls) "
           "and of the functions that make a dummy run",
           "what a dummy run does and what is timed of it", lambda _: releases.measured()),
    Factor("engine.runner", "class of the runner", "a platform may bring its own runner",
           lambda s: class_of(s.runner)),
    Factor("engine.plugins", "entry points of vllm.general_plugins and vllm.platform_plugins that VLLM_PLUGINS allows: "
           "distribution and version, without warmcurve's own", "plugins replace kernels, models, the platform itself",
           lambda s: plugins.factors(s.variables.get("VLLM_PLUGINS"))),
    Factor(configuration.NAME, "every field of runner.vllm_config, less the reviewed exclusions below",
           "what was asked for, as vLLM resolved it", lambda s: configuration.factors(s.config)),
    Factor("placement.nodes", "get_node_count()", "collectives cost more between nodes than within one", _nodes),
    Factor("placement.ranks", "get_world_group().world_size", "how many take part in a step", _ranks),
    Factor("placement.communicators", "of the groups of tensor, expert and data parallelism each of vLLM's own "
           "collectives: its class, whether it is disabled, whether its boards are fully connected",
           "the links between boards, and the collectives that they allow", lambda _: communicators.factors(),
           optional=True),
    Factor("host", "processor's model, architecture and cores that this process may use",
           "the processor that launches every kernel", lambda _: Cpu().factors()),
    Factor("runtime.threads", "torch.get_num_threads()", "the host's share of a step; on a CPU, all of it", _threads),
    Factor("runtime.python", "platform.python_version_tuple()",
           "the host's share of a step, above all in the eager tail",
           lambda _: ".".join(platform.python_version_tuple()[:2])),
    Factor("runtime.torch", "torch.__version__, torch.version, torch.backends.cudnn.version()",
           "kernels, compiler, allocator", _torch),
    Factor("runtime.packages", "versions of the installed packages that bring kernels",
           "kernels that come with other packages", lambda _: packages.versions()),
    Factor(toolchain.NAME, "vllm.utils.flashinfer.has_flashinfer(); the version of the CUDA compiler, by the file that "
           "lies beside it", "whether kernels can be compiled while the engine starts, and by what",
           lambda s: toolchain.factors(s.variables)),
    Factor("runtime.nccl", "pynccl's version of the library that was loaded", "collectives inside a step", _nccl,
           optional=True),
    Factor(environment.SETTINGS, "the variables in ~/.nccl.conf and /etc/nccl.conf, reviewed like those of the "
           "environment", "NCCL reads them like its environment variables", lambda _: environment.nccl_settings(),
           optional=True),
    Factor(environment.NAME, "os.environ, by the reviewed families below",
           "variables that choose kernels, collectives, compilers", lambda s: environment.factors(s.variables)),
    Factor("runtime.preloaded", "the base names of the libraries in LD_PRELOAD that /proc/self/maps has too",
           "they replace allocators and thread pools; their names say which they are, their paths do not",
           lambda s: environment.preloaded(s.variables)),
    Factor("device", "torch's properties of the runner's device; its driver, power limit, partition and ECC, from NVML "
           "or from the amdgpu driver's files; for a CPU those of the processor", "the hardware that was timed",
           lambda s: s.device.factors()),
    Factor("target.model", "the target's configuration files, the headers of its weights, its code if it is trusted",
           "the shapes and types of the target",
           lambda s: models.identity(s.config.model_config, s.config.load_config, "target.model")),
    Factor("target.architecture", "runner.vllm_config.model_config.model_arch_config",
           "what vLLM made of the target's configuration and overrides; the name of an override that is a "
           "function says little",
           lambda s: s.config.model_config.model_arch_config),
    Factor("target.class", "class of runner.model", "the target's code", lambda s: class_of(s.runner.model)),
    Factor("target.modules", "the classes of the target's modules and of the vLLM objects that each one holds (its "
           "quantisation method and its kernels), the members and classes that these name, and how many there are",
           "the kernels that were really chosen", lambda s: kernels.factors(s.runner.model)),
    Factor("draft.model", "the same for the drafter",
           "the shapes and types of the drafter",
           lambda s: models.identity(
               s.config.speculative_config.draft_model_config,
               getattr(s.config.speculative_config, "draft_load_config", None) or s.config.load_config,
               "draft.model")),
    Factor("draft.architecture", "model_arch_config of speculative_config.draft_model_config",
           "what vLLM made of the drafter's configuration, with an override of its own",
           lambda s: s.config.speculative_config.draft_model_config.model_arch_config),
    Factor("draft.class", "classes of runner.speculator and of its model", "the drafter's code",
           lambda s: [class_of(s.speculator), class_of(s.speculator.model)]),
    Factor("draft.modules", "the same for the drafter's modules",
           "the drafter's kernels that were really chosen", lambda s: kernels.factors(s.speculator.model)),
    Factor("attention.target", "runner.attn_groups: back-end, KV layout and layers of each group",
           "the attention kernels and KV layout", lambda s: _groups(s.runner.attn_groups)),
    Factor("attention.draft", "runner.speculator.attn_groups", "the drafter's attention",
           lambda s: _groups(s.speculator.attn_groups)),
    Factor("kv.dtype", "runner.kv_cache_dtype", "the bytes that attention reads", lambda s: s.runner.kv_cache_dtype),
    Factor("kv.sharing", "how many blocks the dummy contexts of the largest batch want for each that is committed "
           "(runner.kv_cache_config.num_blocks, or runner.extensible_kv_cache.num_committed_blocks), by the power of "
           "two above it", "shared blocks stay in the device's cache, most of all while an extensible cache is small",
           _sharing),
    Factor("speculation.draft_tokens", "runner.num_speculative_steps", "K: the width of drafting and of verification",
           lambda s: s.runner.num_speculative_steps),
    Factor("speculation.queries", "runner.speculator.num_query_per_req", "how many positions a request drafts",
           lambda s: s.speculator.num_query_per_req),
    Factor("speculation.draft_topk", "runner.speculator._draft_topk", "the drafter's output",
           lambda s: getattr(s.speculator, "_draft_topk", None), optional=True),
    Factor("speculation.draft_logits", "whether runner.speculator.draft_logits is there",
           "whether the drafter keeps its logits", lambda s: getattr(s.speculator, "draft_logits", None) is not None),
    Factor("scheduler.max_requests", "runner.max_num_reqs", "the largest batch, and the requests of a dummy run",
           lambda s: s.runner.max_num_reqs),
    Factor("scheduler.max_tokens", "runner.max_num_tokens", "where the eager tail ends",
           lambda s: s.runner.max_num_tokens),
    Factor("scheduler.max_model_len", "runner.max_model_len; or the power of two above it, if vLLM fitted the length "
           "to the free memory and it clamps nothing", "it clamps the dummy contexts", _max_model_len),
    Factor("sampler", "classes of runner.sampler and runner.rejection_sampler", "how tokens are drawn and accepted",
           lambda s: [class_of(s.runner.sampler), class_of(s.runner.rejection_sampler)]),
    Factor("graphs.mode", "runner.cudagraph_manager.cudagraph_mode", "which batches replay a graph",
           lambda s: s.runner.cudagraph_manager.cudagraph_mode),
    Factor("graphs.draft", "the sizes captured by each graph manager of runner.speculator",
           "the drafter's captured sizes", _draft_graphs),
    Factor("profile.during_capture", "whether capture_model is running; from 0.34 on vLLM calibrates again after an "
           "extensible KV cache has grown", "around a capture vLLM sets up adapters and stops the garbage collector",
           lambda s: s.during_capture),
    Factor("profile.context_len", "vllm.envs.VLLM_ADAPTIVE_VERIFICATION_PROFILE_CONTEXT_LEN",
           "how much context the timed attention reads", _context_len),
)  # fmt: skip


def read(subject: Subject) -> dict[str, Value]:
    """All factors, as the tree that their names describe. Raises `FactorError` for the first one that is unknown."""
    tree: dict[str, Value] = {}
    for factor in FACTORS:
        *path, leaf = factor.name.split(".")
        node = tree
        for part in path:
            node = node.setdefault(part, {})  # type: ignore[assignment]
        node[leaf] = _read(factor, subject)
    return tree


def unreviewed(subject: Subject) -> tuple[str, ...]:
    """The names of fields and variables that count although no review names them: those of a newer release."""
    return (*configuration.unreviewed(subject.config), *environment.unreviewed(subject.variables))


def _read(factor: Factor, subject: Subject) -> Value:
    try:
        value = plain(twice(lambda: factor.read(subject)))
    except WarmcurveError:
        raise
    # The readers reach into another program's objects: whatever comes of it means that the factor is not known.
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
        raise FactorError(Reason.FACTOR_UNKNOWN, factor.name, problem) from error
    if value is None and not factor.optional:
        raise FactorError(Reason.FACTOR_UNKNOWN, factor.name, f"there is none: {factor.where}")
    return value
