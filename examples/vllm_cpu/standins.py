"""Stand-ins that let stock vLLM go through its adaptive-verification start-up on a CPU. No file of vLLM is edited.

| stood in for | by |
|---|---|
| CUDA graphs | the captured forward is remembered, and run again eagerly at each replay |
| CUDA timing events | `clock`, which reads this process's time |
| the CPU platform's and attention's answers on graphs | yes |
| CPUWorker, which never captures | it calls the runner's own `capture_model` where the GPU worker would |
| a node of memory for each replica | those of the machine, for all |
| two collectives that the CPU communicator lacks | gloo's `all_gather` and `all_reduce`, padded |
| triton's CPU back end | triton's interpreter |

Everything else is vLLM's own code: configuration, workers, model loading, the DSpark drafter, the adaptive verification
manager, `capture_model`, the dummy runs, the timing collector, the broadcast of the curves, generation.
Times are a CPU's: they test logic and say nothing of a GPU's speed.

Each patch is applied when vLLM itself imports the module, so nothing is imported earlier than it would be on a GPU.
Written against vLLM 0.29 to 0.34.
"""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import wraps
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import triton_stand_in

Patch = Callable[[ModuleType], None]

clock: Callable[[], int] = time.perf_counter_ns
"""What timing events read, in nanoseconds: whole ones, so that equal scripts give bit-equal times (`scripted.py`)."""


class AfterImport(MetaPathFinder):
    """Runs patches on a module right after its own code has run."""

    def __init__(self) -> None:
        self._patches: dict[str, Patch] = {}

    def add(self, name: str, patch: Patch) -> None:
        if name in sys.modules:
            patch(sys.modules[name])
        else:
            self._patches[name] = patch

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        patch = self._patches.get(name)
        if patch is None:
            return None
        # Only the finders behind this one: another hook that does the same then meets no loop.
        for finder in sys.meta_path[sys.meta_path.index(self) + 1 :]:
            spec = finder.find_spec(name, path, target)
            if spec is not None and spec.loader is not None:
                spec.loader.exec_module = _then(spec.loader.exec_module, patch)  # type: ignore[method-assign]
                return spec
        return None


def _then(execute: Patch, patch: Patch) -> Patch:
    def both(module: ModuleType) -> None:
        execute(module)
        patch(module)

    return both


after_import = AfterImport()


def install() -> None:
    """Put the stand-ins in place for this process, before vLLM is imported. A second call does nothing."""
    if after_import in sys.meta_path:
        return
    if early := {"triton", "vllm"} & sys.modules.keys():
        raise RuntimeError(f"the stand-ins must be installed before {' and '.join(sorted(early))} is imported")
    triton_stand_in.interpret()
    for name, patch in PATCHES.items():
        after_import.add(name, patch)
    sys.meta_path.insert(0, after_import)


class Event:
    """In place of `torch.cuda.Event`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._at: int | None = None

    def record(self, *args: Any) -> None:
        self._at = clock()

    def elapsed_time(self, end: "Event") -> float:
        """In milliseconds. Both must have been recorded, as CUDA demands."""
        assert self._at is not None
        assert end._at is not None
        return (end._at - self._at) / 1e6

    def synchronize(self) -> None: ...

    def wait(self, *args: Any) -> None: ...

    def query(self) -> bool:
        return True


class Graph:
    """In place of `torch.cuda.CUDAGraph`: made while vLLM captures, it keeps the forward that is being captured.

    A real graph reads its inputs at fixed addresses, which vLLM refills before a replay. The CPU backend's attention
    metadata is built anew for each batch instead, so the newest is put where the remembered forward looks for it.
    """

    capturing: ClassVar[Callable[[Any], Any] | None] = None
    metadata: ClassVar[dict[str, Any]] = {}
    newest: ClassVar[dict[str, Any]] = {}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._forward = Graph.capturing
        self._metadata = Graph.metadata

    def replay(self) -> None:
        from vllm.config.compilation import CUDAGraphMode

        assert self._forward is not None
        for layer in self._metadata:
            self._metadata[layer] = Graph.newest.get(layer, self._metadata[layer])
        self._forward(CUDAGraphMode.NONE)

    def reset(self) -> None:
        self._forward = None

    @classmethod
    def forget(cls) -> None:
        """Let go of the last engine's tensors."""
        cls.capturing, cls.metadata, cls.newest = None, {}, {}


def _patch_torch(_: ModuleType) -> None:
    """After `vllm.v1.worker.cpu.shm`, which puts placeholders without times into `torch.cuda` for the CPU worker."""
    import torch

    torch.cuda.Event = Event
    torch.cuda.CUDAGraph = Graph
    torch.cuda.graph = lambda *args, **kwargs: nullcontext()


def _patch_graphs(module: ModuleType) -> None:
    @contextmanager
    def capture_pool(pool: Any, *args: Any) -> Iterator[Any]:
        yield pool

    # From 0.34 on vLLM keeps the stream on which it captures.
    module.graph_capture = lambda *args, **kwargs: nullcontext(SimpleNamespace(stream=None))
    module.capture_pool = capture_pool

    capture = module.CudaGraphManager.capture

    @wraps(capture)
    def remember(self: Any, create_forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        def create(*inner: Any, **named: Any) -> Any:
            Graph.capturing = create_forward(*inner, **named)
            return Graph.capturing

        return capture(self, create, *args, **kwargs)

    module.CudaGraphManager.capture = remember


def _patch_metadata(module: ModuleType) -> None:
    build = module.build_attn_metadata

    @wraps(build)
    def remember(*args: Any, **kwargs: Any) -> Any:
        Graph.metadata = build(*args, **kwargs)
        Graph.newest.update(Graph.metadata)
        return Graph.metadata

    module.build_attn_metadata = remember


def _patch_platform(module: ModuleType) -> None:
    platform = module.CpuPlatform
    check = platform.check_and_update_config.__func__

    @wraps(check)
    def keep_sizes(cls: Any, config: Any) -> None:
        sizes = config.compilation_config.cudagraph_capture_sizes
        check(cls, config)
        config.compilation_config.cudagraph_capture_sizes = sizes

    platform.check_and_update_config = classmethod(keep_sizes)
    platform.support_static_graph_mode = classmethod(lambda cls: True)
    platform.graph_pool_handle = classmethod(lambda cls: (0, 0))


def _patch_attention(module: ModuleType) -> None:
    from vllm.v1.attention.backend import AttentionCGSupport

    module.CPUAttentionBackend.supports_device_cpu_query_lens_mismatch = classmethod(lambda cls: True)
    module.CPUAttentionMetadataBuilder._cudagraph_support = AttentionCGSupport.ALWAYS


def _patch_worker(module: ModuleType) -> None:
    warm_up = module.CPUWorker.compile_or_warm_up_model

    @wraps(warm_up)
    def warm_up_and_capture(self: Any) -> Any:
        from vllm.v1.worker import workspace

        times = warm_up(self)
        if not workspace.is_workspace_manager_initialized():
            workspace.init_workspace_manager(self.device, 1)
        self.model_runner.capture_model()
        return times

    module.CPUWorker.compile_or_warm_up_model = warm_up_and_capture

    # From 0.34 on each replica has a node of memory of its own; a machine may have one for all.
    if visible := getattr(module, "get_visible_memory_node", None):
        module.get_visible_memory_node = lambda *args: visible()


def _patch_communicator(module: ModuleType) -> None:
    """The collectives of mixture-of-experts models under data parallelism, whose ranks have different sizes."""
    import torch
    import torch.distributed as dist

    def all_gatherv(self: Any, input_: Any, dim: int = 0, sizes: list[int] | None = None) -> Any:
        def gather(own: torch.Tensor) -> torch.Tensor:
            rows = sizes or [own.shape[0]] * self.world_size
            padded = own.new_zeros((max(rows), *own.shape[1:]))
            padded[: own.shape[0]] = own
            gathered = [torch.empty_like(padded) for _ in rows]
            dist.all_gather(gathered, padded, group=self.device_group)
            return torch.cat([part[:count] for part, count in zip(gathered, rows, strict=True)])

        return [gather(each) for each in input_] if isinstance(input_, list | tuple) else gather(input_)

    def reduce_scatterv(self: Any, input_: Any, dim: int = -1, sizes: list[int] | None = None) -> Any:
        reduced = input_.clone()
        dist.all_reduce(reduced, group=self.device_group)
        rows = sizes or [reduced.shape[0] // self.world_size] * self.world_size
        start = sum(rows[: self.rank_in_group])
        return reduced[start : start + rows[self.rank_in_group]].contiguous()

    module.CpuCommunicator.all_gatherv = all_gatherv
    module.CpuCommunicator.reduce_scatterv = reduce_scatterv


PATCHES: dict[str, Patch] = {
    "triton.backends": triton_stand_in.patch,
    "vllm.platforms.cpu": _patch_platform,
    "vllm.distributed.device_communicators.cpu_communicator": _patch_communicator,
    "vllm.v1.attention.backends.cpu_attn": _patch_attention,
    "vllm.v1.worker.cpu.shm": _patch_torch,
    "vllm.v1.worker.cpu_worker": _patch_worker,
    "vllm.v1.worker.gpu.attn_utils": _patch_metadata,
    "vllm.v1.worker.gpu.cudagraph_utils": _patch_graphs,
}
