"""The types of a review. A review says which of vLLM's settings count for the fingerprint, which do not, and why.

A setting counts if it can change the cost of a dummy run, or which dummy runs are planned. If in doubt, it counts. One
factor too many costs a calibration. One too few costs a wrong curve.
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
    Kind.PATH: "it says where something lies, not what it is",
    Kind.ADDRESS: "it is a host, a port or a network interface",
    Kind.NAME: "it is only a name, given by a person or drawn at random",
    Kind.SEED: "it is where random numbers start",
    Kind.SECRET: "it is a key, a token or a password: it chooses no kernel, and must not be stored",
    Kind.RANK: "it differs between the ranks of one world, which must agree on one fingerprint",
    Kind.DEVICE_CHOICE: "it says which device or core is used, not what it is; boards of one part share their curves",
    Kind.LOGGING: "it controls logs, metrics or telemetry, outside the timed step",
    Kind.FRONT_END: "the API server, the tokenizer, the media of a request: this is done before or after a step",
    Kind.SCHEDULING: "it chooses the batches of real requests; the batch of a dummy run is fixed",
    Kind.OTHER_WORK: "no dummy run does this work: encoders, pooling, transfers",
    Kind.LIFE_CYCLE: "it controls how an engine is built, loaded, watched and ended",
    Kind.CONTENT: "the content of the model's files says it (target.model, draft.model)",
    Kind.ELSEWHERE: "another factor, read from the running engine, says it",
    Kind.DERIVED: "it is computed from settings that count, or measured",
}


class Exclusion(msgspec.Struct, frozen=True):
    """Settings that do not count, and the reason in one line."""

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
