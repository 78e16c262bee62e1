"""The verdict accepts exactly what the limits allow, and nothing but the verdict makes a verified profile."""

import copy
import math
import pickle
from collections import Counter
from functools import partial

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from warmcurve.curves.calibration import profile_from
from warmcurve.curves.profile import CostCurve, CostProfile, Sample
from warmcurve.curves.sentinel import (
    PATIENCE,
    SWEEP,
    TWO,
    WIDEST,
    Evidence,
    Limits,
    Rejected,
    Rounds,
    VerifiedProfile,
    allowed,
    choose,
    judge,
    rounds_for,
    weighted,
)
from warmcurve.outcome import Reason

SIZES = (1, 2, 4, 8)
PROFILE = profile_from([Sample(size, size, 8.0 * size, 2.0, full_graph=True) for size in SIZES], capture_limit=4)
GOOD = Sample(4, 4, 32.0, 2.0, full_graph=True)


def _verified() -> VerifiedProfile:
    verdict = judge(PROFILE, (4,), (GOOD,), Limits())
    assert isinstance(verdict, VerifiedProfile)
    return verdict


def _sample(size: int, verify_ratio: float, draft_ratio: float) -> Sample:
    return Sample(size, size, 8.0 * size * verify_ratio, 2.0 * draft_ratio, full_graph=True)


def _changed(**changes) -> Sample:
    return msgspec.structs.replace(GOOD, **changes)


RATIO = st.floats(1e-3, 1e3)
LIMITS = st.builds(Limits, st.floats(0, 1), st.floats(1, math.inf), st.floats(0, 1))


@given(
    st.lists(st.tuples(st.sampled_from((1, 2, 4)), RATIO, RATIO), min_size=1, max_size=3, unique_by=lambda r: r[0]),
    LIMITS,
)
def test_a_profile_is_verified_exactly_inside_the_limits(readings: list[tuple[int, float, float]], limits: Limits):
    """One replay a size: accepted if and only if every ratio and the loss bound lie in the limits."""
    samples = [_sample(*reading) for reading in readings]
    ratios = [ratio for sample in samples for ratio in (sample.verify_ms / (8.0 * sample.tokens), sample.draft_ms / 2)]
    low, high = min(ratios), max(ratios)
    scale = limits.scale_low <= low <= high <= limits.scale_high
    shape = 1 - low / high <= limits.max_regret
    verdict = judge(PROFILE, [sample.tokens for sample in samples], samples, limits)
    assert isinstance(verdict, VerifiedProfile) == (scale and shape)
    if isinstance(verdict, VerifiedProfile):
        assert verdict.profile is PROFILE
    else:
        assert verdict.reason is (Reason.SENTINEL_SHAPE if scale else Reason.SENTINEL_SCALE)
        assert verdict.final == (low < limits.scale_low)
    assert verdict.evidence is not None
    assert verdict.evidence.loss_bound == 1 - low / high
    assert verdict.evidence.scale == pytest.approx(1 / math.sqrt(low * high))


COSTS = st.lists(st.floats(0.1, 100), min_size=4, max_size=4)
DRIFTS = st.lists(st.floats(0.5, 2), min_size=4, max_size=4)
TOKENS = st.lists(st.floats(0.1, 50), min_size=4, max_size=4)


@given(COSTS, DRIFTS, TOKENS)
def test_the_bound_holds_for_every_plan(stored: list[float], drifts: list[float], tokens: list[float]):
    """Planning with stored costs reaches at least m / M of the best throughput, if all true costs lie within m and M
    times the stored ones.
    """
    true = [cost * drift for cost, drift in zip(stored, drifts, strict=True)]
    chosen = max(range(4), key=lambda size: tokens[size] / stored[size])
    best = max(tokens[size] / true[size] for size in range(4))
    assert tokens[chosen] / true[chosen] >= best * (1 - 1e-9) * min(drifts) / max(drifts)


@given(st.lists(st.floats(0.01, 100), min_size=TWO.count, max_size=TWO.count))
def test_medians_count_over_rounds(ratios: list[float]):
    """Of several replays of a size the median is judged."""
    samples = [_sample(4, ratio, 1) for ratio in ratios]
    verdict = judge(PROFILE, [4] * TWO.count, samples, Limits(0, math.inf, 1))
    assert verdict.evidence is not None
    (reading,) = verdict.evidence.readings
    assert (reading.replays, reading.verify_ms) == (TWO.count, sorted(sample.verify_ms for sample in samples)[1])


@pytest.mark.parametrize(
    ("asked", "samples", "reason"),
    [
        ((4, 4), (GOOD,), Reason.SENTINEL_MISSING),
        ((4,), (GOOD, GOOD), Reason.SENTINEL_MISSING),
        ((4,), (), Reason.SENTINEL_MISSING),
        *(((4,), (_changed(verify_ms=ms),), Reason.SENTINEL_MISSING) for ms in (0.0, -0.0, -1, math.nan, math.inf)),
        *(((4,), (_changed(draft_ms=ms),), Reason.SENTINEL_MISSING) for ms in (0.0, -0.0, -1, math.nan, -math.inf)),
        ((4, 4), (GOOD, _changed(full_graph=False)), Reason.SENTINEL_NOT_FULL_GRAPH),
        ((3,), (_changed(tokens=3),), Reason.SENTINEL_OFF_GRID),
        ((4,), (_changed(requests=3),), Reason.SENTINEL_OFF_GRID),
        ((4, 4), (GOOD, _changed(requests=2)), Reason.SENTINEL_OFF_GRID),
        ((4, 4), (_changed(tokens=2), GOOD), Reason.SENTINEL_OFF_GRID),
        ((4,), (_changed(tokens=8),), Reason.SENTINEL_OFF_GRID),
        ((6,), (_changed(tokens=6),), Reason.SENTINEL_OFF_GRID),
        ((8, 8), (_changed(tokens=8), _changed(tokens=8, requests=2)), Reason.SENTINEL_OFF_GRID),
    ],
)
def test_what_says_nothing_is_final(asked: tuple[int, ...], samples: tuple[Sample, ...], reason: Reason):
    """Timings that are missing, no numbers, not full graphs or off the grid are rejected for good, without evidence."""
    verdict = judge(PROFILE, asked, samples, Limits(0, math.inf, 1))
    assert isinstance(verdict, Rejected)
    assert (verdict.reason, verdict.final, verdict.evidence) == (reason, True, None)


@pytest.mark.parametrize("replayed", [1, 2])
def test_a_replay_of_another_size_is_off_the_grid(replayed: int):
    """A sentinel that ran with another size than the one asked for says nothing about that one, stored or not."""
    verdict = judge(PROFILE, (4,), (_sample(replayed, 1, 1),), Limits())
    assert isinstance(verdict, Rejected)
    assert verdict.reason is Reason.SENTINEL_OFF_GRID


def test_the_order_of_checks():
    """What is missing comes before what is no full graph, then the grid, then scale, then shape."""
    off_grid, eager = _changed(tokens=3), _changed(full_graph=False)
    wild, mild, nothing = _sample(1, 9, 9), _sample(2, 2, 2), _changed(verify_ms=math.nan)
    cases: list[tuple[list[Sample], Reason]] = [
        ([nothing, eager, off_grid, wild, mild, GOOD], Reason.SENTINEL_MISSING),
        ([off_grid, wild, mild, eager, GOOD], Reason.SENTINEL_NOT_FULL_GRAPH),
        ([wild, mild, off_grid, GOOD], Reason.SENTINEL_OFF_GRID),
        ([mild, wild, GOOD], Reason.SENTINEL_SCALE),
        ([mild, GOOD], Reason.SENTINEL_SHAPE),
    ]
    for samples, reason in cases:
        verdict = judge(PROFILE, [sample.tokens for sample in samples], samples, Limits())
        assert isinstance(verdict, Rejected)
        assert verdict.reason is reason


@pytest.mark.parametrize("ms", [5e-324, 1e-200, 1e-160, 1e200, 1.7e308])
@pytest.mark.parametrize("other", [None, 5e-324, 1.7e308])
@pytest.mark.parametrize("limits", [Limits(), Limits(0, math.inf, 1)])
def test_any_positive_time_gets_a_verdict(ms: float, other: float | None, limits: Limits):
    """Times whose ratios are beyond the range of numbers are judged like others, and rejected by sane limits."""
    samples = (_changed(verify_ms=ms, draft_ms=other or ms), GOOD, _changed(verify_ms=ms, draft_ms=other or ms))
    for count in (1, 3):
        verdict = judge(PROFILE, [4] * count, samples[:count], limits)
        assert isinstance(verdict, Rejected) or limits.scale_low == 0
        written = msgspec.json.encode(verdict.evidence)
        assert msgspec.json.decode(written, type=Evidence | None) == verdict.evidence


@pytest.mark.parametrize("ratio", [5e-324, 1e-310, 1e300])
def test_evidence_of_any_ratio_can_be_read_again(ratio: float):
    """The numbers of the evidence are numbers, so that the report which holds them can be read."""
    stored = CostProfile(CostCurve((1,), (1.0,)), CostCurve((1,), (1.0,)), 1, ())
    verdict = judge(stored, (1,), (Sample(1, 1, ratio, ratio, full_graph=True),), Limits(0, math.inf, 1))
    assert msgspec.json.decode(msgspec.json.encode(verdict.evidence), type=Evidence | None) == verdict.evidence


@given(st.lists(st.floats(5e-324, 1.7e308), min_size=4, max_size=4), LIMITS)
def test_no_times_break_the_verdict(ms: list[float], limits: Limits):
    """For stored and measured times of any size there is a verdict, and its evidence can be written."""
    stored = CostProfile(CostCurve((1,), (ms[0],)), CostCurve((1,), (ms[1],)), 1, ())
    verdict = judge(stored, (1,), (Sample(1, 1, ms[2], ms[3], full_graph=True),), limits)
    written = msgspec.json.encode(verdict.evidence)
    assert msgspec.json.decode(written, type=Evidence | None) == verdict.evidence


@pytest.mark.parametrize("limits", [Limits(math.nan), Limits(scale_high=math.nan), Limits(max_regret=math.nan)])
def test_limits_that_are_no_numbers_allow_nothing(limits: Limits):
    """A limit that is not a number is kept by no timing."""
    assert isinstance(judge(PROFILE, (4,), (GOOD,), limits), Rejected)


def test_the_limits_themselves_are_allowed():
    """Ratios and a loss bound that reach the limits exactly are accepted; the next number beyond is not."""
    limits = Limits(0.5, 2.0, 0.5)
    assert isinstance(judge(PROFILE, (4,), (_sample(4, 0.5, 1.0),), limits), VerifiedProfile)
    assert isinstance(judge(PROFILE, (4,), (_sample(4, 2.0, 1.0),), limits), VerifiedProfile)
    for beyond in (math.nextafter(0.5, 0), math.nextafter(2.0, 3)):
        assert isinstance(judge(PROFILE, (4,), (_sample(4, beyond, 1.0),), limits), Rejected)


EVIDENCE = _verified().evidence


def test_only_the_verdict_makes_a_verified_profile():
    """Whoever is not the verdict gets a TypeError."""
    with pytest.raises(TypeError, match="verdict"):
        VerifiedProfile(PROFILE, EVIDENCE)
    with pytest.raises(TypeError, match="verdict"):
        VerifiedProfile(PROFILE, EVIDENCE, verdict=True)
    with pytest.raises(TypeError):
        VerifiedProfile.__new__(VerifiedProfile)  # type: ignore[call-arg]


def test_a_verified_profile_is_not_copied():
    """Neither a copy nor a pickle is made of a verified profile, alone or in something else."""
    verified = _verified()
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps, lambda value: copy.deepcopy([value])):
        with pytest.raises(TypeError, match="copied or pickled"):
            attempt(verified)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(TypeError, match="copied or pickled"):
            pickle.dumps(verified, protocol)


def test_a_verified_profile_is_frozen():
    """Its fields can be neither set nor deleted, and it takes no others."""
    verified = _verified()
    for name in ("profile", "evidence", "anything", "__class__"):
        with pytest.raises(AttributeError):
            setattr(verified, name, PROFILE)
    for name in ("profile", "evidence"):
        with pytest.raises(AttributeError):
            delattr(verified, name)
    assert not hasattr(verified, "__dict__")
    with pytest.raises(AttributeError):
        verified.profile.capture_limit = 2  # type: ignore[misc]
    assert verified.profile is PROFILE


def test_a_verified_profile_has_no_subclass():
    """Type checkers are told that it is final."""
    assert VerifiedProfile.__final__  # type: ignore[attr-defined]


@given(st.lists(st.integers(1, 10**6), min_size=1, unique=True).map(sorted), st.data())
def test_the_largest_size_comes_first(captured: list[int], data: st.DataObject):
    """The anchor is the largest captured size; the other is another one wherever there is one."""
    anchor, other = choose(captured, lambda n: data.draw(st.integers(0, n - 1)))
    assert anchor == captured[-1]
    assert (other != anchor) == (len(captured) > 1)
    assert other in captured


@given(st.integers(2, 40))
def test_every_other_size_is_drawn_equally(count: int):
    """Each draw from [0, n) means one size, each size one draw."""
    captured = range(1, count + 1)
    drawn = Counter(choose(captured, {count - 1: index}.__getitem__)[1] for index in range(count - 1))
    assert drawn == dict.fromkeys(captured[:-1], 1)


@given(st.floats(0.4, 2.5), st.floats(0, 0.19))
def test_a_common_factor_is_no_loss(factor: float, noise: float):
    """A factor on all costs inside the scale is accepted together with noise inside the loss bound."""
    assume(factor * (1 - noise) >= 0.4)
    verdict = judge(PROFILE, (4, 2), (_sample(4, factor, factor * (1 - noise)), _sample(2, factor, factor)), Limits())
    assert isinstance(verdict, VerifiedProfile) or factor > 2.5 * (1 - 1e-9) or factor * (1 - noise) < 0.4 * (1 + 1e-9)


def test_evidence_is_complete():
    """The evidence holds one reading a size, in the order asked for."""
    verdict = judge(PROFILE, (4, 1, 4, 1), [_sample(4, 1, 1), _sample(1, 1.1, 1)] * 2, Limits())
    assert isinstance(verdict.evidence, Evidence)
    assert [(reading.tokens, reading.replays) for reading in verdict.evidence.readings] == [(4, 2), (1, 2)]


@given(st.lists(st.integers(1, 10**6), min_size=2, max_size=40, unique=True).map(sorted), st.integers(2, 50), st.data())
def test_so_many_sizes_are_drawn(captured: list[int], count: int, data: st.DataObject):
    """The anchor first, then others without repetition; as many as asked for, or all that there are."""
    chosen = choose(captured, lambda n: data.draw(st.integers(0, n - 1)), count)
    assert chosen[0] == captured[-1]
    assert len(set(chosen)) == len(chosen) == min(count, len(captured))
    assert set(chosen) <= set(captured)


@given(st.lists(st.integers(1, 10**6), min_size=2, unique=True).map(sorted))
def test_a_sweep_chooses_all(captured: list[int]):
    """Every captured size once, the largest first."""
    assert choose(captured, lambda n: 1 // 0, "sweep") == tuple(reversed(captured))


@pytest.mark.parametrize("policy", ["two", "sweep", 5])
def test_one_size_is_replayed_twice(policy):
    """Whatever the policy, a single captured size is its own witness."""
    assert choose((4,), lambda n: 1 // 0, policy) == (4, 4)


def _share(step: int, steps: int, n: int) -> int:
    return n * step // steps


def test_a_draw_can_favour_sizes():
    """Each size is picked in proportion to its weight; sizes without any come last."""
    sizes, weights = [1, 2, 4, 8], {1: 1.0, 2: 0.0, 4: 3.0}
    steps = 400
    pick = weighted(weights)
    drawn = Counter(pick(sizes, partial(_share, step, steps)) for step in range(steps))
    assert drawn == {1: steps // 4, 4: 3 * steps // 4}
    assert pick([2, 8], lambda n: n - 1) == 8
    assert choose([1, 2, 4, 8, 16], lambda n: n - 1, 3, weighted({2: 1e-9})) == (16, 2, 8)


@given(st.lists(st.floats(0, 1e9), min_size=4, max_size=4), st.integers(0, (1 << 53) - 1))
def test_a_weighted_draw_is_one_of_the_sizes(weights: list[float], at: int):
    """For any weights and any draw a size is picked, and one of weight only if there is one."""
    named = dict(zip(SIZES, weights, strict=True))
    picked = weighted(named)(SIZES, lambda n: at % n)
    assert picked in SIZES
    assert named[picked] > 0 or not sum(weights) > 0


@pytest.mark.parametrize("ratio", [0.5, 1.0, 2.0])
def test_a_size_of_the_tail_prices_the_target_alone(ratio: float):
    """It need not be a full graph, and the drafter's time is not looked at, for as many requests or for others."""
    tail = Sample(8, 3, 64.0 * ratio, 99.0, full_graph=False)
    verdict = judge(PROFILE, (4, 8), (GOOD, tail), Limits())
    assert isinstance(verdict, VerifiedProfile) == (ratio == 1)
    assert verdict.evidence is not None
    reading = verdict.evidence.readings[1]
    assert (reading.tokens, reading.verify_ratio, reading.draft_ratio) == (8, ratio, None)


LEVEL = (0.0, 0.005, 0.01, 0.02, 0.05, 0.1)
"""Of noise: the dispersion of the samples of a point."""


def _noisy(levels: dict[int, float]) -> CostProfile:
    return profile_from(
        [
            Sample(size, size, 8.0 * size * factor, 2.0 * factor, full_graph=True)
            for size, level in levels.items()
            for factor in (1 - level, 1, 1 + level, 1 - level, 1 + level)
        ],
        4,
    )


NOISY = st.fixed_dictionaries(dict.fromkeys((1, 2, 4), st.sampled_from(LEVEL)))
NEAR = st.floats(0.7, 1.4)


RATIOS = st.dictionaries(st.sampled_from((1, 2, 4)), st.tuples(NEAR, NEAR), min_size=1)


@given(NOISY, RATIOS, st.floats(0.01, 0.4), st.sampled_from((TWO, SWEEP)))
def test_noise_widens_the_last_round_by_what_it_explains(
    levels: dict[int, float], ratios: dict[int, tuple[float, float]], regret: float, rounds: Rounds
):
    """No loss beyond a round's share of `max_regret` passes before the last round, and then none beyond what the noise
    of the very pair of ratios explains; nor beyond a quarter more, however noisy.
    """
    profile, limits = _noisy(levels), Limits(0.4, 2.5, regret)
    samples = [_sample(size, *pair) for size, pair in ratios.items()]
    flat = [(r, levels[size]) for size, pair in ratios.items() for r in pair]
    for played in range(1, rounds.count + 1):
        held = msgspec.structs.replace(limits, max_regret=regret * rounds.share(played))
        verdict = judge(profile, list(ratios) * played, samples * played, limits, rounds)
        assert verdict.evidence is not None
        loss = verdict.evidence.loss_bound
        accepted = isinstance(verdict, VerifiedProfile)
        if loss <= held.max_regret:
            assert accepted
        elif played < rounds.count:
            assert not accepted
            assert verdict.evidence.widened == 0
        else:
            error = {each: 1.4826 * each * math.sqrt(math.pi / 2 * (1 / 5 + 1 / played)) for each in LEVEL}
            fits = all(
                1 - min(a, b) / max(a, b) <= allowed(held, error[one], error[other]) + 1e-9
                for a, one in flat
                for b, other in flat
            )
            assert fits or not accepted
            assert loss <= held.max_regret * (1 + WIDEST) + 1e-9 or not accepted
            assert 0 <= verdict.evidence.widened <= held.max_regret * WIDEST + 1e-9


@given(RATIOS, st.floats(0, 1), st.integers(1, SWEEP.count))
def test_a_look_allows_its_share(ratios: dict[int, tuple[float, float]], regret: float, rounds: int):
    """Without noise, N sizes may show `max_regret` at every look, a sweep more from look to look and never all of it.
    What three rounds of a sweep found hopeless, or off scale, is final; of two sizes only what is too fast is.
    """
    samples = [_sample(size, *pair) for size, pair in ratios.items()] * rounds
    limits = Limits(0.9, 1.3, regret)
    flat = [r for pair in ratios.values() for r in pair]
    assert regret * SWEEP.share(rounds) <= regret * min(SWEEP.share(rounds + 1), 1)
    for policy in ("two", 3, "sweep"):
        verdict = judge(PROFILE, list(ratios) * rounds, samples, limits, rounds_for(policy))
        assert verdict.evidence is not None
        loss = verdict.evidence.loss_bound
        scale = 0.9 <= min(flat) <= max(flat) <= 1.3
        share = 1 if policy != "sweep" else 0.65 + 0.2 * (rounds - 1) / 11
        assume(abs(loss - regret * share) > 1e-9)
        assert isinstance(verdict, VerifiedProfile) == (scale and loss < regret * share)
        if isinstance(verdict, Rejected):
            patient = policy != "sweep" or not PATIENCE <= rounds < SWEEP.count
            assert verdict.final == (min(flat) < 0.9 or not (patient or (scale and loss <= regret * (1 + WIDEST))))


def test_a_look_is_that_of_the_fewest_replays():
    """Where one size was replayed more often than another, of which the tail is one, the first look's share holds."""
    eager = Sample(8, 8, 64.0 * 1.08, 9.0, full_graph=False)
    limits = Limits(max_regret=0.1)
    verdict = judge(PROFILE, (4, 4, 4, 8), (GOOD, GOOD, GOOD, eager), limits, SWEEP)
    assert isinstance(verdict, Rejected)
    assert "loss of up to 7.4%, allowed 6.5%" in verdict.detail
    more = judge(PROFILE, (4, 8) * 8, (GOOD, eager) * 8, limits, SWEEP)
    assert isinstance(more, VerifiedProfile)


def test_noise_of_a_few_percent_widens_nothing():
    """What noise alone could show counts where it is more than the limit, and is not added to it."""
    assert allowed(Limits(), 0.02, 0.02) == allowed(Limits(), 0.05, 0.05) == 0.2
    assert 0.2 < allowed(Limits(), 0.09, 0.09) < 0.25
    assert allowed(Limits(), 0.2, 0.2) == 0.25


@given(st.floats(0, 1), st.floats(0, 10), st.floats(0, 10), st.floats(0, 1))
def test_what_is_allowed_grows_with_noise_up_to_a_cap(regret: float, one: float, other: float, more: float):
    """Without noise it is `max_regret`, and never more than a quarter above it."""
    limits = Limits(max_regret=regret)
    assert allowed(limits) == allowed(limits, 0.0, 0.0) == pytest.approx(regret)
    assert regret <= allowed(limits, one, other) <= allowed(limits, one + more, other) + 1e-12
    assert allowed(limits, one, other) <= regret * 1.25 + 1e-9


def test_a_noisy_pair_hides_no_quiet_one():
    """Two extremes whose noise explains their loss do not excuse a quiet pair between them that is off."""
    profile, limits = _noisy({1: 0.1, 2: 0.0, 4: 0.0}), Limits(max_regret=0.2)
    noisy = [_sample(1, 1.3, 1.0), _sample(2, 1.0, 1.0), _sample(4, 1.0, 1.0)]
    quiet = [_sample(1, 1.3, 1.0), _sample(2, 1.26, 1.0), _sample(4, 1.0, 1.0)]
    asked = [1, 2, 4] * TWO.count
    assert isinstance(judge(profile, asked, noisy * TWO.count, limits), VerifiedProfile)
    rejected = judge(profile, asked, quiet * TWO.count, limits)
    assert isinstance(rejected, Rejected)
    assert rejected.detail.startswith("loss of up to 20.6%, allowed 20.0%: verify of 1-2 tokens")


def test_a_rejection_says_what_moved():
    """The detail of both reasons names the sizes."""
    shape = judge(PROFILE, (4, 1), [_sample(4, 1.5, 1), _sample(1, 1, 1)], Limits())
    scale = judge(PROFILE, (4, 1), [_sample(4, 3, 3), _sample(1, 3, 3)], Limits())
    assert isinstance(shape, Rejected)
    assert isinstance(scale, Rejected)
    assert shape.detail.endswith(": verify of 4 tokens became 1.5× dearer, the rest did not")
    assert scale.detail.endswith(": all became 3× dearer")
