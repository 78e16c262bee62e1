"""Finds the hub's files on this machine. It downloads nothing."""

import os
from pathlib import Path

from warmcurve.vllm.reading import Reading


def directory(name: str, revision: str | None, cache: str | None, reading: Reading) -> Path:
    """A local directory as it is, or the snapshot of the repository that vLLM has loaded files from."""
    # Unlike Path.is_dir, this is false for a name that the file system refuses.
    if os.path.isdir(name):  # noqa: PTH112
        return Path(name)
    if "://" in name:
        raise reading.unknown(f"files of {name.partition('://')[0]}:// are not read")
    if os.environ.get("VLLM_USE_MODELSCOPE", "").lower() in ("1", "true"):
        raise reading.unknown("the cache of ModelScope is not read")
    try:
        from huggingface_hub import snapshot_download

        # With patterns that want no file none can be missing: vLLM loads some of a repository, not all.
        found = snapshot_download(name, revision=revision, cache_dir=cache, local_files_only=True, ignore_patterns="*")
    except (ImportError, OSError, ValueError) as error:
        raise reading.unknown(f"{name} is neither a directory nor in the hub's local cache") from error
    return Path(found)
