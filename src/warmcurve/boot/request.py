"""The requests of a boot to an engine, and the replies."""

from collections.abc import Generator
from typing import Any, TypeAlias, TypeVar

import msgspec

from warmcurve.curves.profile import Sample
from warmcurve.curves.sentinel import VerifiedProfile
from warmcurve.ranks.vote import Operation
from warmcurve.reporting.report import BootReport


class Replay(msgspec.Struct, frozen=True):
    """Run one timed step of each of these numbers of tokens, in order. Reply with their samples."""

    sizes: tuple[int, ...]


class Install(msgspec.Struct, frozen=True):
    """Plan with these curves. Reply with nothing, or throw `InstallRefused` into the generator."""

    verified: VerifiedProfile


class Calibrate(msgspec.Struct, frozen=True):
    """Run the full calibration and plan with its curves. Reply with its samples, one for each run.

    If the curves must not be stored, throw `ProfileError` into the generator instead. One such case is that something
    compiled meanwhile (`Reason.CALIBRATION_COLD`).
    """


Request: TypeAlias = Replay | Install | Calibrate
Samples: TypeAlias = tuple[Sample, ...]
Steps: TypeAlias = Generator[Request, Samples, BootReport]
T = TypeVar("T")
Path: TypeAlias = Generator[Request | Operation, Any, T]
