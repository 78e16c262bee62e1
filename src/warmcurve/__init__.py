"""A persistent, fail-closed cache of the cost curves of adaptive verification.

The names below are the public interface; each is loaded when first used, because an engine's plugin loader imports
this package in every process, also in those that never calibrate.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from warmcurve._version import __version__

if TYPE_CHECKING:
    from warmcurve.boot import Boot
    from warmcurve.calibration import Plan, plan, profile_from
    from warmcurve.driver import drive
    from warmcurve.entry import Entry
    from warmcurve.errors import WarmcurveError
    from warmcurve.outcome import Outcome, Reason
    from warmcurve.profile import CostCurve, CostProfile, Sample
    from warmcurve.report import BootReport, ReportDirectory
    from warmcurve.request import Calibrate, Install, Replay
    from warmcurve.sentinel import Limits, VerifiedProfile
    from warmcurve.settings import Settings
    from warmcurve.store import DirectoryStore, Store

_ROOMS = {
    "Boot": "boot",
    "BootReport": "report",
    "Calibrate": "request",
    "CostCurve": "profile",
    "CostProfile": "profile",
    "DirectoryStore": "store",
    "Entry": "entry",
    "Install": "request",
    "Limits": "sentinel",
    "Outcome": "outcome",
    "Plan": "calibration",
    "Reason": "outcome",
    "Replay": "request",
    "ReportDirectory": "report",
    "Sample": "profile",
    "Settings": "settings",
    "Store": "store",
    "VerifiedProfile": "sentinel",
    "WarmcurveError": "errors",
    "drive": "driver",
    "plan": "calibration",
    "profile_from": "calibration",
}

__all__ = [
    "Boot",
    "BootReport",
    "Calibrate",
    "CostCurve",
    "CostProfile",
    "DirectoryStore",
    "Entry",
    "Install",
    "Limits",
    "Outcome",
    "Plan",
    "Reason",
    "Replay",
    "ReportDirectory",
    "Sample",
    "Settings",
    "Store",
    "VerifiedProfile",
    "WarmcurveError",
    "__version__",
    "drive",
    "plan",
    "profile_from",
]


def __getattr__(name: str) -> object:
    if name in _ROOMS:
        return getattr(import_module(f"warmcurve.{_ROOMS[name]}"), name)
    raise AttributeError(f"module 'warmcurve' has no attribute {name!r}")
