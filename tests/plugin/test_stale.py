"""A file of another program's that is replaced while it is read."""

import errno
from collections.abc import Iterator
from typing import Any

import pytest

from tests.faults import raising
from warmcurve.errors import FactorError
from warmcurve.vllm.factors import declared
from warmcurve.vllm.reading import Reading


def _reader(answers: Iterator[int | None]) -> declared.Factor:
    """A factor whose file answers so, one attempt after the other."""

    def read(_: Any) -> str:
        number = next(answers)
        try:
            if number is not None:
                raising(number)("read")
        except OSError as error:
            raise Reading("model.weights").unknown("model.safetensors") from error
        return "read"

    return declared.Factor("model", "a file", "for this test", read)


def test_a_factor_is_read_once_more() -> None:
    """A stale handle costs a second reading, no more; another error costs none."""
    subject: Any = None
    assert declared._read(_reader(iter((errno.ESTALE, None))), subject) == "read"
    for number, tries in ((errno.ESTALE, 2), (errno.EIO, 1)):
        answers = iter([number] * 3)
        with pytest.raises(FactorError):
            declared._read(_reader(answers), subject)
        assert len(list(answers)) == 3 - tries
