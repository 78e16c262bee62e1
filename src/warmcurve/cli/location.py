"""Which store a command means."""

import os
from collections.abc import Mapping
from pathlib import Path

import click

from warmcurve.settings import Settings
from warmcurve.store import DirectoryStore

store_option = click.option(
    "--store",
    "directory",
    type=click.Path(path_type=Path),
    envvar="WARMCURVE_STORE",
    show_envvar=True,
    metavar="DIR",
    help="The adaptive_verification directory.  [default: $VLLM_CACHE_ROOT/adaptive_verification]",
)


def default_directory(environment: Mapping[str, str]) -> Path:
    """Where vLLM itself would look, without importing it."""
    caches = Path(environment.get("XDG_CACHE_HOME", "~/.cache"))
    root = environment.get("VLLM_CACHE_ROOT", str(caches / "vllm"))
    # Not Path.expanduser, which raises where there is no home: vLLM calls this one.
    return Path(os.path.expanduser(root), "adaptive_verification")  # noqa: PTH111


def open_store(directory: Path | None) -> DirectoryStore:
    """Raises `SettingsError`. Nothing is read or created yet."""
    settings = Settings.from_environment(os.environ)
    return DirectoryStore(directory or default_directory(os.environ), trust_group=settings.trust_group)
