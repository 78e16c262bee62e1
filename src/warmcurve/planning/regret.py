"""What planning with one profile costs if the other one is true, both ways, over the declared batches.

The core needs no numpy. So an engine gives `regret_between` to its boot.
"""

from warmcurve.curves.profile import CostProfile
from warmcurve.planning.planner import losses
from warmcurve.planning.workload import cases
from warmcurve.reporting.report import RegretReport


def regret_between(fresh: CostProfile, stored: CostProfile, drafts: int) -> RegretReport | None:
    """The regret over batches of `drafts` drafted tokens a request, up to the sizes that both profiles have.

    None if there is no such batch.
    """
    requests = min(fresh.draft.sizes[-1], stored.draft.sizes[-1])
    tokens = min(fresh.verify.sizes[-1], stored.verify.sizes[-1])
    batches = [case.batch for case in cases(requests, drafts, tokens)]
    if not batches:
        return None
    by_stored, by_fresh = losses(fresh, stored, batches), losses(stored, fresh, batches)
    return RegretReport(
        float(by_stored.max()),
        float(by_stored.mean()),
        float(by_fresh.max()),
        float(by_fresh.mean()),
        drafts,
        len(batches),
    )
