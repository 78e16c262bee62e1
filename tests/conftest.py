"""Properties are tried without a deadline, and on a build server with the same examples each time."""

import ctypes
import os
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("warmcurve", deadline=None, database=None)
settings.register_profile("warmcurve-ci", deadline=None, database=None, derandomize=True)
settings.load_profile("warmcurve-ci" if os.environ.get("CI") else "warmcurve")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slice", metavar="K/N", help="the K-th of N parts of what `make test` leaves out")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if wanted := config.getoption("--slice"):
        part, parts = map(int, wanted.split("/"))
        if not 1 <= part <= parts:
            raise pytest.UsageError(f"--slice {wanted}: there is no such part")
        left = sorted(item.nodeid for item in items if item.get_closest_marker("full"))
        # One of each so many neighbours: the longest are cases of one test.
        kept = set(left[part - 1 :: parts])
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in kept])
        items[:] = [item for item in items if item.nodeid in kept]


def _one_thread_a_product() -> None:
    """Threads of one small product wait for each other, which takes a minute where other programs run.

    The variable counts for what imports numpy later and for child processes; a plugin of pytest may have imported it.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    with suppress(OSError):
        lines = Path("/proc/self/maps").read_text().splitlines()
        for library in {line.split(maxsplit=5)[-1] for line in lines if "openblas" in line}:
            loaded = ctypes.CDLL(library)
            for name in ("scipy_openblas_set_num_threads64_", "openblas_set_num_threads"):
                if hasattr(loaded, name):
                    getattr(loaded, name)(1)


_one_thread_a_product()
