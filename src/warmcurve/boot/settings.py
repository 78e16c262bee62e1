"""The environment, parsed once into a frozen value.

docs/settings.md has a row for every variable: its default, its range, what it means.
An engine's adapter reads its own switch.
"""

import math
import sys
from collections.abc import Mapping
from typing import Any, Final, Literal, Self, TypeAlias, get_args

import msgspec

from warmcurve.curves.admission import Thresholds
from warmcurve.curves.sentinel import Limits, Policy, rounds_for
from warmcurve.errors import SettingsError
from warmcurve.storage.history import REJECTIONS

Mode: TypeAlias = Literal["off", "record", "reuse", "require", "verify"]
Tail: TypeAlias = Literal["skip", "once"]

MODE: Final = "WARMCURVE_MODE"
DEFAULT_ROW: Final = 3
"""Rejections of one entry in a row after which it is quarantined."""
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}

_ON = frozenset({"1", "true", "yes", "on"})
_OFF = frozenset({"", "0", "false", "no", "off"})
_LIMITS: Final = Limits()


class Settings(msgspec.Struct, frozen=True):
    """Without given limits, the limits are those of the policy: a sweep allows less (`sentinel.SWEEP`)."""

    limits: Limits = _LIMITS
    trust_group: bool = False
    vote_timeout_s: float = 30.0
    sentinels: Policy = "two"
    tail: Tail = "skip"
    thresholds: Thresholds = Thresholds()
    mode: Mode = "reuse"
    max_age_s: float | None = None
    quarantine: int = DEFAULT_ROW

    def __post_init__(self) -> None:
        # By identity: limits that were given are kept, though they be equal to these.
        own = msgspec.structs.replace(_LIMITS, max_regret=rounds_for(self.sentinels).max_regret)
        if self.limits is _LIMITS and own != _LIMITS:
            msgspec.structs.force_setattr(self, "limits", own)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self:
        """The settings. Raises `SettingsError`, which names the variable and the values that it takes."""
        default, sentinels = Limits(), _policy(environment, "WARMCURVE_SENTINELS")
        low = _number(environment, "WARMCURVE_SCALE_LOW", default.scale_low, least=0, most=1)
        high = _number(environment, "WARMCURVE_SCALE_HIGH", default.scale_high, least=1, most=sys.float_info.max)
        regret = _number(environment, "WARMCURVE_MAX_REGRET", rounds_for(sentinels).max_regret, least=0, most=1)
        timeout_s = _number(environment, "WARMCURVE_VOTE_TIMEOUT", cls().vote_timeout_s, least=0.1, most=120)
        return cls(
            Limits(low, high, regret),
            flag(environment, "WARMCURVE_TRUST_GROUP"),
            timeout_s,
            sentinels,
            _tail(environment, "WARMCURVE_TAIL"),
            _thresholds(environment),
            mode(environment),
            _age(environment, "WARMCURVE_MAX_AGE"),
            _count(environment, "WARMCURVE_QUARANTINE", cls().quarantine),
        )

    def common(self) -> dict[str, Any]:
        """The settings that change the runs of a hit or their verdict. All ranks need the same."""
        limits: dict[str, Any] = msgspec.to_builtins(self.limits)
        return limits | {"sentinels": self.sentinels, "tail": self.tail, "mode": self.mode}


def flag(environment: Mapping[str, str], name: str) -> bool:
    """Whether a switch is on; unset is off. Raises `SettingsError`."""
    text = environment.get(name, "").strip().lower()
    if text in _ON:
        return True
    if text in _OFF:
        return False
    raise SettingsError(f"{name}={text!r:.40} is neither on (1) nor off (0)")


def mode(environment: Mapping[str, str]) -> Mode:
    """Raises `SettingsError`."""
    text = environment.get(MODE, "").strip().lower() or "reuse"
    for known in get_args(Mode):
        if text == known:
            return known  # type: ignore[no-any-return]
    raise SettingsError(f"{MODE}={text!r:.40} is none of {', '.join(get_args(Mode))}")


def _age(environment: Mapping[str, str], name: str) -> float | None:
    text = environment.get(name, "").strip().lower()
    if not text:
        return None
    number, unit = text[:-1], _SECONDS.get(text[-1])
    if unit and number.isascii() and number.isdecimal() and len(number) < 10 and int(number):
        return float(int(number) * unit)
    raise SettingsError(f"{name}={text!r:.40} is not an age such as 90d, 12h, 30m or 45s")


def _count(environment: Mapping[str, str], name: str, default: int) -> int:
    text = environment.get(name, "").strip()
    if not text:
        return default
    if text.isascii() and text.isdecimal() and len(text) < 10 and int(text) <= REJECTIONS:
        return int(text)
    raise SettingsError(f"{name}={text!r:.40} is not a number from 0 to {REJECTIONS}")


def _policy(environment: Mapping[str, str], name: str) -> Policy:
    text = environment.get(name, "").strip().lower()
    if text in {"", "two"}:
        return "two"
    if text == "sweep":
        return "sweep"
    if text.isascii() and text.isdecimal() and len(text) < 10 and int(text) > 1:
        return int(text)
    raise SettingsError(f"{name}={text!r:.40} is neither two nor sweep nor a number from 2 on")


def _tail(environment: Mapping[str, str], name: str) -> Tail:
    text = environment.get(name, "").strip().lower()
    if text in {"", "skip"}:
        return "skip"
    if text == "once":
        return "once"
    raise SettingsError(f"{name}={text!r:.40} is neither skip nor once")


def _thresholds(environment: Mapping[str, str]) -> Thresholds:
    default, most = Thresholds(), sys.float_info.max
    return Thresholds(
        _number(environment, "WARMCURVE_ADMIT_NOISE", default.noise, least=0, most=most),
        _number(environment, "WARMCURVE_ADMIT_COLD", default.cold, least=1, most=most),
        _number(environment, "WARMCURVE_ADMIT_RISE", default.rise, least=0, most=1),
        _number(environment, "WARMCURVE_ADMIT_BEND", default.bend, least=0, most=most),
    )


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
