"""Makes the entry of a calibration from its samples, or says why there is none."""

from collections.abc import Mapping
from typing import Any

from warmcurve.curves import admission, calibration
from warmcurve.curves.admission import Thresholds
from warmcurve.curves.calibration import Plan
from warmcurve.curves.profile import Sample
from warmcurve.errors import ProfileError
from warmcurve.storage import entry
from warmcurve.storage.entry import Entry
from warmcurve.storage.fingerprint import Value


def record(
    samples: tuple[Sample, ...],
    plan: Plan,
    thresholds: Thresholds,
    *,
    engine: str,
    factors: dict[str, Value],
    conditions: Mapping[str, Any],
) -> Entry:
    """The entry of these samples. Raises `ProfileError` if they are not the plan's, or are not admitted."""
    profile = calibration.profile_from(samples, plan.captured[-1])
    if problem := calibration.shortfall(plan, profile):
        raise ProfileError(problem)
    if objection := admission.objection(profile, thresholds):
        raise ProfileError(objection.detail, objection.reason)
    return Entry(
        factors=factors,
        engine=engine,
        protocol=entry.protocol(replays=len(plan.runs) // len(plan.sizes())),
        profile=profile,
        conditions=entry.writable(conditions),
    )
