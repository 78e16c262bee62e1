"""Which environment variables enter the fingerprint of a vLLM runner."""

import hashlib
from pathlib import Path

import pytest

from warmcurve.errors import FactorError
from warmcurve.vllm.environment import counts, factors, preloaded, unreviewed
from warmcurve.vllm.variables import BY_CONTENT, COUNTED, EXCLUDED, FORMS, PREFIXES

COUNT = [
    *sorted(COUNTED),
    *BY_CONTENT,
    "VLLM_ATTENTION_BACKEND",
    "VLLM_A_SWITCH_OF_TOMORROW",
    "VLLM_USE_FLASHINFER_SAMPLER",
    "VLLM_A_SWITCH_WITH_A_CACHE",
    "VLLM_A_LOG_INTERVAL",
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
    "HIPBLASLT_ALLOW_TF32",
    "ROCM_X",
    "PYTORCH_CUDA_ALLOC_CONF",
    "MKL_NUM_THREADS",
    "MKLDNN_VERBOSE",
    "CUDNN_X",
    "UCX_TLS",
    "MALLOC_ARENA_MAX",
]
DO_NOT = [
    *(name for exclusion in EXCLUDED for name in exclusion.names),
    "LD_LIBRARY_PATH",
    "HOME",
    "PATH",
    "WARMCURVE_MAX_REGRET",
    "VLLM_CACHE_ROOT",
    "VLLM_LOGGING_LEVEL",
    "VLLM_LOG_STATS_INTERVAL",
    "VLLM_A_NEW_API_TOKEN",
    "NVSHMEM_X_LOG",
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


def test_reviews_do_not_contradict() -> None:
    """No variable stands in two lists, each excluded one would count otherwise, and each form excludes what would."""
    left_out = [name for exclusion in EXCLUDED for name in exclusion.names]
    assert len(set(left_out)) == len(left_out)
    assert not COUNTED & set(left_out)
    assert not set(BY_CONTENT) & set(left_out)
    assert [name for name in left_out if not name.startswith(PREFIXES)] == []
    assert all(exclusion.why for exclusion in EXCLUDED)
    assert all(any(form.pattern.search(name) for name in DO_NOT) for form in FORMS)


def test_what_no_review_names_is_told() -> None:
    """The engine's own variables that count unreviewed are named; those of other families are not."""
    given = {"VLLM_A_SWITCH_OF_TOMORROW": "1", "VLLM_MLA_DISABLE": "1", "VLLM_PORT": "1", "NCCL_NEW": "1"}
    assert unreviewed(given) == ("runtime.environment.VLLM_A_SWITCH_OF_TOMORROW",)


def test_a_file_that_is_named_counts_by_its_content(tmp_path: Path) -> None:
    """Another path with the same files is the same; another content, or a further file, is not; no file is unknown."""
    first, second = tmp_path / "first", tmp_path / "second" / "deep"
    for folder in (first, second):
        folder.mkdir(parents=True)
        (folder / "E=8.json").write_text("{}")
    name = "VLLM_TUNED_CONFIG_FOLDER"
    before = factors({name: str(first)})
    assert before == {name: {"E=8.json": hashlib.sha256(b"{}").hexdigest()}}
    assert factors({name: str(second)}) == before
    (second / "E=16.json").write_text("{}")
    assert factors({name: str(second)}) != before
    (first / "E=8.json").write_text("[]")
    assert factors({name: str(first)}) != before
    assert factors({name: ""}) == {name: ""}
    topology = factors({"NCCL_TOPO_FILE": str(first / "E=8.json")})
    assert topology == {"NCCL_TOPO_FILE": {".": hashlib.sha256(b"[]").hexdigest()}}
    with pytest.raises(FactorError, match=f"runtime.environment.{name}: .*No such file"):
        factors({name: str(tmp_path / "none")})


def test_preloaded_libraries_count_by_name(tmp_path: Path) -> None:
    """Those that are mapped, by base name and in order: where they lie does not count, nor one that did not come."""
    maps = tmp_path / "maps"
    for place in ("one", "two"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "libtcmalloc.so.4.5").touch()
        (tmp_path / place / "libtcmalloc.so.4").symlink_to("libtcmalloc.so.4.5")
        (tmp_path / place / "liblate.so").touch()
    lines = [
        f"7f00-7f01 r-xp 00000000 fe:00 12 {' ' * 10} {(tmp_path / place).resolve()}/libtcmalloc.so.4.5"
        for place in ("one", "two")
    ]
    maps.write_text("\n".join([*lines, "7f02-7f03 rw-p 00000000 00:00 0 "]))
    for place in ("one", "two"):
        value = f"{tmp_path}/{place}/libtcmalloc.so.4 libiomp5.so:{tmp_path}/{place}/liblate.so"
        assert preloaded({"LD_PRELOAD": value}, maps) == ["libtcmalloc.so.4", "libiomp5.so"]
    assert preloaded({}, tmp_path / "none") == []


def test_only_those_that_count_are_factors() -> None:
    """The factors are the counting variables with their values, whatever their order."""
    given = {"VLLM_PORT": "1", "NCCL_ALGO": "Ring", "HOME": "/", "DG_X": ""}
    assert factors(given) == factors(dict(reversed(given.items()))) == {"DG_X": "", "NCCL_ALGO": "Ring"}
