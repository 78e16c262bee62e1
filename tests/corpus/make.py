"""Writes the corpus again: one damaged entry a file, `<what>.<reason>.jsonl`, each made from `good.ok.jsonl`.

    python -m tests.corpus.make

The reason is the one that `entry.decode` must give. Where a damage lies behind the checksum, the checksum is right.
"""

import hashlib
from pathlib import Path

from warmcurve.curves.calibration import plan, profile_from
from warmcurve.curves.profile import Sample
from warmcurve.storage import entry

HERE = Path(__file__).parent

PLAN = plan((1, 2, 4), max_tokens=8, replays=3)


def _sample(index: int, tokens: int) -> Sample:
    requests = min(tokens, 2)
    return Sample(tokens, requests, 4 + tokens / 8 + index % 3 / 100, 1 + requests / 16 + index % 3 / 1000, tokens <= 4)


ENTRY = entry.Entry(
    factors={
        "device": {"memory_gib": 80, "name": "Example"},
        "kernels": ["dense", "mixture"],
        "model": "0123abcd",
        "calibration": {"sizes": list(PLAN.sizes()), "captured": list(PLAN.captured), "runs": len(PLAN.runs)},
    },
    engine="example 1.0",
    protocol=entry.protocol(replays=3),
    profile=profile_from((_sample(*run) for run in enumerate(PLAN.runs)), capture_limit=4),
    conditions={"recorded_at": "2030-01-01T00:00:00+00:00", "host": "example", "calibration_ms": 340.5},
)
GOOD = entry.encode(ENTRY)
DIGEST = ENTRY.digest
_HEADER, _PAYLOAD, _ = GOOD.split(b"\n")
_SHA256 = hashlib.sha256(_PAYLOAD).hexdigest().encode()


def sealed(payload: bytes) -> bytes:
    """The payload under a header that is right for it."""
    fields = b'{"format":"warmcurve","schema":1,"sha256":"%s","length":%d}'
    return fields % (hashlib.sha256(payload).hexdigest().encode(), len(payload)) + b"\n" + payload + b"\n"


def _changed(text: bytes, old: bytes, new: bytes) -> bytes:
    assert old in text, old
    return text.replace(old, new, 1)


def _header(old: bytes, new: bytes) -> bytes:
    return _changed(_HEADER, old, new) + b"\n" + _PAYLOAD + b"\n"


def _payload(old: bytes, new: bytes) -> bytes:
    return sealed(_changed(_PAYLOAD, old, new))


def _flipped(data: bytes, position: int, bit: int) -> bytes:
    return data[:position] + bytes([data[position] ^ 1 << bit]) + data[position + 1 :]


def _length(text: bytes) -> bytes:
    return _header(b'"length":%d' % len(_PAYLOAD), b'"length":' + text)


def corpus() -> dict[str, bytes]:
    """Every file's name and bytes."""
    return {f"{name}.jsonl": data for name, data in (_truncated() | _framed() | _header_fields() | _inside()).items()}


def _truncated() -> dict[str, bytes]:
    return {
        "empty.entry_truncated": b"",
        "header-cut.entry_truncated": _HEADER[:40],
        "header-without-newline.entry_truncated": _HEADER,
        "header-alone.entry_truncated": _HEADER + b"\n",
        "payload-cut-after-one-byte.entry_truncated": GOOD[: len(_HEADER) + 2],
        "payload-cut-in-the-middle.entry_truncated": GOOD[: len(GOOD) // 2],
        "last-newline-missing.entry_truncated": GOOD[:-1],
        "zeros-of-the-same-length.entry_truncated": bytes(len(GOOD)),
        "length-too-large.entry_truncated": _length(b"%d" % (len(_PAYLOAD) + 1)),
        "length-of-4300-digits.entry_truncated": _length(b"9" * 4300),
    }


def _framed() -> dict[str, bytes]:
    return {
        "good.ok": GOOD,
        "length-too-small.entry_malformed": _length(b"%d" % (len(_PAYLOAD) - 1)),
        "length-negative.entry_malformed": _length(b"-1"),
        "length-true.entry_malformed": _length(b"true"),
        "length-float.entry_malformed": _length(b"%d.0" % len(_PAYLOAD)),
        "length-text.entry_malformed": _length(b'"%d"' % len(_PAYLOAD)),
        "length-of-5000-digits.entry_malformed": _length(b"9" * 5000),
        "trailing-bytes.entry_malformed": GOOD + b"tail of a longer entry\n",
        "trailing-newline.entry_malformed": GOOD + b"\n",
        "trailing-zeros.entry_malformed": GOOD + bytes(512),
        "two-payload-lines.entry_malformed": GOOD + _PAYLOAD + b"\n",
        "two-entries.entry_malformed": GOOD + GOOD,
        "carriage-returns.entry_malformed": GOOD.replace(b"\n", b"\r\n"),
        "last-block-of-zeros.entry_malformed": GOOD[:-64] + bytes(64),
        "payload-first.entry_malformed": _PAYLOAD + b"\n" + _HEADER + b"\n",
        "byte-order-mark.entry_malformed": b"\xef\xbb\xbf" + GOOD,
        "utf-16.entry_truncated": GOOD.decode().replace("\n", "").encode("utf-16"),
        "binary.entry_malformed": bytes(range(256)) * 4,
        "header-not-json.entry_malformed": b"warmcurve 1\n" + _PAYLOAD + b"\n",
        "header-not-utf-8.entry_malformed": _header(b"warmcurve", b"warmcurv\xe9"),
        "header-with-blanks.entry_malformed": _header(b'"schema":1', b'"schema": 1'),
        "header-a-list.entry_malformed": b'["warmcurve",1]\n' + _PAYLOAD + b"\n",
        "payload-not-json.entry_malformed": sealed(_PAYLOAD[:-1]),
        "payload-not-utf-8.entry_malformed": _payload(b"Example", b"Exampl\xe9"),
        "payload-with-byte-order-mark.entry_malformed": sealed(b"\xef\xbb\xbf" + _PAYLOAD),
        "payload-empty.entry_malformed": sealed(b""),
        "payload-null.entry_invalid": sealed(b"null"),
        "payload-a-list.entry_invalid": sealed(b"[" + _PAYLOAD + b"]"),
        "payload-twice.entry_malformed": sealed(_PAYLOAD + _PAYLOAD),
        "one-bit-flipped-in-payload.entry_checksum": _flipped(GOOD, len(GOOD) - 100, 0),
        "one-bit-flipped-in-sha256.entry_checksum": _flipped(GOOD, GOOD.index(b'"sha256":"') + 12, 0),
        "one-bit-flipped-in-header.entry_malformed": _flipped(GOOD, 3, 0),
        "sha256-of-another-payload.entry_checksum": _header(_SHA256, hashlib.sha256(b"").hexdigest().encode()),
        "sha256-in-capitals.entry_checksum": _header(_SHA256, _SHA256.upper()),
        "payload-of-another-digest.entry_foreign": _payload(b'"model":"0123abcd"', b'"model":"0123abce"'),
        "factor-of-another-type.entry_foreign": _payload(b'"memory_gib":80', b'"memory_gib":"80"'),
    }


def _header_fields() -> dict[str, bytes]:
    return {
        "format-of-another-program.entry_malformed": _header(b'"warmcurve"', b'"warmcurves"'),
        "format-missing.entry_malformed": _header(b'"format":"warmcurve",', b""),
        "schema-of-the-future.entry_schema": _header(b'"schema":1', b'"schema":2,"compression":"zstd"'),
        "schema-zero.entry_schema": _header(b'"schema":1', b'"schema":0'),
        "schema-true.entry_schema": _header(b'"schema":1', b'"schema":true'),
        "schema-text.entry_schema": _header(b'"schema":1', b'"schema":"1"'),
        "schema-missing.entry_schema": _header(b'"schema":1,', b""),
        "schema-float.entry_malformed": _header(b'"schema":1', b'"schema":1.0'),
        "header-field-twice.entry_invalid": _header(b'"schema":1', b'"schema":2,"schema":1'),
        "header-field-twice-once-escaped.entry_invalid": _header(b'"schema":1', b'"schem\\u0061":2,"schema":1'),
        "header-field-unknown.entry_malformed": _header(b'"schema":1', b'"schema":1,"signature":""'),
        "header-field-of-a-lone-surrogate.entry_invalid": _header(b'"schema":1', b'"schema":1,"\\ud800":""'),
        "header-field-missing.entry_malformed": _header(b',"length":%d' % len(_PAYLOAD), b""),
        "header-text-of-a-lone-surrogate.entry_invalid": _header(b'"sha256":"', b'"sha256":"\\ud800'),
        "header-not-a-number.entry_invalid": _length(b"NaN"),
    }


def _inside() -> dict[str, bytes]:
    return _numbers() | _fields() | _curves() | _factors()


def _numbers() -> dict[str, bytes]:
    costs, sizes = b'"costs_ms":[4.135,', b'"sizes":[1,2,4,6,8],"costs_ms"'

    def cost(text: bytes) -> bytes:
        return _payload(costs, b'"costs_ms":[' + text + b",")

    def size(text: bytes) -> bytes:
        return _payload(sizes, sizes.replace(b"[1,", b"[" + text + b","))

    return {
        "cost-not-a-number.entry_invalid": cost(b"NaN"),
        "cost-infinite.entry_invalid": cost(b"Infinity"),
        "cost-minus-infinite.entry_invalid": cost(b"-Infinity"),
        "cost-1e999.entry_invalid": cost(b"1e999"),
        "cost-integer-beyond-floats.entry_invalid": cost(b"1" + b"0" * 400),
        "cost-true.entry_invalid": cost(b"true"),
        "cost-text.entry_invalid": cost(b'"4.135"'),
        "cost-null.entry_invalid": cost(b"null"),
        "cost-zero.entry_invalid": cost(b"0.0"),
        "cost-negative.entry_invalid": cost(b"-4.135"),
        "cost-in-hexadecimal.entry_malformed": cost(b"0x4"),
        "cost-of-5000-digits.entry_malformed": cost(b"4" * 5000),
        "cost-one-ulp-off.entry_invalid": cost(b"4.135000000000001"),
        "size-true.entry_invalid": size(b"true"),
        "size-float.entry_invalid": size(b"1.0"),
        "size-text.entry_invalid": size(b'"1"'),
        "size-zero.entry_invalid": size(b"0"),
        "size-negative.entry_invalid": size(b"-1"),
        "size-of-4000-digits.entry_invalid": size(b"9" * 4000),
        "condition-not-a-number.entry_invalid": _payload(b"340.5", b"NaN"),
        "condition-a-map.entry_invalid": _payload(b"340.5", b"{}"),
    }


def _fields() -> dict[str, bytes]:
    return {
        "field-twice.entry_invalid": _payload(b'"engine":', b'"engine":"other","engine":'),
        "nested-field-twice.entry_invalid": _payload(b'"capture_limit":4', b'"capture_limit":8,"capture_limit":4'),
        "factor-twice.entry_invalid": _payload(b'"memory_gib":80', b'"memory_gib":40,"memory_gib":80'),
        "field-unknown.entry_invalid": _payload(b'"engine":', b'"signature":"","engine":'),
        "field-unknown-of-a-lone-surrogate.entry_invalid": _payload(b'"engine":', b'"\\ud800":"","engine":'),
        "nested-field-unknown.entry_invalid": _payload(b'"capture_limit":4', b'"capture_limit":4,"weight":1'),
        "curve-field-unknown.entry_invalid": _payload(b'"costs_ms":', b'"rule":"step","costs_ms":'),
        "protocol-field-unknown.entry_invalid": _payload(b'"statistic":', b'"warm_up":1,"statistic":'),
        "field-missing.entry_invalid": _payload(b'"engine":"example 1.0",', b""),
        "nested-field-missing.entry_invalid": _payload(b'"capture_limit":4,', b""),
        "protocol-field-missing.entry_invalid": _payload(b'"unit":"ms",', b""),
        "protocol-in-seconds.entry_invalid": _payload(b'"unit":"ms"', b'"unit":"s"'),
        "protocol-of-means.entry_invalid": _payload(b'"statistic":"median"', b'"statistic":"mean"'),
        "protocol-of-another-lookup.entry_invalid": _payload(b'"lookup_tail":"linear"', b'"lookup_tail":"cubic"'),
        "engine-null.entry_invalid": _payload(b'"example 1.0"', b"null"),
        "engine-of-a-lone-surrogate.entry_invalid": _payload(b'"example 1.0"', b'"example \\udfff"'),
        "condition-of-a-lone-surrogate.entry_invalid": _payload(b'"host":"example"', b'"host":"\\ud800"'),
    }


def _curves() -> dict[str, bytes]:
    sizes, first = b'"sizes":[1,2,4,6,8],"costs_ms"', b'"samples":[[1,1,4.125,1.0625,true],'
    draft = b'{"sizes":[1,2],"costs_ms":[1.0635,1.126]}'

    def sample(text: bytes) -> bytes:
        return _payload(first, b'"samples":[' + text + b",")

    return {
        "sizes-not-increasing.entry_invalid": _payload(sizes, sizes.replace(b"2,4", b"4,2")),
        "sizes-repeated.entry_invalid": _payload(sizes, sizes.replace(b"2,4", b"4,4")),
        "sizes-fewer-than-costs.entry_invalid": _payload(sizes, sizes.replace(b",8", b"")),
        "curve-empty.entry_invalid": _payload(draft, b'{"sizes":[],"costs_ms":[]}'),
        "curve-null.entry_invalid": _payload(draft, b"null"),
        "curve-not-the-median.entry_invalid": _payload(b'"costs_ms":[4.135,', b'"costs_ms":[4.125,'),
        "curve-with-a-size-never-run.entry_invalid": _payload(
            draft, b'{"sizes":[1,2,3],"costs_ms":[1.0635,1.126,1.5]}'
        ),
        "capture-limit-not-stored.entry_invalid": _payload(b'"capture_limit":4', b'"capture_limit":5'),
        "capture-limit-zero.entry_invalid": _payload(b'"capture_limit":4', b'"capture_limit":0'),
        "capture-limit-true.entry_invalid": _payload(b'"capture_limit":4', b'"capture_limit":true'),
        "samples-empty.entry_invalid": _without_samples(),
        "sample-altered.entry_invalid": sample(b"[1,1,5.125,1.0625,true]"),
        "sample-missing.entry_invalid": sealed(_PAYLOAD.replace(b"[1,1,4.125,1.0625,true],", b"", 1)),
        "sample-with-one-element-more.entry_invalid": sample(b"[1,1,4.125,1.0625,true,0]"),
        "sample-with-one-element-less.entry_invalid": sample(b"[1,1,4.125,1.0625]"),
        "sample-a-map.entry_invalid": sample(b'{"tokens":1}'),
        "sample-full-graph-a-number.entry_invalid": sample(b"[1,1,4.125,1.0625,1]"),
        "sample-of-no-requests.entry_invalid": sample(b"[1,0,4.125,1.0625,true]"),
        "sample-without-time.entry_invalid": sample(b"[1,1,4.125,0.0,true]"),
    }


def _without_samples() -> bytes:
    start, end = _PAYLOAD.index(b'"samples":[') + len(b'"samples":['), _PAYLOAD.index(b"]]},") + 1
    return sealed(_PAYLOAD[:start] + _PAYLOAD[end:])


def _factors() -> dict[str, bytes]:
    def factor(text: bytes) -> bytes:
        return _payload(b'"0123abcd"', text)

    return {
        "factors-a-list.entry_invalid": _payload(b'"factors":{', b'"factors":[],"other":{'),
        "factor-float.entry_invalid": factor(b"1.5"),
        "factor-whole-float.entry_invalid": factor(b"1.0"),
        "factor-integer-beyond-doubles.entry_invalid": factor(b"9007199254740993"),
        "factor-key-not-ascii.entry_invalid": factor('{"modèle":1}'.encode()),
        "factor-of-a-lone-surrogate.entry_invalid": factor(b'"\\ud800"'),
        "factor-nested-in-600-maps.entry_invalid": factor(b'{"a":' * 600 + b"1" + b"}" * 600),
        "factor-nested-in-5000-lists.entry_malformed": factor(b"[" * 5000 + b"1" + b"]" * 5000),
    }


def main() -> None:
    for old in HERE.glob("*.jsonl"):
        old.unlink()
    for name, data in corpus().items():
        (HERE / name).write_bytes(data)


if __name__ == "__main__":
    main()
