"""A store for the command line, entries in it, and the command itself."""

from collections.abc import Callable
from hashlib import sha256
from itertools import cycle
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from warmcurve.boot.driver import drive
from warmcurve.boot.inputs import Inputs
from warmcurve.boot.path import Boot
from warmcurve.boot.settings import Settings
from warmcurve.cli import main
from warmcurve.curves.profile import CostCurve, CostProfile
from warmcurve.outcome import Reason
from warmcurve.storage.history import Calibration, History, HistoryDirectory, Rejection
from warmcurve.storage.store import DirectoryStore
from warmcurve.testing import ScriptedEngine

Record = Callable[..., str]
Run = Callable[..., Result]
Remember = Callable[..., Path]


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DirectoryStore:
    """The default location, where commands look when no test says otherwise; nothing of it exists yet. No line is
    wrapped but where a test asks for it: a path of pytest's is long.
    """
    monkeypatch.setenv("COLUMNS", "2000")
    for name in ("SCALE_LOW", "SCALE_HIGH", "MAX_REGRET", "TRUST_GROUP", "QUARANTINE"):
        monkeypatch.delenv(f"WARMCURVE_{name}", raising=False)
    for name in ("WARMCURVE_STORE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("VLLM_CACHE_ROOT", str(tmp_path))
    return DirectoryStore(tmp_path / "adaptive_verification")


@pytest.fixture
def record(store: DirectoryStore) -> Record:
    """Boots an engine whose five replays of a size differ by 0 to 0.4 ms, and gives the digest of what it stored."""

    def record(revision: str = "a", *, after_s: int = 0, **conditions: str | float | None) -> str:
        noise = cycle((0.0, 0.1, 0.2, 0.3, 0.4))
        engine = ScriptedEngine(verify_ms=lambda tokens: tokens + next(noise))
        engine.clock.advance_ms(after_s * 1000)
        boot = Boot(
            Inputs(
                engine="scripted",
                plan=engine.plan,
                read_factors=lambda: {"model": {"target": {"revision": revision}, "draft": None}, "k": 7},
                store=store,
                settings=Settings(),
                clock=engine.clock,
                draw=lambda n: 0,
                conditions={"host": "node-1", **conditions},
            )
        )
        report = drive(boot, engine)
        assert report.digest is not None
        assert report.outcome == "recorded"
        return report.digest

    return record


@pytest.fixture
def remember(store: DirectoryStore) -> Remember:
    """Writes what a machine remembers of an entry, and gives its file: how often in a row it was turned down, the one
    that lies there unless another is named, and the calibrations, by how dear the largest captured size was.
    """

    def remember(
        digest: str,
        machine: str = "cuda GPU-1",
        rejections: int = 0,
        sizes_dearer: tuple[float, ...] = (1.0,),
        entry: str | None = None,
        detail: str | None = "verify of 16 tokens became 1.5× dearer",
    ) -> Path:
        turned_down = entry or sha256(store.get(digest) or b"").hexdigest()
        history = History(
            machine,
            tuple(
                Rejection(f"2030-02-0{number + 1}", turned_down, Reason.SENTINEL_SHAPE, detail)
                for number in range(rejections)
            ),
            tuple(
                Calibration(f"2030-01-0{number + 1}", _profile(factor), stored=number < 2)
                for number, factor in enumerate(sizes_dearer)
            ),
        )
        histories = HistoryDirectory(store.directory, machine)
        histories.write(digest, history)
        (path,) = (kept.path for kept in histories.of(digest) if kept.history == history)
        return path

    return remember


def _profile(factor: float) -> CostProfile:
    return CostProfile(CostCurve((1, 16), (4.0, 6.0 * factor)), CostCurve((1, 4), (1.0, 1.25)), 16, ())


@pytest.fixture
def run() -> Run:
    """The command, with errors that nobody caught let through."""

    def run(*arguments: str | Path) -> Result:
        return CliRunner().invoke(main, [str(argument) for argument in arguments], catch_exceptions=False)

    return run
