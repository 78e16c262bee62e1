"""Which store a command means."""

import os
from collections.abc import Mapping
from pathlib import Path

import click

from warmcurve.boot.settings import Settings
from warmcurve.cli.output import clean, note
from warmcurve.errors import StoreError
from warmcurve.outcome import Reason
from warmcurve.reporting.report import ReportDirectory
from warmcurve.storage.entry import SCHEMA
from warmcurve.storage.history import HistoryDirectory
from warmcurve.storage.store import DirectoryStore


class NoSuchStore(StoreError):
    def hint(self) -> str:
        return "Correct --store or WARMCURVE_STORE; it is the directory named adaptive_verification in vLLM's cache."


def _directory(text: str) -> Path:
    # A variable that a script left unset: Path would take it for the working directory.
    if not text:
        raise click.BadParameter("is empty.")
    return Path(text)


store_option = click.option(
    "--store",
    "directory",
    type=_directory,
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
    """Raises `SettingsError`, and `NoSuchStore` for a named directory that is not there: a misspelt one would pass as
    empty. The default one need not exist before the first boot, and nothing is created.
    """
    settings = Settings.from_environment(os.environ)
    if directory is not None:
        try:
            directory.stat()
        except FileNotFoundError as error:
            raise NoSuchStore(Reason.STORE_UNAVAILABLE, f"{directory}: {error.strerror}") from error
        except OSError:
            pass  # The store itself says what is wrong with it.
    return DirectoryStore(directory or default_directory(os.environ), trust_group=settings.trust_group)


def misplaced_words(store: DirectoryStore) -> str:
    """Where entries lie that no boot looks at, and what to do about it; nothing where none do."""
    found, entries = store.misplaced(), store.directory / f"v{SCHEMA}"
    where = ", ".join(clean(path) for path in found)
    return f"entries lie in {where}, where no boot looks: move them to {clean(entries.absolute())}" if found else ""


def note_misplaced(store: DirectoryStore) -> None:
    if found := misplaced_words(store):
        note(found)


def open_reports(store: DirectoryStore) -> ReportDirectory:
    """The reports of the boots that used this store."""
    return ReportDirectory(store.directory, trust_group=Settings.from_environment(os.environ).trust_group)


def open_histories(store: DirectoryStore) -> HistoryDirectory:
    """What became of this store's entries, on all machines."""
    return HistoryDirectory(store.directory, trust_group=Settings.from_environment(os.environ).trust_group)
