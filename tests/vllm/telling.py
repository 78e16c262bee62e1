"""A worker that tells its factors: vLLM mixes this class into the worker's own (`worker_extension_cls`)."""

import json
import os
from pathlib import Path
from typing import Any

SIZES = (1, 2, 4, 8, 16, 24, 32, 64)


class Telling:
    model_runner: Any

    def tell(self, directory: str) -> None:
        """Write this rank's factors to a file of this process."""
        from warmcurve.vllm import factors
        from warmcurve.vllm.device import device_of

        runner = self.model_runner
        subject = factors.Subject(runner, device_of(runner), dict(os.environ), SIZES)
        Path(directory, f"{os.getpid()}.json").write_text(json.dumps(factors.read(subject)))
