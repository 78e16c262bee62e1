"""The words of a review: what of another program's settings counts, what does not, of what kind that is, and why.

A setting counts if it can change what a dummy run of the calibration costs, or which dummy runs are planned. In doubt
it counts: one factor too many costs a calibration, one too few a wrong curve.
"""

from enum import StrEnum
from typing import Final

import msgspec


class Kind(StrEnum):
    """Why a setting may be left out of the fingerprint."""

    PATH = "path"
    ADDRESS = "address"
    NAME = "name"
    SEED = "seed"
    SECRET = "secret"  # noqa: S105  the word, not one
    RANK = "rank"
    DEVICE_CHOICE = "device choice"
    LOGGING = "logging"
    FRONT_END = "front end"
    SCHEDULING = "scheduling"
    OTHER_WORK = "other work"
    LIFE_CYCLE = "life cycle"
    CONTENT = "content"
    ELSEWHERE = "elsewhere"
    DERIVED = "derived"


KINDS: Final = {
    Kind.PATH: "where something lies, not what it is",
    Kind.ADDRESS: "a host, a port, a network interface",
    Kind.NAME: "what something is called, by people or by chance",
    Kind.SEED: "where random numbers start",
    Kind.SECRET: "a key, a token, a password: it chooses no kernel, and must not be stored",
    Kind.RANK: "differs between the ranks of one world, which must agree on one fingerprint",
    Kind.DEVICE_CHOICE: "which device or core, not what it is; boards of one part share their curves",
    Kind.LOGGING: "logs, metrics, telemetry, outside the timed step",
    Kind.FRONT_END: "the API server, the tokenizer, the media of a request: done before a step or after it",
    Kind.SCHEDULING: "chooses the batches of real requests; a dummy run's batch is given",
    Kind.OTHER_WORK: "work that no dummy run does: encoders, pooling, transfers",
    Kind.LIFE_CYCLE: "how an engine is built, loaded, watched and ended",
    Kind.CONTENT: "told by the content of the model's files, under target.model and draft.model",
    Kind.ELSEWHERE: "told by another factor, which is read off the running engine",
    Kind.DERIVED: "computed from settings that count, or measured on the way",
}


class Exclusion(msgspec.Struct, frozen=True):
    """Settings that do not count, and one line of why."""

    kind: Kind
    why: str
    names: tuple[str, ...]


class Section(msgspec.Struct, frozen=True):
    """The review of one class of configuration, with the fields of all supported releases."""

    name: str
    why: str
    counts: tuple[str, ...]
    excluded: tuple[Exclusion, ...] = ()

    @property
    def left_out(self) -> frozenset[str]:
        return frozenset(name for exclusion in self.excluded for name in exclusion.names)

    @property
    def reviewed(self) -> frozenset[str]:
        return self.left_out.union(self.counts)


def section(name: str, why: str, counts: str, *excluded: Exclusion) -> Section:
    return Section(name, why, tuple(counts.split()), excluded)


def leave(kind: Kind, why: str, names: str) -> Exclusion:
    return Exclusion(kind, why, tuple(names.split()))
