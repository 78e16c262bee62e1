"""Reads and writes the store for one boot: which entry may be tried, what is remembered of it, what is stored.

With several ranks only the leader has a keeper. Entries are in a store, and histories are beside it (`history.py`).
"""

import platform
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Final

import msgspec

from warmcurve._version import RELEASED, __version__
from warmcurve.boot import recording
from warmcurve.boot.settings import DEFAULT_ROW, Settings
from warmcurve.clock import Clock
from warmcurve.curves import calibration
from warmcurve.curves.calibration import Plan
from warmcurve.curves.profile import CostProfile, Sample
from warmcurve.curves.sentinel import Reading
from warmcurve.durations import in_words
from warmcurve.errors import EntryError, ProfileError, StoreError
from warmcurve.outcome import Reason
from warmcurve.reporting import explain
from warmcurve.storage import entry
from warmcurve.storage.entry import Entry
from warmcurve.storage.fingerprint import Value
from warmcurve.storage.history import Histories, History, Rejection, disagreement_limits
from warmcurve.storage.store import Store

_EXPLAINING_NS: Final = 250_000_000
_CLOCKS_DIFFER_S: Final = 3600
"""Hosts' clocks differ by less, and then it is not worth a word."""
_WHOLE: Final = frozenset(
    {Reason.ENTRY_SCHEMA, Reason.ENTRY_INCOMPLETE, Reason.ENTRY_EXPIRED, Reason.ENTRY_QUARANTINED}
)
"""An entry that is not used for one of these reasons is not damaged. It is replaced, and not moved aside."""


def read(data: bytes, digest: str, plan: Plan) -> Entry:
    """The entry in these bytes. Raises `EntryError` if it is damaged, or has not the runs of this plan."""
    found = entry.decode(data, digest)
    if problem := calibration.shortfall(plan, found.profile):
        raise EntryError(Reason.ENTRY_INCOMPLETE, problem)
    return found


class Keeper:
    """The keeper of one boot of one fingerprint. Histories are optional, and their errors are ignored."""

    def __init__(
        self, digest: str, plan: Plan, store: Store, histories: Histories | None, settings: Settings, clock: Clock
    ) -> None:
        self._digest = digest
        self._plan = plan
        self._store = store
        self._histories = histories
        self._settings = settings
        self._clock = clock
        self._history = History("") if histories is None else histories.read(digest)
        self._limits = disagreement_limits(settings.limits)
        self._tried: str | None = None
        self._profile: CostProfile | None = None

    def check(self, data: bytes, found: Entry) -> str | None:
        """What a person should know of an entry that is tried. Raises `EntryError` if a sound entry must not be tried:
        it is too old, or in quarantine.
        """
        note = self._check_age(found.recorded_at)
        self._tried, self._profile = sha256(data).hexdigest(), found.profile
        # Where no calibration may follow, nothing would ever end a quarantine; in an audit nothing is tried. Nor would
        # anything end it for an entry that is kept since the machine comes back to its state.
        quarantined = self._history.quarantines(self._tried, self._settings.quarantine)
        quarantined = quarantined and not self._history.of_a_state(found.profile, self._limits)
        if self._settings.mode == "reuse" and quarantined:
            last = self._history.rejected[-1]
            detail = f"turned down {len(self._history.rejected)} times in a row, last at {last.at} for {last.reason}"
            raise EntryError(Reason.ENTRY_QUARANTINED, detail)
        return note

    def _check_age(self, recorded_at: datetime | None) -> str | None:
        most = self._settings.max_age_s
        if most is None:
            return None
        if recorded_at is None:
            raise EntryError(Reason.ENTRY_EXPIRED, "it does not say when it was recorded")
        now = self._clock.now()
        age_s = (now - recorded_at).total_seconds()
        # Boards without a battery boot in 1970, or the year of their firmware, until they have met a time server.
        if now < datetime.fromisoformat(RELEASED).replace(tzinfo=UTC):
            wrong = f"{now:%Y-%m-%d}, before warmcurve {__version__} was released"
        elif age_s < -_CLOCKS_DIFFER_S:
            wrong = f"{in_words(-age_s)} before the entry was recorded"
        elif age_s > most:
            recorded = recorded_at.isoformat(timespec="seconds")
            detail = f"recorded at {recorded}, {in_words(age_s)} ago, allowed {in_words(most)}"
            raise EntryError(Reason.ENTRY_EXPIRED, detail)
        else:
            return None
        return f"this host's clock says {wrong}, so the entry's age is unknown and WARMCURVE_MAX_AGE is not applied"

    def absence(self, factors: dict[str, Value]) -> str:
        """For the log line of a miss: where a boot looked, and the nearest entry. It only informs, so it gets little
        time.
        """
        deadline = self._clock.monotonic_ns() + _EXPLAINING_NS

        def enough() -> bool:
            return self._clock.monotonic_ns() > deadline

        texts = self._store.whereabouts(enough), explain.in_brief(factors, self._store, enough)
        return "; ".join(filter(None, texts))

    def clear(self, error: EntryError) -> None:
        """Take a damaged entry out of the way."""
        if error.reason not in _WHOLE:
            self._store.set_aside(self._digest)

    def accepted(self, readings: Sequence[Reading]) -> None:
        """The sentinels confirmed the entry. If the history already says so, nothing is written."""
        assert self._profile is not None
        history = self._history.with_acceptance(self._now(), self._profile, readings, self._limits)
        if history != self._history:
            self._write(history)

    def turned_down(self, reason: Reason, detail: str | None) -> None:
        if self._tried is not None and self._settings.mode == "reuse":
            self._write(self._history.with_rejection(Rejection(self._now(), self._tried, reason, detail)))

    def record(
        self, samples: tuple[Sample, ...], engine: str, factors: dict[str, Value], conditions: Mapping[str, Any]
    ) -> str | None:
        """Store a calibration, and give what the store says of it. Raises `ProfileError`, `EntryError` or `StoreError`,
        with the reason why it is not stored.
        """
        known = {"recorded_at": self._now(), "host": platform.node(), "warmcurve": __version__, **conditions}
        recorded = recording.record(
            samples, self._plan, self._settings.thresholds, engine=engine, factors=factors, conditions=known
        )
        data, limits = entry.encode(recorded), self._limits
        before = self._history.with_replaced(self._tried)
        history = before.with_calibration(self._now(), recorded.profile, limits, stored=False)
        unstable = self._profile and history.keeps(self._profile, limits)
        # Where no entry was tried there is nothing that would be replaced in turn.
        if self._tried is not None or self._settings.mode == "record":
            unstable = unstable or history.unstable(limits.max_regret)
        try:
            if unstable:
                raise ProfileError(unstable, Reason.MACHINE_UNSTABLE)
            if in_turn := history.in_turn(self._settings.quarantine or DEFAULT_ROW):
                raise ProfileError(in_turn, Reason.MACHINES_DIFFER)
            said = self._store.put(recorded.digest, data)
            history = before.with_calibration(self._now(), recorded.profile, limits, stored=True)
            history = msgspec.structs.replace(history, stored=sha256(data).hexdigest())
        finally:
            self._write(history)
        return said

    def _write(self, history: History) -> None:
        self._history = history
        if self._histories is not None:
            with suppress(StoreError):
                self._histories.write(self._digest, history)

    def _now(self) -> str:
        return self._clock.now().isoformat(timespec="seconds")
