"""What a worker of a running engine does to calibrate again, as it did at its boot."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import scripted

from tests.vllm.booting import logged
from tests.vllm.planted import own_rank, planted
from tests.vllm.running import draft_ms, forget_environment, release, verify_ms


class Recalibration:
    """vLLM makes a worker of this class as well (`worker_extension_cls`), so that `collective_rpc` finds its method."""

    model_runner: Any

    def recalibrate(self, disks: str, faults: dict[str, str], environment: dict[str, str], boot: int) -> str:
        """One calibration of this rank, on its own disk and a scripted clock, as JSON. `boot` counts them on all ranks,
        also where a fault keeps warmcurve from counting.
        """
        from torch.distributed import PrefixStore

        from warmcurve.ranks import distributed

        distributed._namespace = lambda store, rank: PrefixStore(f"boot/{boot}", store)
        rank = own_rank()
        cache = Path(disks) / f"rank{rank}"
        os.environ |= {"VLLM_CACHE_ROOT": str(cache), **environment}
        forget_environment()
        release(self.model_runner)
        before = set(_reports(cache))
        costs = scripted.CostModel(verify_ms, draft_ms)
        with scripted.clock(costs) as clock, logged() as log, planted(faults.get(str(rank))):
            self.model_runner.capture_model()
        tables = self.model_runner.adaptive_verification.cost_tables
        return json.dumps(
            {
                "rank": rank,
                "reports": [json.loads(path.read_bytes()) for path in _reports(cache) if path not in before],
                "tables": [np.asarray(table).tolist() for table in tables],
                "runs": [tokens for tokens, _, _ in clock.steps],
                "log": log,
            }
        )


def _reports(cache: Path) -> list[Path]:
    return sorted((cache / "adaptive_verification" / "reports").glob("*.json"))
