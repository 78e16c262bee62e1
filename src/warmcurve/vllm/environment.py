"""The environment variables that choose kernels, collectives and compilers.

By family and opt-out: a variable nobody thought of counts. What is excluded (`variables.py`) says where, not how, the
work is done.
"""

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from warmcurve.errors import FactorError
from warmcurve.fingerprint import Value
from warmcurve.outcome import Reason
from warmcurve.vllm.variables import BY_CONTENT, COUNTED, EXCLUDED, FORMS, OURS, PREFIXES

NAME: Final = "runtime.environment"
_LEFT_OUT: Final = frozenset(name for exclusion in EXCLUDED for name in exclusion.names)


def factors(environment: Mapping[str, str]) -> dict[str, Value]:
    """The variables that count, by name. Raises `FactorError` for a file that one of them names and nobody can read."""
    return {name: _value(name, environment[name]) for name in sorted(environment) if counts(name)}


def counts(name: str) -> bool:
    """Whether a variable enters the fingerprint."""
    if name in COUNTED or name in BY_CONTENT:
        return True
    return name.startswith(PREFIXES) and name not in _LEFT_OUT and not any(form.pattern.search(name) for form in FORMS)


def unreviewed(environment: Mapping[str, str]) -> tuple[str, ...]:
    """The engine's own variables that count though no review names them."""
    known = COUNTED.union(BY_CONTENT)
    return tuple(
        f"{NAME}.{name}" for name in sorted(environment) if name.startswith(OURS) and counts(name) and name not in known
    )


def preloaded(environment: Mapping[str, str], maps: Path = Path("/proc/self/maps")) -> list[str]:
    """The libraries of LD_PRELOAD that this process really has, by base name: an allocator, a thread pool.

    vLLM sets the variable for the processes that it will start; in its own it changes nothing.
    """
    # Separated by colons or blanks, loaded in this order: https://man7.org/linux/man-pages/man8/ld.so.8.html
    wanted = [library for library in re.split(r"[:\s]+", environment.get("LD_PRELOAD", "")) if library]
    mapped = {line.split(maxsplit=5)[-1] for line in maps.read_text().splitlines()} if wanted else set()
    return [Path(library).name for library in wanted if "/" not in library or str(Path(library).resolve()) in mapped]


def _value(name: str, value: str) -> Value:
    if name not in BY_CONTENT or not value:
        return value
    place = Path(value)
    try:
        files = sorted(place.rglob("*")) if place.is_dir() else [place]
        return {
            file.relative_to(place).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest()
            for file in files
            if not file.is_dir()
        }
    except OSError as error:
        raise FactorError(Reason.FACTOR_UNKNOWN, f"{NAME}.{name}", f"{value}: {error.strerror}") from error
