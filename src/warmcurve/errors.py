"""The errors of warmcurve.

    WarmcurveError                  carries a `reason` of the closed vocabulary and a `hint()` for a person
    ├── ProfileError(ValueError)    a curve or profile that breaks a rule
    ├── FactorError(LookupError)    a factor of the fingerprint that is unknown or has no canonical form
    ├── EntryError(ValueError)      bytes that are not a valid entry
    ├── StoreError(OSError)         a store that cannot be read or written
    ├── InstallRefused(RuntimeError)  an engine that refuses verified curves
    ├── EngineUnknown(RuntimeError) an engine that does not calibrate as one that is known
    ├── SettingsError(ValueError)   an environment variable that cannot be understood
    ├── VoteError(RuntimeError)     a store that ranks vote over and that failed, or a message that cannot be read
    ├── VoteLost(RuntimeError)      a rank that promised to follow a decision and cannot: it must stop
    └── CurvesRequired(RuntimeError)  no stored curves hold, and the mode lets no boot go on without

The library raises them; only an adapter's edge may catch more broadly.
"""

from warmcurve.outcome import MEANINGS, Reason


class WarmcurveError(Exception):
    """`detail` says what was met, in one line; `reason` is its word in the closed vocabulary."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.reason}: {self.detail}"

    def hint(self) -> str:
        """What a person can do about it."""
        return MEANINGS[self.reason].remedy


# Exceptions pickle as their class called with `args`, and engines carry them across processes: where a constructor
# takes something else than (reason, detail), `args` says what.


class ProfileError(WarmcurveError, ValueError):
    def __init__(self, detail: str, reason: Reason = Reason.CALIBRATION_INVALID) -> None:
        super().__init__(reason, detail)
        self.args = (detail, reason)


class FactorError(WarmcurveError, LookupError):
    """`factor` is the dotted name of the factor."""

    def __init__(self, reason: Reason, factor: str, problem: str) -> None:
        super().__init__(reason, f"{factor}: {problem}")
        self.args = (reason, factor, problem)
        self.factor = factor


class EntryError(WarmcurveError, ValueError):
    pass


class StoreError(WarmcurveError, OSError):
    pass


class InstallRefused(WarmcurveError, RuntimeError):
    def __init__(self, detail: str) -> None:
        super().__init__(Reason.INSTALL_REFUSED, detail)
        self.args = (detail,)


class EngineUnknown(WarmcurveError, RuntimeError):
    def __init__(self, detail: str) -> None:
        super().__init__(Reason.ENGINE_UNKNOWN, detail)
        self.args = (detail,)


class SettingsError(WarmcurveError, ValueError):
    def __init__(self, detail: str) -> None:
        super().__init__(Reason.SETTINGS_INVALID, detail)
        self.args = (detail,)


class VoteError(WarmcurveError, RuntimeError):
    def __init__(self, detail: str) -> None:
        super().__init__(Reason.VOTE_FAILED, detail)
        self.args = (detail,)


class VoteLost(WarmcurveError, RuntimeError):
    """The other ranks may be replaying sentinels that this one cannot join: running anything else would hang them."""

    def __init__(self, detail: str) -> None:
        super().__init__(Reason.VOTE_LOST, detail)
        self.args = (detail,)


class CurvesRequired(WarmcurveError, RuntimeError):
    """The mode is `require`: the engine must stop before it serves, on every rank."""

    def __init__(self, detail: str) -> None:
        super().__init__(Reason.CURVES_REQUIRED, detail)
        self.args = (detail,)
