"""Factors → canonical bytes → digest.

Factors are a tree of text, integers, booleans, null, lists and maps with ASCII keys. There is no float, no set, and
never `str(object)`, because that contains addresses, which never repeat. For such values the canonical form below is
that of RFC 8785. So another implementation finds the same digest.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import msgspec

from warmcurve.errors import FactorError
from warmcurve.outcome import Reason

Value: TypeAlias = "str | int | bool | list[Value] | dict[str, Value] | None"
Factors: TypeAlias = Mapping[str, Value]

# RFC 8785 takes numbers as IEEE doubles: beyond this an integer has no unique double.
_LARGEST: Final = 2**53 - 1
_WORD: Final = re.compile(r"[A-Za-z0-9_-]+")
# One for all leaves: json.dumps makes an encoder at every call, which takes longer than what it encodes.
_text = json.JSONEncoder(sort_keys=True, ensure_ascii=False).encode


def canonical(factors: Factors) -> bytes:
    """The canonical bytes: equal for equal trees, and only for them. Raises `FactorError` for other types of value."""
    tree = dict(factors)
    try:
        _check(tree, "")
        text = json.dumps(tree, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    except RecursionError:
        raise FactorError(Reason.FACTOR_INVALID, "factors", "nested too deep, or contained in themselves") from None
    return text.encode("utf-8")


def fingerprint(factors: Factors) -> str:
    """SHA-256 of the canonical bytes, 64 hexadecimal digits."""
    return hashlib.sha256(canonical(factors)).hexdigest()


class Difference(msgspec.Struct, frozen=True):
    """One leaf that differs; `None` on a side that lacks it, else its canonical JSON."""

    factor: str
    left: str | None
    right: str | None


def diff(left: Factors, right: Factors) -> tuple[Difference, ...]:
    """The leaves in which two trees differ, by dotted name, in order.

    A list is compared as a whole. A key that is not a plain word is in quotes. If a map is empty on one side only, the
    leaves of the other side are given. Raises `FactorError` for trees that are nested too deep.
    """
    ours, theirs = leaves(left), leaves(right)
    ours, theirs = _without_filled(ours, theirs), _without_filled(theirs, ours)
    names = sorted(ours.keys() | theirs.keys())
    return tuple(
        Difference(name, ours.get(name), theirs.get(name)) for name in names if ours.get(name) != theirs.get(name)
    )


def leaves(factors: Factors) -> dict[str, str]:
    """Each leaf's canonical JSON by its dotted name. Raises `FactorError` for trees nested too deep."""
    try:
        return dict(_leaves(factors, ""))
    except RecursionError:
        raise FactorError(Reason.FACTOR_INVALID, "factors", "nested too deep to be compared") from None


def _without_filled(mine: dict[str, str], others: dict[str, str]) -> dict[str, str]:
    """Without the empty maps that the other side fills."""
    empty = {name for name, text in mine.items() if text == "{}" and name not in others}
    filled = {name for name in empty if any(other.startswith(f"{name}.") for other in others)}
    return {name: text for name, text in mine.items() if name not in filled}


def _check(value: object, name: str) -> None:
    # Exact types: an enum or a subclass of str may print one thing and compare as another.
    if value is None or type(value) is bool:
        return
    if type(value) is str:
        # A lone surrogate has no UTF-8.
        if not _encodable(value):
            raise FactorError(Reason.FACTOR_INVALID, name, "text with a lone surrogate")
    elif type(value) is int:
        if abs(value) > _LARGEST:
            raise FactorError(Reason.FACTOR_INVALID, name, "an integer beyond 2**53")
    elif type(value) is list:
        for index, item in enumerate(value):
            _check(item, f"{name}[{index}]")
    elif type(value) is dict:
        _check_map(value, name)
    else:
        kind = f"{type(value).__module__}.{type(value).__qualname__}"
        raise FactorError(Reason.FACTOR_INVALID, name, f"a {kind} has no canonical form")


def _check_map(fields: dict[Any, Any], name: str) -> None:
    for key, item in fields.items():
        if type(key) is not str or not key.isascii():
            raise FactorError(Reason.FACTOR_INVALID, name, f"key is not ASCII text: {key!r:.80}")
        _check(item, _below(name, key))


def _below(name: str, key: str) -> str:
    # Names of modules have dots of their own.
    part = key if _WORD.fullmatch(key) else json.dumps(key)
    return f"{name}.{part}" if name else part


def _encodable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _leaves(value: object, name: str) -> list[tuple[str, str]]:
    if isinstance(value, Mapping) and (value or not name):
        return [leaf for key, item in value.items() for leaf in _leaves(item, _below(name, key))]
    return [(name, _text(value))]
