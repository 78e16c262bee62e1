"""Curves and profiles that exist are well formed."""

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmcurve.curves.profile import CostCurve, CostProfile, Sample
from warmcurve.errors import ProfileError
from warmcurve.outcome import Reason

CURVE = CostCurve((1, 2, 4), (1.0, 1.5, 1.25))


@pytest.mark.parametrize(
    ("sizes", "costs"),
    [
        ((), ()),
        ((1, 2), (1.0,)),
        ((1,), (1.0, 2.0)),
        ((1, 1), (1.0, 1.0)),
        ((2, 1), (1.0, 1.0)),
        ((0, 1), (1.0, 1.0)),
        ((-1, 1), (1.0, 1.0)),
        *(((1, 2), (1.0, ms)) for ms in (0.0, -0.0, -1.0, math.nan, math.inf, -math.inf)),
    ],
)
def test_a_malformed_curve_cannot_be_made(sizes: tuple[int, ...], costs: tuple[float, ...]):
    """Sizes increase from 1 or more, and there is a positive finite cost for each."""
    with pytest.raises(ProfileError) as refused:
        CostCurve(sizes, costs)
    assert refused.value.reason is Reason.CALIBRATION_INVALID
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"sizes": sizes, "costs_ms": costs}, CostCurve)


@given(st.sets(st.integers(1, 10**6), min_size=1).map(sorted), st.data())
def test_a_cost_is_known_at_stored_sizes_alone(sizes: list[int], data: st.DataObject):
    """The cost at a stored size is the stored one; at any other there is none, since nothing is interpolated."""
    costs = [data.draw(st.floats(min_value=5e-324, allow_infinity=False)) for _ in sizes]
    curve = CostCurve(tuple(sizes), tuple(costs))
    assert [(size, curve.at(size)) for size in sizes] == list(curve.points()) == list(zip(sizes, costs, strict=True))
    for size in (0, -1, sizes[0] - 1, sizes[-1] + 1, data.draw(st.integers(1, 10**6))):
        assert (curve.at(size) is None) == (size not in sizes)


def test_costs_need_not_increase():
    """A larger size may cost less: graphs of some sizes are faster than those below."""
    assert CURVE.at(4) == 1.25


@pytest.mark.parametrize("limit", [0, -1, 3, 5])
def test_the_capture_limit_is_a_stored_size(limit: int):
    """A profile knows the cost at its capture limit."""
    with pytest.raises(ProfileError, match="capture limit"):
        CostProfile(CURVE, CURVE, limit, ())


def test_captured_sizes_end_at_the_limit():
    """The captured sizes are the stored ones up to the capture limit."""
    assert CostProfile(CURVE, CURVE, 2, ()).captured() == (1, 2)
    assert CostProfile(CURVE, CURVE, 4, ()).captured() == (1, 2, 4)


@pytest.mark.parametrize("kind", [CURVE, CostProfile(CURVE, CURVE, 2, ()), Sample(1, 1, 1.0, 1.0, full_graph=True)])
def test_values_are_frozen(kind: msgspec.Struct):
    """No field of a curve, profile or sample can be set."""
    for name in kind.__struct_fields__:
        with pytest.raises(AttributeError):
            setattr(kind, name, None)


@pytest.mark.parametrize(
    "sample",
    [
        Sample(0, 1, 1.0, 1.0, full_graph=True),
        Sample(1, 0, 1.0, 1.0, full_graph=True),
        Sample(-1, 1, 1.0, 1.0, full_graph=False),
        *(Sample(1, 1, ms, 1.0, full_graph=True) for ms in (0.0, -1.0, math.nan, math.inf)),
        *(Sample(1, 1, 1.0, ms, full_graph=True) for ms in (0.0, -1.0, math.nan, -math.inf)),
    ],
)
def test_a_sample_says_what_is_wrong_with_it(sample: Sample):
    """A sample without a size or a positive finite time has a flaw."""
    assert sample.flaw()


def test_a_usable_sample_has_no_flaw():
    """The smallest and the largest times are times."""
    assert Sample(1, 1, 5e-324, 1.7e308, full_graph=False).flaw() is None
