"""An engine whose steps cost what a script says. It can give every outcome of a boot, without a device and noise."""

from collections.abc import Callable, Sequence

from warmcurve.boot.request import Samples
from warmcurve.curves.calibration import REPLAYS, Plan, plan
from warmcurve.curves.profile import Sample
from warmcurve.curves.sentinel import VerifiedProfile
from warmcurve.errors import InstallRefused
from warmcurve.testing.clock import FakeClock


class ScriptedEngine:
    """Runs under `warmcurve.drive` like a real engine. Its clock advances by what each run costs.

    `verify_ms(tokens)` and `draft_ms(requests)` are the cost model, and may be replaced between boots. A step has
    min(tokens, max_requests) requests. It is a full graph up to the largest captured size. `runs` has the number of
    tokens of every dummy run so far, with sentinels. `installed` has the curves of the last hit, and `calibrated` the
    samples of the last calibration. If `refuses` is set, `install` raises it as an `InstallRefused`.
    """

    def __init__(
        self,
        captured: Sequence[int] = (1, 2, 4, 8, 16),
        max_tokens: int = 64,
        max_requests: int = 4,
        replays: int = REPLAYS,
        verify_ms: Callable[[int], float] = lambda tokens: 4.0 + tokens / 8,
        draft_ms: Callable[[int], float] = lambda requests: 1.0 + requests / 16,
    ) -> None:
        self.plan: Plan = plan(captured, max_tokens, replays)
        self.max_requests = max_requests
        self.verify_ms = verify_ms
        self.draft_ms = draft_ms
        self.full_graph: Callable[[int], bool] = lambda tokens: tokens <= self.plan.captured[-1]
        self.clock = FakeClock()
        self.runs: list[int] = []
        self.installed: VerifiedProfile | None = None
        self.calibrated: Samples | None = None
        self.refuses: str | None = None

    def replay(self, sizes: tuple[int, ...]) -> Samples:
        return tuple(self._step(tokens) for tokens in sizes)

    def install(self, verified: VerifiedProfile) -> None:
        if self.refuses:
            raise InstallRefused(self.refuses)
        self.installed = verified

    def calibrate(self) -> Samples:
        self.calibrated = self.replay(self.plan.runs)
        return self.calibrated

    def _step(self, tokens: int) -> Sample:
        requests = min(tokens, self.max_requests)
        sample = Sample(tokens, requests, self.verify_ms(tokens), self.draft_ms(requests), self.full_graph(tokens))
        self.runs.append(tokens)
        self.clock.advance_ms(sample.verify_ms + sample.draft_ms)
        return sample
