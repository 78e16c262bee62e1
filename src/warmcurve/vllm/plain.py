"""Turns another program's values into values that a factor may have.

`str(object)` and `repr(object)` are never used, because they contain addresses. A value without stable contents becomes
the name of its type. A value without even a stable name is a ValueError.
"""

import numbers
import os
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, Final

from warmcurve.storage.fingerprint import Value

# RFC 8785 takes numbers as IEEE doubles: beyond this an integer has no unique double.
_LARGEST: Final = 2**53 - 1


def class_of(value: object) -> str | None:
    """The qualified name of a value's type; None for None."""
    return None if value is None else f"{type(value).__module__}.{type(value).__qualname__}"


def plain(value: Any) -> Value:
    """The fields of a dataclass, the items of a container, the name of anything else. ValueError without a name."""
    if value is None or type(value) in (bool, str):
        return value  # type: ignore[no-any-return]
    if isinstance(value, Enum):
        # A combination of flags may have no name.
        name: str | None = value.name
        return plain(value.value) if name is None else name
    # Integral and Real: numpy's numbers are those, and neither int nor, but for one of them, float.
    if isinstance(value, numbers.Integral):
        whole = int(value)
        return whole if abs(whole) <= _LARGEST else f"int {whole}"
    if isinstance(value, numbers.Real):
        # No float is canonical; its shortest exact text is.
        return f"float {float(value)!r}"
    if isinstance(value, str):
        return str.__str__(value)
    return _composed(value)


def _composed(value: Any) -> Value:
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, set | frozenset):
        # By text that is injective on plain values: they may be of several types.
        return sorted((plain(item) for item in value), key=lambda item: (type(item).__name__, repr(item)))
    if isinstance(value, Mapping):
        return _mapping(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {"class": class_of(value)} | {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    return _named(value)


def _named(value: Any) -> Value:
    if isinstance(value, type | FunctionType | BuiltinFunctionType | MethodType):
        name = f"{value.__module__}.{value.__qualname__}"
        if "<" in name:
            raise ValueError(f"{name} has no stable name (a lambda or a local function)")
        return name
    if type(value).__module__ == "numpy" and type(value).__name__ in ("bool", "bool_"):
        return bool(value)
    if isinstance(value, partial):
        return {"function": plain(value.func), "arguments": plain(value.args), "keywords": plain(value.keywords)}
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    if isinstance(value, bytes):
        return f"bytes {value.hex()}"
    if type(value).__module__ == "torch" and type(value).__name__ == "dtype":
        return str(value)
    if callable(compute_hash := getattr(type(value), "compute_hash", None)):
        # vLLM's own protocol for what others put into its configuration (vllm/config/utils.py, SupportsHash).
        return {"class": class_of(value), "hash": plain(compute_hash(value))}
    return class_of(value)


def _mapping(value: Mapping[Any, Any]) -> Value:
    found: dict[str, Value] = {}
    for key, item in value.items():
        name = plain(key)
        if type(name) in (bool, int) or name is None:
            name = f"{type(name).__name__} {name}"
        if not isinstance(name, str) or name in found:
            raise ValueError(f"a key of type {class_of(key)} has no stable name, or the name of another key")
        found[name] = plain(item)
    return found
