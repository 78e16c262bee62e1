"""What machines remember of an entry: calibrations, rejections, and whether it is in quarantine there."""

import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from warmcurve.boot.settings import Settings
from warmcurve.cli.layout import output_width, wrap
from warmcurve.cli.location import open_histories
from warmcurve.cli.output import clean, note
from warmcurve.cli.table import NOTHING, Column, table
from warmcurve.curves.profile import CostProfile
from warmcurve.curves.sentinel import Limits
from warmcurve.errors import StoreError
from warmcurve.storage.history import (
    Calibration,
    History,
    State,
    differs,
    disagreement,
    disagreement_limits,
    loss_bound,
)
from warmcurve.storage.store import DirectoryStore


class Compared(NamedTuple):
    """A calibration beside the one before it: the loss bound, and in words what of it exceeds the limit."""

    calibration: Calibration
    loss_bound: float | None = None
    disagreement: str | None = None


class Stayed(NamedTuple):
    """A state of a machine beside the entry that lies there now, as above."""

    state: State
    loss_bound: float | None = None
    disagreement: str | None = None


class Machine(NamedTuple):
    """A history beside the entry that lies there now. `rejects` says whether that is the entry that was turned down,
    `unstable` in what the last calibrations disagree, or between how many states the machine goes back and forth;
    `kept` whether the entry is of one of them.
    """

    history: History
    path: Path
    calibrations: tuple[Compared, ...]
    states: tuple[Stayed, ...]
    kept: bool
    rejects: bool
    quarantined: bool
    unstable: str | None


class Machines:
    """Those with a history in a store. `unreadable` names what could not be read: files, or the whole directory."""

    def __init__(self, store: DirectoryStore) -> None:
        self._settings = Settings.from_environment(os.environ)
        self._histories = open_histories(store)
        self._directory = store.directory / "history"
        self._names: dict[str, list[str]] | None = None
        self.unreadable: list[Path] = []

    def of(self, digest: str | None, checksum: str | None, profile: CostProfile | None) -> tuple[Machine, ...]:
        """In the order of their names. Histories only inform here: where they cannot be read there are none."""
        try:
            if self._names is None:
                self._names = self._histories.names()
            names = self._names.get(digest or "", ())
            kept = self._histories.of(digest, names) if digest and names else ()
        except StoreError:
            self._names = {}
            self.unreadable.append(self._directory)
            return ()
        self.unreadable += [path for path, history in kept if history is None]
        return tuple(self._machine(history, path, checksum or "", profile) for path, history in kept if history)

    def _machine(self, history: History, path: Path, checksum: str, profile: CostProfile | None) -> Machine:
        limits = disagreement_limits(self._settings.limits)
        kept = profile is not None and history.of_a_state(profile, limits)
        return Machine(
            history,
            path,
            tuple(_compared(history.calibrations, limits.max_regret)),
            tuple(_stayed(state, profile, limits) for state in history.states),
            kept=kept,
            rejects=any(each.entry == checksum for each in history.rejected[-1:]),
            quarantined=history.quarantines(checksum, self._settings.quarantine) and not kept,
            unstable=history.flips() or history.unstable(limits.max_regret),
        )

    def note_unreadable(self) -> None:
        if self.unreadable:
            note(f"not read, since damaged or unsafe: {', '.join(clean(path) for path in self.unreadable)}")


def _compared(calibrations: tuple[Calibration, ...], limit: float) -> Iterator[Compared]:
    yield from map(Compared, calibrations[:1])
    for before, calibration in pairwise(calibrations):
        pair = before.profile, calibration.profile
        yield Compared(calibration, loss_bound(*pair), disagreement(*pair, limit))


def _stayed(state: State, entry: CostProfile | None, limits: Limits) -> Stayed:
    if entry is None:
        return Stayed(state)
    return Stayed(state, loss_bound(entry, state.profile), differs(entry, state.profile, limits))


def page(machine: Machine) -> Iterator[str]:
    history = machine.history
    yield ""
    yield from wrap(f"History on {clean(history.machine) or NOTHING}", output_width(), "  ")
    if machine.unstable:
        yield from wrap(f"unstable: {clean(machine.unstable)}", output_width(), "  ")
    if machine.kept:
        text = "this entry is of one of these states, and stays until the machine has changed for good"
        yield from wrap(text, output_width(), "  ")
    if history.replaced:
        text = f"replaced: {_times(history.replaced)} by an entry of another machine that did not hold here"
        yield from wrap(text, output_width(), "  ")
    if machine.quarantined:
        count = _times(len(history.rejected))
        text = f"quarantined: this entry was turned down {count} in a row, and is not tried here"
        yield from wrap(text, output_width(), "  ")
    elif machine.rejects:
        yield f"this entry was turned down {_times(len(history.rejected))} in a row"
    elif history.rejected:
        yield "the entry that was turned down is not here any more"
    if machine.calibrations:
        columns = (Column("calibrated"), Column("stored"), Column("against the one before"))
        yield table(columns, [_cells(each) for each in machine.calibrations])
    if history.flips():
        titles = (Column("in a state since"), Column("last"), Column("times", right=True), Column("against this entry"))
        yield table(titles, [_state_cells(each) for each in machine.states])
    if history.rejected:
        columns = (Column("turned down"), Column("reason"), Column("detail"))
        yield table(
            columns, [[clean(each.at), each.reason, clean(each.detail or NOTHING)] for each in history.rejected]
        )


def _cells(each: Compared) -> list[str]:
    return [clean(each.calibration.at), "yes" if each.calibration.stored else "no", _verdict(each)]


def _state_cells(each: Stayed) -> list[str]:
    return [clean(each.state.first), clean(each.state.last), str(each.state.times), _verdict(each)]


def _verdict(each: Compared | Stayed) -> str:
    if each.disagreement:
        return f"disagrees, {each.disagreement}"
    return NOTHING if each.loss_bound is None else f"agrees, within {each.loss_bound:.1%}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def fields(machine: Machine) -> dict[str, Any]:
    history = machine.history
    return {
        "machine": history.machine,
        "path": str(machine.path),
        "quarantined": machine.quarantined,
        "unstable": machine.unstable,
        "stored": history.stored,
        "replaced": history.replaced,
        "calibrations": [
            {
                "at": each.calibration.at,
                "stored": each.calibration.stored,
                "loss_bound": each.loss_bound,
                "disagreement": each.disagreement,
            }
            for each in machine.calibrations
        ],
        "returns": history.returns,
        "states": [
            {
                "first": each.state.first,
                "last": each.state.last,
                "times": each.state.times,
                "loss_bound": each.loss_bound,
                "disagreement": each.disagreement,
            }
            for each in machine.states
        ],
        "kept": machine.kept,
        "rejects_this_entry": machine.rejects,
        "rejections": [
            {"at": each.at, "entry": each.entry, "reason": each.reason, "detail": each.detail}
            for each in history.rejected
        ],
    }
