"""The standard library's source as one array of bytes for training, one for held-out text."""

from pathlib import Path

import numpy as np

from warmcurve.embedded import library


def load(*, held_out: bool, directory: Path | None = None) -> np.ndarray:
    texts = [path.read_bytes() for path in library.files(directory, held_out=held_out)]
    return np.frombuffer(b"\n\n".join(texts), dtype=np.uint8)
