"""Properties are tried without a deadline, and on a build server with the same examples each time."""

import ctypes
import os
from contextlib import suppress
from pathlib import Path

from hypothesis import settings

settings.register_profile("warmcurve", deadline=None, database=None)
settings.register_profile("warmcurve-ci", deadline=None, database=None, derandomize=True)
settings.load_profile("warmcurve-ci" if os.environ.get("CI") else "warmcurve")


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
