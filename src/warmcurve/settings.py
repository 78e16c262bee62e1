"""The environment, parsed once into a frozen value.

| variable | default | meaning |
|---|---|---|
| `WARMCURVE_SCALE_LOW`, `WARMCURVE_SCALE_HIGH` | 0.4, 2.5 | measured / stored of every sentinel must lie between them |
| `WARMCURVE_MAX_REGRET` | 0.2 | share of throughput that a stored curve may lose at most by the sentinels' bound |
| `WARMCURVE_TRUST_GROUP` | 0 | trust the members of a store's group, where the group may write to it |
| `WARMCURVE_VOTE_TIMEOUT` | 30 | seconds that each vote of several ranks waits for all of them |

The switch that turns an engine's adapter on is the adapter's own.
"""

import math
import sys
from collections.abc import Mapping
from typing import Self

import msgspec

from warmcurve.errors import SettingsError
from warmcurve.sentinel import Limits

_ON = frozenset({"1", "true", "yes", "on"})
_OFF = frozenset({"", "0", "false", "no", "off"})


class Settings(msgspec.Struct, frozen=True):
    limits: Limits = Limits()
    trust_group: bool = False
    vote_timeout_s: float = 30.0

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self:
        """Raises `SettingsError`, which names the variable and what it takes."""
        default = Limits()
        low = _number(environment, "WARMCURVE_SCALE_LOW", default.scale_low, least=0, most=1)
        high = _number(environment, "WARMCURVE_SCALE_HIGH", default.scale_high, least=1, most=sys.float_info.max)
        regret = _number(environment, "WARMCURVE_MAX_REGRET", default.max_regret, least=0, most=1)
        timeout_s = _number(environment, "WARMCURVE_VOTE_TIMEOUT", cls().vote_timeout_s, least=0.1, most=120)
        return cls(Limits(low, high, regret), flag(environment, "WARMCURVE_TRUST_GROUP"), timeout_s)


def flag(environment: Mapping[str, str], name: str) -> bool:
    """Whether a switch is on; unset is off. Raises `SettingsError`."""
    text = environment.get(name, "").strip().lower()
    if text in _ON:
        return True
    if text in _OFF:
        return False
    raise SettingsError(f"{name}={text!r:.40} is neither on (1) nor off (0)")


def _number(environment: Mapping[str, str], name: str, default: float, *, least: float, most: float) -> float:
    text = environment.get(name, "").strip()
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not least <= value <= most:
        raise SettingsError(f"{name}={text!r:.40} is not a number from {least:g} to {most:g}")
    return value
