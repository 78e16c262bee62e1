"""The seam in vLLM's calibration, and the adapter's edge.

A method of `GPUModelRunner` times every batch that the adaptive-verification manager's `batches_to_profile` yields,
then hands the timings to `set_initial_cost_curves`, which ends in `set_cost_curves`. Up to 0.33 that method is
`capture_model`, from 0.34 on `profile_adaptive_verification`. For the length of one call of it the seam stands in front
of these three methods of that one manager; nothing of vLLM's is changed after it.

    batches_to_profile       yields the sentinels, reads their timings, and ends (hit) or goes on with vLLM's batches;
                             with several ranks all vote on it
    set_initial_cost_curves  nothing (hit: the curves are in place already), or vLLM's own, then the entry is stored
    set_cost_curves          vLLM's own; what it was given is remembered

Errors of ours end here. Whatever is raised, vLLM gets the batches it would have had without us, but for two: a rank
that promised the others to follow and cannot (`VoteLost`) exits, as anything that it ran could hang them; and in the
mode `require` no boot goes on without stored curves (`CurvesRequired`).
"""

import logging
import os
import random
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from typing import Any, NoReturn

from warmcurve.boot.inputs import Inputs
from warmcurve.boot.path import Boot
from warmcurve.boot.request import Calibrate, Install, Replay, Samples, Steps
from warmcurve.boot.settings import Settings
from warmcurve.clock import SystemClock
from warmcurve.curves.calibration import Plan, profile_from
from warmcurve.curves.profile import CostProfile, Sample
from warmcurve.errors import CurvesRequired, EngineUnknown, InstallRefused, ProfileError, VoteLost
from warmcurve.outcome import Reason
from warmcurve.ranks.vote import Decision
from warmcurve.reporting.report import BootReport, RegretReport
from warmcurve.storage.history import HistoryDirectory
from warmcurve.storage.store import DirectoryStore
from warmcurve.vllm import releases
from warmcurve.vllm.device.identity import Conditions, device_of
from warmcurve.vllm.factors import declared
from warmcurve.vllm.seam import contract
from warmcurve.vllm.seam.aside import stopping
from warmcurve.vllm.seam.compiling import Watch
from warmcurve.vllm.seam.ranks import Ranks
from warmcurve.vllm.seam.reporting import Reporter, describe_error, engine_failure, engine_name, stood_aside

logger = logging.getLogger("vllm.warmcurve")

Batch = dict[str, Any]
Curve = list[tuple[int, float]]


class Seam(AbstractContextManager[object]):
    """One calibration of one runner: around the call of the method that calibrates."""

    def __init__(
        self,
        runner: Any,
        store: DirectoryStore,
        histories: HistoryDirectory,
        settings: Settings,
        reporter: Reporter,
        ranks: Ranks,
        *,
        during_capture: bool,
    ) -> None:
        self._runner = runner
        self._manager = runner.adaptive_verification
        self._vllm_batches: Callable[[list[int]], Iterator[Batch]] = self._manager.batches_to_profile
        self._vllm_initial_curves: Callable[[list[Any]], None] = self._manager.set_initial_cost_curves
        self._vllm_curves: Callable[[Curve, Curve], None] = self._manager.set_cost_curves
        self._store = store
        self._histories = histories
        self._settings = settings
        self._reporter = reporter
        self._ranks = ranks
        self._during_capture = during_capture
        self._plan = Plan((), ())
        self._boot: Boot | None = None
        self._steps: Steps | None = None
        self._engine_curves: tuple[Curve, Curve] | None = None
        self._installed = False
        self._decision: Decision | None = None
        self._error: Exception | None = None
        self._calibration_runs = 0
        self._missed = Reason.INTERNAL_ERROR
        self._watch: Watch | None = None
        self._report: BootReport | None = None

    def place(self) -> "Seam":
        """Stand in front of the manager's methods, until the block ends."""
        ours = (self._batches, self._initial_curves, self._curves)
        vars(self._manager).update(zip(releases.METHODS, ours, strict=True))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        for name in releases.METHODS:
            vars(self._manager).pop(name, None)
        required = error is None and not self._installed and self._settings.mode == "require"
        if required and self._boot is None and self._error is None:
            self._missed = Reason.ENGINE_FAILED
            self._error = CurvesRequired(f"{self._missed}: vLLM asked for no run to be timed")
        try:
            if self._report is None:
                self._abandon(error)
        except Exception as ours:  # noqa: BLE001  the adapter's edge
            self._fail(ours)
            self._reporter.publish(stood_aside(Reason.INTERNAL_ERROR, describe_error(ours), self._ranks))
        finally:
            self._ranks.close()
        if required:
            self._stop()

    def _abandon(self, raised: BaseException | None) -> None:
        """Report a boot that left its path: an error of ours, one that vLLM raised while it calibrated, or a signal."""
        cause = self._error or raised
        if isinstance(cause, VoteLost | CurvesRequired | EngineUnknown):
            reason, detail = cause.reason, cause.detail
        else:
            reason, detail = engine_failure(cause) if cause else (Reason.ENGINE_FAILED, "vLLM set no cost curves")
            reason = reason if self._error is None else Reason.INTERNAL_ERROR
        if self._boot is not None:
            self._finish(self._boot.abandon(reason, detail, calibration_runs=self._calibration_runs))
        elif self._error is not None:
            mode = self._settings.mode
            self._finish(stood_aside(reason, detail, self._ranks, self._decision, missed=self._missed, mode=mode))

    def _batches(self, capture_sizes: list[int]) -> Iterator[Batch]:
        try:
            yield from self._guarded(capture_sizes)
        except VoteLost as lost:
            self._fail(lost)
            raise stopping(lost, self._ranks) from lost
        if self._installed:
            return
        if self._settings.mode == "require":
            self._stop()
        with suppress(Exception):
            self._drop_timings()
        for batch in self._vllm_batches(capture_sizes):
            self._calibration_runs += 1
            # None where listing the batches failed: they may then be of any kind.
            if self._watch:
                self._watch.before()
            yield batch
            if self._watch:
                self._watch.after(batch["num_tokens"])

    def _guarded(self, capture_sizes: list[int]) -> Iterator[Batch]:
        try:
            yield from self._decide(capture_sizes)
        except VoteLost:
            raise
        except CurvesRequired as error:
            self._fail(error)
        except EngineUnknown as error:
            self._missed = error.reason
            self._fail(error)
            self._withdraw(error.reason, error.detail)
        except Exception as error:  # noqa: BLE001  the adapter's edge
            self._fail(error)
            self._withdraw(Reason.INTERNAL_ERROR, describe_error(error))
            self._installed = self._boot is not None and self._boot.position.reused

    def _stop(self) -> NoReturn:
        """No boot goes on without stored curves."""
        cause, required = self._error, self._error
        if isinstance(required, CurvesRequired):
            cause = None
        elif isinstance(required, EngineUnknown):
            required = self._error = CurvesRequired(str(required))
        else:
            required = self._error = CurvesRequired(f"{Reason.INTERNAL_ERROR}: {cause and describe_error(cause)}")
        together = self._boot is not None and self._boot.position.agreed
        raise stopping(required, self._ranks, together=together) from cause

    def _withdraw(self, reason: Reason, detail: str) -> None:
        """Before this rank calibrates alone: the others must as well."""
        try:
            if self._boot is not None:
                self._boot.withdraw(reason, detail)
            else:
                self._decision = self._ranks.withdraw(reason, detail, self._settings.vote_timeout_s)
        except VoteLost:
            raise
        except Exception as error:  # noqa: BLE001  the adapter's edge; nobody can go on without this rank's vote
            self._fail(error)

    def _decide(self, capture_sizes: list[int]) -> Iterator[Batch]:
        # Listing vLLM's batches runs none of them. It also sets the manager's capture limit, without which the cost
        # table above it would be built as a step function (`_cudagraph_limit`, set in the generator's body).
        planned = list(self._vllm_batches(capture_sizes))
        self._plan = contract.check_batches(planned, capture_sizes, self._manager.req_states.max_num_batched_tokens)
        contract.check_collector(type(self._runner.step_timing))
        contract.check_collecting(self._runner.step_timing)
        self._watch = Watch(max(capture_sizes, default=0))
        self._boot = self._new_boot(self._plan)
        self._steps = self._boot.run()
        try:
            request = next(self._steps)
            while not isinstance(request, Calibrate):
                if isinstance(request, Replay):
                    for size in request.sizes:
                        yield {**planned[0], "num_tokens": size}
                    request = self._steps.send(self._take_timings())
                elif refusal := self._install(request):
                    request = self._steps.throw(refusal)
                else:
                    request = self._steps.send(())
        except StopIteration as end:
            self._installed = True
            self._finish(end.value)

    def _new_boot(self, plan: Plan) -> Boot:
        return Boot(
            Inputs(
                engine=engine_name(),
                plan=plan,
                read_factors=lambda: declared.read(self._subject(plan)),
                store=self._store,
                settings=self._settings,
                clock=SystemClock(),
                draw=random.SystemRandom().randrange,
                rank=self._ranks.rank,
                world=self._ranks.world,
                register=self._ranks.register(self._settings.vote_timeout_s),
                histories=self._histories,
                measure_regret=self._measure_regret,
                unreviewed=self._unreviewed(plan),
                conditions=self._conditions(),
            )
        )

    def _subject(self, plan: Plan) -> declared.Subject:
        return declared.Subject(
            self._runner, device_of(self._runner), dict(os.environ), plan.sizes(), during_capture=self._during_capture
        )

    def _unreviewed(self, plan: Plan) -> tuple[str, ...]:
        try:
            return declared.unreviewed(self._subject(plan))
        except Exception:  # they only inform
            logger.debug("no review of the factors", exc_info=True)
            return ()

    def _measure_regret(self, fresh: CostProfile, stored: CostProfile) -> RegretReport | None:
        try:
            from warmcurve.planning.regret import regret_between

            return regret_between(fresh, stored, int(self._runner.num_speculative_steps))
        except Exception:  # it only informs
            logger.debug("no regret", exc_info=True)
            return None

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
        except Exception as error:
            if self._ranks.world > 1 and "broadcast_object" in _frames(error):
                # The others may be waiting in this broadcast, where no vote reaches them.
                raise VoteLost(f"vLLM's broadcast of the curves failed: {describe_error(error)}") from error
            return InstallRefused(describe_error(error))
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
            elif self._watch and self._watch.found:
                flaw = ProfileError(self._watch.found, Reason.CALIBRATION_COLD)
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


def _frames(error: Exception) -> set[str]:
    """The functions that an error came through."""
    return {frame.name for frame in traceback.extract_tb(error.__traceback__)}
