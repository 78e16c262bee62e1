"""The limits of trust on a CPU: a busy machine of two cores makes steps many times slower for seconds."""

import os

# The defaults are for GPUs.
WIDE = {
    "WARMCURVE_SCALE_LOW": "0.05",
    "WARMCURVE_SCALE_HIGH": "20",
    "WARMCURVE_MAX_REGRET": "1",
    "WARMCURVE_ADMIT_NOISE": "1000",
    "WARMCURVE_ADMIT_COLD": "1000",
    "WARMCURVE_ADMIT_RISE": "0",
    "WARMCURVE_ADMIT_BEND": "1000",
}


def in_words() -> str:
    """What is in force: the user's own settings win."""
    limits = ", ".join(f"{name}={os.environ.get(name, wide)}" for name, wide in WIDE.items())
    return f"The limits of trust were widened, because times on a CPU are noisy: {limits}."
