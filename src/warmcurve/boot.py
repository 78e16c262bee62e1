"""The path from boot to decision, sans-I/O.

`Boot.run()` is a generator: it yields what the engine is to do and is sent what was measured. It never touches a
device; files and clock come in as small protocols. An engine drives it like this (`drive` below):

    steps = boot.run()
    request = next(steps)
    while True:
        match request:
            case Replay(sizes):     reply = one timed replay of each size, in order
            case Install(verified): reply = (), once the engine plans with verified.profile
            case Calibrate():       reply = the samples of the engine's own full calibration
        request = steps.send(reply)             # StopIteration carries the BootReport

        fingerprint ── a factor unknown ─────────────→ Calibrate, nothing stored
            └─ get, decode ── none or damaged ───────→ Calibrate, store
                └─ Replay … ── off scale or shape ───→ Calibrate, replace
                    └─ Install ── refused ───────────→ Calibrate, replace
                        └─ reused

Errors that belong to the path (`WarmcurveError`) become reasons here. An error that nobody foresaw passes through:
the engine's adapter catches it at its edge, lets the engine calibrate as it does without warmcurve, and reports it with
`Boot.abandon`.
"""

import json
import os
import platform
import time
from collections.abc import Callable, Generator, Mapping
from datetime import UTC, datetime
from typing import Protocol as Interface
from typing import TypeAlias

import msgspec

from warmcurve import calibration, entry, sentinel
from warmcurve._version import __version__
from warmcurve.calibration import Plan
from warmcurve.entry import Entry
from warmcurve.errors import EntryError, FactorError, InstallRefused, ProfileError, StoreError
from warmcurve.fingerprint import Factors, Value, canonical, fingerprint
from warmcurve.outcome import Outcome, Reason, Step
from warmcurve.profile import CostProfile, Sample
from warmcurve.report import BootReport
from warmcurve.sentinel import Evidence, VerifiedProfile
from warmcurve.settings import Settings
from warmcurve.store import Store


class Replay(msgspec.Struct, frozen=True):
    """Run one timed step of each of these numbers of tokens, in order; reply with their samples."""

    sizes: tuple[int, ...]


class Install(msgspec.Struct, frozen=True):
    """Plan with these curves; reply with nothing, or throw `InstallRefused` into the generator."""

    verified: VerifiedProfile


class Calibrate(msgspec.Struct, frozen=True):
    """Run the full calibration and plan with its curves; reply with its samples, one a run.

    Throw `ProfileError` into the generator instead where the engine plans with something that must not be stored.
    """


Request: TypeAlias = Replay | Install | Calibrate
Samples: TypeAlias = tuple[Sample, ...]
Steps: TypeAlias = Generator[Request, Samples, BootReport]


class Clock(Interface):
    def monotonic_ns(self) -> int: ...

    def now(self) -> datetime:
        """The time of day, in UTC."""


class SystemClock:
    def monotonic_ns(self) -> int:
        return time.monotonic_ns()

    def now(self) -> datetime:
        return datetime.now(UTC)


class Boot:
    """One boot of one rank. Every collaborator is given: nothing here reads an environment or a file.

    `read_factors` gives the engine's factors and may raise `FactorError`. The plan is added to them: curves measured
    at other sizes are other curves. `draw(n)` gives an integer in [0, n), to pick the sentinels.
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
        conditions: Mapping[str, str | int | float | bool | None] | None = None,
    ) -> None:
        self.step = Step.FINGERPRINT
        self._engine = engine
        self._plan = plan
        self._read_factors = read_factors
        self._store = store
        self._settings = settings
        self._clock = clock
        self._draw = draw
        self._rank = rank
        self._world = world
        self._conditions = conditions or {}
        self._started = clock.monotonic_ns()
        self._in_place: int | None = None
        self._factors: dict[str, Value] | None = None
        self._digest: str | None = None
        self._missed: Reason | None = None
        self._detail: str | None = None
        self._evidence: Evidence | None = None
        self._recorded_ms: float | None = None
        self._sentinel_runs = 0
        self._calibration_runs = 0

    def run(self) -> Steps:
        if self._world > 1:
            self._miss(Reason.SEVERAL_RANKS, f"{self._world} ranks take part")
            return (yield from self._calibrate(store=False))
        if not self._plan.captured:
            self._miss(Reason.NOTHING_CAPTURED, "no captured size")
            return (yield from self._calibrate(store=False))
        try:
            self._factors = self._keyed(self._read_factors())
            self._digest = fingerprint(self._factors)
        except FactorError as error:
            self._miss(error.reason, error.detail)
            return (yield from self._calibrate(store=False))

        stored = self._load(self._digest)
        if stored is not None:
            verified = yield from self._verify(stored)
            if verified is not None:
                self.step = Step.INSTALL
                try:
                    yield Install(verified)
                except InstallRefused as error:
                    self._miss(error.reason, error.detail)
                else:
                    self._in_place = self._clock.monotonic_ns()
                    return self._report(Outcome.REUSED, None)
        return (yield from self._calibrate(store=True))

    def _keyed(self, factors: Factors) -> dict[str, Value]:
        """The engine's factors and the plan, as a tree of our own that nobody changes any more."""
        if "plan" in factors:
            raise FactorError(Reason.FACTOR_INVALID, "plan", "this name is the boot's own")
        keyed: dict[str, Value] = json.loads(canonical({**factors, "plan": _described(self._plan)}))
        return keyed

    def _load(self, digest: str) -> CostProfile | None:
        self.step = Step.GET
        try:
            data = self._store.get(digest)
        except StoreError as error:
            self._miss(error.reason, error.detail)
            return None
        if data is None:
            self._miss(Reason.ABSENT, None)
            return None
        self.step = Step.DECODE
        try:
            found = entry.decode(data, digest)
        except EntryError as error:
            self._miss(error.reason, error.detail)
            if error.reason is not Reason.ENTRY_SCHEMA:
                self._store.set_aside(digest)
            return None
        if problem := calibration.shortfall(self._plan, found.profile):
            self._miss(Reason.ENTRY_INCOMPLETE, problem)
            return None
        recorded_ms = found.conditions.get("calibration_ms")
        self._recorded_ms = recorded_ms if type(recorded_ms) is float else None
        return found.profile

    def _verify(self, profile: CostProfile) -> Generator[Request, Samples, VerifiedProfile | None]:
        self.step = Step.SENTINEL
        asked = sentinel.choose(self._plan.captured, self._draw)
        samples: Samples = ()
        for rounds in range(1, sentinel.ROUNDS + 1):
            self._sentinel_runs += len(asked)
            samples += yield Replay(asked)
            verdict = sentinel.judge(profile, asked * rounds, samples, self._settings.limits)
            self._evidence = verdict.evidence
            if isinstance(verdict, VerifiedProfile):
                return verdict
            self._miss(verdict.reason, verdict.detail)
            if verdict.final:
                break
        return None

    def _calibrate(self, *, store: bool) -> Steps:
        self.step = Step.CALIBRATE
        self._calibration_runs = len(self._plan.runs)
        flaw: ProfileError | None = None
        samples: Samples = ()
        try:
            samples = yield Calibrate()
        except ProfileError as error:
            flaw = error
        self._in_place = self._clock.monotonic_ns()
        if not store:
            return self._report(Outcome.UNRECORDED, self._missed)
        try:
            if flaw:
                raise flaw
            recorded = self._entry(samples)
            self.step = Step.PUT
            self._store.put(recorded.digest, entry.encode(recorded))
        except (ProfileError, EntryError, StoreError) as error:
            self._detail = error.detail
            return self._report(Outcome.UNRECORDED, error.reason)
        return self._report(Outcome.RECORDED, None if self._missed is Reason.ABSENT else self._missed)

    def _entry(self, samples: Samples) -> Entry:
        profile = calibration.profile_from(samples, self._plan.captured[-1])
        if problem := calibration.shortfall(self._plan, profile):
            raise ProfileError(problem)
        assert self._factors is not None
        conditions = {
            "recorded_at": self._clock.now().isoformat(timespec="seconds"),
            "host": platform.node(),
            "warmcurve": __version__,
            "calibration_ms": self._calibration_ms(),
            **self._conditions,
        }
        return Entry(
            factors=self._factors,
            engine=self._engine,
            protocol=entry.protocol(replays=len(self._plan.runs) // len(self._plan.sizes())),
            profile=profile,
            conditions={name: value for name, value in conditions.items() if _writable(name) and _writable(value)},
        )

    def abandon(self, reason: Reason, detail: str, *, calibration_runs: int) -> BootReport:
        """The report of a boot whose path was left at `step`; the engine has calibrated, or failed, on its own.

        Where the curves of a hit are in place already they stay, and the outcome is `reused`, with the reason.
        """
        self._detail = detail
        self._calibration_runs = calibration_runs
        hit = self.step is Step.INSTALL and self._in_place is not None
        return self._report(Outcome.REUSED if hit else Outcome.UNRECORDED, reason, self.step)

    def _miss(self, reason: Reason, detail: str | None) -> None:
        self._missed, self._detail = reason, detail

    def _calibration_ms(self) -> float:
        end = self._clock.monotonic_ns() if self._in_place is None else self._in_place
        return round((end - self._started) / 1e6, 3)

    def _report(self, outcome: Outcome, reason: Reason | None, step: Step | None = None) -> BootReport:
        hit = outcome is Outcome.REUSED
        return BootReport(
            at=self._clock.now().isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            warmcurve=__version__,
            engine=self._engine,
            host=platform.node(),
            pid=os.getpid(),
            rank=self._rank,
            world=self._world,
            outcome=outcome,
            reason=reason,
            missed=None if hit else self._missed,
            detail=self._detail if reason or not hit else None,
            step=step,
            digest=self._digest,
            entry=None if self._digest is None else self._store.describe(self._digest),
            calibration_runs=self._calibration_runs,
            sentinel_runs=self._sentinel_runs,
            calibration_ms=self._calibration_ms(),
            recorded_ms=self._recorded_ms,
            evidence=self._evidence,
            limits=self._settings.limits,
            factors=None if hit else self._factors,
        )


def _writable(value: str | float | None) -> bool:
    """Whether JSON can hold it: a host's name may be no Unicode, a reading no number. Conditions only inform."""
    if isinstance(value, str):
        return value.isascii() or value == value.encode("utf-8", "replace").decode()
    return value is None or abs(value) < 1e15  # false for a NaN


def _described(plan: Plan) -> Value:
    sizes: list[Value] = list(plan.sizes())
    captured: list[Value] = list(plan.captured)
    return {"sizes": sizes, "captured": captured, "runs": len(plan.runs)}


class Engine(Interface):
    """What `drive` asks of an engine: the three requests as methods."""

    def replay(self, sizes: tuple[int, ...]) -> Samples: ...

    def install(self, verified: VerifiedProfile) -> None:
        """May raise `InstallRefused`."""

    def calibrate(self) -> Samples: ...


def drive(boot: Boot, engine: Engine) -> BootReport:
    """Run a boot to its end on an engine that can answer each request with a call."""
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
