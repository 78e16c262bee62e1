"""The environment variables that choose kernels, collectives and compilers.

A variable of a known family counts unless it is excluded (`vllm/reviewed/variables.py`). So a variable that nobody
thought of counts. What is excluded says where the work is done, not how.
"""

import hashlib
import os
import pwd
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from warmcurve.storage.fingerprint import Value
from warmcurve.vllm.reading import Reading
from warmcurve.vllm.reviewed.variables import (
    BY_CONTENT,
    BY_NAMES,
    COUNTED,
    EXCLUDED,
    FORMS,
    LISTS_OF_FILES,
    OURS,
    PREFIXES,
    SINGLE,
)

NAME: Final = "runtime.environment"
SETTINGS: Final = "runtime.nccl_settings"
_LEFT_OUT: Final = frozenset(name for exclusion in EXCLUDED for name in exclusion.names)
# torch's tuned operations have a file for each device, whose number stands for this: every rank reads all of them.
_NUMBER: Final = "%d"


def factors(environment: Mapping[str, str]) -> dict[str, Value]:
    """The variables that count, by name. Raises `FactorError` if a file that one of them names cannot be read."""
    return {name: _value(name, environment[name]) for name in sorted(environment) if counts(name)}


def counts(name: str) -> bool:
    """Whether a variable enters the fingerprint."""
    if name in COUNTED or name in SINGLE or _names_files(name):
        return True
    return name.startswith(PREFIXES) and name not in _LEFT_OUT and not has_form(name)


def has_form(name: str) -> bool:
    """Whether a name has an excluded form: that of a path, an address, a secret."""
    return any(form.pattern.search(name) for form in FORMS)


def unreviewed(environment: Mapping[str, str]) -> tuple[str, ...]:
    """vLLM's own variables that count although no review names them."""
    known = COUNTED.union(BY_CONTENT)
    return tuple(
        f"{NAME}.{name}" for name in sorted(environment) if name.startswith(OURS) and counts(name) and name not in known
    )


def preloaded(environment: Mapping[str, str], maps: Path = Path("/proc/self/maps")) -> list[str]:
    """The libraries of LD_PRELOAD that this process really has loaded, by base name.

    Only these count. vLLM also sets the variable for processes that it will start; it changes nothing in its own.
    """
    # Separated by colons or blanks, loaded in this order: https://man7.org/linux/man-pages/man8/ld.so.8.html
    wanted = [library for library in re.split(r"[:\s]+", environment.get("LD_PRELOAD", "")) if library]
    lines = maps.read_text().splitlines() if wanted else []
    # What was replaced since is mapped as before: https://man7.org/linux/man-pages/man5/proc_pid_maps.5.html
    mapped = {line.split(maxsplit=5)[-1].removesuffix(" (deleted)") for line in lines}
    names = {os.path.basename(path) for path in mapped}  # noqa: PTH119  a Path each takes milliseconds
    return [Path(library).name for library in wanted if _is_mapped(library, mapped, names)]


def nccl_settings(places: tuple[Path, ...] | None = None) -> dict[str, Value] | None:
    """The variables that count in NCCL's own configuration files. None without a file.

    https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html
    """
    reading = Reading(SETTINGS)
    found: dict[str, Value] = {}
    read = False
    for place in _own_files() if places is None else places:
        # What this process may not look at, NCCL may not either.
        if os.access(place, os.R_OK):
            read = True
            for line in reading.whole(place).decode(errors="replace").splitlines():
                name, separator, value = line.strip().partition("=")
                if separator and name.isascii() and counts(name):
                    found.setdefault(name, _value(name, value))
    return found if read else None


def _own_files() -> tuple[Path, ...]:
    try:
        # NCCL asks the password file and not HOME (src/misc/param.cc).
        home = [Path(pwd.getpwuid(os.getuid()).pw_dir) / ".nccl.conf"]
    except KeyError:
        home = []
    return (*home, Path("/etc/nccl.conf"))


def _is_mapped(library: str, mapped: set[str], names: set[str]) -> bool:
    if "/" not in library:
        return True
    # $LIB and the like are the loader's to fill in.
    return Path(library).name in names if "$" in library else str(Path(library).resolve()) in mapped


def _names_files(name: str) -> bool:
    return name in BY_CONTENT or name in BY_NAMES or name.startswith(LISTS_OF_FILES)


def _value(name: str, value: str) -> Value:
    if name == "VLLM_CPU_OMP_THREADS_BIND":
        return _cores(value)
    if not value or not _names_files(name):
        return value
    reading = Reading(f"{NAME}.{name}")
    if name.startswith(LISTS_OF_FILES):
        return [_content(Path(place), reading) for place in value.split(os.pathsep)]
    if name in BY_NAMES:
        return _files(Path(value), reading, lambda _: "")
    return _content(Path(value), reading)


def _cores(value: str) -> Value:
    """How many cores each rank is given, not which."""
    if value in ("", "auto", "nobind"):
        return value
    try:
        return [len(set(_numbers(cores))) for cores in value.split("|")]
    except ValueError:
        return value


def _numbers(cores: str) -> Iterator[int]:
    for part in filter(None, cores.split(",")):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def _content(place: Path, reading: Reading) -> Value:
    """The digest of a file, or of each file of a folder; None where nothing is."""

    def digest(path: Path) -> str:
        return hashlib.sha256(reading.whole(path)).hexdigest()

    if _NUMBER in place.name:
        if not place.parent.is_dir():
            return None
        pattern = re.compile(re.escape(place.name).replace(_NUMBER, "[0-9]+"))
        return {
            name: digest(place.parent / name)
            for name in reading.names(place.parent)
            if name.isascii() and pattern.fullmatch(name)
        }
    if not place.exists():
        return None
    return _files(place, reading, digest) if place.is_dir() else {".": digest(place)}


def _files(folder: Path, reading: Reading, tell: Callable[[Path], str]) -> Value:
    """What is told of each regular file of a folder, by name, but not of folders within it."""
    if not folder.is_dir():
        return None
    return {_printable(name): tell(folder / name) for name in reading.names(folder) if (folder / name).is_file()}


def _printable(name: str) -> str:
    return name if name.isascii() else ascii(name)
