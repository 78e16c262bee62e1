"""What became of one fingerprint's curves on one machine: is a stored entry worth another try, is a measurement?

    <store>/history/<digest>-<16 hex digits of the machine's name>.json

- An entry that was turned down so many times in a row on this machine is quarantined here: it is not tried again until
  another one takes its place or somebody deletes this file. Other machines go on with it.
- Of three admitted calibrations in a row, or stored curves that held, each disagrees with the one before it: the
  machine is unstable. What it measures then is used for the boot and not stored, else every boot would store the curves
  that the next one turns down.

A history only keeps a boot from stored curves or from storing; it makes none usable. So one that is lost or damaged
counts as none.
"""

import os
from contextlib import AbstractContextManager, suppress
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Final, Protocol

import msgspec

from warmcurve import _files
from warmcurve.drift import moved
from warmcurve.errors import StoreError
from warmcurve.outcome import Reason
from warmcurve.profile import CostCurve, CostProfile

MAX_BYTES: Final = 1 << 20
KEPT: Final = 256
"""Files of a store. Where containers are named anew at each start, every boot is a machine of its own."""
_REJECTIONS: Final = 16
_CALIBRATIONS: Final = 3
"""As many as it takes to call a machine unstable. Two that disagree say only that something changed once."""


class Rejection(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`entry` is the SHA-256 of the entry's bytes."""

    at: str
    entry: str
    reason: Reason
    detail: str | None = None


class Calibration(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An admitted one, or a stored one that held; the profile has no samples."""

    at: str
    profile: CostProfile
    stored: bool


class History(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`rejected` are the last rejections of one entry with no acceptance between them, `calibrations` the last ones;
    both oldest first.
    """

    machine: str
    rejected: tuple[Rejection, ...] = ()
    calibrations: tuple[Calibration, ...] = ()

    def quarantines(self, entry: str, after: int) -> bool:
        """Whether this entry was turned down `after` times in a row or more; 0 is never."""
        return 0 < after <= len(self.rejected) and self.rejected[-1].entry == entry

    def with_rejection(self, rejection: Rejection) -> "History":
        before = [each for each in self.rejected if each.entry == rejection.entry]
        return msgspec.structs.replace(self, rejected=tuple([*before, rejection][-_REJECTIONS:]))

    def with_acceptance(self, at: str, profile: CostProfile, max_regret: float) -> "History":
        """A stored profile that held. Where the last calibration disagrees with it the machine's costs have changed
        back, which counts as if it had been measured.
        """
        held = msgspec.structs.replace(self, rejected=())
        if self.calibrations and disagreement(self.calibrations[-1].profile, profile, max_regret):
            return held.with_calibration(at, profile, stored=True)
        return held

    def with_calibration(self, at: str, profile: CostProfile, *, stored: bool) -> "History":
        bare = CostProfile(profile.verify, profile.draft, profile.capture_limit, ())
        kept = (*self.calibrations, Calibration(at, bare, stored))[-_CALIBRATIONS:]
        return msgspec.structs.replace(self, calibrations=kept)

    def instability(self, fresh: CostProfile, max_regret: float) -> str | None:
        """In what a fresh calibration and those before it disagree, one after the other, or None."""
        profiles = [*(each.profile for each in self.calibrations), fresh][-_CALIBRATIONS:]
        found = [disagreement(a, b, max_regret) for a, b in pairwise(profiles)]
        if len(profiles) < _CALIBRATIONS or not all(found):
            return None
        return f"{len(profiles)} calibrations in a row disagree, the last two by {found[-1]}"


class Histories(Protocol):
    """What a boot needs to remember: the history of one machine, by fingerprint."""

    def read(self, digest: str) -> History:
        """An empty one where there is none, or none that can be read."""

    def write(self, digest: str, history: History) -> None:
        """Raises `StoreError`."""


def disagreement(old: CostProfile, new: CostProfile, max_regret: float) -> str | None:
    """Whether planning with one could lose more than `max_regret` where the other is true, by the sentinels' bound
    over all captured sizes; in words, or None.
    """
    verify = _ratios(old.verify, new.verify, old.capture_limit)
    draft = _ratios(old.draft, new.draft)
    ratios = (*verify.values(), *draft.values())
    if not ratios or 1 - min(ratios) / max(ratios) <= max_regret:
        return None
    return f"a loss of up to {1 - min(ratios) / max(ratios):.1%}: {moved(verify, draft)}"


def _ratios(old: CostCurve, new: CostCurve, limit: int | None = None) -> dict[int, float]:
    found = {}
    for size, ms in old.points():
        measured = new.at(size)
        if measured is not None and (limit is None or size <= limit):
            found[size] = measured / ms
    return found


class HistoryDirectory:
    """The histories beside a store's entries. `machine` is a name by which a machine is known from boot to boot."""

    def __init__(self, directory: Path, machine: str = "", *, trust_group: bool = False) -> None:
        self.directory = directory
        self._histories = directory / "history"
        self._machine = machine
        self._trust_group = trust_group

    def read(self, digest: str) -> History:
        found = None
        with suppress(OSError), self._open() as histories:
            found = self._parsed(histories, self._name(digest))
        return found if found and found.machine == self._told() else History(self._told())

    def write(self, digest: str, history: History) -> None:
        name = self._name(digest)
        try:
            with self._open(create=True) as histories:
                _files.publish(histories, name, msgspec.json.encode(history))
                with suppress(OSError):
                    _files.keep_newest(histories, _names(histories), KEPT, name)
        except StoreError:
            raise
        except OSError as error:
            raise _files.write_error(self._histories / name, error) from error

    def of(self, digest: str) -> tuple[History, ...]:
        """Those of all machines that can be read, in the order of their names. Raises no `StoreError`."""
        found = []
        with suppress(OSError), self._open() as histories:
            names = [name for name in _names(histories) if name.startswith(f"{digest}-")]
            found = [each for name in names if (each := self._parsed(histories, name))]
        return tuple(sorted(found, key=lambda each: each.machine))

    def _open(self, *, create: bool = False) -> AbstractContextManager[int]:
        return _files.open_nested(self.directory, self._histories, trust_group=self._trust_group, create=create)

    def _parsed(self, histories: int, name: str) -> History | None:
        with suppress(OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            data = _files.read(histories, name, self._histories, MAX_BYTES, trust_group=self._trust_group)
            return msgspec.json.decode(data, type=History) if len(data) <= MAX_BYTES else None
        return None

    def _name(self, digest: str) -> str:
        return f"{digest}-{sha256(self._told().encode()).hexdigest()[:16]}.json"

    def _told(self) -> str:
        # A host's name may be no Unicode.
        return self._machine.encode("utf-8", "backslashreplace").decode()


def _names(histories: int) -> list[str]:
    return [name for name in os.listdir(histories) if name.endswith(".json")]
