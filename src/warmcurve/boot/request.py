"""What a boot asks of an engine, and what it is sent in return."""

from collections.abc import Generator
from typing import Any, TypeAlias, TypeVar

import msgspec

from warmcurve.curves.profile import Sample
from warmcurve.curves.sentinel import VerifiedProfile
from warmcurve.ranks.vote import Operation
from warmcurve.reporting.report import BootReport


class Replay(msgspec.Struct, frozen=True):
    """Run one timed step of each of these numbers of tokens, in order; reply with their samples."""

    sizes: tuple[int, ...]


class Install(msgspec.Struct, frozen=True):
    """Plan with these curves; reply with nothing, or throw `InstallRefused` into the generator."""

    verified: VerifiedProfile


class Calibrate(msgspec.Struct, frozen=True):
    """Run the full calibration and plan with its curves; reply with its samples, one a run.

    Throw `ProfileError` into the generator instead where the engine plans with something that must not be stored, or
    knows that something compiled meanwhile (`Reason.CALIBRATION_COLD`).
    """


Request: TypeAlias = Replay | Install | Calibrate
Samples: TypeAlias = tuple[Sample, ...]
Steps: TypeAlias = Generator[Request, Samples, BootReport]
T = TypeVar("T")
Path: TypeAlias = Generator[Request | Operation, Any, T]
