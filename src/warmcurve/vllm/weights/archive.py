"""What the files of `torch.save` say of their tensors, without unpickling them.

Such a file is a ZIP archive. Its `data.pkl` is the pickled dictionary of names, types and shapes; the weights lie in
members of their own (https://docs.pytorch.org/docs/stable/notes/serialization.html). Its bytes are hashed as they are:
running a pickle runs code. Files older than torch 1.6 are one pickle with the weights in it, and stay unknown.
"""

import hashlib
import zipfile
from collections.abc import Iterable
from pathlib import Path

from warmcurve.storage.fingerprint import Value
from warmcurve.vllm.reading import Reading


def identity(files: Iterable[Path], reading: Reading) -> dict[str, Value]:
    """Identity of the files of one model. Unlike with tensors by name, how they are cut into files counts."""
    digests = []
    for path in files:
        with reading.opened(path) as file, zipfile.ZipFile(file) as archive:
            (member,) = (name for name in archive.namelist() if name.endswith("/data.pkl"))
            if archive.getinfo(member).compress_type != zipfile.ZIP_STORED:
                raise ValueError("is compressed, as torch leaves none")
            digests.append(hashlib.sha256(archive.read(member)).hexdigest())
    return {"digest": hashlib.sha256(" ".join(sorted(digests)).encode()).hexdigest(), "tensors": None}
