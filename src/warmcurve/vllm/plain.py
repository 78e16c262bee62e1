"""Another program's values, in the factor algebra."""

import math
from collections.abc import Mapping
from enum import Enum
from typing import Any

from warmcurve.fingerprint import Value


def class_of(value: object) -> str | None:
    """The qualified name of a value's type; None for None."""
    return None if value is None else f"{type(value).__module__}.{type(value).__qualname__}"


def plain(value: Any) -> Value:
    """Fields of dataclasses, items of containers; what says nothing stable of itself stands as its type's name."""
    if value is None or type(value) in (bool, int, str):
        return value  # type: ignore[no-any-return]
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, float):
        # No float is canonical; its shortest exact text is.
        return f"float {value!r}" if math.isfinite(value) else f"float {value}"
    return _composed(value)


def _composed(value: Any) -> Value:
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted((plain(item) for item in value), key=repr)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if not isinstance(value, type) and hasattr(value, "__dataclass_fields__"):
        fields = {name: plain(getattr(value, name)) for name in sorted(value.__dataclass_fields__)}
        return {"class": class_of(value), **fields}
    if type(value).__module__ == "torch" and type(value).__name__ == "dtype":
        return str(value)
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__}"
    return class_of(value)
