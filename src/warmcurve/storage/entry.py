"""Bytes ↔ entry.

    line 1  {"format":"warmcurve","schema":1,"sha256":"<of line 2>","length":<of line 2, bytes>}
    line 2  the payload: factors, engine, measuring protocol, profile with raw samples, conditions

The header has exactly this form, without blanks. The checksum covers the payload's bytes as they are stored, so the
payload needs no canonical form. The checksum finds damage. It is not a signature. Decoding trusts nothing. The size is
checked before parsing, types are strict, and a repeated or unknown field or a number that is not finite is refused. The
factors must hash to the digest that was asked for. The curves must be the medians of their samples.
"""

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, Literal, NoReturn

import msgspec

from warmcurve.curves.calibration import profile_from
from warmcurve.curves.profile import CostProfile
from warmcurve.errors import EntryError, FactorError, ProfileError
from warmcurve.outcome import Reason
from warmcurve.storage.fingerprint import Value, fingerprint

FORMAT: Final = "warmcurve"
# Raise it when the payload's meaning or shape changes, and with it the directory of the stores (`store.py`).
SCHEMA: Final = 1
MAX_BYTES: Final = 1 << 20
"""An entry of a hundred sizes takes some 50 kB."""


class Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format: str
    schema: int
    sha256: str
    length: int


class Protocol(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the curves were measured, and how they are read. `lookup_*` is the rule by which the engine finds a cost
    between two stored sizes, for each segment of the verify curve.
    """

    replays: int
    statistic: Literal["median"]
    unit: Literal["ms"]
    lookup_captured: Literal["step"]
    lookup_tail: Literal["linear"]


def protocol(replays: int) -> Protocol:
    """The one protocol of this schema."""
    return Protocol(replays, statistic="median", unit="ms", lookup_captured="step", lookup_tail="linear")


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A stored calibration. `conditions` only inform (time, host, versions, duration). They never enter the digest."""

    factors: dict[str, Any]
    engine: str
    protocol: Protocol
    profile: CostProfile
    conditions: dict[str, str | int | float | bool | None]

    @property
    def digest(self) -> str:
        return fingerprint(self.factors)

    @property
    def recorded_at(self) -> datetime | None:
        """When the entry was recorded, in UTC. None if the conditions do not have a valid time."""
        return recorded_at(self.conditions)


def recorded_at(conditions: Mapping[str, Any]) -> datetime | None:
    """The same of an entry with these conditions."""
    text = conditions.get("recorded_at")
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def writable(conditions: Mapping[str, Any]) -> dict[str, Any]:
    """The conditions that JSON can hold. A host's name may not be Unicode, and a reading may not be a number."""
    return {name: value for name, value in conditions.items() if _writable(name) and _writable(value)}


def _writable(value: str | float | None) -> bool:
    if isinstance(value, str):
        return value.isascii() or value == value.encode("utf-8", "replace").decode()
    return value is None or abs(value) < 1e15  # false for a NaN


def encode(entry: Entry) -> bytes:
    """The bytes of an entry. Raises `FactorError` if the factors have no canonical form, and `EntryError` if no reader
    would accept the entry.
    """
    fingerprint(entry.factors)
    try:
        payload = msgspec.json.encode(entry)
    except UnicodeEncodeError as error:
        raise EntryError(Reason.ENTRY_INVALID, "a lone surrogate") from error
    header = Header(FORMAT, SCHEMA, hashlib.sha256(payload).hexdigest(), len(payload))
    data = msgspec.json.encode(header) + b"\n" + payload + b"\n"
    if len(data) > MAX_BYTES:
        raise EntryError(Reason.ENTRY_TOO_LARGE, f"{len(data)} bytes, at most {MAX_BYTES}")
    return data


def decode(data: bytes, digest: str | None = None) -> Entry:
    """The entry in these bytes. Raises `EntryError`, with `ENTRY_FOREIGN` if it is not the entry of `digest`."""
    if len(data) > MAX_BYTES:
        raise EntryError(Reason.ENTRY_TOO_LARGE, f"more than {MAX_BYTES} bytes")
    entry = _decode_payload(_checked_payload(data))
    try:
        own = entry.digest
    except FactorError as error:
        raise EntryError(Reason.ENTRY_INVALID, f"factors: {error.detail}") from error
    except RecursionError as error:
        raise EntryError(Reason.ENTRY_INVALID, "factors: nested too deep") from error
    if digest is not None and own != digest:
        raise EntryError(Reason.ENTRY_FOREIGN, f"the payload is the entry of {own}")
    return entry


def _checked_payload(data: bytes) -> bytes:
    line, newline, rest = data.partition(b"\n")
    if not newline:
        raise EntryError(Reason.ENTRY_TRUNCATED, f"{len(data)} bytes without the end of a header line")
    fields = _loads(line, "header")
    if not isinstance(fields, dict) or fields.get("format") != FORMAT:
        raise EntryError(Reason.ENTRY_MALFORMED, "the first line is not the header of an entry")
    # Before the other fields: a later schema may have others.
    if fields.get("schema") != SCHEMA or isinstance(fields.get("schema"), bool):
        raise EntryError(Reason.ENTRY_SCHEMA, f"schema {fields.get('schema')!r:.40}, this version reads {SCHEMA}")
    try:
        header = msgspec.convert(fields, Header)
    except msgspec.ValidationError as error:
        raise EntryError(Reason.ENTRY_MALFORMED, f"header: {error}") from error
    if len(rest) < header.length + 1:
        # Not how many: Python refuses to print integers of thousands of digits, and a header may declare one.
        raise EntryError(Reason.ENTRY_TRUNCATED, f"{len(rest)} bytes follow the header, which declares more")
    if header.length < 0 or rest[header.length :] != b"\n":
        raise EntryError(Reason.ENTRY_MALFORMED, "the payload does not end where the header says")
    payload = rest[: header.length]
    found = hashlib.sha256(payload).hexdigest()
    if found != header.sha256:
        raise EntryError(Reason.ENTRY_CHECKSUM, f"SHA-256 of the payload is {found}, declared {header.sha256!r:.70}")
    # The checksum does not cover this line: a blank between its fields would be a change that nothing finds.
    if msgspec.json.encode(header) != line:
        raise EntryError(Reason.ENTRY_MALFORMED, "the header is not written as an entry's is, without blanks")
    return payload


def _decode_payload(payload: bytes) -> Entry:
    fields = _loads(payload, "payload")
    try:
        entry = msgspec.convert(fields, Entry)
    except msgspec.ValidationError as error:
        raise EntryError(Reason.ENTRY_INVALID, str(error)) from error
    try:
        medians = profile_from(entry.profile.samples, entry.profile.capture_limit)
    except ProfileError as error:
        raise EntryError(Reason.ENTRY_INVALID, f"samples: {error.detail}") from error
    if medians != entry.profile:
        raise EntryError(Reason.ENTRY_INVALID, "the curves are not the medians of the samples")
    return entry


def _loads(data: bytes, what: str) -> Value:
    """Strict JSON: Python's parser would accept repeated keys (the last one wins), NaN and Infinity."""
    try:
        value: Value = json.loads(
            data.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_not_finite, parse_float=_finite
        )
        # An escaped half of a surrogate pair is JSON, but no text: nothing that prints or stores it could go on.
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except EntryError as error:
        raise EntryError(error.reason, f"{what}: {error.detail}") from error
    except UnicodeEncodeError as error:
        raise EntryError(Reason.ENTRY_INVALID, f"{what}: a lone surrogate") from error
    except (ValueError, RecursionError) as error:
        raise EntryError(Reason.ENTRY_MALFORMED, f"{what}: {error}") from error
    return value


def _unique(pairs: list[tuple[str, Any]]) -> Mapping[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise EntryError(Reason.ENTRY_INVALID, f"field {twice!r:.40} stands twice")
    return fields


def _not_finite(token: str) -> NoReturn:
    raise EntryError(Reason.ENTRY_INVALID, f"{token} is not a number")


def _finite(token: str) -> float:
    value = float(token)
    if value in (float("inf"), float("-inf")):
        raise EntryError(Reason.ENTRY_INVALID, f"{token:.40} is beyond the range of numbers")
    return value
