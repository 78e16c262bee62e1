"""Faults for one rank of a running server, planted in its worker process, and a scripted clock for all ranks.

vLLM loads `register` as one more plugin (`nodes.py` writes its entry point): it comes with every process of a server,
with or without warmcurve. Each fault patches modules for one calibration and is undone after it.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
import scripted

from tests.vllm.running import draft_ms, verify_ms

PLUGIN = "planted"
LATE_S = 6.0

Patch = pytest.MonkeyPatch
_for_ever = ExitStack()


class Planted(Exception):
    """An error that no room of warmcurve knows."""


def register() -> None:
    """Entry point of the group `vllm.general_plugins`."""
    _for_ever.enter_context(scripted.clock(scripted.CostModel(verify_ms, draft_ms)))


def own_rank() -> int:
    """This process's place in the world of all ranks that share collectives."""
    from vllm.distributed.parallel_state import get_world_group

    return int(get_world_group().rank_in_group)


@contextmanager
def planted(name: str | None) -> Iterator[None]:
    """The fault of this name within the block; none for None."""
    with Patch.context() as patch:
        if name is not None:
            FAULTS[name](patch)
        yield


def _raising(*args: Any, **kwargs: Any) -> Any:
    raise Planted("planted")


def sentinels_ten_times_slower(patch: Patch) -> None:
    from warmcurve.curves.profile import Sample
    from warmcurve.vllm.seam.calibration import Seam

    taken = Seam._take_timings

    def slower(self: Any) -> Any:
        return tuple(
            Sample(each.tokens, each.requests, 10 * each.verify_ms, 10 * each.draft_ms, each.full_graph)
            for each in taken(self)
        )

    patch.setattr(Seam, "_take_timings", slower)


def late(patch: Patch) -> None:
    """It comes to the calibration `LATE_S` after the others."""
    from warmcurve.vllm.seam.calibration import Seam

    decide = Seam._decide

    def sleep_first(self: Any, *args: Any) -> Any:
        time.sleep(LATE_S)
        return (yield from decide(self, *args))

    patch.setattr(Seam, "_decide", sleep_first)


def store_raises(patch: Patch) -> None:
    patch.setattr("warmcurve.storage.store.DirectoryStore.get", _raising)
    patch.setattr("warmcurve.storage.store.DirectoryStore.put", _raising)


def other_factors(patch: Patch) -> None:
    patch.setenv("NCCL_PLANTED", "1")


def mode_record(patch: Patch) -> None:
    patch.setenv("WARMCURVE_MODE", "record")


def mode_require(patch: Patch) -> None:
    patch.setenv("WARMCURVE_MODE", "require")


def mode_verify(patch: Patch) -> None:
    patch.setenv("WARMCURVE_MODE", "verify")


def other_settings(patch: Patch) -> None:
    patch.setenv("WARMCURVE_MAX_REGRET", "0.5")


def settings_not_understood(patch: Patch) -> None:
    patch.setenv("WARMCURVE_MAX_REGRET", "much")


def other_version(patch: Patch) -> None:
    """Another release of warmcurve, in every module that asks for it."""
    import sys

    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "warmcurve" and hasattr(module, "__version__"):
            patch.setattr(module, "__version__", "9.9.9")


def unknown_release(patch: Patch) -> None:
    from warmcurve.vllm import releases

    others = {release: (*digests[:2], "0" * 16) for release, digests in releases.KNOWN.items()}
    patch.setattr(releases, "KNOWN", others)


def unforeseen_before_the_boot(patch: Patch) -> None:
    patch.setattr("warmcurve.vllm.seam.calibration.Seam.place", _raising)


def unforeseen_in_the_path(patch: Patch) -> None:
    patch.setattr("warmcurve.boot.path.Boot.run", _raising)


def unforeseen_at_the_sentinels(patch: Patch) -> None:
    patch.setattr("warmcurve.vllm.seam.calibration.Seam._take_timings", _raising)


def unforeseen_at_the_install(patch: Patch) -> None:
    patch.setattr("warmcurve.vllm.seam.calibration.Seam._install", _raising)


def without_the_plugin(patch: Patch) -> None:
    """The runner as vLLM made it: this rank has no warmcurve."""
    from vllm.v1.worker.gpu.model_runner import GPUModelRunner

    for name, method in list(vars(GPUModelRunner).items()):
        if hasattr(method, "warmcurve"):
            patch.setattr(GPUModelRunner, name, method.__wrapped__)


def broadcast_fails(patch: Patch) -> None:
    """vLLM's own, in which the other ranks of a tensor-parallel group wait for the curves."""
    from vllm.distributed.parallel_state import GroupCoordinator

    def broadcast_object(*args: Any, **kwargs: Any) -> Any:
        raise Planted("planted")

    patch.setattr(GroupCoordinator, "broadcast_object", broadcast_object)


def killed_at_the_sentinels(patch: Patch) -> None:
    """Between the two phases: its sentinels have run, its verdict is never posted."""
    from warmcurve.vllm.seam.calibration import Seam

    patch.setattr(Seam, "_take_timings", lambda *args: os.kill(os.getpid(), signal.SIGKILL))


def late_to_the_verdict(patch: Patch) -> None:
    """Its sentinels have run; its verdict comes `LATE_S` after the others'."""
    from warmcurve.vllm.seam.calibration import Seam

    taken = Seam._take_timings

    def sleep_first(self: Any) -> Any:
        time.sleep(LATE_S)
        return taken(self)

    patch.setattr(Seam, "_take_timings", sleep_first)


def entry_damaged_on_the_way(patch: Patch) -> None:
    """One bit of the entry's payload arrives flipped."""
    from warmcurve.ranks.ballot import Offer

    sent = Offer.entry_bytes

    def flipped(self: Any) -> Any:
        data = sent(self)
        return data and data[:-20] + bytes([data[-20] ^ 1]) + data[-19:]

    patch.setattr(Offer, "entry_bytes", flipped)


def entry_cut_on_the_way(patch: Patch) -> None:
    from warmcurve.ranks.ballot import Offer

    sent = Offer.entry_bytes
    patch.setattr(Offer, "entry_bytes", lambda self: (sent(self) or b"")[:1000])


def votes_cannot_be_read(patch: Patch) -> None:
    """Its connection to the store that ranks vote over fails at the first reading."""
    from warmcurve.errors import VoteError

    def fail(*args: Any) -> Any:
        raise VoteError("planted")

    patch.setattr("warmcurve.ranks.distributed.DefaultStore.get", fail)


def no_store_to_vote_over(patch: Patch) -> None:
    from warmcurve.errors import VoteError

    def fail(*args: Any) -> Any:
        raise VoteError("planted")

    patch.setattr("warmcurve.ranks.distributed.DefaultStore.__init__", fail)


def other_protocol(patch: Patch) -> None:
    patch.setattr("warmcurve.ranks.ballot.PROTOCOL", 99)


FAULTS: dict[str, Callable[[Patch], None]] = {
    fault.__name__: fault
    for fault in (
        sentinels_ten_times_slower,
        late,
        store_raises,
        mode_record,
        mode_require,
        mode_verify,
        other_factors,
        other_settings,
        settings_not_understood,
        other_version,
        unknown_release,
        unforeseen_before_the_boot,
        unforeseen_in_the_path,
        unforeseen_at_the_sentinels,
        unforeseen_at_the_install,
        late_to_the_verdict,
        entry_damaged_on_the_way,
        entry_cut_on_the_way,
        votes_cannot_be_read,
        no_store_to_vote_over,
        other_protocol,
        without_the_plugin,
        broadcast_fails,
        killed_at_the_sentinels,
    )
}
