"""Properties are tried without a deadline, and on a build server with the same examples each time."""

import os

# Before numpy is first imported: threads of one small product only wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from hypothesis import settings

settings.register_profile("warmcurve", deadline=None, database=None)
settings.register_profile("warmcurve-ci", deadline=None, database=None, derandomize=True)
settings.load_profile("warmcurve-ci" if os.environ.get("CI") else "warmcurve")
