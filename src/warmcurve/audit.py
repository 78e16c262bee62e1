"""Stored curves beside a full calibration: what the sentinels would say of them (mode `verify`)."""

from warmcurve import sentinel
from warmcurve.profile import CostProfile
from warmcurve.request import Samples
from warmcurve.sentinel import Evidence, Limits, VerifiedProfile


def audit(stored: CostProfile | None, samples: Samples, limits: Limits) -> tuple[Evidence | None, str | None]:
    """The evidence, as if every captured size had been replayed as often as the calibration did, and what follows from
    it in words. Where nothing is stored or was measured there is neither.
    """
    if stored is None:
        return None, None
    captured = [sample for sample in samples if sample.tokens <= stored.capture_limit]
    if not captured:
        return None, None
    verdict = sentinel.judge(stored, [sample.tokens for sample in captured], captured, limits)
    if isinstance(verdict, VerifiedProfile):
        return verdict.evidence, "the stored curves hold"
    return verdict.evidence, f"the stored curves do not hold: {verdict.reason}, {verdict.detail}"
