"""The path from boot to decision, sans-I/O.

`Boot.run()` is a generator: it yields what the engine is to do and is sent what was measured. It never touches a
device; files, clock and the store that ranks vote over come in as small protocols. An engine drives it like this
(`driver.py`):

    steps = boot.run()
    request = next(steps)
    while True:
        match request:
            case Replay(sizes):     reply = one timed replay of each size, in order
            case Install(verified): reply = (), once the engine plans with verified.profile
            case Calibrate():       reply = the samples of the engine's own full calibration
        request = steps.send(reply)             # StopIteration carries the BootReport

        fingerprint ── a factor unknown ───────────────────→ Calibrate, nothing stored
            └─ get, decode ── none, damaged, too old ──────→ Calibrate, store
                └─ vote ── a rank differs or is absent ────→ Calibrate, nothing stored
                    └─ Replay …, vote ── off, on any rank ─→ Calibrate, replace
                        └─ Install, vote ── refused ───────→ Calibrate, replace
                            └─ reused

That is the mode `reuse`. With `require` nothing calibrates: the path ends in `CurvesRequired`, which stops the engine.
`record` never offers an entry, `verify` compares it with a full calibration and stores nothing, `off` does neither.

Errors that belong to the path (`WarmcurveError`) become reasons here. An error that nobody foresaw passes through:
the engine's adapter catches it at its edge, tells the other ranks with `Boot.withdraw`, lets the engine calibrate as it
does without warmcurve, and reports it with `Boot.abandon`.
"""

import json
import os
import platform
from collections.abc import Callable, Mapping
from contextlib import suppress

from warmcurve._version import __version__
from warmcurve.boot import keeper
from warmcurve.boot.audit import audit
from warmcurve.boot.keeper import Keeper
from warmcurve.boot.request import Calibrate, Install, Path, Replay, Samples, Steps
from warmcurve.boot.settings import Settings
from warmcurve.clock import Clock
from warmcurve.curves import calibration, sentinel
from warmcurve.curves.calibration import Plan, profile_from
from warmcurve.curves.profile import CostProfile
from warmcurve.curves.sentinel import Evidence, VerifiedProfile
from warmcurve.errors import (
    CurvesRequired,
    EntryError,
    FactorError,
    InstallRefused,
    ProfileError,
    StoreError,
    VoteError,
    VoteLost,
)
from warmcurve.outcome import PLANNED, TURNED_DOWN, Outcome, Reason, Step
from warmcurve.ranks import ballot
from warmcurve.ranks.ballot import Ballot, Ending, Identity, Offer
from warmcurve.ranks.register import Register
from warmcurve.ranks.vote import GO, Course, Decision, Heard, Operation, Party, Voting, conduct, encode, vote_alone
from warmcurve.reporting.report import BootReport, RegretReport, VoteReport
from warmcurve.storage.entry import Entry
from warmcurve.storage.fingerprint import Factors, Value, canonical, fingerprint
from warmcurve.storage.history import Histories
from warmcurve.storage.store import Store


class Boot:
    """One boot of one rank. Every collaborator is given: nothing here reads an environment or a file.

    `read_factors` gives the engine's factors and may raise `FactorError`. The plan is added to them: curves measured
    at other sizes are other curves. `unreviewed` names factors that count though nobody reviewed them, for the report.
    `draw(n)` gives an integer in [0, n), to pick the sentinels. In a world of several
    ranks they vote over `register` (`vote.py`), and only the leader, rank 0, draws and touches the store; without a
    register every rank calibrates, and nothing is stored. `histories` remembers from boot to boot what became of an
    entry. `measure_regret(fresh, stored)` gives the regret of one profile where the other is true (`regret.py`), for
    the report of a boot that calibrated beside a stored one; it must not raise.
    """

    def __init__(
        self,
        *,
        engine: str,
        plan: Plan,
        read_factors: Callable[[], Factors],
        store: Store,
        settings: Settings,
        clock: Clock,
        draw: Callable[[int], int],
        rank: int = 0,
        world: int = 1,
        register: Register | None = None,
        histories: Histories | None = None,
        measure_regret: Callable[[CostProfile, CostProfile], RegretReport | None] = lambda _fresh, _stored: None,
        unreviewed: tuple[str, ...] = (),
        conditions: Mapping[str, str | int | float | bool | None] | None = None,
    ) -> None:
        self.step = Step.FINGERPRINT
        self.party = Party(rank, world)
        self._engine = engine
        self._plan = plan
        self._read_factors = read_factors
        self._store = store
        self._settings = settings
        self._clock = clock
        self._draw = draw
        self._register = register
        self._histories = histories
        self._measure_regret = measure_regret
        self._keeper: Keeper | None = None
        self._unreviewed = unreviewed
        self._conditions = conditions or {}
        self._started = clock.monotonic_ns()
        self._in_place: int | None = None
        self._factors: dict[str, Value] | None = None
        self._digest: str | None = None
        self._stored: CostProfile | None = None
        self._installing = False
        self._own: Decision | None = None
        self._decision: Decision | None = None
        self._detail: str | None = None
        self._evidence: Evidence | None = None
        self._regret: RegretReport | None = None
        self._expected_ms: float | None = None
        self._recorded_ms: float | None = None
        self._sentinel_runs = 0
        self._calibration_runs = 0

    def run(self) -> Steps:
        """The path, with the vote's operations performed."""
        return (yield from conduct(self.path(), self._perform))

    def path(self) -> Path[BootReport]:
        """The path, with the vote's operations yielded like requests to the engine."""
        self._decision, sizes = yield from self._open()
        if self._decision.course is Course.GO:
            self._decision = yield from self._reuse(sizes)
        if self._decision.course is Course.GO:
            self._in_place = self._clock.monotonic_ns()
            if self._keeper:
                self._keeper.accepted(self._evidence.readings if self._evidence else ())
            return self._report(Outcome.REUSED, None)
        if self._keeper and self._decision.reason in TURNED_DOWN:
            self._keeper.turned_down(self._decision.reason, self._decision.detail)
        if self._settings.mode == "require":
            why = (self._decision.reason, self._decision.detail)
            raise CurvesRequired(": ".join(filter(None, why)))
        return (yield from self._calibrate(self._decision))

    def _open(self) -> Voting[tuple[Decision, tuple[int, ...]]]:
        """Up to the first decision, and the sentinels that go with it."""
        if self._settings.mode == "off":
            return (yield from self._withdraw(Reason.SWITCHED_OFF, "by the mode")), ()
        if self.party.world > 1 and self._register is None:
            self.party.over = True
            return (yield from self._withdraw(Reason.VOTE_UNAVAILABLE, f"{self.party.world} ranks take part")), ()
        if not self._plan.captured:
            return (yield from self._withdraw(Reason.NOTHING_CAPTURED, "no captured size")), ()
        try:
            self._factors = self._keyed(self._read_factors())
            self._digest = fingerprint(self._factors)
        except FactorError as error:
            return (yield from self._withdraw(error.reason, error.detail)), ()
        identity = Identity(ballot.PROTOCOL, __version__, self._settings.common(), self._digest)
        return (yield from (self._offer(identity) if self.party.leads else self._answer(identity)))

    def _offer(self, identity: Identity) -> Voting[tuple[Decision, tuple[int, ...]]]:
        assert self._factors is not None
        found, data = self._look_up(identity.digest)
        self._own = found
        sizes: tuple[int, ...] = ()
        if data is not None:
            self.step = Step.SENTINEL
            sizes = sentinel.choose(self._plan.captured, self._draw, self._settings.sentinels)
        self.step = Step.VOTE
        failed = yield from self.party.offer(encode(Offer.of(identity, self._factors, data, sizes)))
        if failed:
            return failed, ()
        own = encode(Ballot(identity, ballot.checksum(data)))
        return (yield from self.party.settle(own, lambda votes: ballot.opening(votes, found))), sizes

    def _answer(self, identity: Identity) -> Voting[tuple[Decision, tuple[int, ...]]]:
        assert self._factors is not None
        self.step = Step.VOTE
        heard = yield from self.party.hear()
        if isinstance(heard, Decision):
            return heard, ()
        offer = ballot.read_offer(heard, identity, self._factors)
        if isinstance(offer, str):
            return (yield from self._withdraw(Reason.RANKS_DIFFER, offer)), ()
        data, self._own = None, GO
        try:
            data = offer.entry_bytes()
            if data is not None:
                self._take(data, identity.digest)
                offer.check_sizes(self._plan.captured)
        except (EntryError, VoteError) as error:
            self._own = Decision(Course.CALIBRATE, error.reason, error.detail, self.party.rank, agreed=True)
        objection = None if self._own is GO else self._own
        own = encode(Ballot(identity, ballot.checksum(data), objection))
        promise = data is not None and objection is None
        return (yield from self.party.settle(own, promise=promise)), offer.sizes

    def _keyed(self, factors: Factors) -> dict[str, Value]:
        """The engine's factors and the plan, as a tree of our own that nobody changes any more."""
        if "plan" in factors:
            raise FactorError(Reason.FACTOR_INVALID, "plan", "this name is the boot's own")
        keyed: dict[str, Value] = json.loads(canonical({**factors, "plan": self._plan.described()}))
        return keyed

    def _look_up(self, digest: str) -> tuple[Decision, bytes | None]:
        self.step = Step.GET
        self._keeper = Keeper(digest, self._plan, self._store, self._histories, self._settings, self._clock)
        if self._settings.mode == "record":
            return self._miss(Reason.MODE_RECORD, None), None
        try:
            data = self._store.get(digest)
            if data is None:
                return self._miss(Reason.ABSENT, self._keeper.nearest(self._factors or {})), None
            self.step = Step.DECODE
            self._keeper.check(data, self._take(data, digest))
        except StoreError as error:
            return self._miss(error.reason, error.detail), None
        except EntryError as error:
            if self._settings.mode not in {"verify", "require"}:
                self._keeper.clear(error)
            return self._miss(error.reason, error.detail), None
        return (self._miss(Reason.MODE_VERIFY, None), None) if self._settings.mode == "verify" else (GO, data)

    def _take(self, data: bytes, digest: str) -> Entry:
        """Raises `EntryError`."""
        found = keeper.read(data, digest, self._plan)
        recorded_ms = found.conditions.get("calibration_ms")
        self._recorded_ms = recorded_ms if type(recorded_ms) is float else None
        self._stored = found.profile
        return found

    def _miss(self, reason: Reason, detail: str | None) -> Decision:
        return Decision(Course.CALIBRATE, reason, detail, self.party.rank, agreed=True)

    def _reuse(self, sizes: tuple[int, ...]) -> Path[Decision]:
        """From the first sentinel to curves that are in place on every rank, or the decision to calibrate."""
        assert self._stored is not None
        self._expected_ms = self._stored.expected_ms(sizes)
        tokens = calibration.tokens_run(self._plan, self._stored)
        tail = self._plan.tail() if self._settings.tail == "once" else ()
        rounds = sentinel.rounds_for(self._settings.sentinels)
        to_replay, played = sizes, 0
        asked: tuple[int, ...] = ()
        samples: Samples = ()
        while to_replay:
            self.step = Step.SENTINEL
            played += 1
            self._sentinel_runs += len(to_replay)
            samples += yield Replay(to_replay)
            asked += tuple(tokens[size] for size in to_replay)
            verdict = sentinel.judge(self._stored, asked, samples, self._settings.limits, rounds)
            self._evidence = verdict.evidence
            if isinstance(verdict, VerifiedProfile):
                self._own = GO
            elif verdict.final or played == rounds.count:
                return (yield from self._withdraw(verdict.reason, verdict.detail, agreed=True))
            else:
                self._own = Decision(Course.AGAIN, verdict.reason, verdict.detail, self.party.rank, agreed=True)
            decision = yield from self.party.settle(encode(self._own), ballot.verdict)
            if decision.course is Course.CALIBRATE:
                return decision
            if decision.course is Course.GO:
                # What the tail shows is compared with the sentinels, so another round replays both.
                to_replay, sizes, tail, played = tail, sizes + tail, (), 0
            else:
                to_replay = sizes
        assert isinstance(verdict, VerifiedProfile)
        self.step = Step.INSTALL
        self._installing = True
        try:
            yield Install(verdict)
        except InstallRefused as error:
            self._installing = False
            return (yield from self._withdraw(error.reason, error.detail, agreed=True))
        self._installing = False
        return (yield from self.party.settle(encode(GO), ballot.verdict, last=True))

    def _withdraw(self, reason: Reason, detail: str, *, agreed: bool = False) -> Voting[Decision]:
        self._own = Decision(Course.CALIBRATE, reason, detail, self.party.rank, agreed)
        return (yield from self.party.withdraw(reason, detail, agreed=agreed))

    def _calibrate(self, decision: Decision) -> Path[BootReport]:
        self.step = Step.CALIBRATE
        self._calibration_runs = len(self._plan.runs)
        self._detail = decision.detail
        flaw: ProfileError | None = None
        samples: Samples = ()
        try:
            samples = yield Calibrate()
        except ProfileError as error:
            flaw = error
        self._in_place = self._clock.monotonic_ns()
        ending = Ending(Outcome.UNRECORDED, decision.reason, self._detail)
        if decision.agreed and self.party.leads:
            ending = self._record(samples, flaw, decision)
            yield from self.party.announce(encode(ending))
            self._add_regret(samples)
        elif decision.agreed:
            ending = ballot.read_ending((yield from self.party.learn()))
        self._detail = ending.detail or self._detail
        return self._report(ending.outcome, ending.reason)

    def _record(self, samples: Samples, flaw: ProfileError | None, decision: Decision) -> Ending:
        assert self._keeper is not None
        if self._settings.mode == "verify":
            try:
                self._evidence, detail = audit(self._stored, samples, self._settings)
            except ProfileError as error:
                flaw, detail = error, None
            return Ending(Outcome.UNRECORDED, Reason.MODE_VERIFY, flaw.detail if flaw else detail)
        try:
            if flaw:
                raise flaw
            self.step = Step.PUT
            taken = {"calibration_ms": self._calibration_ms()}
            self._keeper.record(samples, self._engine, self._factors or {}, {**taken, **self._conditions})
        except (ProfileError, EntryError, StoreError) as error:
            return Ending(Outcome.UNRECORDED, error.reason, error.detail)
        return Ending(Outcome.RECORDED, None if decision.reason in PLANNED else decision.reason)

    def _add_regret(self, samples: Samples) -> None:
        """For the report: what the stored curves are worth against the fresh ones."""
        with suppress(ProfileError):
            if self._stored is not None and samples:
                self._regret = self._measure_regret(profile_from(samples, self._stored.capture_limit), self._stored)

    @property
    def reused(self) -> bool:
        """Whether stored curves are in place on every rank. They stay, whatever comes."""
        return self.party.over and self._decision is not None and self._decision.course is Course.GO

    @property
    def agreed(self) -> bool:
        """Whether every rank has the decision that this one has, and the same settings."""
        return self._decision is not None and self._decision.agreed

    def withdraw(self, reason: Reason, detail: str) -> None:
        """For the adapter's edge, at once: this rank left its path, and calibrates unless the boot has `reused`.

        Raises `VoteLost` where the other ranks may go on, on a vote of this one; then it must run nothing.
        """
        try:
            vote_alone(self.leaving(reason, detail), self._perform)
        except Exception as error:
            if self.party.bound and not isinstance(error, VoteLost):
                raise VoteLost(f"rank {self.party.rank} voted to go on and now cannot: {detail}") from error
            raise

    def leaving(self, reason: Reason, detail: str) -> Voting[None]:
        """The same with the vote's operations yielded."""
        if self._installing and self.party.world > 1:
            # Installing is a collective too (vLLM broadcasts the curves): the others wait in it for this rank.
            raise VoteLost(f"rank {self.party.rank} left while all install stored curves: {detail}")
        if not self.party.over:
            self._decision = yield from self._withdraw(reason, detail)

    def abandon(self, reason: Reason, detail: str, *, calibration_runs: int) -> BootReport:
        """The report of a boot whose path was left at `step`; the engine has calibrated, or failed, on its own.

        Where the curves of a hit are in place already they stay, and the outcome is `reused`, with the reason.
        """
        self._detail = detail
        self._calibration_runs = calibration_runs
        if self.reused:
            return self._report(Outcome.REUSED, reason, self.step)
        if self.party.leads and self._decision and self._decision.agreed and self.party.over:
            vote_alone(self.party.announce(encode(Ending(Outcome.UNRECORDED, reason, detail))), self._perform)
        return self._report(Outcome.UNRECORDED, reason, None if reason is Reason.CURVES_REQUIRED else self.step)

    def _perform(self, operation: Operation) -> Heard | None:
        assert self._register is not None
        return self._register.perform(operation)

    def _calibration_ms(self) -> float:
        end = self._clock.monotonic_ns() if self._in_place is None else self._in_place
        return round((end - self._started) / 1e6, 3)

    def _report(self, outcome: Outcome, reason: Reason | None, step: Step | None = None) -> BootReport:
        hit, decision = outcome is Outcome.REUSED, self._decision
        waited_ns = 0 if self._register is None else self._register.waited_ns
        return BootReport(
            at=self._clock.now().isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            warmcurve=__version__,
            engine=self._engine,
            host=platform.node(),
            pid=os.getpid(),
            rank=self.party.rank,
            world=self.party.world,
            outcome=outcome,
            reason=reason,
            missed=None if hit or decision is None else decision.reason,
            detail=self._detail if reason or not hit else None,
            step=step,
            digest=self._digest,
            entry=self._store.describe(self._digest) if self._digest and self.party.leads else None,
            mode=self._settings.mode,
            calibration_runs=self._calibration_runs,
            expected_ms=self._expected_ms,
            sentinel_runs=self._sentinel_runs,
            calibration_ms=self._calibration_ms(),
            recorded_ms=self._recorded_ms,
            evidence=self._evidence,
            regret=self._regret,
            limits=self._settings.limits,
            factors=None if hit else self._factors,
            unreviewed=self._unreviewed,
            vote=VoteReport(decision, self._own, round(waited_ns / 1e6, 3)) if self.party.world > 1 else None,
        )
