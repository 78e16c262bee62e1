"""One decision for all ranks that share collectives, sans-I/O.

Dummy runs contain collectives. Ranks that decide differently run different numbers of them and hang. So every step of a
boot on which they could part is one round of a vote over the whole world. The decision of a round is a write-once
register that all ranks read:

    leader (rank 0)    await every vote → propose what follows from them ──┐
    follower           post its vote    → await the decision ──────────────┼─→ adopt what the register holds
    any rank, when its deadline passes or its store fails → propose "calibrate" ┘

Rounds are numbered. A round opens only if the one before has decided to go on. Going on needs the vote of *every* rank.
So a rank that never votes (no plugin, switched off, late, dead, of another version) means "calibrate" for all. A rank
that has not voted for going on may calibrate even if it can reach nobody: nobody can go on without it.

A rank that has voted for going on has promised to follow. If it can then neither read nor write the register, it cannot
know what the others do. It must stop (`VoteLost`), because anything else could hang them. Engines handle a dead rank.

Generators yield operations on the key-value store, and are sent the results. `conduct` performs them. The store must
promise two things: `compare_set` on one key is atomic, and a key that was written is not forgotten. Values may be lost,
late or duplicated on their way.
"""

import json
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from enum import StrEnum
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from warmcurve.errors import VoteError, VoteLost, WarmcurveError
from warmcurve.outcome import Reason

ATTEMPTS: Final = 3
GRACE: Final = 1.25
"""Followers wait this many times as long as the leader, because the leader can say which rank is missing."""
LEADER: Final = 0


class Course(StrEnum):
    GO = "go"
    AGAIN = "again"
    CALIBRATE = "calibrate"


class Decision(msgspec.Struct, frozen=True):
    """What all ranks do next, and which rank decided it. `agreed`: all ranks are known to have the same fingerprint."""

    course: Course
    reason: Reason | None = None
    detail: str | None = None
    rank: int | None = None
    agreed: bool = False


GO: Final = Decision(Course.GO, agreed=True)


class Post(msgspec.Struct, frozen=True):
    """Write a value under a key that only this rank writes. The reply is None."""

    key: str
    value: bytes


class Await(msgspec.Struct, frozen=True):
    """Wait until one of the keys holds a value. The reply is what was `Heard`, or None when the round's time is up.

    The time of a round begins with its first wait. It is multiplied by `patience`.
    """

    round: int
    keys: tuple[str, ...]
    patience: float = 1.0


class Propose(msgspec.Struct, frozen=True):
    """Write a value under a key unless it holds one. The reply is what was `Heard`: the value that it then holds."""

    key: str
    value: bytes


class Heard(msgspec.Struct, frozen=True):
    key: str
    value: bytes


Operation: TypeAlias = Post | Await | Propose
Reply: TypeAlias = Heard | None
T = TypeVar("T")
Voting: TypeAlias = Generator[Operation, Reply, T]
Decide: TypeAlias = Callable[[Sequence[bytes]], Decision]


def encode(message: msgspec.Struct) -> bytes:
    """The message as JSON. A lone surrogate (a path may have one) becomes a question mark: it has no UTF-8."""
    try:
        return msgspec.json.encode(message)
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(message), ensure_ascii=False).encode("utf-8", "replace")


def conduct(path: Generator[Any, Any, T], perform: Callable[[Operation], Reply]) -> Generator[Any, Any, T]:
    """Run a path and perform its operations. Everything else that it yields goes to the caller."""
    reply: Any = None
    error: WarmcurveError | None = None
    while True:
        try:
            request = path.throw(error) if error else path.send(reply)
        except StopIteration as end:
            result: T = end.value
            return result
        reply = error = None
        try:
            reply = perform(request) if isinstance(request, Operation) else (yield request)
        except WarmcurveError as raised:
            error = raised


def vote_alone(voting: Voting[T], perform: Callable[[Operation], Reply]) -> T:
    """Perform a part of a vote outside a path."""
    try:
        next(conduct(voting, perform))
    except StopIteration as end:
        result: T = end.value
        return result
    raise AssertionError("a vote asks nothing of an engine")


class Party:
    """One rank in the votes of one calibration.

    `bound` is true from this rank's vote for going on until the round's decision is known. `over` is true once no
    decision is left. Every method that votes is a generator of operations. A `VoteError` that is thrown into it means
    that the store failed.
    """

    def __init__(self, rank: int, world: int) -> None:
        self.rank = rank
        self.world = world
        self.round = 1
        self.bound = False
        self.over = False

    @property
    def leads(self) -> bool:
        return self.rank == LEADER

    def offer(self, value: bytes) -> Voting[Decision | None]:
        """For the leader: post its offer. Returns a decision if this failed."""
        if self.world == 1:
            return None
        try:
            yield Post("offer", value)
        except VoteError as error:
            return (yield from self._failed(error))
        return None

    def hear(self) -> Voting[bytes | Decision]:
        """For followers: the leader's offer, or a decision that was made without them."""
        try:
            heard = yield Await(self.round, (self._register, "offer"))
        except VoteError as error:
            return (yield from self._failed(error))
        if heard is None:
            return (yield from self._propose(self._late("the leader made no offer in time", LEADER)))
        return heard.value if heard.key == "offer" else self._adopt(heard.value)

    def settle(
        self, vote: bytes, decide: Decide | None = None, *, promise: bool = True, last: bool = False
    ) -> Voting[Decision]:
        """One round of the vote. `decide` gives the decision from all votes, the leader's first. Followers need none.

        `promise` says that this is a vote for going on. `last` says that no vote follows if all go on.
        """
        if decide is not None and self.world == 1:
            return self._follow(decide((vote,)), last=last)
        try:
            if decide is not None and self.leads:
                decision = yield from self._lead(vote, decide)
            else:
                decision = yield from self._vote(vote, promise=promise)
        except VoteError as error:
            decision = yield from self._failed(error)
        self.over |= last
        return decision

    def _lead(self, vote: bytes, decide: Decide) -> Voting[Decision]:
        votes = [vote]
        for rank in range(1, self.world):
            heard = yield Await(self.round, (self._register, self._vote_key(rank)))
            if heard is None:
                return (yield from self._propose(self._late(f"rank {rank} did not vote in time", rank)))
            if heard.key == self._register:
                return self._adopt(heard.value)
            votes.append(heard.value)
        return (yield from self._propose(decide(votes)))

    def _vote(self, vote: bytes, *, promise: bool) -> Voting[Decision]:
        self.bound = promise
        yield Post(self._vote_key(self.rank), vote)
        heard = yield Await(self.round, (self._register,), GRACE)
        if heard is None:
            return (yield from self._propose(self._late("no decision was made in time", None)))
        return self._adopt(heard.value)

    def withdraw(self, reason: Reason, detail: str | None, *, agreed: bool = False) -> Voting[Decision]:
        """This rank cannot go on with stored curves, so all ranks calibrate. It may be called at any time.

        Raises `VoteLost` if the others already go on, with a vote of this rank.
        """
        decision = Decision(Course.CALIBRATE, reason, detail, self.rank, agreed)
        if self.world == 1 or self.over:
            return self._follow(decision)
        decision = yield from self._propose(decision)
        if decision.course is not Course.CALIBRATE:
            raise VoteLost(f"rank {self.rank} voted to go on and now cannot: {detail}")
        return decision

    def _propose(self, decision: Decision) -> Voting[Decision]:
        self.bound |= decision.course is not Course.CALIBRATE
        failure = ""
        for _ in range(ATTEMPTS):
            try:
                heard = yield Propose(self._register, encode(decision))
            except VoteError as error:
                failure = error.detail
            else:
                assert heard is not None
                return self._adopt(heard.value)
        if self.bound:
            raise VoteLost(f"rank {self.rank} voted to go on and cannot learn what was decided: {failure}")
        return self._follow(Decision(Course.CALIBRATE, Reason.VOTE_FAILED, failure, self.rank))

    def _failed(self, error: VoteError) -> Voting[Decision]:
        return (yield from self._propose(Decision(Course.CALIBRATE, error.reason, error.detail, self.rank)))

    @staticmethod
    def _late(detail: str, rank: int | None) -> Decision:
        return Decision(Course.CALIBRATE, Reason.RANK_ABSENT, detail, rank)

    def _adopt(self, value: bytes) -> Decision:
        decision = _read(value)
        if decision is None:
            if self.bound:
                raise VoteLost(f"rank {self.rank} voted to go on and cannot read the decision: {value!r:.200}")
            # Nobody can have gone on: that would have needed a vote of this rank.
            decision = Decision(Course.CALIBRATE, Reason.VOTE_FAILED, f"an unreadable decision: {value!r:.200}")
        if decision.course is not Course.CALIBRATE and not self.bound:
            raise VoteLost(f"the others go on without the vote of rank {self.rank}")
        return self._follow(decision)

    def _follow(self, decision: Decision, *, last: bool = False) -> Decision:
        self.round += 1
        self.bound = False
        self.over |= last or decision.course is Course.CALIBRATE
        return decision

    def announce(self, value: bytes) -> Voting[None]:
        """For the leader, after a calibration: post how the boot ended. Only reports depend on it."""
        if self.world > 1:
            with suppress(VoteError):
                yield Post("outcome", value)

    def learn(self) -> Voting[bytes | None]:
        """For followers: what the leader announced, or None."""
        try:
            heard = yield Await(self.round, ("outcome",), GRACE)
        except VoteError:
            return None
        return None if heard is None else heard.value

    @property
    def _register(self) -> str:
        return f"{self.round}/decision"

    def _vote_key(self, rank: int) -> str:
        return f"{self.round}/vote/{rank}"


class _Told(msgspec.Struct):
    course: Course


def _read(value: bytes) -> Decision | None:
    try:
        return msgspec.json.decode(value, type=Decision)
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    try:
        if msgspec.json.decode(value, type=_Told).course is Course.CALIBRATE:
            # In the words of a later version, whose reasons this one does not know.
            return Decision(Course.CALIBRATE, Reason.RANKS_DIFFER, f"another version said {value!r:.200}")
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    return None
