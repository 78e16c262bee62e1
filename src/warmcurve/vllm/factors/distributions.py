"""The installed distributions, by the names of their metadata directories. Parsing the metadata would be slow."""

import os
import re
import sys
from importlib import metadata
from pathlib import Path
from typing import Final

_INFO: Final = (".dist-info", ".egg-info")


def installed(places: list[str] | None = None) -> dict[str, Path]:
    """The metadata directory of each distribution, by its normalised name. The first one on the path counts."""
    found: dict[str, Path] = {}
    for place in sys.path if places is None else places:
        try:
            names = sorted(os.listdir(place or "."))
        # A path may name archives, and what is not there.
        except OSError:
            continue
        for name in names:
            if name.endswith(_INFO):
                found.setdefault(_normalised(name.removesuffix(_INFO[0]).removesuffix(_INFO[1])), Path(place, name))
    return found


def version(directory: Path) -> str:
    """The version in the directory's name. If it is not there, the version in the metadata."""
    # https://packaging.python.org/en/latest/specifications/recording-installed-packages/#the-dist-info-directory
    _, separator, named = directory.name.removesuffix(_INFO[0]).partition("-")
    if separator and directory.name.endswith(_INFO[0]):
        return named
    return metadata.Distribution.at(directory).version


def _normalised(stem: str) -> str:
    return re.sub(r"[-_.]+", "-", stem.partition("-")[0]).lower()
