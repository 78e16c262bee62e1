"""Runs a boot on an engine that can answer each request with a call."""

from typing import Protocol

from warmcurve.boot.path import Boot
from warmcurve.boot.request import Calibrate, Install, Replay, Samples
from warmcurve.curves.sentinel import VerifiedProfile
from warmcurve.errors import InstallRefused
from warmcurve.reporting.report import BootReport


class Engine(Protocol):
    """What `drive` asks of an engine: the three requests as methods."""

    def replay(self, sizes: tuple[int, ...]) -> Samples: ...

    def install(self, verified: VerifiedProfile) -> None:
        """May raise `InstallRefused`."""

    def calibrate(self) -> Samples: ...


def drive(boot: Boot, engine: Engine) -> BootReport:
    """Run a boot to its end.

    An error of the engine passes through. With several ranks, call `Boot.withdraw` then, before anything else runs on
    this rank. `CurvesRequired` (mode `require`) means that the engine must not go on. `Boot.abandon` gives the report
    in both cases.
    """
    steps = boot.run()
    try:
        request = next(steps)
        while True:
            match request:
                case Replay(sizes):
                    request = steps.send(engine.replay(sizes))
                case Install(verified):
                    try:
                        engine.install(verified)
                    except InstallRefused as refusal:
                        request = steps.throw(refusal)
                    else:
                        request = steps.send(())
                case Calibrate():
                    request = steps.send(engine.calibrate())
    except StopIteration as end:
        report: BootReport = end.value
        return report
