"""The ranks that take part in vLLM's dummy runs, and the store that they vote over.

These ranks are vLLM's world group. Replicas of a dense model are worlds of their own; those of a mixture of experts
share one (`EngineCoreProc.run_engine_core`, `init_distributed_environment`). torch's default process group has the same
ranks, and all of them can reach its store.
"""

import logging
from collections.abc import Callable
from typing import Any

from warmcurve.clock import SystemClock
from warmcurve.errors import VoteError
from warmcurve.outcome import Reason
from warmcurve.ranks.register import KeyValue, Register
from warmcurve.ranks.vote import Decision, Party, vote_alone

logger = logging.getLogger("vllm.warmcurve")


class Ranks:
    """This process' place among the ranks of one calibration. Every rank makes one such object for a calibration."""

    def __init__(self, rank: int, world: int, open_store: Callable[[], KeyValue]) -> None:
        self.rank = rank
        self.world = world
        self._open_store = open_store
        self._store: KeyValue | None = None

    @classmethod
    def of(cls, runner: Any) -> "Ranks":
        from vllm.distributed.parallel_state import get_world_group

        group = get_world_group()
        config = runner.vllm_config.parallel_config
        return cls(group.rank_in_group, group.world_size, lambda: _default_store(group, config))

    def register(self, timeout_s: float) -> Register | None:
        """The register to vote over. None with one rank, or if there is no store to vote over."""
        if self.world == 1:
            return None
        try:
            self._store = self._store or self._open_store()
        except VoteError as error:
            logger.warning("warmcurve: no store to vote over (%s)", error.detail)
            return None
        return Register(self._store, SystemClock(), timeout_s)

    def withdraw(self, reason: Reason, detail: str, timeout_s: float) -> Decision | None:
        """Tell the others, before any vote of this rank, that it takes no part. Returns the decision, if any."""
        if (register := self.register(timeout_s)) is None:
            return None
        return vote_alone(Party(self.rank, self.world).withdraw(reason, detail), register.perform)

    def close(self) -> None:
        if self._store is not None:
            self._store.close()


def _default_store(group: Any, config: Any) -> KeyValue:
    import torch.distributed

    from warmcurve.ranks.distributed import DefaultStore

    # With elastic expert parallelism the ranks of vLLM's world come and go, outside torch's default group.
    if getattr(config, "enable_elastic_ep", False):
        raise VoteError("elastic expert parallelism has no process group of its world")
    # A launcher of its own may put several engines into one world (`ExternalDP` in initialize_model_parallel).
    if group.world_size != config.world_size_across_dp:
        raise VoteError(f"vLLM's world has {group.world_size} ranks, but one engine has {config.world_size_across_dp}")
    if not torch.distributed.is_initialized() or torch.distributed.get_world_size() != group.world_size:
        raise VoteError("torch's default process group is not vLLM's world")
    return DefaultStore(group.rank_in_group)
