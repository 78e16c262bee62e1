"""A walk over the whole of vLLM's configuration, field by field.

`VllmConfig.compute_hash` asks what changes the compiled graph. It holds the model's path, which prices nothing, and is
blind to most of what speculation costs. So it is not asked; every field counts unless its review (`sections/`)
excludes it. A field of a newer release, which no review names, counts as well, and is told as unreviewed.
"""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, Final

from warmcurve.errors import FactorError
from warmcurve.fingerprint import Value
from warmcurve.outcome import Reason
from warmcurve.vllm.plain import plain
from warmcurve.vllm.review import Section
from warmcurve.vllm.sections import SECTIONS

NAME: Final = "configuration"
_HOME: Final = "vllm.config"


def factors(config: Any) -> dict[str, Value]:
    """Every field of this configuration that counts, as a tree. Raises `FactorError` for one that has no form."""
    return _values(config, NAME)


def unreviewed(config: Any) -> tuple[str, ...]:
    """The fields that count though no review names them, as their differences would be named."""
    return tuple(_unreviewed(config, NAME))


def review(section: Any) -> Section | None:
    """The review of a section's class, or of the nearest class that it inherits from."""
    kinds = (kind for kind in type(section).__mro__ if kind.__module__.startswith(_HOME))
    return next((SECTIONS[kind.__name__] for kind in kinds if kind.__name__ in SECTIONS), None)


def _values(section: Any, name: str) -> dict[str, Value]:
    values: dict[str, Value] = {}
    for field in _counting(section):
        place = f"{name}.{field}"
        try:
            value = getattr(section, field)
            values[field] = _values(value, place) if _is_section(value) else plain(value)
        except (ValueError, AttributeError, RecursionError) as error:
            raise FactorError(Reason.FACTOR_UNKNOWN, place, str(error)) from error
    return values


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
