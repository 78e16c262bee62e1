"""Keys and values of the positions already computed, a slot for each running request."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from warmcurve.embedded.weights import Floats

Integers = NDArray[np.int64]

HEAD: Final = 64
VALUE: Final = 80
"""A value is 64 numbers, a one that sums up the softmax's denominator, and zeros to a width kernels like."""
ALIGNMENT: Final = 64
"""Attention looks at a whole multiple of this many positions, masked past the end."""


class Cache:
    """`keys` [layers, slots, 64, capacity] and `values` [layers, slots, capacity, 80].

    What lies past a request's length is never looked at, so trimming or preempting a request needs no clean-up.
    """

    def __init__(self, layers: int, slots: int, capacity: int) -> None:
        self.capacity = capacity
        self.keys: Floats = np.zeros((layers, slots, HEAD, capacity), np.float32)
        self.values: Floats = np.zeros((layers, slots, capacity, VALUE), np.float32)
        self.values[..., HEAD] = 1
        self._free = list(range(slots))[::-1]

    def take(self) -> int | None:
        """The lowest free slot, or None: slots in a row are attended to at once."""
        return self._free.pop() if self._free else None

    def give_back(self, slot: int) -> None:
        if slot in self._free:
            raise ValueError(f"slot {slot} is free already")
        self._free.append(slot)
        self._free.sort(reverse=True)

    def reserve(self, slot: int) -> None:
        """Keep a slot from being taken."""
        self._free.remove(slot)

    def free(self) -> int:
        return len(self._free)

    def write(self, layer: int, slots: Integers, positions: Integers, keys: Floats, values: Floats) -> None:
        """Keep keys and values [tokens, 64] of tokens at these slots and positions."""
        self.keys[layer, slots, :, positions] = keys
        self.values[layer, slots, positions, :HEAD] = values


class Group:
    """Requests whose attention runs at once, [requests, tokens]: `lengths` says up to which position each token looks,
    itself included, and `rows` which rows of the step the tokens are, all in order where it is None.

    A request with fewer tokens than the others repeats its last one, which comes to the same.
    """

    def __init__(self, slots: Sequence[int], lengths: Integers, rows: slice | Integers | None = None) -> None:
        self.rows = slice(0, lengths.size) if rows is None else rows
        self._slots = slots
        self._shape = lengths.shape
        self._length = -(-int(lengths.max()) // ALIGNMENT) * ALIGNMENT
        row = slots == list(range(slots[0], slots[0] + len(slots)))
        self._row = slice(slots[0], slots[0] + len(slots)) if row else None
        unseen = np.arange(self._length) >= lengths[:, :, None, None]
        self._mask = np.zeros(unseen.shape, np.float32)
        self._mask[unseen] = -np.inf

    def attend(self, cache: Cache, layer: int, queries: Floats) -> Floats:
        """Attention of queries [requests × tokens, heads × 64] over a layer, of the same shape."""
        requests, tokens = self._shape
        heads = queries.shape[1] // HEAD
        asked = queries.reshape(requests, tokens * heads, HEAD)
        keys = cache.keys[layer, :, :, : self._length]
        values = cache.values[layer, :, : self._length]
        scores = np.empty((requests, tokens * heads, self._length), np.float32)
        seen = np.empty((requests, tokens * heads, VALUE), np.float32)
        if self._row:
            np.matmul(asked, keys[self._row], out=scores)
        else:
            for index, slot in enumerate(self._slots):
                np.matmul(asked[index], keys[slot], out=scores[index])
        by_token = scores.reshape(requests, tokens, heads, self._length)
        by_token += self._mask
        scores -= scores.max(axis=-1, keepdims=True)
        np.exp(scores, out=scores)
        if self._row:
            np.matmul(scores, values[self._row], out=seen)
        else:
            for index, slot in enumerate(self._slots):
                np.matmul(scores[index], values[slot], out=seen[index])
        seen[..., :HEAD] /= seen[..., HEAD, None]
        return seen[..., :HEAD].reshape(queries.shape)
