"""Identifies the files of `torch.save` without unpickling them.

Such a file is a ZIP archive. Its `data.pkl` is the pickled dictionary of names, types and shapes. The weights are in
other members (https://docs.pytorch.org/docs/stable/notes/serialization.html). The bytes of `data.pkl` are hashed as
they are, because unpickling runs code. A file from before torch 1.6 is one pickle with the weights in it, and is
unknown.
"""

import hashlib
import zipfile
from collections.abc import Iterable
from pathlib import Path

from warmcurve.storage.fingerprint import Value
from warmcurve.vllm.reading import Reading


def identity(files: Iterable[Path], reading: Reading) -> dict[str, Value]:
    """The identity of the files of one model. Here it counts how the tensors are cut into files."""
    digests = []
    for path in files:
        with reading.opened(path) as file, zipfile.ZipFile(file) as archive:
            (member,) = (name for name in archive.namelist() if name.endswith("/data.pkl"))
            if archive.getinfo(member).compress_type != zipfile.ZIP_STORED:
                raise ValueError("is compressed, but torch writes no compressed files")
            digests.append(hashlib.sha256(archive.read(member)).hexdigest())
    return {"digest": hashlib.sha256(" ".join(sorted(digests)).encode()).hexdigest(), "tensors": None}
