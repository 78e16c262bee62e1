"""A calibration measured in peace is admitted; one that was cold, noisy, flat or bent is not, for its reason."""

import math
from random import Random
from statistics import NormalDist

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmcurve.curves.admission import Thresholds, objection
from warmcurve.curves.calibration import REPLAYS, dispersion, plan, profile_from
from warmcurve.curves.profile import CostProfile, Sample
from warmcurve.outcome import Reason

CAPTURED = (1, 2, 4, *range(8, 513, 8))
PLAN = plan(CAPTURED, 8192)
MOST = 64
DEFAULT = Thresholds()
ANY = Thresholds(math.inf, math.inf, 0, math.inf)
TRIALS = 200


def _gpu_ms(tokens: int) -> float:
    """Bound by memory up to some 200 tokens, then by arithmetic; without a graph a little dearer."""
    return 8.0 + 0.002 * tokens + 0.03 * max(0, tokens - 200) + (2.0 if tokens > CAPTURED[-1] else 0.0)


def _measured(noise: float, seed: int, verify_ms=_gpu_ms, replays: int = REPLAYS) -> CostProfile:
    """A calibration of a GPU's shape with normal noise, every replay at its own."""
    random, normal = Random(seed), NormalDist(1, noise or 1e-9)

    def noisy(ms: float) -> float:
        return ms * normal.inv_cdf(random.uniform(1e-6, 1 - 1e-6))

    samples = []
    for tokens in plan(CAPTURED, 8192, replays).runs:
        requests = min(tokens, MOST)
        draft = noisy(1.0 + requests / 64)
        samples.append(Sample(tokens, requests, noisy(verify_ms(tokens)), draft, tokens <= CAPTURED[-1]))
    return profile_from(samples, CAPTURED[-1])


def _profile(**times_ms: tuple[float, ...]) -> CostProfile:
    """Sizes 1, 2, 4 captured and 8 eager, of which some take other times than 1 + size / 8."""
    samples = []
    for size in (1, 2, 4, 8):
        samples += [
            Sample(size, size, ms, 1.0, full_graph=size <= 4)
            for ms in times_ms.get(f"of_{size}", (1 + size / 8,) * REPLAYS)
        ]
    return profile_from(samples, 4)


@pytest.mark.parametrize("noise", [0.0, 0.01, 0.02, 0.03])
def test_what_a_gpu_measures_is_admitted(noise: float):
    """Up to 3 % of noise a replay, none of many calibrations of 76 sizes is turned down."""
    assert [objection(_measured(noise, seed), DEFAULT) for seed in range(TRIALS)] == [None] * TRIALS


def test_noise_of_a_tenth_is_never_admitted():
    """With 10 % of noise a replay, every calibration has a size whose median is not to be trusted."""
    found = [objection(_measured(0.1, seed), DEFAULT) for seed in range(TRIALS)]
    assert {each and each.reason for each in found} == {Reason.CALIBRATION_NOISY}


@pytest.mark.parametrize("replays", [3, 5, 9])
def test_a_flat_table_is_refused_under_noise(replays: int):
    """Where every size costs the same but for noise, the curve is flat however often each is replayed."""
    flat = [objection(_measured(0.02, seed, lambda tokens: 9.0, replays), DEFAULT) for seed in range(TRIALS)]
    assert {each and each.reason for each in flat} == {Reason.CALIBRATION_FLAT}


@pytest.mark.parametrize(
    ("profile", "reason", "told"),
    [
        (_profile(of_2=(9, 1.2, 1.3, 1.2, 1.3)), Reason.CALIBRATION_COLD, "verify of 2 tokens took 7.2 times as long"),
        (_profile(of_8=(99, 99, 2, 2, 2)), Reason.CALIBRATION_COLD, "verify of 8 tokens took 49.5 times"),
        (_profile(of_2=(1, 1.2, 1.5, 1.2, 1.5)), Reason.CALIBRATION_NOISY, "verify of 2 tokens varies by 16.7%"),
        (_profile(of_8=(1.01,) * 5), Reason.CALIBRATION_FLAT, "verify of 8 tokens costs -10.2% against 1"),
        (_profile(of_2=(2.5,) * 5), Reason.CALIBRATION_BENT, "verify of 4 tokens costs so little that a smaller"),
    ],
)
def test_an_objection_names_the_point_and_the_limit(profile: CostProfile, reason: Reason, told: str):
    """Each detail says which size, by how much, and what is allowed or expected."""
    found = objection(profile, DEFAULT)
    assert found
    assert found.reason is reason
    assert told in found.detail
    assert "allowed" in found.detail or "expected" in found.detail
    assert objection(profile, ANY) is None


@pytest.mark.parametrize(
    "profile",
    [
        _profile(),
        _profile(of_8=(99, 2, 2, 2, 2)),
        _profile(of_4=(1.5, 1.5, 9, 1.5, 9)),
        _profile(of_4=(0.1, 1.5, 1.5, 1.5, 1.5)),
        _profile(of_2=(1.8,) * 5),
        profile_from([Sample(4, 4, 1.0, 1.0, full_graph=True)] * REPLAYS, 4),
        profile_from([Sample(size, size, 1 + size / 8, 1.0, full_graph=size <= 4) for size in (1, 2, 4, 8)], 4),
    ],
    ids=["quiet", "a tail that compiles", "two odd ones", "a fast first", "a small bend", "one size", "one replay"],
)
def test_what_leaves_the_medians_as_they_are_is_admitted(profile: CostProfile):
    """What a median of five does not feel, and what says nothing of noise, is no objection."""
    assert objection(profile, DEFAULT) is None


def test_drafts_that_depend_on_the_verification_are_not_noise():
    """Drafts for as many requests may cost more after a larger verification: only replays of one size are compared."""
    samples = [
        Sample(size, 1, 1 + size / 8, 1.0 + size / 4, full_graph=True) for size in (1, 2, 4) for _ in range(REPLAYS)
    ]
    assert objection(profile_from(samples, 4), DEFAULT) is None
    noisy = [Sample(4, 1, 1.5, draft, full_graph=True) for draft in (1.7, 2, 2.3, 1.7, 2.3)]
    found = objection(profile_from([*samples[:10], *noisy], 4), DEFAULT)
    assert found
    assert found.detail.startswith("draft of 1 requests after 4 tokens varies by 15.0%")


def test_a_bent_drafter_is_refused():
    """Planners take the running maximum of both curves."""
    samples = [
        Sample(size, size, 1 + size / 8, draft, full_graph=True)
        for size, draft in ((1, 1.0), (2, 2.0), (4, 1.1))
        for _ in range(REPLAYS)
    ]
    found = objection(profile_from(samples, 4), DEFAULT)
    assert found
    assert (found.reason, found.detail.split(" costs")[0]) == (Reason.CALIBRATION_BENT, "draft of 4 requests")


MS = st.floats(1e-6, 1e6)


@given(st.lists(MS, min_size=1, max_size=9), st.floats(0.01, 100))
def test_a_dispersion_has_no_unit(times: list[float], factor: float):
    """It is a share: other units and another order of the same times have the same."""
    assert dispersion([ms * factor for ms in reversed(times)]) == pytest.approx(dispersion(times), abs=1e-9)
    assert dispersion(times[:1]) == 0


@given(st.lists(MS, min_size=5, max_size=5), st.integers(0, 4), st.integers(0, 4), MS, MS)
def test_two_odd_ones_in_five_do_not_show(times: list[float], one: int, other: int, ms: float, more: float):
    """Whatever two replays took, the dispersion is at most what the other three span."""
    quiet = [10.0, 10.5, 11.0, 10.5, 10.5]
    quiet[one], quiet[other] = ms, more
    assert dispersion(quiet) <= 0.1


@given(st.lists(st.lists(MS, min_size=5, max_size=5), min_size=4, max_size=4), st.floats(1, 10))
def test_wider_thresholds_admit_no_less(times: list[list[float]], factor: float):
    """Each threshold is a threshold: what is admitted stays so when all are widened."""
    profile = _profile(**{f"of_{size}": tuple(ms) for size, ms in zip((1, 2, 4, 8), times, strict=True)})
    wider = Thresholds(DEFAULT.noise * factor, DEFAULT.cold * factor, DEFAULT.rise / factor, DEFAULT.bend * factor)
    assert objection(profile, DEFAULT) or not objection(profile, wider)
    assert objection(profile, ANY) is None
