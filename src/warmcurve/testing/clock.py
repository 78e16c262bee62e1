"""A clock that moves only when told."""

from datetime import UTC, datetime, timedelta


class FakeClock:
    """Starts at 2030-01-01 00:00 UTC, with a monotonic reading of 0."""

    def __init__(self) -> None:
        self._ns = 0

    def advance_ms(self, ms: float) -> None:
        # Whole nanoseconds: sums of floats would make equal scripts differ in their last bits.
        self._ns += round(ms * 1e6)

    def monotonic_ns(self) -> int:
        return self._ns

    def now(self) -> datetime:
        return datetime(2030, 1, 1, tzinfo=UTC) + timedelta(microseconds=self._ns / 1e3)

    def sleep(self, seconds: float) -> None:
        self.advance_ms(seconds * 1e3)
