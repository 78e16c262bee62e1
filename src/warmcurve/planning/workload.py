"""The declared batches. Every number for regret is their mean or their worst case.

How much a wrong curve costs depends on what is served. So a number without its batches says nothing. A case is one step
of decoding: R requests, each with K drafted tokens, and for each token the chance to survive if all before it did.

The batch sizes are the powers of two up to the largest batch of the drafter's curve, and this largest batch itself. A
server meets them all. Survival has seven families, because the best budget depends on it:

- `measured`: what the embedded engine's target accepts of its drafter, position by position (`training/README.md`);
- `published`: per-position acceptance of GLM-5.2 with DSpark 16 in vLLM pull request #52992, where the first draft is
  the hardest and what survives goes on surviving;
- `geometric`: 0.5, 0.7 and 0.9 at every position: text that is hard, usual and easy to draft;
- `mixed`: rates spread evenly over 0.3 to 0.95, one a request: a batch of different users;
- `two kinds`: every other request at 0.95 and at 0.5, as code beside prose.

A step that also has a chunk of a prompt reaches the eager tail. Such steps are cases of their own (`prompt` tokens),
because a boot that replays only captured sizes says nothing about the tail.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from warmcurve.planning.planner import Batch, Floats

_MEASURED: Final = (0.857, 0.880, 0.850, 0.824, 0.801, 0.800, 0.809)
_PUBLISHED: Final = (0.7123, 0.7258, 0.7551, 0.8143, 0.7990, 0.7874)


class Case(NamedTuple):
    """One batch, by what it is made of."""

    requests: int
    survival: str
    prompt: int
    batch: Batch


def _positions(chances: Sequence[float]) -> Callable[[int, int], Floats]:
    """Beyond what was measured the last chance goes on."""

    def confidence(requests: int, drafts: int) -> Floats:
        row = np.array([chances[min(position, len(chances) - 1)] for position in range(drafts)])
        return np.tile(row, (requests, 1))

    return confidence


def _requests(rates: Callable[[int], Floats]) -> Callable[[int, int], Floats]:
    return lambda requests, drafts: np.repeat(rates(requests)[:, None], drafts, axis=1)


SURVIVAL: Final[Mapping[str, Callable[[int, int], Floats]]] = {
    "measured": _positions(_MEASURED),
    "published": _positions(_PUBLISHED),
    "geometric 0.5": _positions((0.5,)),
    "geometric 0.7": _positions((0.7,)),
    "geometric 0.9": _positions((0.9,)),
    "mixed": _requests(lambda requests: np.linspace(0.3, 0.95, requests + 2)[1:-1]),
    "two kinds": _requests(lambda requests: np.where(np.arange(requests) % 2, 0.5, 0.95)),
}
"""By name: the chances [requests, drafts]."""


def request_counts(most: int) -> tuple[int, ...]:
    return tuple(sorted({2**power for power in range(most.bit_length()) if 2**power <= most} | {most}))


def cases(most_requests: int, drafts: int, most_tokens: int, prompts: Sequence[int] = (0,)) -> tuple[Case, ...]:
    """Every batch size with every family and chunk, without steps that could grow beyond `most_tokens`."""
    return tuple(
        Case(requests, name, prompt, Batch(family(requests, drafts), np.full(requests, drafts), base, requests))
        for requests in request_counts(most_requests)
        for name, family in SURVIVAL.items()
        for prompt in prompts
        if (base := requests + prompt) + requests * drafts <= most_tokens
    )
