"""The target and its drafter: what a step computes, in numpy.

The target is a decoder-only transformer over bytes: 6 layers of width 192, 3 query heads over one key-value head,
squared ReLU, rotary positions. The drafter proposes 7 bytes at once from the target's features, as DSpark does: a
parallel block, a low-rank Markov head that joins the positions left to right, and a confidence for each of them.

Output bits do not depend on how many rows a step has, how they are batched or padded: see `Matrix` and `Group`.
"""

from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from warmcurve.embedded.cache import HEAD, Cache, Group, Integers
from warmcurve.embedded.weights import Floats, Matrix, read

HERE: Final = Path(__file__).parent
LAYERS: Final = 6
HEADS: Final = 3
WIDTH: Final = 192
FEATURE_LAYER: Final = 3
POSITIONS: Final = 7
"""K: how many bytes a drafted block has."""
CAPACITY: Final = 384
"""Positions a request may have; as long as training's, and as a product's inner dimension may be."""


class Rows:
    """The buffers of a step of `size` rows: tokens and positions [rows], what attention saw, the target's features.

    The first `real` rows are tokens, [real] of them with their `slots`; the rest is padding, which nothing looks at.
    """

    def __init__(self, size: int) -> None:
        self.tokens = np.zeros(size, np.int64)
        self.positions = np.zeros(size, np.int64)
        self.attended = np.zeros((size, HEADS * HEAD), np.float32)
        self.features = np.zeros((size, 2 * WIDTH), np.float32)
        self.slots = np.zeros(0, np.int64)
        self.real = 0

    def fill(self, tokens: list[int], positions: list[int], slots: list[int]) -> None:
        self.real = len(tokens)
        self.tokens[: self.real] = tokens
        self.positions[: self.real] = positions
        self.slots = np.array(slots)


def norm(x: Floats) -> Floats:
    squares = np.add.reduce(x * x, axis=-1, keepdims=True)
    normed: Floats = x / np.sqrt(squares * np.float32(1 / WIDTH) + np.float32(1e-6))
    return normed


def squared_relu(x: Floats) -> Floats:
    np.maximum(x, 0, out=x)
    np.multiply(x, x, out=x)
    return x


class Rotation:
    """Rotary positions: halves of each head rotated against each other, by a table [positions, 32] of each."""

    def __init__(self, positions: int) -> None:
        half = HEAD // 2
        angles = np.arange(positions)[:, None] * 10000.0 ** (-np.arange(half) / half)
        self._cos, self._sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)

    def __call__(self, x: Floats, positions: Integers) -> Floats:
        """x [rows, heads × 64] as a new array."""
        heads = x.reshape(len(x), -1, 2, HEAD // 2)
        cos, sin = self._cos[positions][:, None], self._sin[positions][:, None]
        first, second = heads[:, :, 0], heads[:, :, 1]
        rotated = np.empty_like(heads)
        rotated[:, :, 0] = first * cos - second * sin
        rotated[:, :, 1] = first * sin + second * cos
        return rotated.reshape(x.shape)


class Layer:
    def __init__(self, weights: dict[str, Floats], name: str) -> None:
        qkv = weights[f"{name}.qkv"].copy()
        qkv[:, : HEADS * HEAD] *= np.float32(HEAD**-0.5)  # a power of two: exact
        self.qkv = Matrix(qkv)
        self.out = Matrix(weights[f"{name}.out"])
        self.up = Matrix(weights[f"{name}.up"])
        self.down = Matrix(weights[f"{name}.down"])


class Target:
    def __init__(self, weights: dict[str, Floats]) -> None:
        self._embedding = norm(weights["embedding"])
        self._layers = [Layer(weights, f"blocks.{index}") for index in range(LAYERS)]
        self.head = Matrix(weights["head"])
        self._rotation = Rotation(CAPACITY + POSITIONS)

    def forward(self, rows: Rows, groups: list[Group], cache: Cache) -> Floats:
        """Logits [rows, 256]; fills `rows.features`, and keeps keys and values of the real rows in the cache."""
        real, ends = rows.real, HEADS * HEAD
        x = self._embedding[rows.tokens]
        for index, layer in enumerate(self._layers):
            qkv = layer.qkv(norm(x))
            queries_keys = self._rotation(qkv[:, : ends + HEAD], rows.positions)
            cache.write(index, rows.slots, rows.positions[:real], queries_keys[:real, ends:], qkv[:real, ends + HEAD :])
            for group in groups:
                rows.attended[group.rows] = group.attend(cache, index, queries_keys[group.rows, :ends])
            x += layer.out(rows.attended)
            x += layer.down(squared_relu(layer.up(norm(x))))
            if index == FEATURE_LAYER:
                rows.features[:, :WIDTH] = norm(x)
        rows.features[:, WIDTH:] = norm(x)
        return self.head(rows.features[:, WIDTH:])


class Drafts(NamedTuple):
    """Drafted `tokens` and the `confidence` in each, given all before it survive: [requests, 7] both."""

    tokens: Integers
    confidence: Floats


class Drafter:
    """Shares the target's head; its own keys and values are one more layer of the cache, `LAYERS`."""

    def __init__(self, weights: dict[str, Floats], head: Matrix) -> None:
        self._head = head
        self._rotation = Rotation(CAPACITY + POSITIONS)
        self._anchor, self._place = weights["anchor"], weights["place"]
        query = weights["query"] * np.float32(HEAD**-0.5)
        self._query = Matrix(query)
        self._fuse, self._kv, self._out = (Matrix(weights[name]) for name in ("fuse", "kv", "out"))
        self._trunk = Matrix(weights["trunk_up"]), Matrix(weights["trunk_down"])
        self._mlp = Matrix(weights["up"]), Matrix(weights["down"])
        self._markov_in, self._markov_out = weights["markov_in"], Matrix(weights["markov_out"])
        self._confidence, self._bias = weights["confidence"], weights["confidence_bias"]
        self._scale, self._offset = weights["calibration"]

    def feed(self, rows: "Rows", cache: Cache) -> None:
        """Keep what the drafter looks back at, from what the target has just seen."""
        positions, slots = rows.positions[: rows.real], rows.slots
        kv = self._kv(rows.features[: rows.real])
        cache.write(LAYERS, slots, positions, self._rotation(kv[:, :HEAD], positions), kv[:, HEAD:])

    def draft(
        self, features: Floats, anchors: Integers, positions: Integers, slots: list[int], noise: Floats, cache: Cache
    ) -> Drafts:
        """Blocks after the `anchors`, the newest tokens, at these positions: [requests] each.

        `features` [requests, 2 × 192] are the target's at the positions before; `noise` [requests, 7, 256] chooses.
        """
        requests = len(anchors)
        up, down = self._trunk
        trunk = self._fuse(features) + self._anchor[anchors]
        trunk += down(squared_relu(up(norm(trunk))))
        x = (trunk[:, None] + self._place).reshape(requests * POSITIONS, WIDTH)
        places = (positions[:, None] + np.arange(POSITIONS)).reshape(-1)
        lengths = np.broadcast_to(positions[:, None], (requests, POSITIONS))
        group = Group(slots, lengths)
        x += self._out(group.attend(cache, LAYERS, self._rotation(self._query(norm(x)), places)))
        up, down = self._mlp
        x += down(squared_relu(up(norm(x))))
        hidden = norm(x)
        logits = self._head(hidden).reshape(requests, POSITIONS, -1) + noise
        return self._choose(hidden.reshape(requests, POSITIONS, WIDTH), logits, anchors)

    def _choose(self, hidden: Floats, logits: Floats, anchors: Integers) -> Drafts:
        """Left to right, since each token is told the one before it."""
        requests = len(anchors)
        every = np.arange(requests)
        tokens = np.empty((requests, POSITIONS), np.int64)
        margins = np.empty((requests, POSITIONS), np.float32)
        markov = np.empty((requests, POSITIONS, self._markov_in.shape[1]), np.float32)
        previous = anchors
        for position in range(POSITIONS):
            markov[:, position] = self._markov_in[previous]
            noised = logits[:, position] + self._markov_out(markov[:, position])
            tokens[:, position] = previous = noised.argmax(axis=1)
            best = noised[every, previous]
            noised[every, previous] = -np.inf
            margins[:, position] = best - noised.max(axis=1)
        facts = np.stack((np.log(margins + np.float32(0.01)), np.tanh(margins)), axis=-1)
        odds = np.concatenate((hidden, markov, facts), axis=-1) @ self._confidence + self._bias
        return Drafts(tokens, 1 / (1 + np.exp(-(odds * self._scale + self._offset))))


def load(directory: Path = HERE) -> tuple[Target, Drafter]:
    """Both models from `target.safetensors` and `drafter.safetensors`."""
    target = Target(read(directory / "target.safetensors"))
    return target, Drafter(read(directory / "drafter.safetensors"), target.head)
