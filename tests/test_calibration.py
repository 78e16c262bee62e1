"""A full calibration runs what the engine would run, and its curves are the medians of its samples."""

import math
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmcurve.curves.calibration import REPLAYS, Plan, plan, profile_from, shortfall
from warmcurve.curves.profile import Sample
from warmcurve.errors import ProfileError


@pytest.mark.parametrize(
    ("captured", "max_tokens", "sizes"),
    [
        ((1, 2, 4), 4, (1, 2, 4)),
        ((1, 2, 4), 5, (1, 2, 4, 5)),
        ((1, 2, 4), 6, (1, 2, 4, 6)),
        ((1, 2, 4), 8, (1, 2, 4, 6, 8)),
        ((1, 2, 4), 20, (1, 2, 4, 6, 8, 16, 20)),
        ((8,), 8192, (8, 12, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)),
        ((1,), 1, (1,)),
        ((1,), 3, (1, 2, 3)),
        ((4, 1, 2, 4), 8, (1, 2, 4, 6, 8)),
        ((), 64, ()),
    ],
)
def test_the_tail_doubles_up_to_the_largest_batch(captured: tuple[int, ...], max_tokens: int, sizes: tuple[int, ...]):
    """The captured sizes in order, then half as much again as the largest, its doublings and the largest batch."""
    planned = plan(captured, max_tokens)
    assert planned.sizes() == sizes
    assert planned.runs == tuple(size for size in sizes for _ in range(REPLAYS))
    assert planned.captured == tuple(sorted(set(captured)))


def _as_vllm(captured: list[int], max_tokens: int) -> list[int]:
    """The sizes as vLLM's own loop lists them (AdaptiveVerificationManager.batches_to_profile)."""
    size = captured[-1] if captured else 0
    tail = set()
    if size:
        tail.add(min(size + size // 2, max_tokens))
        while size < max_tokens:
            size = min(size * 2, max_tokens)
            tail.add(size)
        tail -= set(captured)
    return captured + sorted(tail)


@given(st.sets(st.integers(1, 512)).map(sorted), st.integers(0, 10_000))
def test_the_plan_is_that_of_the_engine(captured: list[int], extra: int):
    """The runs are the ones that vLLM makes, in its order."""
    largest = max(captured, default=1) + extra
    assert list(plan(captured, largest, replays=1).runs) == _as_vllm(captured, largest)


SAMPLES = st.lists(
    st.builds(
        Sample, st.integers(1, 5), st.integers(1, 3), st.floats(5e-324, 1e300), st.floats(5e-324, 1e300), st.booleans()
    ),
    min_size=1,
)


@given(SAMPLES)
def test_curves_are_medians(samples: list[Sample]):
    """Every sample prices the target by its tokens; those of full graphs alone price the drafter, by requests."""
    full = [sample for sample in samples if sample.full_graph]
    limit = samples[0].tokens
    if not full:
        with pytest.raises(ProfileError):
            profile_from(samples, limit)
        return
    profile = profile_from(iter(samples), limit)
    assert profile.samples == tuple(samples)
    assert profile.verify.sizes == tuple(sorted({sample.tokens for sample in samples}))
    assert profile.draft.sizes == tuple(sorted({sample.requests for sample in full}))
    for size, ms in profile.verify.points():
        assert ms == median(sample.verify_ms for sample in samples if sample.tokens == size)
    for size, ms in profile.draft.points():
        assert ms == median(sample.draft_ms for sample in full if sample.requests == size)


GOOD = Sample(1, 1, 1.0, 1.0, full_graph=True)


@pytest.mark.parametrize(
    ("samples", "limit"),
    [
        ((), 1),
        ((GOOD,), 2),
        ((GOOD,), 0),
        ((GOOD, Sample(1, 1, math.nan, 1.0, full_graph=True)), 1),
        ((GOOD, Sample(1, 1, 1.0, math.inf, full_graph=False)), 1),
        ((GOOD, Sample(0, 1, 1.0, 1.0, full_graph=True)), 1),
        ((Sample(1, 1, 1.7e308, 1.0, full_graph=True),) * 2, 1),
        ((Sample(1, 1, 1.0, 1.0, full_graph=False),), 1),
    ],
)
def test_unusable_samples_make_no_profile(samples: tuple[Sample, ...], limit: int):
    """One sample without a usable time, no draft cost, or no cost at the capture limit: no profile at all."""
    with pytest.raises(ProfileError):
        profile_from(samples, limit)


def test_a_plan_lists_its_sizes_once():
    """The sizes of a plan are in increasing order, whatever the order of its runs."""
    assert Plan((4, 1, 4, 2), (1,)).sizes() == (1, 2, 4)


PLANNED = plan((1, 2, 4), max_tokens=16, replays=1)


@pytest.mark.parametrize(
    ("tokens", "complete"),
    [
        ((1, 2, 4, 6, 8, 16), True),
        ((1, 2, 4, 6, 8, 13), True),
        ((1, 2, 4, 6, 8, 4), True),
        ((1, 2, 4, 6, 8), False),
        ((1, 2, 4, 6, 8, 16, 16), False),
        ((1, 2, 4, 6, 8, 17), False),
        ((1, 2, 4, 6, 8, 3), False),
        ((1, 1, 4, 6, 8, 16), False),
        ((1, 3, 4, 6, 8, 2), False),
        ((2, 1, 4, 6, 8, 16), False),
    ],
)
def test_a_profile_holds_every_run_of_the_plan(tokens: tuple[int, ...], complete: bool):
    """There is one sample a run, in order, of its very size; a run of the eager tail alone may have been trimmed."""
    samples = [Sample(size, 1, 1.0, 1.0, full_graph=True) for size in tokens]
    assert (shortfall(PLANNED, profile_from(samples, 4)) is None) == complete


def test_a_profile_of_another_capture_limit_falls_short():
    """The captured sizes of the profile are those of the plan."""
    samples = [Sample(size, 1, 1.0, 1.0, full_graph=True) for size in PLANNED.runs]
    assert shortfall(PLANNED, profile_from(samples, 2))
    assert shortfall(PLANNED, profile_from(samples, 6))


def test_no_replay_of_a_captured_size_is_another_size():
    """A captured size is replayed as it is, every time, also where all sizes are there."""
    twice = plan((1, 2), max_tokens=2, replays=2)
    samples = [Sample(size, 1, 1.0, 1.0, full_graph=True) for size in (1, 1, 2, 1)]
    assert shortfall(twice, profile_from(samples, 2))


@pytest.mark.parametrize("captured", [(2, 1), (1, 1), (1, 4, 2)])
def test_captured_sizes_increase(captured: tuple[int, ...]):
    """A plan of captured sizes in any other order would make a small one the anchor of the sentinels."""
    with pytest.raises(ProfileError, match="increase"):
        Plan((1, 2, 4), captured)
