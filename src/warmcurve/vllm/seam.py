"""The seam in vLLM's calibration, and the adapter's edge.

`GPUModelRunner.capture_model` times every batch that the adaptive-verification manager's `batches_to_profile` yields,
then hands the timings to `set_initial_cost_curves`, which ends in `set_cost_curves`. For the length of one
`capture_model` the seam stands in front of these three methods of that one manager; nothing of vLLM's is changed
after it.

    batches_to_profile       yields the sentinels, reads their timings, and ends (hit) or goes on with vLLM's batches
    set_initial_cost_curves  nothing (hit: the curves are in place already), or vLLM's own, then the entry is stored
    set_cost_curves          vLLM's own; what it was given is remembered

Errors of ours end here. Whatever is raised, vLLM gets the batches it would have had without us.
"""

import logging
import os
import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from warmcurve.boot import Boot, Calibrate, Install, Replay, Samples, Steps, SystemClock
from warmcurve.calibration import Plan, profile_from
from warmcurve.errors import InstallRefused, ProfileError, SettingsError
from warmcurve.outcome import Reason
from warmcurve.profile import Sample
from warmcurve.report import BootReport, ReportDirectory
from warmcurve.settings import Settings
from warmcurve.store import DirectoryStore
from warmcurve.vllm import factors, releases
from warmcurve.vllm.device import Conditions, device_of
from warmcurve.vllm.reporting import Reporter, stood_aside, told

logger = logging.getLogger("vllm.warmcurve")

Batch = dict[str, Any]
Curve = list[tuple[int, float]]


def seam(runner: Any) -> AbstractContextManager[object]:
    """The seam around one `capture_model` of this runner, or nothing where warmcurve stands aside."""
    reporter = Reporter(None)
    try:
        from vllm import envs

        directory = Path(envs.VLLM_CACHE_ROOT) / "adaptive_verification"
        settings = Settings.from_environment(os.environ)
        reporter = Reporter(ReportDirectory(directory, trust_group=settings.trust_group))
        problem = _stranger()
        if problem is None:
            store = DirectoryStore(directory, trust_group=settings.trust_group)
            return Seam(runner, store, settings, reporter).place()
        reporter.publish(stood_aside(engine_name(), Reason.ENGINE_UNKNOWN, problem))
    except SettingsError as error:
        reporter.publish(stood_aside(engine_name(), error.reason, error.detail))
    except Exception as error:
        logger.debug("warmcurve stands aside", exc_info=True)
        reporter.publish(stood_aside("vllm", Reason.INTERNAL_ERROR, told(error)))
    return nullcontext()


def _stranger() -> str | None:
    """Why this vLLM is none of the known releases, or None."""
    try:
        digests = releases.hooked()
    except (LookupError, OSError, SyntaxError, ImportError) as error:
        return f"{engine_name()}: the hooked functions cannot be read: {error}"
    if releases.known(digests):
        return None
    modules = ", ".join(releases.strangers(digests)) or "no single module"
    return f"{engine_name()} is none of {', '.join(releases.KNOWN)}; unknown: {modules} ({' '.join(digests)})"


def engine_name() -> str:
    import vllm

    # Wheels for other devices carry a local version such as +cpu; the release is what people name.
    return f"vllm {vllm.__version__.partition('+')[0]}"


class Seam(AbstractContextManager[object]):
    """One calibration of one runner. `with seam: capture_model()`."""

    def __init__(self, runner: Any, store: DirectoryStore, settings: Settings, reporter: "Reporter") -> None:
        from vllm.distributed.parallel_state import get_world_group

        self._runner = runner
        self._manager = runner.adaptive_verification
        self._vllm_batches: Callable[[list[int]], Iterator[Batch]] = self._manager.batches_to_profile
        self._vllm_initial_curves: Callable[[list[Any]], None] = self._manager.set_initial_cost_curves
        self._vllm_curves: Callable[[Curve, Curve], None] = self._manager.set_cost_curves
        self._store = store
        self._settings = settings
        self._reporter = reporter
        self._rank, self._world = get_world_group().rank_in_group, get_world_group().world_size
        self._plan = Plan((), ())
        self._boot: Boot | None = None
        self._steps: Steps | None = None
        self._engine_curves: tuple[Curve, Curve] | None = None
        self._installed = False
        self._error: Exception | None = None
        self._calibration_runs = 0
        self._report: BootReport | None = None

    def place(self) -> "Seam":
        """Stand in front of the manager's methods, until the block ends."""
        vars(self._manager).update(
            batches_to_profile=self._batches,
            set_initial_cost_curves=self._initial_curves,
            set_cost_curves=self._curves,
        )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        for name in ("batches_to_profile", "set_initial_cost_curves", "set_cost_curves"):
            vars(self._manager).pop(name, None)
        try:
            if self._report is None:
                self._abandon(error)
        except Exception as ours:  # noqa: BLE001  the adapter's edge
            self._fail(ours)
            self._reporter.publish(stood_aside("vllm", Reason.INTERNAL_ERROR, told(ours), self._rank))

    def _abandon(self, raised: BaseException | None) -> None:
        """Report a boot that left its path: an error of ours, or one that vLLM raised while it calibrated."""
        cause = self._error or raised
        reason = Reason.INTERNAL_ERROR if self._error is not None else Reason.ENGINE_FAILED
        if self._boot is not None:
            detail = told(cause) if cause else "vLLM did not set its cost curves"
            self._finish(self._boot.abandon(reason, detail, calibration_runs=self._calibration_runs))
        elif self._error is not None:
            self._finish(stood_aside(engine_name(), reason, told(self._error), self._rank))

    def _batches(self, capture_sizes: list[int]) -> Iterator[Batch]:
        try:
            yield from self._decide(capture_sizes)
        except Exception as error:  # noqa: BLE001  the adapter's edge
            self._fail(error)
        if self._installed:
            return
        self._drop_timings()
        for batch in self._vllm_batches(capture_sizes):
            self._calibration_runs += 1
            yield batch

    def _decide(self, capture_sizes: list[int]) -> Iterator[Batch]:
        # Listing vLLM's batches runs none of them. It also sets the manager's capture limit, without which the cost
        # table above it would be built as a step function (`_cudagraph_limit`, set in the generator's body).
        planned = list(self._vllm_batches(capture_sizes))
        self._plan = Plan(tuple(int(batch["num_tokens"]) for batch in planned), tuple(capture_sizes))
        self._boot = self._new_boot(self._plan)
        self._steps = self._boot.run()
        request = next(self._steps)
        while not isinstance(request, Calibrate):
            if isinstance(request, Replay):
                for size in request.sizes:
                    yield {**planned[0], "num_tokens": size}
                request = self._steps.send(self._take_timings())
            elif refusal := self._install(request):
                request = self._steps.throw(refusal)
            else:
                self._installed = True
                self._end(())
                return

    def _new_boot(self, plan: Plan) -> Boot:
        return Boot(
            engine=engine_name(),
            plan=plan,
            read_factors=lambda: factors.read(self._subject(plan)),
            store=self._store,
            settings=self._settings,
            clock=SystemClock(),
            draw=random.SystemRandom().randrange,
            rank=self._rank,
            world=self._world,
            conditions=self._conditions(),
        )

    def _subject(self, plan: Plan) -> factors.Subject:
        return factors.Subject(self._runner, device_of(self._runner), dict(os.environ), plan.sizes())

    def _conditions(self) -> Conditions:
        try:
            return device_of(self._runner).conditions()
        except Exception:  # they only inform
            logger.debug("no conditions", exc_info=True)
            return {}

    def _take_timings(self) -> Samples:
        """The steps timed since the last call, out of the running collection: vLLM's own samples stay its own."""
        collector = self._runner.step_timing
        timed, collector._timed = collector._timed, []  # noqa: SLF001
        if timed:
            # One stream, in order: once the last step is done so are the others.
            timed[-1][0].drafter_end.synchronize()
        return tuple(
            Sample(
                tokens,
                requests,
                events.forward_start.elapsed_time(events.forward_end),
                events.drafter_start.elapsed_time(events.drafter_end),
                full_graph,
            )
            for events, (full_graph, tokens, requests) in timed
        )

    def _drop_timings(self) -> None:
        """Timings of sentinels that nobody came to read are not vLLM's either."""
        self._runner.step_timing._timed = []  # noqa: SLF001

    def _install(self, request: Install) -> InstallRefused | None:
        """Hand the curves to vLLM while it can still calibrate, should it refuse them."""
        profile = request.verified.profile
        try:
            self._vllm_curves(list(profile.draft.points()), list(profile.verify.points()))
        except Exception as error:  # noqa: BLE001  whatever vLLM makes of them, it calibrates then
            return InstallRefused(told(error))
        return None

    def _initial_curves(self, samples: list[Any]) -> None:
        if self._installed:
            return
        self._vllm_initial_curves(samples)
        if self._error is not None:
            return
        try:
            self._record(
                tuple(
                    Sample(s.num_target_tokens, s.num_reqs, s.forward_ms, s.drafter_ms, s.full_cudagraph)
                    for s in samples
                )
            )
        except Exception as error:  # noqa: BLE001  the adapter's edge
            self._fail(error)

    def _curves(self, draft: Curve, verify: Curve) -> None:
        self._vllm_curves(draft, verify)
        self._engine_curves = draft, verify

    def _record(self, samples: Samples) -> None:
        flaw: ProfileError | None = None
        try:
            ours = profile_from(samples, self._plan.captured[-1] if self._plan.captured else 0)
            if self._engine_curves != (list(ours.draft.points()), list(ours.verify.points())):
                flaw = ProfileError("vLLM's curves are not the medians of its samples")
        except ProfileError as error:
            flaw = error
        self._end(samples, flaw)

    def _end(self, reply: Samples, flaw: ProfileError | None = None) -> None:
        assert self._steps is not None
        try:
            self._steps.throw(flaw) if flaw else self._steps.send(reply)
        except StopIteration as end:
            self._finish(end.value)

    def _fail(self, error: Exception) -> None:
        logger.debug("warmcurve stands aside", exc_info=error)
        self._error = error

    def _finish(self, report: BootReport) -> None:
        self._report = report
        self._reporter.publish(report)
