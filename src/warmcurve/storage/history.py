"""Remembers what happened to one fingerprint's curves on one machine. It decides whether to try or store an entry.

    <store>/history/<digest>-<16 hex digits of the machine's name>.json

- Quarantine: this machine rejected an entry several times in a row. It does not try the entry again, until another
  entry replaces it or somebody deletes this file. Other machines still try it.
- An unstable machine: of three admitted calibrations in a row, each disagrees with the one before it. Such a
  calibration is used for the boot and not stored. Otherwise every boot would store curves that the next one rejects.
  Stored curves that held count as a calibration if their sentinels contradict the last one.
- A machine of several states: calibrations that agree, within the scale that sentinels allow, belong to one state. A
  machine that came back to an earlier state twice goes back and forth between its states, however long it stays in
  each. An entry of one of these states stays, although it does not hold in the others. It is in no quarantine. It is
  replaced once the machine has changed: after three calibrations in a row of a new state, or after twice as many as
  the machine came back before, at most sixteen, of a known state.
- Machines that differ: another machine has replaced this machine's entry twice with one that does not hold here. This
  machine stops storing, until it has rejected the same entry for a row of boots.

A history can only keep a boot from using or from storing curves. It makes none usable. So a history that is lost or
damaged counts as empty.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple, Protocol

import msgspec

from warmcurve.curves.drift import moved
from warmcurve.curves.profile import CostCurve, CostProfile
from warmcurve.curves.sentinel import Limits, Reading
from warmcurve.errors import StoreError
from warmcurve.outcome import Reason
from warmcurve.printable import printable
from warmcurve.storage.files import Directory

MAX_BYTES: Final = 1 << 20
KEPT: Final = 256
"""Files of a store. Where containers are named anew at each start, every boot is a machine of its own."""
REJECTIONS: Final = 16
"""In a row, that are kept at most."""
_DETAIL: Final = 400
"""Characters of a rejection's detail, which may be an engine's own error."""
_CALIBRATIONS: Final = 3
"""As many as it takes to call a machine unstable. Two that disagree say only that something changed once."""
_STATES: Final = 4
"""That are remembered; of more, those that were seen last."""
RETURNS: Final = 2
"""To an earlier state, after which a machine is taken to go back and forth. One may be a change that was taken back."""
CHANGED: Final = 3
"""Calibrations in a row in a state that is new, which show that the machine has changed."""
SETTLED: Final = 16
"""Calibrations in a row in a state that the machine was in before, that always show that it stays there."""


class Rejection(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`entry` is the SHA-256 of the entry's bytes."""

    at: str
    entry: str
    reason: Reason
    detail: str | None = None


class Calibration(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A calibration that was admitted, or a stored one that held. The profile has no samples."""

    at: str
    profile: CostProfile
    stored: bool


class State(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Calibrations that agree: the profile of the last one, without samples, when it was seen, and how often."""

    profile: CostProfile
    first: str
    last: str
    times: int = 1


class History(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`rejected` are the last rejections of one entry with no acceptance between them, `calibrations` the last ones;
    both oldest first. `stored` is the SHA-256 of the last entry that this machine stored, `replaced` how often since
    the last acceptance it found another machine's in its place, which did not hold.

    `states` are those in which calibrations found the machine, the present one last; `row` is how many calibrations in
    a row were of that one, `returns` how often the machine came back to one that it had left. A file of an earlier
    version has none of the three.
    """

    machine: str
    rejected: tuple[Rejection, ...] = ()
    calibrations: tuple[Calibration, ...] = ()
    stored: str | None = None
    replaced: int = 0
    states: tuple[State, ...] = ()
    row: int = 0
    returns: int = 0

    def quarantines(self, entry: str, after: int) -> bool:
        """Whether this entry was rejected `after` times in a row, or more. With 0 it is never in quarantine."""
        return 0 < after <= len(self.rejected) and self.rejected[-1].entry == entry

    def with_rejection(self, rejection: Rejection) -> "History":
        before = [each for each in self.rejected if each.entry == rejection.entry]
        detail = rejection.detail and printable(rejection.detail)[:_DETAIL]
        kept = [*before, msgspec.structs.replace(rejection, detail=detail)][-REJECTIONS:]
        return msgspec.structs.replace(self, rejected=tuple(kept))

    def with_acceptance(self, at: str, profile: CostProfile, readings: Sequence[Reading], limits: Limits) -> "History":
        """A stored profile that held. Where its sentinels would have turned down the last calibration the machine's
        costs have changed back, which counts as if the profile had been measured.

        That the two profiles differ says nothing of the machine: at the sizes that were looked at both may hold.
        """
        held = msgspec.structs.replace(self, rejected=(), replaced=0)
        last = self.calibrations[-1].profile if self.calibrations else profile
        if differs(last, profile, limits) and _contradicts(readings, last, limits):
            return held.with_calibration(at, profile, limits, stored=True)
        return held

    def with_calibration(self, at: str, profile: CostProfile, limits: Limits, *, stored: bool) -> "History":
        bare = CostProfile(profile.verify, profile.draft, profile.capture_limit, ())
        kept = (*self.calibrations, Calibration(at, bare, stored))[-_CALIBRATIONS:]
        return _visited(msgspec.structs.replace(self, calibrations=kept), at, bare, limits)

    def flips(self) -> str | None:
        """In words, between how many states the machine goes back and forth. None if it does not."""
        if self.returns < RETURNS:
            return None
        return (
            f"this machine has {len(self.states)} steady states, and came back to an earlier one {self.returns} times"
        )

    def of_a_state(self, entry: CostProfile, limits: Limits) -> bool:
        """Whether an entry is of one of the states between which the machine goes back and forth."""
        agrees = any(not differs(entry, state.profile, limits) for state in self.states)
        return agrees and self.flips() is not None

    def keeps(self, entry: CostProfile, limits: Limits) -> str | None:
        """Why the last calibration is not to take the place of an entry that does not hold, or None: the entry is of
        another of the states between which the machine goes back and forth.

        It is replaced once the machine stays: for twice as many calibrations in a row as it came back before.
        """
        if self.row >= min(2 * self.returns, SETTLED) or not self.of_a_state(entry, limits):
            return None
        change = differs(entry, self.states[-1].profile, limits)
        return change and f"{self.flips()}; the stored entry is of another than now, {change}"

    def with_replaced(self, tried: str | None) -> "History":
        """`tried` is the entry that did not hold and is about to be replaced. Where none was tried, whoever records has
        decided whose curves are to be stored.
        """
        others = self.stored not in {None, tried}
        return msgspec.structs.replace(self, replaced=self.replaced + others if tried else 0)

    def in_turn(self, row: int) -> str | None:
        """In what way two machines store in turn, or None; also None once an entry was turned down `row` times."""
        if self.replaced < 2 or len(self.rejected) >= row:
            return None
        return f"what this machine stored was replaced {self.replaced} times by an entry that does not hold here"

    def unstable(self, max_regret: float) -> str | None:
        """In what the last calibrations disagree, each with the one before it, or None."""
        last = [each.profile for each in self.calibrations]
        found = [disagreement(old, new, max_regret) for old, new in pairwise(last)]
        if len(last) < _CALIBRATIONS or not all(found):
            return None
        return f"{len(last)} calibrations in a row disagree, the last two by {found[-1]}"


class Histories(Protocol):
    """The histories of one machine, by fingerprint."""

    def read(self, digest: str) -> History:
        """The history. It is empty if there is none, or if it cannot be read."""

    def write(self, digest: str, history: History) -> None:
        """Raises `StoreError`."""


def disagreement_limits(limits: Limits) -> Limits:
    """Beyond which calibrations disagree. The loss is no less than the default policy's: two calibrations have the
    noise of two, and a sweep's own limit is for medians of twelve replays.
    """
    return msgspec.structs.replace(limits, max_regret=max(limits.max_regret, Limits().max_regret))


def loss_bound(old: CostProfile, new: CostProfile) -> float | None:
    """What planning with one may lose where the other is true, by the sentinels' bound over all captured sizes; None
    where no size is priced by both.
    """
    verify, draft = _ratios(old, new)
    ratios = (*verify.values(), *draft.values())
    if not ratios:
        return None
    return 1 - min(ratios) / max(ratios) if _comparable(ratios) else 1.0


def disagreement(old: CostProfile, new: CostProfile, max_regret: float) -> str | None:
    """Whether planning with one could lose more than `max_regret` where the other is true; in words, or None."""
    bound = loss_bound(old, new)
    return None if bound is None or bound <= max_regret else f"a loss of up to {bound:.1%}: {_change(old, new)}"


def differs(old: CostProfile, new: CostProfile, limits: Limits) -> str | None:
    """Whether sentinels turn down one where the other is true: it disagrees, or all costs are of another scale. In
    words, or None.
    """
    verify, draft = _ratios(old, new)
    ratios = (*verify.values(), *draft.values())
    if words := disagreement(old, new, limits.max_regret):
        return words
    if not ratios or limits.scale_low <= min(ratios) <= max(ratios) <= limits.scale_high:
        return None
    return f"another scale: {_change(old, new)}"


def _visited(history: History, at: str, profile: CostProfile, limits: Limits) -> History:
    """With a calibration more in the state that its profile agrees with best, or in a new one."""
    like = [state for state in history.states if not differs(state.profile, profile, limits)]
    known = min(like, key=lambda state: loss_bound(state.profile, profile) or 0.0, default=None)
    others = [state for state in history.states if state is not known]
    # The last profile is the machine's state as it is now; the first may be years old.
    now = State(profile, known.first if known else at, at, known.times + 1 if known else 1)
    stays = known is not None and known is history.states[-1]
    row, returns = (history.row + 1 if stays else 1), history.returns + (known is not None and not stays)
    if now.times == row >= CHANGED:
        others, returns = [], 0
    return msgspec.structs.replace(history, states=(*others, now)[-_STATES:], row=row, returns=returns)


def _change(old: CostProfile, new: CostProfile) -> str:
    verify, draft = _ratios(old, new)
    comparable = _comparable((*verify.values(), *draft.values()))
    return moved(verify, draft) if comparable else "times too short or too long to be compared"


def _ratios(old: CostProfile, new: CostProfile) -> tuple[dict[int, float], dict[int, float]]:
    """New / old of both curves, by size."""
    limit = min(old.capture_limit, new.capture_limit)
    verify = {size: ratio for size, ratio in _common(old.verify, new.verify).items() if size <= limit}
    return verify, _common(old.draft, new.draft)


def _common(old: CostCurve, new: CostCurve) -> dict[int, float]:
    return {size: measured / ms for size, ms in old.points() if (measured := new.at(size)) is not None}


def _contradicts(readings: Sequence[Reading], profile: CostProfile, limits: Limits) -> bool:
    """Whether these sentinels would have turned down the profile."""
    ratios = []
    for reading in readings:
        verify = reading.verify_ms, profile.verify.at(reading.tokens)
        draft = reading.draft_ms, profile.draft.at(reading.requests)
        ratios += [measured / ms for measured, ms in (verify, draft) if measured is not None and ms is not None]
    if not ratios:
        return False
    low, high = min(ratios), max(ratios)
    return 1 - low / high > limits.max_regret or not limits.scale_low <= low <= high <= limits.scale_high


def _comparable(ratios: Collection[float]) -> bool:
    return 1e-9 < min(ratios) <= max(ratios) < 1e9


class Kept(NamedTuple):
    """A file of a history, and what it holds: None where it is damaged, or others may write it."""

    path: Path
    history: History | None


class HistoryDirectory:
    """The histories beside a store's entries. `machine` is a name by which a machine is known from boot to boot."""

    def __init__(self, directory: Path, machine: str = "", *, trust_group: bool = False) -> None:
        self.directory = directory
        self._histories = Directory(directory, "history", trust_group=trust_group)
        self._machine = machine

    def read(self, digest: str) -> History:
        found = None
        with suppress(StoreError):
            found = self._parsed(self._histories.read(self._name(digest, self._machine_text()), MAX_BYTES))
        return found if found and found.machine == self._machine_text() else History(self._machine_text())

    def write(self, digest: str, history: History) -> None:
        name = self._name(digest, self._machine_text())
        self._histories.publish(name, msgspec.json.encode(history))
        self._histories.keep_newest(_is_history, KEPT, name)

    def names(self) -> dict[str, list[str]]:
        """The names of all files, by digest. Raises `StoreError` as `of` does."""
        found: defaultdict[str, list[str]] = defaultdict(list)
        for name in filter(_is_history, self._histories.names()):
            found[name.partition("-")[0]].append(name)
        return dict(found)

    def of(self, digest: str, names: Iterable[str] | None = None) -> tuple[Kept, ...]:
        """Those of all machines, in the order of the machines' names. Whoever asks for many digests lists the
        directory once, with `names`. Raises `StoreError` where the directory itself cannot be read or others may write
        to it.
        """
        found: list[Kept] = []
        for name in self._histories.names() if names is None else names:
            if _is_history(name) and name.startswith(f"{digest}-"):
                found += self._kept(name, digest)
        return tuple(sorted(found, key=lambda each: each.history.machine if each.history else ""))

    def _kept(self, name: str, digest: str) -> Iterator[Kept]:
        history = None
        with suppress(StoreError):
            data = self._histories.read(name, MAX_BYTES)
            if data is None:
                # Removed since it was listed.
                return
            history = self._parsed(data)
        if history and name != self._name(digest, history.machine):
            # No boot finds it under this name.
            history = None
        yield Kept(self._histories.path / name, history)

    @staticmethod
    def _parsed(data: bytes | None) -> History | None:
        with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return msgspec.json.decode(data, type=History) if data and len(data) <= MAX_BYTES else None
        return None

    @staticmethod
    def _name(digest: str, machine: str) -> str:
        return f"{digest}-{sha256(machine.encode()).hexdigest()[:16]}.json"

    def _machine_text(self) -> str:
        # A host's name may be no Unicode.
        return self._machine.encode("utf-8", "backslashreplace").decode()


def _is_history(name: str) -> bool:
    return name.endswith(".json")
