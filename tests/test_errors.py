"""The tree of errors: each has a reason of the closed vocabulary, its hint, a built-in parent, and can be carried."""

import copy
import pickle
import re

import pytest

from warmcurve import errors
from warmcurve.errors import (
    CurvesRequired,
    EngineUnknown,
    EntryError,
    FactorError,
    InstallRefused,
    ProfileError,
    SettingsError,
    StoreError,
    VoteError,
    VoteLost,
    WarmcurveError,
)
from warmcurve.outcome import MEANINGS, Outcome, Reason, Step

ERRORS: list[tuple[WarmcurveError, type[Exception]]] = [
    (WarmcurveError(Reason.INTERNAL_ERROR, "detail"), Exception),
    (ProfileError("detail"), ValueError),
    (FactorError(Reason.FACTOR_UNKNOWN, "model.revision", "no such file"), LookupError),
    (EntryError(Reason.ENTRY_CHECKSUM, "detail"), ValueError),
    (StoreError(Reason.STORE_FULL, "detail"), OSError),
    (InstallRefused("detail"), RuntimeError),
    (EngineUnknown("detail"), RuntimeError),
    (SettingsError("detail"), ValueError),
    (VoteError("detail"), RuntimeError),
    (VoteLost("detail"), RuntimeError),
    (CurvesRequired("detail"), RuntimeError),
]
each_error = pytest.mark.parametrize(
    ("error", "parent"), ERRORS, ids=lambda value: getattr(type(value), "__name__", "")
)


@each_error
def test_an_error_has_the_parents_of_its_tree(error: WarmcurveError, parent: type[Exception]):
    """Every error is a WarmcurveError, and of the built-in kind that fits."""
    assert isinstance(error, WarmcurveError)
    assert isinstance(error, parent)


def test_the_tree_is_complete():
    """The errors tested here are all there are, and the tree in the module's docstring names each with its parent."""
    defined = {kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, WarmcurveError)}
    assert defined == {type(error) for error, _ in ERRORS}
    for error, parent in ERRORS[1:]:
        assert f"── {type(error).__name__}({parent.__name__})" in (errors.__doc__ or "")


@each_error
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_an_error_can_be_pickled(error: WarmcurveError, parent: type[Exception], protocol: int):
    """What an engine carries from one process to another is the same error."""
    _same(pickle.loads(pickle.dumps(error, protocol)), error)


@each_error
def test_an_error_can_be_copied(error: WarmcurveError, parent: type[Exception]):
    """A copy of an error is the same error."""
    _same(copy.copy(error), error)
    _same(copy.deepcopy(error), error)


def _same(other: WarmcurveError, error: WarmcurveError) -> None:
    assert type(other) is type(error)
    assert (other.reason, other.detail, other.args, vars(other)) == (
        error.reason,
        error.detail,
        error.args,
        vars(error),
    )
    assert type(other.reason) is Reason


@each_error
def test_an_error_speaks_for_itself(error: WarmcurveError, parent: type[Exception]):
    """Its text is the reason and the detail, in one line, and its hint is the remedy of the reason."""
    assert str(error) == f"{error.reason}: {error.detail}"
    assert error.hint() == MEANINGS[error.reason].remedy
    assert "\n" not in str(error)


def test_a_factor_is_named():
    """The error of a factor says which."""
    error = FactorError(Reason.FACTOR_UNKNOWN, "model.revision", "no such file")
    assert (error.factor, error.detail) == ("model.revision", "model.revision: no such file")


def test_every_reason_has_a_meaning():
    """Each word of the vocabulary says what it means and what can be done, in whole sentences on one line."""
    assert list(MEANINGS) == list(Reason)
    for meaning in MEANINGS.values():
        for text in meaning:
            assert re.fullmatch(r"\S[^\n]*\.", text)


@pytest.mark.parametrize("words", [Reason, Outcome, Step])
def test_words_of_the_vocabulary_can_be_labels(words):
    """Every word is fit for a log field and a metric's label, and is written as it is."""
    for word in words:
        assert re.fullmatch(r"[a-z][a-z_]*", word)
        assert str(word) == word.value == word.name.lower()
