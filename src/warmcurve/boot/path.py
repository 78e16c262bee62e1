"""The path from boot to decision, sans-I/O.

`Boot.run()` is a generator. It yields what the engine must do, and is sent what was measured. It never touches a
device. Files, clock and the store that ranks vote over are small protocols. An engine drives it like this
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

This is the mode `reuse`. In `require` nothing calibrates: the path ends in `CurvesRequired`, which stops the engine.
`record` never offers an entry. `verify` compares the entry with a full calibration, and stores nothing. `off` does
neither.

Errors that belong to the path (`WarmcurveError`) become reasons here. An unforeseen error passes through. The engine's
adapter catches it at its edge. It tells the other ranks with `Boot.withdraw`, lets the engine calibrate as it does
without warmcurve, and reports the error with `Boot.abandon`.
"""

import json
from contextlib import suppress

from warmcurve._version import __version__
from warmcurve.boot import keeper
from warmcurve.boot.audit import audit
from warmcurve.boot.ending import calibration_ms, report
from warmcurve.boot.findings import Findings
from warmcurve.boot.inputs import Inputs
from warmcurve.boot.keeper import Keeper
from warmcurve.boot.position import Position
from warmcurve.boot.request import Calibrate, Install, Path, Replay, Samples, Steps
from warmcurve.curves import calibration, sentinel
from warmcurve.curves.calibration import profile_from
from warmcurve.curves.sentinel import VerifiedProfile
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
from warmcurve.ranks.vote import GO, Course, Decision, Heard, Operation, Party, Voting, conduct, encode, vote_alone
from warmcurve.reporting.report import BootReport
from warmcurve.storage.entry import Entry
from warmcurve.storage.fingerprint import Factors, Value, canonical, fingerprint


class Boot:
    """One boot of one rank: what it was `given`, its `position` on the path, and what it has `found`.

    Nothing here reads an environment or a file. With several ranks only the leader has a keeper, which uses the store.
    """

    def __init__(self, given: Inputs) -> None:
        self.given = given
        self.position = Position(Party(given.rank, given.world), given.clock.monotonic_ns())
        self.found = Findings()
        self._keeper: Keeper | None = None

    @property
    def party(self) -> Party:
        """This rank's part in the votes."""
        return self.position.party

    def run(self) -> Steps:
        """The path, with the vote's operations performed."""
        return (yield from conduct(self.path(), self._perform))

    def path(self) -> Path[BootReport]:
        """The path, with the vote's operations yielded like requests to the engine."""
        position = self.position
        position.decision, sizes = yield from self._open()
        if position.decision.course is Course.GO:
            position.decision = yield from self._reuse(sizes)
        decision = position.decision
        if decision.course is Course.GO:
            position.in_place_ns = self.given.clock.monotonic_ns()
            if self._keeper:
                self._keeper.accepted(self.found.evidence.readings if self.found.evidence else ())
            return self._report(Outcome.REUSED, None)
        if self._keeper and decision.reason in TURNED_DOWN:
            self._keeper.turned_down(decision.reason, decision.detail)
        if self.given.settings.mode == "require":
            raise CurvesRequired(": ".join(filter(None, (decision.reason, decision.detail))))
        return (yield from self._calibrate(decision))

    def _open(self) -> Voting[tuple[Decision, tuple[int, ...]]]:
        """The path up to the first decision. Also the sentinels that the leader chose."""
        if self.given.settings.mode == "off":
            return (yield from self._withdraw(Reason.SWITCHED_OFF, "the mode is off")), ()
        if self.party.world > 1 and self.given.register is None:
            self.party.over = True
            return (yield from self._withdraw(Reason.VOTE_UNAVAILABLE, f"{self.party.world} ranks take part")), ()
        if not self.given.plan.captured:
            return (yield from self._withdraw(Reason.NOTHING_CAPTURED, "no captured size")), ()
        try:
            self.found.factors = self._keyed(self.given.read_factors())
            self.found.digest = fingerprint(self.found.factors)
        except FactorError as error:
            return (yield from self._withdraw(error.reason, error.detail)), ()
        identity = Identity(ballot.PROTOCOL, __version__, self.given.settings.common(), self.found.digest)
        return (yield from (self._offer(identity) if self.party.leads else self._answer(identity)))

    def _offer(self, identity: Identity) -> Voting[tuple[Decision, tuple[int, ...]]]:
        assert self.found.factors is not None
        found, data = self._look_up(identity.digest)
        self.position.own = found
        sizes: tuple[int, ...] = ()
        if data is not None:
            self.position.step = Step.SENTINEL
            sizes = sentinel.choose(self.given.plan.captured, self.given.draw, self.given.settings.sentinels)
        self.position.step = Step.VOTE
        failed = yield from self.party.offer(encode(Offer.of(identity, self.found.factors, data, sizes)))
        if failed:
            return failed, ()
        own = encode(Ballot(identity, ballot.checksum(data)))
        return (yield from self.party.settle(own, lambda votes: ballot.opening(votes, found))), sizes

    def _answer(self, identity: Identity) -> Voting[tuple[Decision, tuple[int, ...]]]:
        assert self.found.factors is not None
        self.position.step = Step.VOTE
        heard = yield from self.party.hear()
        if isinstance(heard, Decision):
            return heard, ()
        offer = ballot.read_offer(heard, identity, self.found.factors)
        if isinstance(offer, str):
            return (yield from self._withdraw(Reason.RANKS_DIFFER, offer)), ()
        data, self.position.own = None, GO
        try:
            data = offer.entry_bytes()
            if data is not None:
                self._take(data, identity.digest)
                offer.check_sizes(self.given.plan.captured)
        except (EntryError, VoteError) as error:
            self.position.own = Decision(Course.CALIBRATE, error.reason, error.detail, self.party.rank, agreed=True)
        objection = None if self.position.own is GO else self.position.own
        own = encode(Ballot(identity, ballot.checksum(data), objection))
        promise = data is not None and objection is None
        return (yield from self.party.settle(own, promise=promise)), offer.sizes

    def _keyed(self, factors: Factors) -> dict[str, Value]:
        """The engine's factors and the plan, copied, so that nobody can change them any more."""
        if "plan" in factors:
            raise FactorError(Reason.FACTOR_INVALID, "plan", "the boot itself adds a factor of this name")
        keyed: dict[str, Value] = json.loads(canonical({**factors, "plan": self.given.plan.described()}))
        return keyed

    def _look_up(self, digest: str) -> tuple[Decision, bytes | None]:
        self.position.step = Step.GET
        given, mode = self.given, self.given.settings.mode
        self._keeper = Keeper(digest, given.plan, given.store, given.histories, given.settings, given.clock)
        if mode == "record":
            return self._miss(Reason.MODE_RECORD, None), None
        try:
            data = given.store.get(digest)
            if data is None:
                return self._miss(Reason.ABSENT, self._keeper.absence(self.found.factors or {})), None
            self.position.step = Step.DECODE
            self.found.note = self._keeper.check(data, self._take(data, digest))
        except StoreError as error:
            return self._miss(error.reason, error.detail), None
        except EntryError as error:
            if mode not in {"verify", "require"}:
                self._keeper.clear(error)
            return self._miss(error.reason, error.detail), None
        return (self._miss(Reason.MODE_VERIFY, None), None) if mode == "verify" else (GO, data)

    def _take(self, data: bytes, digest: str) -> Entry:
        """Raises `EntryError`."""
        found = keeper.read(data, digest, self.given.plan)
        recorded_ms = found.conditions.get("calibration_ms")
        self.found.recorded_ms = recorded_ms if type(recorded_ms) is float else None
        self.found.stored = found.profile
        return found

    def _miss(self, reason: Reason, detail: str | None) -> Decision:
        return Decision(Course.CALIBRATE, reason, detail, self.party.rank, agreed=True)

    def _reuse(self, sizes: tuple[int, ...]) -> Path[Decision]:
        """The path from the first sentinel until the curves are in place on every rank, or all calibrate."""
        given, position, stored = self.given, self.position, self.found.stored
        assert stored is not None
        self.found.expected_ms = stored.expected_ms(sizes)
        tokens = calibration.tokens_run(given.plan, stored)
        tail = given.plan.tail() if given.settings.tail == "once" else ()
        rounds = sentinel.rounds_for(given.settings.sentinels)
        to_replay, played = sizes, 0
        asked: tuple[int, ...] = ()
        samples: Samples = ()
        while to_replay:
            position.step = Step.SENTINEL
            played += 1
            self.found.sentinel_runs += len(to_replay)
            samples += yield Replay(to_replay)
            asked += tuple(tokens[size] for size in to_replay)
            verdict = sentinel.judge(stored, asked, samples, given.settings.limits, rounds)
            self.found.evidence = verdict.evidence
            if isinstance(verdict, VerifiedProfile):
                position.own = GO
            elif verdict.final or played == rounds.count:
                return (yield from self._withdraw(verdict.reason, verdict.detail, agreed=True))
            else:
                position.own = Decision(Course.AGAIN, verdict.reason, verdict.detail, self.party.rank, agreed=True)
            decision = yield from self.party.settle(encode(position.own), ballot.verdict)
            if decision.course is Course.CALIBRATE:
                return decision
            if decision.course is Course.GO:
                # What the tail shows is compared with the sentinels, so another round replays both.
                to_replay, sizes, tail, played = tail, sizes + tail, (), 0
            else:
                to_replay = sizes
        assert isinstance(verdict, VerifiedProfile)
        position.step = Step.INSTALL
        position.installing = True
        try:
            yield Install(verdict)
        except InstallRefused as error:
            position.installing = False
            return (yield from self._withdraw(error.reason, error.detail, agreed=True))
        position.installing = False
        return (yield from self.party.settle(encode(GO), ballot.verdict, last=True))

    def _withdraw(self, reason: Reason, detail: str, *, agreed: bool = False) -> Voting[Decision]:
        self.position.own = Decision(Course.CALIBRATE, reason, detail, self.party.rank, agreed)
        return (yield from self.party.withdraw(reason, detail, agreed=agreed))

    def _calibrate(self, decision: Decision) -> Path[BootReport]:
        self.position.step = Step.CALIBRATE
        self.found.calibration_runs = len(self.given.plan.runs)
        self.found.detail = decision.detail
        flaw: ProfileError | None = None
        samples: Samples = ()
        try:
            samples = yield Calibrate()
        except ProfileError as error:
            flaw = error
        self.position.in_place_ns = self.given.clock.monotonic_ns()
        ending = Ending(Outcome.UNRECORDED, decision.reason, self.found.detail)
        if decision.agreed and self.party.leads:
            ending = self._record(samples, flaw, decision)
            yield from self.party.announce(encode(ending))
            self._add_regret(samples)
        elif decision.agreed:
            ending = ballot.read_ending((yield from self.party.learn()))
        self.found.detail = ending.detail or self.found.detail
        return self._report(ending.outcome, ending.reason)

    def _record(self, samples: Samples, flaw: ProfileError | None, decision: Decision) -> Ending:
        assert self._keeper is not None
        if self.given.settings.mode == "verify":
            try:
                self.found.evidence, detail = audit(self.found.stored, samples, self.given.settings)
            except ProfileError as error:
                flaw, detail = error, None
            return Ending(Outcome.UNRECORDED, Reason.MODE_VERIFY, flaw.detail if flaw else detail)
        try:
            if flaw:
                raise flaw
            self.position.step = Step.PUT
            taken = {"calibration_ms": calibration_ms(self.given, self.position)}
            conditions = {**taken, **self.given.conditions}
            said = self._keeper.record(samples, self.given.engine, self.found.factors or {}, conditions)
        except (ProfileError, EntryError, StoreError) as error:
            return Ending(Outcome.UNRECORDED, error.reason, error.detail)
        detail = said and "; ".join(filter(None, (said, decision.detail)))
        return Ending(Outcome.RECORDED, None if decision.reason in PLANNED else decision.reason, detail)

    def _add_regret(self, samples: Samples) -> None:
        """For the report: what the stored curves would have lost against the fresh ones."""
        with suppress(ProfileError):
            if (stored := self.found.stored) is not None and samples:
                fresh = profile_from(samples, stored.capture_limit)
                self.found.regret = self.given.measure_regret(fresh, stored)

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
        if self.position.installing and self.party.world > 1:
            # Installing is a collective too (vLLM broadcasts the curves): the others wait in it for this rank.
            raise VoteLost(f"rank {self.party.rank} left while all install stored curves: {detail}")
        if not self.party.over:
            self.position.decision = yield from self._withdraw(reason, detail)

    def abandon(self, reason: Reason, detail: str, *, calibration_runs: int) -> BootReport:
        """The report of a boot whose path was left at `step`; the engine has calibrated, or failed, on its own.

        Where the curves of a hit are in place already they stay, and the outcome is `reused`, with the reason.
        """
        self.found.detail = detail
        self.found.calibration_runs = calibration_runs
        if self.position.reused:
            return self._report(Outcome.REUSED, reason, self.position.step)
        if self.party.leads and self.position.decision and self.position.decision.agreed and self.party.over:
            vote_alone(self.party.announce(encode(Ending(Outcome.UNRECORDED, reason, detail))), self._perform)
        return self._report(
            Outcome.UNRECORDED, reason, None if reason is Reason.CURVES_REQUIRED else self.position.step
        )

    def _perform(self, operation: Operation) -> Heard | None:
        assert self.given.register is not None
        return self.given.register.perform(operation)

    def _report(self, outcome: Outcome, reason: Reason | None, step: Step | None = None) -> BootReport:
        return report(self.given, self.position, self.found, outcome, reason, step)
