"""The facts about a device. Each is declared with the reason why it counts, and whether a device may lack it."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from warmcurve.errors import FactorError
from warmcurve.outcome import Reason
from warmcurve.storage.fingerprint import Value

Conditions = Mapping[str, str | int | float | bool | None]


class Fact(msgspec.Struct, frozen=True):
    """`ask` gets the source of the answer: torch's properties, an open library or a directory. None is no answer."""

    name: str
    why: str
    ask: Callable[[Any], Value]
    optional: bool = False


def answers(facts: Iterable[Fact], source: Any) -> dict[str, Value]:
    """The answers by name. Raises `FactorError` for the first that cannot be read, or that is missing and required."""
    found = {}
    for fact in facts:
        try:
            found[fact.name] = fact.ask(source)
        except (AttributeError, OSError, TypeError, ValueError) as error:
            raise FactorError(Reason.FACTOR_UNKNOWN, f"device.{fact.name}", str(error)) from error
        if found[fact.name] is None and not fact.optional:
            raise FactorError(Reason.FACTOR_UNKNOWN, f"device.{fact.name}", "the device gave no answer")
    return found
