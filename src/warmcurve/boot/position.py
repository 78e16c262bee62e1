"""Where a boot stands on its path, and what has been decided so far."""

from dataclasses import dataclass

from warmcurve.outcome import Step
from warmcurve.ranks.vote import Course, Decision, Party


@dataclass(slots=True)
class Position:
    """`party` is this rank's part in the votes.

    `own` is this rank's last word, `decision` what all ranks do. `installing` is true while the engine takes stored
    curves, which may be a collective. `started_ns` and `in_place_ns` are the clock's, of the start and of the moment
    from which the engine had curves to plan with.
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
        """Whether stored curves are in place on every rank. They stay, whatever comes."""
        return self.party.over and self.decision is not None and self.decision.course is Course.GO

    @property
    def agreed(self) -> bool:
        """Whether every rank has the decision that this one has, and the same settings."""
        return self.decision is not None and self.decision.agreed
