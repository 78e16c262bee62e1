"""Where a boot stands on its path, and what was decided so far."""

from dataclasses import dataclass

from warmcurve.outcome import Step
from warmcurve.ranks.vote import Course, Decision, Party


@dataclass(slots=True)
class Position:
    """`party` is this rank's part in the votes.

    `own` is this rank's last vote, `decision` is what all ranks do. `installing` is true while the engine installs
    stored curves, which may be a collective. `started_ns` is the time of the start, `in_place_ns` the time from which
    the engine had curves to plan with.
    """

    party: Party
    started_ns: int
    step: Step = Step.FINGERPRINT
    own: Decision | None = None
    decision: Decision | None = None
    installing: bool = False
    in_place_ns: int | None = None

    @property
    def reused(self) -> bool:
        """Whether stored curves are in place on every rank. From then on they stay."""
        return self.party.over and self.decision is not None and self.decision.course is Course.GO

    @property
    def agreed(self) -> bool:
        """Whether every rank has the same decision and the same settings."""
        return self.decision is not None and self.decision.agreed
