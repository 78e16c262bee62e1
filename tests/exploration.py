"""Every course that a vote can take: all ranks' real boots, all interleavings, all faults that are asked for.

A rank is a real `Boot`, or one without warmcurve. A generator cannot be copied, so its state is reached by replaying
the history of its replies; histories after which every frame of the generator, every field of the boot and the place
among the collectives are alike are one state. The world's state is the ranks', what the key-value store holds, and
what is still on its way to it. The explorer visits every world that can be reached:

- a value posted arrives at any later time; a decision proposed is applied at once;
- a deadline passes whenever nothing that is waited for is there;
- a replay, an installation and a calibration are collectives: they end once every living rank has come to the same;
- a fault, as many as asked for in one course: an operation fails though it was applied, or is applied later, or never;
  a value posted is lost; a proposal arrives a second time; a rank dies; our own code raises an error nobody foresaw.

Two reductions keep it small, and lose no course: a post, or the end of a collective, touches nobody else, so it is
taken before anything else.
"""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple
from unittest.mock import patch

from tests.support import boot_of
from warmcurve.boot import path as boot_room
from warmcurve.boot.driver import drive
from warmcurve.boot.path import Boot
from warmcurve.boot.request import Calibrate, Install, Replay
from warmcurve.boot.settings import Settings
from warmcurve.curves.profile import Sample
from warmcurve.curves.sentinel import Limits
from warmcurve.errors import CurvesRequired, FactorError, InstallRefused, StoreError, VoteError, VoteLost
from warmcurve.outcome import Outcome, Reason
from warmcurve.ranks.vote import Await, Heard, Party, Post, Propose
from warmcurve.reporting.report import BootReport
from warmcurve.storage.store import Store
from warmcurve.testing import FaultStore, MemoryStore, ScriptedEngine

FACTORS = {"device": "example"}
TAIL = 3
"""The one size above the captured ones."""


class Violation(Exception):
    """A course on which ranks part, or one that does not end."""


class Stopped(NamedTuple):
    """A rank that has nothing more to do. One without warmcurve has no report. One that `lost` the vote, or that the
    mode `require` does not let go on, has exited.
    """

    report: BootReport | None
    lost: bool = False
    required: bool = False

    @property
    def exited(self) -> bool:
        return self.lost or self.required


class Broken(Exception):
    """An error that nobody foresaw."""


class Kind(NamedTuple):
    """A rank's part in a scenario."""

    name: str
    store: Callable[[], Store]
    read_factors: Callable[[], dict[str, Any]]
    version: str = "1.0"
    damages: bool = False
    words: bool = False
    absent: bool = False
    settings: Settings = Settings()


def _raising(error: Exception) -> Callable[[], Any]:
    def fail() -> Any:
        raise error

    return fail


def _engine() -> ScriptedEngine:
    return ScriptedEngine(captured=(1, 2), max_tokens=TAIL, max_requests=2, replays=1)


def _recorded() -> dict[str, bytes]:
    store, engine = MemoryStore(), _engine()
    assert drive(boot_of(engine, store, read_factors=lambda: FACTORS), engine).outcome is Outcome.RECORDED
    return store.entries


ENTRIES = _recorded()


def _filled() -> MemoryStore:
    store = MemoryStore()
    store.entries |= ENTRIES
    return store


def _faulty() -> FaultStore:
    store = FaultStore()
    store.errors = {"get": StoreError(Reason.STORE_UNAVAILABLE, "gone")}
    return store


PLAIN = Kind("plain", _filled, lambda: FACTORS)
ONCE = PLAIN._replace(name="tail once", settings=Settings(tail="once"))
REQUIRE, RECORD, VERIFY, OFF_MODE = (
    PLAIN._replace(name=mode, settings=Settings(mode=mode)) for mode in ("require", "record", "verify", "off")
)
REQUIRE_COLD = REQUIRE._replace(name="require, cold", store=MemoryStore)
SWEPT = PLAIN._replace(name="swept", settings=Settings(Limits(max_regret=0.5), sentinels="sweep"))
"""Off, as below, is never allowed and never hopeless, so it is replayed up to the last round."""
ABSENT = PLAIN._replace(name="absent", absent=True)
COLD = PLAIN._replace(name="cold", store=MemoryStore)
NO_STORE = PLAIN._replace(name="no store", store=_faulty)
STANDS_DOWN = PLAIN._replace(
    name="stands down", read_factors=_raising(FactorError(Reason.FACTOR_UNKNOWN, "model", "gone"))
)
BROKEN = PLAIN._replace(name="broken", read_factors=_raising(Broken()))
OTHER_FACTOR = PLAIN._replace(name="other factor", read_factors=lambda: {"device": "another"})
OTHER_VERSION = PLAIN._replace(name="other version", version="0.0.1")
OTHER_WORDS = OTHER_VERSION._replace(name="other words", words=True)
DAMAGED = PLAIN._replace(name="damaged", damages=True)
LEADERS = (PLAIN, COLD, NO_STORE, ABSENT, STANDS_DOWN, BROKEN, OTHER_VERSION)
FOLLOWERS = (PLAIN, ABSENT, STANDS_DOWN, BROKEN, OTHER_FACTOR, OTHER_VERSION, OTHER_WORDS, DAMAGED)

LONGEST = 60
INFORMATIVE = {
    *("self", "given", "position", "party", "found", "decide", "verdict"),
    *("own", "started_ns", "in_place_ns", "evidence", "regret", "detail", "expected_ms", "recorded_ms"),
}
"""Collaborators, and what a boot or its frames hold that no later step depends on."""
GOOD, OFF, WRONG = "good", "off", "wrong"
_FACTOR = {GOOD: 1.0, OFF: 2.0, WRONG: 0.2}
"""Of the cost of the tail, where it runs, or of the smaller size: off is worth another replay, wrong is final."""


class Local(NamedTuple):
    """A rank after some history: what it does next, and the collectives that it came to so far."""

    action: Any
    collectives: tuple[Any, ...]
    round: int


class Explorer:
    """All courses of one scenario. `party` makes each rank's `Party`. To seed bugs, `overwrites` is a store without
    compare-and-set, and `groups` gives ranks that vote in groups of so many, each among themselves. Without `breaks`
    the faults are those of a network and of ranks that die. `lost` says afterwards whether any rank lost the vote.
    """

    def __init__(
        self,
        kinds: tuple[Kind, ...],
        faults: int = 0,
        party: Callable[[int, int], Party] = Party,
        *,
        overwrites: bool = False,
        groups: int | None = None,
        boot: type[Boot] = Boot,
        breaks: bool = True,
        verdicts: tuple[str, ...] = (GOOD, OFF, WRONG),
    ) -> None:
        self.kinds = kinds
        self.world = len(kinds)
        self.faults = faults
        self.party = party
        self.boot = boot
        self.overwrites = overwrites
        self.group = groups or self.world
        self.verdicts = verdicts
        self.breaks = breaks
        self.lost = False
        self.endings: set[tuple[Any, ...]] = set()
        self._states: list[tuple[int, tuple[Any, ...], Local]] = []
        self._known: dict[Any, int] = {}
        self._children: dict[tuple[int, Any], int] = {}

    def explore(self) -> int:
        """Visit all; the number of worlds seen. Raises `Violation`."""
        start = World(tuple(self._root(rank) for rank in range(self.world)), frozenset(), frozenset(), self.faults)
        seen, ahead = {start}, [start]
        while ahead:
            world = ahead.pop()
            self._compare(world)
            after = list(self._after(world))
            if not after:
                self._end(world)
            for each in map(self._without_past, after):
                if each not in seen:
                    seen.add(each)
                    ahead.append(each)
        return len(seen)

    def _compare(self, world: "World") -> None:
        """No living ranks came to different collectives, whoever else is dead, and none has ended before another."""
        living = [self.local(node) for node in world.nodes if node is not None]
        longest = max((local.collectives for local in living), key=len, default=())
        for local in living:
            if local.collectives != longest[: len(local.collectives)]:
                raise Violation(f"ranks part: one is at {local.collectives}, another at {longest}")
            ended = isinstance(local.action, Stopped) and not local.action.exited
            if ended and len(local.collectives) < len(longest):
                raise Violation(f"ranks part: one has ended after {local.collectives}, another is at {longest}")
            self.lost |= isinstance(local.action, Stopped) and local.action.lost

    def _without_past(self, world: "World") -> "World":
        """Nobody reads a round that all ranks have left."""
        rounds = [self.local(node).round for node in world.nodes if node is not None and self.local(node).round]
        left = min(rounds, default=99)
        if all(_round(key) >= left for key, _ in world.held) and all(_round(m.key) >= left for m in world.flying):
            return world
        return world._replace(
            held=frozenset(item for item in world.held if _round(item[0]) >= left),
            flying=frozenset(message for message in world.flying if _round(message.key) >= left),
        )

    # One rank, by its history.

    def _root(self, rank: int) -> int:
        return self._state(rank, ())

    def _child(self, node: int, reply: Any) -> int:
        key = node, reply
        if key not in self._children:
            rank, history, _ = self._states[node]
            self._children[key] = self._state(rank, (*history, reply))
        return self._children[key]

    def local(self, node: int) -> Local:
        return self._states[node][2]

    def _state(self, rank: int, history: tuple[Any, ...]) -> int:
        kind = self.kinds[rank]
        if kind.absent:
            local = Local(Stopped(None) if history else Calibrate(), (_collective(Calibrate()),), 0)
            signature: Any = bool(history)
        else:
            with patch.object(boot_room, "__version__", kind.version):
                live = _Live(kind, self.party(rank % self.group, self.group), self.boot)
                for reply in history:
                    live.answer(reply)
            local, signature = Local(live.action, tuple(live.collectives), live.round), live.signature()
        if len(history) > LONGEST:
            raise Violation("a rank that never ends")
        if (rank, signature) not in self._known:
            self._states.append((rank, history, local))
            self._known[rank, signature] = len(self._states) - 1
        return self._known[rank, signature]

    # The world.

    def _after(self, world: "World") -> Iterator["World"]:
        locals_ = [None if node is None else self.local(node) for node in world.nodes]
        for rank, local in enumerate(locals_):
            if local and (isinstance(local.action, Post) or self._released(rank, locals_)):
                yield from self._faulty_steps(world, rank, local.action)
                return
        for rank, local in enumerate(locals_):
            if local and isinstance(local.action, Await | Propose):
                yield from self._faulty_steps(world, rank, local.action)
        for message in world.flying:
            yield self._arrived(world, message)._replace(flying=world.flying - {message})

    def _released(self, rank: int, locals_: list[Local | None]) -> bool:
        """Whether the collective that this rank is at can end."""
        own = locals_[rank]
        if own is None or not isinstance(own.action, Replay | Install | Calibrate):
            return False
        place = len(own.collectives) - 1
        return all(other is not None and place < len(other.collectives) for other in locals_)

    def _faulty_steps(self, world: "World", rank: int, action: Any) -> Iterator["World"]:
        yield from self._steps(world, rank, action)
        if not world.faults:
            return
        less = world._replace(faults=world.faults - 1)
        yield less.with_node(rank, None)
        if self.kinds[rank].absent:
            return
        if self.breaks:
            yield self._told(less, rank, Broken)
        if isinstance(action, Post):
            message = Message(self._key(rank, action.key), action.value, once=False)
            yield self._told(less, rank, None)
            yield self._told(less, rank, VoteError)
            yield self._told(less._replace(flying=less.flying | {message}), rank, VoteError)
        elif isinstance(action, Await):
            yield self._told(less, rank, VoteError)
        elif isinstance(action, Propose):
            message = self._proposal(rank, action)
            applied = self._arrived(less, message)
            yield self._told(less, rank, VoteError)
            yield self._told(applied, rank, VoteError)
            yield self._told(less._replace(flying=less.flying | {message}), rank, VoteError)
            yield self._heard(applied._replace(flying=applied.flying | {message}), rank, action.key)

    def _steps(self, world: "World", rank: int, action: Any) -> Iterator["World"]:
        if isinstance(action, Post):
            message = Message(self._key(rank, action.key), action.value, once=False)
            yield self._told(world._replace(flying=world.flying | {message}), rank, None)
        elif isinstance(action, Await):
            there = [key for key in action.keys if world.holds(self._key(rank, key)) is not None]
            yield from (self._heard(world, rank, key) for key in there)
            if not there:
                yield self._told(world, rank, None)
        elif isinstance(action, Propose):
            yield self._heard(self._arrived(world, self._proposal(rank, action)), rank, action.key)
        elif isinstance(action, Replay):
            yield from (self._told(world, rank, verdict) for verdict in self.verdicts)
        elif isinstance(action, Install):
            yield self._told(world, rank, ())
            yield self._told(world, rank, InstallRefused)
        else:
            yield self._told(world, rank, ())

    def _told(self, world: "World", rank: int, reply: Any) -> "World":
        node = world.nodes[rank]
        assert node is not None
        return world.with_node(rank, self._child(node, reply))

    def _heard(self, world: "World", rank: int, key: str) -> "World":
        value = world.holds(self._key(rank, key))
        assert value is not None
        return self._told(world, rank, Heard(key, value))

    def _proposal(self, rank: int, action: Propose) -> "Message":
        value = action.value
        if self.kinds[rank].words:
            value = value.replace(b'"reason":"', b'"reason":"later_')
        return Message(self._key(rank, action.key), value, once=True)

    def _key(self, rank: int, key: str) -> str:
        return f"{key}@{rank // self.group}"

    def _arrived(self, world: "World", message: "Message") -> "World":
        held = world.holds(message.key)
        if held is None:
            return world._replace(held=world.held | {(message.key, message.value)})
        if message.once and not self.overwrites:
            return world
        return world._replace(held=world.held - {(message.key, held)} | {(message.key, message.value)})

    def _end(self, world: "World") -> None:
        """Nothing more happens: every living rank has ended, in the same way, or waits for a dead one."""
        living = [self.local(node) for node in world.nodes if node is not None]
        ended = [local for local in living if isinstance(local.action, Stopped)]
        lost = [local for local in ended if local.action.lost]
        exited = [local for local in ended if local.action.exited]
        if len(ended) < self.world and not exited and len(living) == self.world:
            raise Violation(f"ranks wait for ever: {[local.action for local in living]}")
        if lost and world.faults == self.faults:
            raise Violation("a rank lost the vote without a fault")
        reports = [local.action.report for local in ended if local.action.report is not None]
        required = {(Outcome.UNRECORDED, Reason.CURVES_REQUIRED) for local in ended if local.action.required}
        if len({report.outcome is Outcome.REUSED for report in reports} | {False for _ in required}) > 1:
            raise Violation(f"different decisions: {reports}")
        if world.faults == self.faults and len({report.vote.decision for report in reports if report.vote}) > 1:
            raise Violation(f"decisions told differently: {[report.vote for report in reports]}")
        self.endings |= {(report.outcome, report.reason) for report in reports} | required


class Message(NamedTuple):
    """What is on its way; `once` does not overwrite."""

    key: str
    value: bytes
    once: bool


@cache
def _table(held: frozenset[tuple[str, bytes]]) -> dict[str, bytes]:
    return dict(held)


class World(NamedTuple):
    nodes: tuple[int | None, ...]
    held: frozenset[tuple[str, bytes]]
    flying: frozenset[Message]
    faults: int

    def holds(self, key: str) -> bytes | None:
        return _table(self.held).get(key)

    def with_node(self, rank: int, node: int | None) -> "World":
        return self._replace(nodes=(*self.nodes[:rank], node, *self.nodes[rank + 1 :]))


class _Live:
    """A real boot, driven as an adapter drives it: what escapes is withdrawn from."""

    def __init__(self, kind: Kind, party: Party, boot: type[Boot]) -> None:
        self._kind = kind
        self._engine = _engine()
        self.collectives: list[Any] = []
        self._boot = boot_of(
            self._engine,
            kind.store(),
            kind_of_boot=boot,
            read_factors=kind.read_factors,
            settings=kind.settings,
            rank=party.rank,
            world=party.world,
            register=_Mute(),
            draw=lambda n: 0,
        )
        self._boot.position.party = party
        self._steps: Any = self._boot.path()
        self._left = False
        self.action: Any = None
        self._go(lambda: next(self._steps))

    @property
    def round(self) -> int:
        """The round whose keys it may still read."""
        return 99 if isinstance(self.action, Stopped) else self._boot.party.round

    def signature(self) -> Any:
        """All that its future depends on. Fields that only inform are left out, unless it has ended with them."""
        if isinstance(self.action, Stopped):
            report = self.action.report
            told = None if report is None else (report.outcome, report.reason, report.vote and report.vote.decision)
            return self.action.exited, self.action.lost, told, tuple(self.collectives)
        fields = _fields(self._boot)
        frames, generator = [], self._steps
        while generator is not None and generator.gi_frame is not None:
            frame = generator.gi_frame
            known = {name: value for name, value in frame.f_locals.items() if name not in INFORMATIVE}
            frames.append((frame.f_code.co_name, frame.f_lasti, repr(known)))
            generator = generator.gi_yieldfrom
        return tuple(frames), repr(fields), repr(vars(self._boot.party)), tuple(self.collectives), self._left

    def answer(self, reply: Any) -> None:
        if reply is Broken and isinstance(self.action, Install):
            # It never came to the collective, in which the others are.
            self.collectives.pop()
        if reply is Broken or reply is VoteError or reply is InstallRefused:
            self._go(lambda: self._steps.throw(reply("planted")))
        elif isinstance(self.action, Replay):
            odd = TAIL if TAIL in self.action.sizes else 1
            factors = [_FACTOR[reply] if size == odd else 1.0 for size in self.action.sizes]
            true = self._engine.replay(self.action.sizes)
            self._go(lambda: self._steps.send(tuple(map(_scaled, true, factors))))
        elif isinstance(self.action, Calibrate):
            if self._left:
                self._abandon()
            else:
                self._go(lambda: self._steps.send(self._engine.calibrate()))
        elif self._kind.damages and isinstance(reply, Heard) and reply.key == "offer":
            self._go(lambda: self._steps.send(Heard(reply.key, reply.value.replace(b'"entry":"ey', b'"entry":"yy'))))
        else:
            self._go(lambda: self._steps.send(reply))

    def _go(self, step: Callable[[], Any]) -> None:
        try:
            self.action = step()
        except StopIteration as end:
            self._ended(end.value)
        except VoteLost:
            self.action = Stopped(None, lost=True)
        except CurvesRequired:
            self.action = Stopped(None, required=True)
        except Exception:  # noqa: BLE001  as at an adapter's edge
            self._leave()
        if isinstance(self.action, Replay | Install | Calibrate):
            self.collectives.append(_collective(self.action))

    def _ended(self, report: BootReport | None) -> None:
        if report is not None:
            self.action = Stopped(report)
        elif self._boot.position.reused:
            self._abandon()
        else:
            self.action = Calibrate()

    def _leave(self) -> None:
        if self.collectives[-1:] == [_collective(Calibrate())]:
            self._abandon()
        elif not self._left:
            self._left = True
            self._steps = self._boot.leaving(Reason.INTERNAL_ERROR, "planted")
            self._go(lambda: next(self._steps))
        else:
            self.action = Stopped(None, lost=True) if self._boot.party.bound else Calibrate()

    def _abandon(self) -> None:
        self.action = Stopped(self._boot.abandon(Reason.INTERNAL_ERROR, "planted", calibration_runs=1))


def _fields(boot: Boot) -> dict[str, Any]:
    values = (boot.position, boot.found)
    known = {name: getattr(value, name) for value in values for name in value.__slots__}
    return {name: value for name, value in known.items() if name not in INFORMATIVE}


class _Mute:
    """Takes the last word of a boot that was abandoned, on which nothing depends."""

    waited_ns = 0

    def perform(self, operation: Any) -> None:
        assert operation.key == "outcome"


def _scaled(sample: Sample, factor: float) -> Sample:
    return Sample(sample.tokens, sample.requests, sample.verify_ms * factor, sample.draft_ms * factor, True)


@cache
def _round(key: str) -> int:
    """An offer belongs to the first round, an outcome to no round that is ever left."""
    name = key.partition("@")[0]
    return {"offer": 1, "outcome": 98}.get(name) or int(name.partition("/")[0])


def _collective(request: Any) -> tuple[Any, ...]:
    return type(request).__name__, getattr(request, "sizes", None)
