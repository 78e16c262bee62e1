"""One stored cost made wrong, for `serving.py`: what the planner would lose by it, and the entry that holds it."""

from typing import Final, NamedTuple

import msgspec
import numpy as np

from warmcurve.curves.calibration import profile_from
from warmcurve.curves.profile import CostProfile, Sample
from warmcurve.embedded.model import POSITIONS
from warmcurve.planning.planner import losses
from warmcurve.planning.workload import cases
from warmcurve.storage.entry import decode, encode

FACTOR: Final = 3.0


class Tampering(NamedTuple):
    """The target's cost at one captured size, stored as so many times what was measured."""

    size: int
    factor: float

    def __str__(self) -> str:
        return f"{self.size} tokens stored {FACTOR:g}× too {'dear' if self.factor > 1 else 'cheap'}"

    def of_profile(self, true: CostProfile) -> CostProfile:
        """The samples change with the curve, which stays their medians."""
        return profile_from(map(self._of_sample, true.samples), true.capture_limit)

    def of_entry(self, data: bytes) -> bytes:
        """An entry as valid as this one, under the same digest."""
        entry = decode(data)
        return encode(msgspec.structs.replace(entry, profile=self.of_profile(entry.profile)))

    def loss(self, true: CostProfile, batch: int, most_tokens: int) -> float:
        """The share of throughput that the planner loses: mean over the declared cases of one batch size."""
        declared = [case.batch for case in cases(batch, POSITIONS, most_tokens) if case.requests == batch]
        return float(np.mean(losses(true, self.of_profile(true), declared)))

    def _of_sample(self, sample: Sample) -> Sample:
        factor = self.factor if sample.tokens == self.size else 1.0
        return msgspec.structs.replace(sample, verify_ms=sample.verify_ms * factor)


def worst(true: CostProfile, batch: int, most_tokens: int) -> Tampering:
    """Of all captured sizes, too dear or too cheap, what loses most at this batch size."""
    every = [Tampering(size, factor) for size in true.captured() for factor in (FACTOR, 1 / FACTOR)]
    return max(every, key=lambda each: each.loss(true, batch, most_tokens))
