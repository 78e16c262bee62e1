"""The environment variables that choose kernels, collectives and compilers.

By prefix and opt-out: a variable nobody thought of counts. What is excluded names where, not how, the work is done.
"""

import re
from collections.abc import Mapping
from typing import Final

from warmcurve.fingerprint import Value

PREFIXES: Final = (
    "AITER_",
    "CUBLAS",
    "CUDA_",
    "CUDNN_",
    "DG_",
    "FLASHINFER_",
    "FLASH_ATTENTION_",
    "GLOO_",
    "HIP_",
    "HSA_",
    "KMP_",
    "MIOPEN_",
    "MKL_",
    "NCCL_",
    "NVIDIA_TF32_OVERRIDE",
    "NVSHMEM_",
    "OMP_",
    "ONEDNN_",
    "PYTORCH_",
    "RCCL_",
    "ROCBLAS_",
    "TORCH",
    "TRITON_",
    "UCX_",
    "VLLM_",
)

EXCLUDED: Final = {
    "CUDA_VISIBLE_DEVICES": "which device, not what device; boards of one part share their curves",
    "HIP_VISIBLE_DEVICES": "as CUDA_VISIBLE_DEVICES",
    "NCCL_DEBUG": "logging",
    "VLLM_CONFIGURE_LOGGING": "logging",
    "VLLM_DIST_IDENT": "a name that vLLM's CPU worker draws anew at each boot",
    "VLLM_PLUGINS": "whether warmcurve is loaded at all",
    "VLLM_ENABLE_ADAPTIVE_VERIFICATION_PROFILE_CACHE": "warmcurve's own switch",
    "VLLM_NO_USAGE_STATS": "telemetry",
    "VLLM_DO_NOT_TRACK": "telemetry",
    "VLLM_USAGE_SOURCE": "telemetry",
    "VLLM_API_KEY": "a secret, and none of the kernels' business",
    "VLLM_INSTANCE_ID": "a name",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "in which process the engine runs; the runner's work is the same",
    "VLLM_WORKER_MULTIPROC_METHOD": "as VLLM_ENABLE_V1_MULTIPROCESSING",
}
_EXCLUDED_FORMS: Final = re.compile(
    # Paths, caches, ports, addresses, interfaces, secrets, ranks, names (vLLM draws some anew at each boot), logs and
    # time limits.
    r"_(PATH|DIR|DIRECTORY|ROOT|HOME|CACHE|FILE|PORT|IP|HOST|ADDR|IFNAME|LOGS|TOKEN|KEY|SECRET|RANK|RANK_LOCAL|ID|NAME)$"
    r"|_(LOG|LOGGING|TIMEOUT)(_|$)"
    # torchrun's description of a run.
    r"|^TORCHELASTIC_"
    # What Kubernetes adds for a service that is called vllm:
    # https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables
    r"|_SERVICE_(HOST|PORT)|_PORT_[0-9]+_(TCP|UDP)"
)


def factors(environment: Mapping[str, str]) -> dict[str, Value]:
    """The variables that count, by name."""
    return {name: environment[name] for name in sorted(environment) if counts(name)}


def counts(name: str) -> bool:
    """Whether a variable enters the fingerprint."""
    return name.startswith(PREFIXES) and name not in EXCLUDED and not _EXCLUDED_FORMS.search(name)
