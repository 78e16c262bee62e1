"""Which environment variables enter the fingerprint of a vLLM runner."""

import hashlib
import os
from pathlib import Path

import pytest

from warmcurve.errors import FactorError
from warmcurve.vllm.factors.environment import counts, factors, has_form, nccl_settings, preloaded, unreviewed
from warmcurve.vllm.reviewed.variables import (
    BY_CONTENT,
    BY_NAMES,
    COUNTED,
    EXCLUDED,
    FORMS,
    PREFIXES,
    SINGLE,
    UNRELATED,
)

COUNT = [
    *sorted(COUNTED),
    *SINGLE,
    *BY_CONTENT,
    *BY_NAMES,
    "AITER_CONFIG_GEMM_A4W4",
    "MORI_SHMEM_HEAP_SIZE",
    "FLA_USE_TMA",
    "TILELANG_X",
    "NVCC_PREPEND_FLAGS",
    "TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES",
    "INKLING_SPLIT_KV",
    "LAMPORT_RS_SCONV",
    "GDN_RECOMPUTE_SUPPRESS_LEVEL",
    "VLLM_A_NUMBER_OF_TOKENS",
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
    *(name for exclusion in UNRELATED for name in exclusion.names),
    "VLLM_POD_NAME",
    "VLLM_POD_UID",
    "FLASHINFER_WORKSPACE_BASE",
    "TORCHX_JOB_ID",
    "TORCHX_TRACKERS",
    "TORCH_TRACE",
    "NCCL_MNNVL_UUID",
    "VLLM_SOME_API_KEYS",
    "VLLM_SOME_ACCESS_TOKENS",
    "VLLM_SOME_PASSWD",
    "VLLM_SOME_AUTH",
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
    unrelated = [name for exclusion in UNRELATED for name in exclusion.names]
    assert [name for name in unrelated if name.startswith(PREFIXES) or name in SINGLE] == []
    assert len(set(unrelated)) == len(unrelated)
    assert [name for name in SINGLE if name.startswith(PREFIXES) and not has_form(name)] == []
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


def test_what_is_named_and_absent_is_nothing(tmp_path: Path) -> None:
    """Programs go on without such a file, so a boot does; it differs from one that has the file."""
    for name in (*BY_CONTENT, *BY_NAMES):
        assert factors({name: str(tmp_path / "none")}) == {name: None}
    assert factors({"AITER_CONFIG_FMOE": f"{tmp_path}/none:{tmp_path}/no"}) == {"AITER_CONFIG_FMOE": [None, None]}
    assert factors({"PYTORCH_TUNABLEOP_FILENAME": f"{tmp_path}/none/%d.csv"}) == {"PYTORCH_TUNABLEOP_FILENAME": None}


@pytest.mark.timeout(30)
def test_only_regular_files_of_the_folder_itself_are_read(tmp_path: Path) -> None:
    """Neither what folders within it hold, nor a pipe, which would block; a device is no file; there is a bound."""
    name = "VLLM_TUNED_CONFIG_FOLDER"
    (tmp_path / "E=8.json").write_text("{}")
    before = factors({name: str(tmp_path)})
    (tmp_path / "deeper").mkdir()
    (tmp_path / "deeper" / "E=9.json").write_text("{}")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "endless").symlink_to("/dev/zero")
    assert factors({name: str(tmp_path)}) == before
    for place in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(FactorError, match=f"runtime.environment.{name}: .*not a regular file"):
            factors({name: str(place)})
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(FactorError, match=f"runtime.environment.{name}: .*more bytes"):
        factors({name: str(tmp_path)})


def test_a_name_of_several_files_counts_by_all(tmp_path: Path) -> None:
    """AITER's tables, one or more, and torch's, one for each device; of compiled kernels the files' names."""
    for name in ("a.csv", "b.csv", "ops0.csv", "ops1.csv", "opsx.csv"):
        (tmp_path / name).write_text(name)
    digests = {name: hashlib.sha256(name.encode()).hexdigest() for name in ("a.csv", "b.csv", "ops0.csv", "ops1.csv")}
    found = factors(
        {
            "AITER_CONFIG_FMOE": f"{tmp_path}/a.csv:{tmp_path}/b.csv",
            "PYTORCH_TUNABLEOP_FILENAME": f"{tmp_path}/ops%d.csv",
            "ROCBLAS_TENSILE_LIBPATH": str(tmp_path),
        }
    )
    assert found == {
        "AITER_CONFIG_FMOE": [{".": digests["a.csv"]}, {".": digests["b.csv"]}],
        "PYTORCH_TUNABLEOP_FILENAME": {name: digests[name] for name in ("ops0.csv", "ops1.csv")},
        "ROCBLAS_TENSILE_LIBPATH": dict.fromkeys(("a.csv", "b.csv", "ops0.csv", "ops1.csv", "opsx.csv"), ""),
    }


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("auto", "auto"),
        ("nobind", "nobind"),
        ("", ""),
        ("0-3|4-7", [4, 4]),
        ("0,2,4-5", [4]),
        ("1,1-2", [2]),
        ("some", "some"),
    ],
)
def test_cores_count_by_their_number(value: str, told: object) -> None:
    """How many cores each rank of a CPU is given, not which; what vLLM would refuse stands as it is."""
    assert factors({"VLLM_CPU_OMP_THREADS_BIND": value}) == {"VLLM_CPU_OMP_THREADS_BIND": told}


def test_files_of_nccl_count_as_its_variables_do(tmp_path: Path) -> None:
    """Of lines the first of a name, only of those that count, and files that they name by content; none is none."""
    own, everyones = tmp_path / "own", tmp_path / "everyones"
    assert nccl_settings((own, everyones)) is None
    own.write_text("# a comment\nNCCL_ALGO=Ring\nNCCL_SOCKET_IFNAME=eth0\nnonsense\n")
    everyones.write_text(f"NCCL_ALGO=Tree\nNCCL_TOPO_FILE={own}\n")
    topology = {".": hashlib.sha256(own.read_bytes()).hexdigest()}
    assert nccl_settings((own, everyones)) == {"NCCL_ALGO": "Ring", "NCCL_TOPO_FILE": topology}
    assert nccl_settings((own,)) == {"NCCL_ALGO": "Ring"}
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FactorError, match=r"runtime\.nccl_settings: .*not a regular file"):
        nccl_settings((tmp_path / "pipe",))


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


def test_a_library_that_was_replaced_or_is_named_by_the_loader_is_found(tmp_path: Path) -> None:
    """The kernel marks the mapping of a file that is gone, and the loader fills in $LIB."""
    maps = tmp_path / "maps"
    maps.write_text(f"7f00-7f01 r-xp 00000000 fe:00 12      {tmp_path}/libx.so (deleted)\n")
    for library in (f"{tmp_path}/libx.so", "/usr/$LIB/libx.so", "${ORIGIN}/libx.so"):
        assert preloaded({"LD_PRELOAD": f"{library}:/usr/$LIB/libnone.so"}, maps) == ["libx.so"]


def test_only_those_that_count_are_factors() -> None:
    """The factors are the counting variables with their values, whatever their order."""
    given = {"VLLM_PORT": "1", "NCCL_ALGO": "Ring", "HOME": "/", "DG_X": ""}
    assert factors(given) == factors(dict(reversed(given.items()))) == {"DG_X": "", "NCCL_ALGO": "Ring"}
