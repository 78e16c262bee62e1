"""The noise of sampling, as a pure function of a request's seed and a position.

The next token is argmax(logits + temperature × noise), which samples from softmax(logits / temperature) over all
seeds. Target and drafter see the same noise, so a drafted token is right exactly if the target would choose it, and
output never depends on what was drafted, trimmed or batched.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray

VOCABULARY = 256
_ROWS = 4096
_SEED_STEP = np.uint64(0x9E3779B97F4A7C15)
_POSITION_STEP = np.uint64(0xBF58476D1CE4E5B9)


@cache
def table() -> NDArray[np.float32]:
    """Standard Gumbel noise, [4096, 256]; `rows` says which row belongs to a seed and a position."""
    # The raw stream of a bit generator never changes between versions of numpy, a distribution's may.
    raw = np.random.PCG64(20260705).random_raw(_ROWS * VOCABULARY)
    uniform = (np.asarray(raw, np.uint64) >> np.uint64(12)).astype(np.float64) / 2**52 + 2.0**-54
    gumbel: NDArray[np.float32] = (-np.log(-np.log(uniform))).astype(np.float32).reshape(_ROWS, VOCABULARY)
    return gumbel


def rows(seeds: NDArray[np.int64], positions: NDArray[np.int64]) -> NDArray[np.int64]:
    """Which rows of the table are added to the logits that choose the tokens at these positions; shapes broadcast."""
    mixed = seeds.astype(np.uint64) * _SEED_STEP + positions.astype(np.uint64) * _POSITION_STEP
    mixed = (mixed ^ (mixed >> np.uint64(31))) * _SEED_STEP
    found: NDArray[np.int64] = (mixed >> np.uint64(52)).astype(np.int64)
    return found
