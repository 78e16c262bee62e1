"""Which environment variables enter the fingerprint of a vLLM runner."""

import pytest

from warmcurve.vllm.environment import EXCLUDED, counts, factors

COUNT = [
    "VLLM_ATTENTION_BACKEND",
    "VLLM_A_SWITCH_OF_TOMORROW",
    "VLLM_USE_FLASHINFER_SAMPLER",
    "VLLM_ADAPTIVE_VERIFICATION_PROFILE_CONTEXT_LEN",
    "NCCL_ALGO",
    "NCCL_P2P_DISABLE",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUBLAS_WORKSPACE_CONFIG",
    "TORCHINDUCTOR_MAX_AUTOTUNE",
    "TRITON_INTERPRET",
    "FLASHINFER_DISABLE_VERSION_CHECK",
    "DG_JIT_USE_NVRTC",
    "AITER_ENABLE",
    "HSA_NO_SCRATCH_RECLAIM",
    "OMP_NUM_THREADS",
]
DO_NOT = [
    *EXCLUDED,
    "HOME",
    "PATH",
    "WARMCURVE_MAX_REGRET",
    "VLLM_CACHE_ROOT",
    "VLLM_LOGGING_LEVEL",
    "VLLM_LOG_STATS_INTERVAL",
    "VLLM_RPC_BASE_PATH",
    "VLLM_PORT",
    "VLLM_DP_RANK",
    "VLLM_DP_MASTER_IP",
    "VLLM_OBJECT_STORAGE_SHM_BUFFER_NAME",
    "VLLM_HTTP_TIMEOUT_KEEP_ALIVE",
    "VLLM_SERVICE_HOST",
    "VLLM_SERVICE_PORT_HTTP",
    "VLLM_PORT_8000_TCP_ADDR",
    "VLLM_PORT_8000_TCP_PROTO",
    "GLOO_SOCKET_IFNAME",
    "NCCL_SOCKET_IFNAME",
    "TORCHELASTIC_RUN_ID",
    "TRITON_CACHE_DIR",
    "TORCHINDUCTOR_CACHE_DIR",
    "CUDA_HOME",
]


@pytest.mark.parametrize("name", COUNT)
def test_what_chooses_how_counts(name: str) -> None:
    """Kernels, collectives, compilers; and any variable of their families that nobody thought of."""
    assert counts(name)


@pytest.mark.parametrize("name", DO_NOT)
def test_what_says_where_does_not_count(name: str) -> None:
    """Paths, ports, addresses, ranks, names, logs, secrets, and what Kubernetes adds for a service."""
    assert not counts(name)


def test_only_those_that_count_are_factors() -> None:
    """The factors are the counting variables with their values, whatever their order."""
    given = {"VLLM_PORT": "1", "NCCL_ALGO": "Ring", "HOME": "/", "DG_X": ""}
    assert factors(given) == factors(dict(reversed(given.items()))) == {"DG_X": "", "NCCL_ALGO": "Ring"}
