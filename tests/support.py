"""What several tests build: one boot on a scripted engine, and what this user and machine are able to do."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from warmcurve.boot.driver import drive
from warmcurve.boot.inputs import Inputs
from warmcurve.boot.path import Boot
from warmcurve.boot.settings import Settings
from warmcurve.reporting.report import BootReport
from warmcurve.storage.store import Store
from warmcurve.testing import ScriptedEngine

A, B, C = "a" * 64, "b" * 64, "c" * 64

NO_FILE: dict[str, Callable[[Path], object]] = {
    "directory": Path.mkdir,
    "pipe": os.mkfifo,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "link to nothing": lambda path: path.symlink_to("nowhere"),
}
"""What may lie where a file is looked for, by kind; each is made at a path. Nobody writes to the pipe."""


def boot_of(engine: ScriptedEngine, store: Store, kind_of_boot: type[Boot] = Boot, **changes) -> Boot:
    given: dict[str, Any] = {
        "engine": "scripted 1.0",
        "plan": engine.plan,
        "read_factors": lambda: {"device": "example", "model": {"revision": "0123"}},
        "store": store,
        "settings": Settings(),
        "clock": engine.clock,
        "draw": lambda n: n // 2,
    }
    return kind_of_boot(Inputs(**(given | changes)))


def boot(engine: ScriptedEngine, store: Store, **changes) -> BootReport:
    return drive(boot_of(engine, store, **changes), engine)


def run(*command: str | Path) -> bool:
    """Whether a command of the system succeeds."""
    try:
        return subprocess.run([str(word) for word in command], capture_output=True, check=False).returncode == 0
    except OSError:
        return False
