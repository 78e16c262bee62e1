"""The mode `verify`: it judges stored curves by a full calibration, as if every captured size had been replayed."""

from collections import Counter
from typing import Final

import msgspec

from warmcurve.boot.request import Samples
from warmcurve.boot.settings import Settings
from warmcurve.curves import admission, sentinel
from warmcurve.curves.calibration import profile_from
from warmcurve.curves.profile import CostProfile
from warmcurve.curves.sentinel import Evidence, VerifiedProfile

HOLDS: Final = "the stored curves hold"


def audit(stored: CostProfile | None, samples: Samples, settings: Settings) -> tuple[Evidence | None, str | None]:
    """The evidence, and what follows from it in words. Both are None if nothing is stored or nothing was measured.

    The runs of the calibration stand for replays of every captured size. They are held to the policy's last look.
    Raises `ProfileError` if no profile can be made of the samples.
    """
    if stored is None:
        return None, None
    captured = [sample for sample in samples if sample.tokens <= stored.capture_limit]
    asked = [sample.tokens for sample in captured]
    if not asked:
        return None, None
    replays = max(2, min(Counter(asked).values()))
    rounds = msgspec.structs.replace(sentinel.rounds_for(settings.sentinels), count=replays)
    verdict = sentinel.judge(stored, asked, captured, settings.limits, rounds)
    finding = HOLDS
    if not isinstance(verdict, VerifiedProfile):
        finding = f"the stored curves do not hold: {verdict.reason}, {verdict.detail}"
    if disturbed := admission.objection(profile_from(samples, stored.capture_limit), settings.thresholds):
        finding = (
            f"the fresh calibration would not be stored ({disturbed.reason}, {disturbed.detail}); against it {finding}"
        )
    return verdict.evidence, finding
