"""A persistent, fail-closed cache of the cost curves of adaptive verification.

The names below are the public interface. Each one is loaded at its first use. An engine's plugin loader imports this
package in every process, and most of them never calibrate.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from warmcurve._version import __version__

if TYPE_CHECKING:
    from warmcurve.boot.driver import drive
    from warmcurve.boot.inputs import Inputs
    from warmcurve.boot.path import Boot
    from warmcurve.boot.request import Calibrate, Install, Replay
    from warmcurve.boot.settings import Settings
    from warmcurve.curves.calibration import Plan, plan, profile_from
    from warmcurve.curves.profile import CostCurve, CostProfile, Sample
    from warmcurve.curves.sentinel import Limits, VerifiedProfile
    from warmcurve.errors import WarmcurveError
    from warmcurve.outcome import Outcome, Reason
    from warmcurve.reporting.report import BootReport, ReportDirectory
    from warmcurve.storage.entry import Entry
    from warmcurve.storage.store import DirectoryStore, Store

_FILES = {
    "Boot": "boot.path",
    "BootReport": "reporting.report",
    "Calibrate": "boot.request",
    "CostCurve": "curves.profile",
    "CostProfile": "curves.profile",
    "DirectoryStore": "storage.store",
    "Entry": "storage.entry",
    "Inputs": "boot.inputs",
    "Install": "boot.request",
    "Limits": "curves.sentinel",
    "Outcome": "outcome",
    "Plan": "curves.calibration",
    "Reason": "outcome",
    "Replay": "boot.request",
    "ReportDirectory": "reporting.report",
    "Sample": "curves.profile",
    "Settings": "boot.settings",
    "Store": "storage.store",
    "VerifiedProfile": "curves.sentinel",
    "WarmcurveError": "errors",
    "drive": "boot.driver",
    "plan": "curves.calibration",
    "profile_from": "curves.calibration",
}

__all__ = [
    "Boot",
    "BootReport",
    "Calibrate",
    "CostCurve",
    "CostProfile",
    "DirectoryStore",
    "Entry",
    "Inputs",
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
    if name in _FILES:
        return getattr(import_module(f"warmcurve.{_FILES[name]}"), name)
    raise AttributeError(f"module 'warmcurve' has no attribute {name!r}")
