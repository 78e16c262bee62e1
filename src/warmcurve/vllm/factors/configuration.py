"""Reads vLLM's whole configuration, field by field.

vLLM's own `VllmConfig.compute_hash` is not used. It says what changes the compiled graph. It contains the model's path,
which changes no cost, and it lacks most of what speculation costs depend on. Here every field counts, unless its review
(`vllm/reviewed/`) excludes it. A field that no review names counts too, and is reported as unreviewed.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Final

from warmcurve.errors import FactorError
from warmcurve.outcome import Reason
from warmcurve.storage.fingerprint import Value
from warmcurve.vllm.factors import environment
from warmcurve.vllm.plain import plain
from warmcurve.vllm.reviewed.review import Section
from warmcurve.vllm.reviewed.sections import SECTIONS

NAME: Final = "configuration"
_HOME: Final = "vllm.config"
# What users write for a connector, in words of its own: addresses and paths among them.
_FREE: Final = {"kv_connector_extra_config", "ec_connector_extra_config"}
_AUTOMATIC: Final = -1


def factors(config: Any) -> dict[str, Value]:
    """Every field that counts, as a tree. Raises `FactorError` for a value that has no canonical form."""
    return _values(config, NAME)


def unreviewed(config: Any) -> tuple[str, ...]:
    """The dotted names of the fields that count although no review names them."""
    return tuple(_unreviewed(config, NAME))


def review(section: Any) -> Section | None:
    """The review of a section's class, or of the nearest class that it inherits from."""
    kinds = (kind for kind in type(section).__mro__ if kind.__module__.startswith(_HOME))
    return next((SECTIONS[kind.__name__] for kind in kinds if kind.__name__ in SECTIONS), None)


def length(model: Any, value: int) -> Value:
    """The longest request. If vLLM fitted it to the free memory, it is the power of two above it.

    vLLM marks that as `original_max_model_len`, in its `ModelConfig` (vllm/v1/core/kv_cache_utils.py).
    """
    if getattr(model, "original_max_model_len", None) != _AUTOMATIC or type(value) is not int:
        return plain(value)
    return {"fitted": 1 << max(0, value - 1).bit_length()}


def _values(section: Any, name: str) -> dict[str, Value]:
    values: dict[str, Value] = {}
    for field in _counting(section):
        place = f"{name}.{field}"
        try:
            value = getattr(section, field)
            values[field] = _values(value, place) if _is_section(value) else _value(section, field, value)
        except (ValueError, AttributeError, RecursionError) as error:
            raise FactorError(Reason.FACTOR_UNKNOWN, place, str(error)) from error
    return values


def _value(section: Any, field: str, value: Any) -> Value:
    if field == "max_model_len":
        return length(section, value)
    return plain(_reviewed(value) if field in _FREE else value)


def _reviewed(value: Any) -> Any:
    """Without what has the form of a path, an address, a name or a secret, at any depth."""
    if isinstance(value, Mapping):
        return {key: _reviewed(item) for key, item in value.items() if not environment.has_form(_as_variable(key))}
    return [_reviewed(item) for item in value] if isinstance(value, list | tuple) else value


def _as_variable(key: Any) -> str:
    """`servicePort`, `service-port` and `port` as variables would be called."""
    return "_" + re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+", "_", str(key)).upper()


def _unreviewed(section: Any, name: str) -> Iterator[str]:
    known = review(section)
    for field in _counting(section):
        value = getattr(section, field, None)
        if known is None or field not in known.reviewed:
            yield f"{name}.{field}"
        elif _is_section(value):
            yield from _unreviewed(value, f"{name}.{field}")


def _counting(section: Any) -> list[str]:
    known = review(section)
    return [field.name for field in fields(section) if known is None or field.name not in known.left_out]


def _is_section(value: Any) -> bool:
    kinds = type(value).__mro__
    return is_dataclass(value) and any(kind.__module__.startswith(_HOME) for kind in kinds)
