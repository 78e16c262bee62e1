"""What moved is told in words: neighbouring sizes that left the others, by how much, and what the rest did."""

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmcurve.curves.drift import STEADY, moved

SIZES = (1, 2, 4, 8, 16, 64, 256, 512, 1024)
QUIET = {1: 1.0, 4: 1.02}


def _verify(**changed: float) -> dict[int, float]:
    return {size: changed.get(f"of_{size}", 1.0) for size in SIZES}


@pytest.mark.parametrize(
    ("verify", "draft", "told"),
    [
        (
            _verify(of_256=1.58, of_512=1.62, of_1024=1.6),
            QUIET,
            "verify of 256-1024 tokens became 1.6× dearer, the rest did not",
        ),
        (_verify(of_8=3.0), QUIET, "verify of 8 tokens became 3× dearer, the rest did not"),
        (_verify(of_8=1 / 3), QUIET, "verify of 8 tokens became 3× cheaper, the rest did not"),
        (
            _verify(of_1=2.0, of_2=2.1, of_512=0.5),
            QUIET,
            "verify of 1-2 tokens became 2× dearer, verify of 512 tokens became 2× cheaper, the rest did not",
        ),
        (_verify(of_4=1.5, of_8=0.5), QUIET, "verify of 4 tokens became 1.5× dearer, verify of 8 tokens became 2× "),
        (_verify(), {1: 1.3, 4: 1.3}, "draft of 1-4 requests became 1.3× dearer, the rest did not"),
        ({16: 0.5, 64: 0.5}, {16: 1.0}, "draft of 16 requests stayed as stored, the rest became 2× cheaper"),
        ({16: 0.5, 64: 0.5}, {16: 1.0, 64: 1.0}, "verify of 16-64 tokens became 2× cheaper, the rest did not"),
        (dict.fromkeys(SIZES, 3.0), {1: 3.1}, "all became 3× dearer"),
        (dict.fromkeys(SIZES, 1 / 30), {1: 1 / 30}, "all became 30× cheaper"),
        (_verify(of_8=1.06), {1: 1.0}, "verify of 8 tokens became 1.1× dearer, the rest did not"),
        (dict(zip(SIZES, (2, 1, 2, 1, 2, 1, 2, 1, 2), strict=True)), dict.fromkeys((1, 2), 1.0), "1 more groups moved"),
    ],
)
def test_what_moved_is_told_in_groups(verify: dict[int, float], draft: dict[int, float], told: str):
    """Neighbours that moved the same way are one group; a common factor alone is told as such."""
    assert told in moved(verify, draft)


RATIOS = st.dictionaries(st.sampled_from(SIZES), st.floats(1e-6, 1e6), min_size=1)


@given(RATIOS, RATIOS)
def test_any_ratios_can_be_told(verify: dict[int, float], draft: dict[int, float]):
    """For all ratios there is one short line, and where two differ by more than is steady some size is named."""
    line = moved(verify, draft)
    assert len(line) < 400
    assert "\n" not in line
    spread = max((*verify.values(), *draft.values())) / min((*verify.values(), *draft.values()))
    if spread > STEADY**2 * (1 + 1e-9):
        assert re.match(r"(verify of [\d-]+ tokens|draft of [\d-]+ requests) ", line)


@given(RATIOS, st.sampled_from(SIZES), st.floats(1.2, 50))
def test_one_that_left_the_others_is_the_one_that_is_named(ratios: dict[int, float], odd: int, factor: float):
    """Whatever the others did together, the size that did something else stands in the line, alone."""
    common = math.exp(sum(map(math.log, ratios.values())) / len(ratios)) ** 0.1
    line = moved({size: common * (factor if size == odd else 1) for size in SIZES}, {1: common})
    assert line.startswith(f"verify of {odd} tokens ")
    assert line.count(" of ") == 1


def test_of_many_the_farthest_are_told():
    """Of six groups the one that moved farthest is among the four that are named, wherever it stands."""
    ratios = dict(zip(SIZES, (1, 1.3, 1, 1.3, 1, 1.3, 1, 1.3, 0.2), strict=True))
    line = moved(ratios, {1: 1.0, 2: 1.3, 4: 1.0})
    assert "verify of 1024 tokens became 5× cheaper" in line
    assert "2 more groups moved" in line
