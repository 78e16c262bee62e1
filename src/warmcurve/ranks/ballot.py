"""The messages of a vote (`vote.py`), and the decisions that follow from them.

The leader offers what it found. Every rank answers with a `Ballot`. `opening` and `verdict` are the leader's decisions.
A rank of another version may send anything. A message that cannot be read counts as a difference.
"""

import base64
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

import msgspec

from warmcurve.errors import VoteError
from warmcurve.outcome import Outcome, Reason
from warmcurve.ranks.vote import GO, Course, Decision
from warmcurve.storage.fingerprint import diff

PROTOCOL: Final = 3
"""Raise it when messages or rounds change: ranks of different protocols calibrate."""


class Identity(msgspec.Struct, frozen=True):
    """What all ranks must have in common before any of them may go on with stored curves."""

    protocol: int
    warmcurve: str
    settings: Mapping[str, Any]
    digest: str

    def difference(self, other: "Identity") -> str | None:
        """The first thing in which the other differs, as "<what> <the other's>, the leader's <own>", or None."""
        for name in self.__struct_fields__:
            own, others = getattr(self, name), getattr(other, name)
            if own == others:
                continue
            if isinstance(own, Mapping) and isinstance(others, Mapping):
                key = min(key for key in {*own, *others} if own.get(key) != others.get(key))
                name, own, others = f"{name} {key}", own.get(key), others.get(key)
            return f"{name} {others!s:.80}, the leader's {own!s:.80}"
        return None


class Offer(msgspec.Struct, frozen=True):
    """What the leader found: its identity and its factors. If there is an entry to use, also the entry's bytes and the
    sentinels that the leader drew.
    """

    identity: Identity
    factors: Mapping[str, Any]
    entry: str | None = None
    sizes: tuple[int, ...] = ()

    @classmethod
    def of(cls, identity: Identity, factors: Mapping[str, Any], entry: bytes | None, sizes: tuple[int, ...]) -> "Offer":
        text = None if entry is None else base64.b64encode(entry).decode()
        return cls(identity, factors, text, sizes)

    def entry_bytes(self) -> bytes | None:
        """Raises `VoteError` for what is no base64."""
        try:
            return None if self.entry is None else base64.b64decode(self.entry, validate=True)
        except ValueError as error:
            raise VoteError(f"the offered entry cannot be read: {error}") from error

    def check_sizes(self, captured: Sequence[int]) -> None:
        """Raises `VoteError` for sentinels that this rank could not replay."""
        if not self.sizes or not set(self.sizes) <= set(captured):
            raise VoteError(f"the offered sentinels {list(self.sizes)} are not captured sizes")


class Ballot(msgspec.Struct, frozen=True):
    """A rank's answer to the offer. `checksum` is the SHA-256 of the entry as it arrived. `objection` is what the rank
    found wrong with the entry.
    """

    identity: Identity
    checksum: str | None
    objection: Decision | None = None


def checksum(entry: bytes | None) -> str | None:
    return None if entry is None else sha256(entry).hexdigest()


def read_offer(data: bytes, own: Identity, factors: Mapping[str, Any]) -> Offer | str:
    """The offer in these bytes, or a text that says how the leader differs from this rank."""
    try:
        # Alone first: another version's offer may look different in everything but this.
        theirs = msgspec.json.decode(data, type=_Opening).identity
        difference = theirs.difference(own)
        if difference and not difference.startswith("digest "):
            return difference
        offer = msgspec.json.decode(data, type=Offer)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return f"the leader's offer cannot be read: {error}"
    if not difference:
        return offer
    leaves = diff(offer.factors, factors)
    named = [
        f"{each.factor} {each.right or 'absent':.80}, the leader's {each.left or 'absent':.80}" for each in leaves[:3]
    ]
    more = [f"and {len(leaves) - len(named)} more"] if len(leaves) > len(named) else []
    return "; ".join(named + more) or difference


class _Opening(msgspec.Struct, frozen=True):
    identity: Identity


def opening(votes: Sequence[bytes], found: Decision) -> Decision:
    """The decision after the ballots (the leader's first): go on with the leader's entry, or calibrate.

    Ranks that differ calibrate and store nothing: curves of a mixed world are true for no rank.
    """
    ballots = []
    for rank, vote in enumerate(votes):
        try:
            ballots.append(msgspec.json.decode(vote, type=Ballot))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            return _differ(rank, f"its vote cannot be read: {error}")
    own = ballots[0]
    for rank, ballot in enumerate(ballots):
        if difference := own.identity.difference(ballot.identity):
            return _differ(rank, difference)
    for ballot in ballots:
        if ballot.objection:
            return ballot.objection
    for rank, ballot in enumerate(ballots):
        if ballot.checksum != own.checksum:
            return _differ(rank, "it got another entry than the leader sent")
    return found


def verdict(votes: Sequence[bytes]) -> Decision:
    """The decision after votes that are each GO or AGAIN: if one rank says AGAIN, all replay again."""
    for rank, vote in enumerate(votes):
        try:
            decision = msgspec.json.decode(vote, type=Decision)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            return _differ(rank, f"its vote cannot be read: {error}")
        if decision.course is not Course.GO:
            return decision
    return GO


def _differ(rank: int, detail: str) -> Decision:
    return Decision(Course.CALIBRATE, Reason.RANKS_DIFFER, detail, rank)


class Ending(msgspec.Struct, frozen=True):
    """How a boot with a calibration ended: the leader stored its curves, or says why not."""

    outcome: Outcome
    reason: Reason | None
    detail: str | None = None


def read_ending(data: bytes | None) -> Ending:
    """What the leader announced."""
    if data is None:
        return Ending(Outcome.UNRECORDED, Reason.RANK_ABSENT, "the leader did not tell how its boot ended")
    try:
        return msgspec.json.decode(data, type=Ending)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return Ending(Outcome.UNRECORDED, Reason.VOTE_FAILED, f"the leader's last word cannot be read: {error}")
