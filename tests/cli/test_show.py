"""`warmcurve show`."""

import json
import os
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.cli.conftest import Record, Remember, Run
from tests.support import boot
from warmcurve.curves.profile import CostCurve
from warmcurve.curves.sentinel import Limits
from warmcurve.outcome import MEANINGS, Reason
from warmcurve.storage.entry import Entry, decode
from warmcurve.storage.history import History, HistoryDirectory, Rejection
from warmcurve.storage.store import DirectoryStore
from warmcurve.testing import ScriptedEngine


def _decoded(store: DirectoryStore, digest: str) -> Entry:
    data = store.get(digest)
    assert data is not None
    return decode(data, digest)


def _table(text: str, heading: str, blocks: int = 1) -> list[list[str]]:
    """The cells below a heading, in the last of so many blocks of lines."""
    block = f"\n{text}".split(f"\n{heading}", 1)[1].split("\n\n")[blocks - 1]
    lines = block.splitlines()
    return [line.split() for line in (lines[1:] if blocks == 1 else lines)]


def test_the_page_names_entry_and_file(store: DirectoryStore, record: Record, run: Run) -> None:
    """The whole digest, the path, the engine and the measuring protocol come first."""
    digest = record()
    result = run("show", digest)
    head = dict(line.split(maxsplit=1) for line in result.stdout.split("\n\n", 1)[0].splitlines())
    assert result.exit_code == 0
    assert head == {
        "digest": digest,
        "path": store.describe(digest),
        "engine": "scripted",
        "measured": "median of 5 replays, in ms",
        "took": "811 ms to calibrate",
        "captured": "5 sizes up to 16 tokens",
        "lookup": "step where captured, linear above",
        "a": "hit     two sentinels take at most 26.9 ms, a sweep of 5 replays takes 37.9 ms",
    }


def test_curves_come_with_the_spread_of_their_samples(record: Record, run: Run) -> None:
    """Each size has its cost, and how many samples it is the median of, from least to most."""
    text = run("show", record()).stdout
    verify, draft = (_table(text, f"{name} cost", blocks=2) for name in ("Verify", "Draft"))
    assert verify[0] == ["size", "ms", "samples", "min", "max"]
    assert verify[1] == ["1", "1.2000", "5", "1.0000", "1.4000"]
    assert verify[-1] == ["64", "64.2000", "5", "64.0000", "64.4000"]
    assert len(verify) == 1 + 8
    # The four requests of 4, 8 and 16 tokens, without the eager tail.
    assert draft[-1] == ["4", "1.2500", "15", "1.2500", "1.2500"]


def test_factors_are_counted_by_section(record: Record, run: Run) -> None:
    """They come last, and a section has one line."""
    block = run("show", record()).stdout.split("\n\n")[-1].splitlines()
    assert block[0].startswith("Factors: 6 in 3 sections; ")
    assert [line.split() for line in block[1:]] == [["k", "1"], ["model", "2"], ["plan", "3"]]


def test_factors_are_opened_by_name(record: Record, run: Run) -> None:
    """All of them, one section, or those whose dotted names begin so; with the names that `diff` prints."""
    digest = record("0123abc")
    model = ["  model", "    draft            null", "    target.revision  0123abc"]

    def opened(*section: str) -> list[str]:
        return run("show", digest, "--factors", *section).stdout.split("\nFactors\n")[1].splitlines()

    assert opened("model") == model
    assert opened("model.t") == ["  model", "    target.revision  0123abc"]
    assert opened("k") == ["  k  7"]
    assert opened()[:4] == ["  k  7", *model]
    assert len(opened()) == 1 + 3 + 4


def test_a_section_that_is_not_there_is_a_usage_error(record: Record, run: Run) -> None:
    """With those that are; nothing is printed."""
    result = run("show", record(), "--factors", "modle")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "the sections are k, model, plan." in result.stderr


@pytest.mark.parametrize("width", [60, 80, 100])
def test_no_line_is_wider_than_the_terminal(
    width: int, record: Record, remember: Remember, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Long names and values of factors and conditions, paths and details go on in the next line, and lose nothing."""
    name, value = "module." * 60, "a value of words " * 30
    digest = record(value, **{name: 1, "path": "/a/long/path" * 20})
    remember(digest, "a machine " * 30, rejections=3, sizes_dearer=(1.0, 1.5, 2.0), detail="a detail " * 30)
    monkeypatch.setenv("COLUMNS", str(width))
    lines = run("show", digest, "--factors").stdout.splitlines()
    assert max(map(len, lines)) <= width
    text = "".join("".join(lines).split())
    for part in (name, value, "/a/long/path" * 20, "a detail " * 30, digest):
        assert "".join(part.split()) in text


def test_costs_of_many_sizes_stand_side_by_side(
    store: DirectoryStore, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read down, then right: each size once."""
    captured = tuple(range(1, 52))
    report = boot(ScriptedEngine(captured), store)
    monkeypatch.setenv("COLUMNS", "100")
    title, *rows = _table(run("show", report.digest or "").stdout, "Verify cost", blocks=2)
    assert title == ["size", "ms", "samples", "min", "max"] * 2
    sizes = [int(row[5 * block]) for block in (0, 1) for row in rows if len(row) > 5 * block]
    assert sizes == sorted(sizes)
    assert set(captured) <= set(sizes)


def test_conditions_are_told(record: Record, run: Run) -> None:
    """All of them, whatever the engine added."""
    text = run("show", record(gpu_clock_mhz=1980, governor="")).stdout
    conditions = {name: value for name, value in _table(text, "Conditions") if name}
    assert conditions["gpu_clock_mhz"] == "1980"
    assert conditions["governor"] == '""'
    assert conditions["recorded_at"] == "2030-01-01T00:00:00+00:00"


def test_json_is_the_entry_in_an_envelope(store: DirectoryStore, record: Record, run: Run) -> None:
    """One document, which converts back into the very entry."""
    digest = record()
    document = json.loads(run("show", digest, "--json").stdout)
    assert list(document) == ["schema", "digest", "path", "entry", "checksum", "sentinels", "histories", "unreadable"]
    assert document["schema"] == 1
    assert document["checksum"] == sha256(Path(document["path"]).read_bytes()).hexdigest()
    assert (document["histories"], document["unreadable"]) == ([], [])
    assert (document["digest"], document["path"]) == (digest, store.describe(digest))
    assert msgspec.convert(document["entry"], Entry) == _decoded(store, digest)


@pytest.mark.parametrize("length", [4, 12, 63])
def test_a_digest_may_be_cut_short(length: int, record: Record, run: Run) -> None:
    """A prefix is enough while it is unique, in either case of letters."""
    digest = record()
    for prefix in (digest[:length], digest[:length].upper()):
        assert json.loads(run("show", prefix, "--json").stdout)["digest"] == digest


def test_an_ambiguous_prefix_lists_the_candidates(store: DirectoryStore, run: Run) -> None:
    """Two entries that begin alike are a usage error that names both and no other."""
    one, two, other = "abcd" + "0" * 60, "abcd" + "1" * 60, "abce" + "0" * 60
    for digest in (one, two, other):
        store.put(digest, b"")
    result = run("show", "abcd")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert one in result.stderr
    assert two in result.stderr
    assert other not in result.stderr


@pytest.mark.parametrize("digest", ["abc", "", "wxyz", "../../etc/passwd", "a" * 65, "abcd\n"])
def test_what_cannot_be_a_digest_is_a_usage_error(digest: str, record: Record, run: Run) -> None:
    """Too short, too long or not hexadecimal: exit code 2."""
    record()
    result = run("show", digest)
    assert result.exit_code == 2
    assert "hexadecimal" in result.stderr


def test_an_unknown_digest_is_a_finding(store: DirectoryStore, record: Record, run: Run) -> None:
    """No entry begins so: exit code 1, and where it was looked for."""
    digest = record()
    unknown = ("0" if digest[0] != "0" else "1") + digest[1:]
    result = run("show", unknown)
    assert result.exit_code == 1
    assert unknown in result.stderr
    assert str(store.directory) in result.stderr


def test_an_entry_that_vanishes_meanwhile_is_a_finding(
    record: Record, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An entry deleted between the listing and the reading is as unknown as one never stored."""
    digest = record()
    monkeypatch.setattr(DirectoryStore, "get", lambda *_: None)
    assert run("show", digest).exit_code == 1


def test_a_damaged_entry_is_not_shown(store: DirectoryStore, record: Record, run: Run) -> None:
    """Its reason, its path and what to do are on stderr, and nothing of its content is printed."""
    digest = record()
    path = Path(store.describe(digest))
    path.write_bytes(path.read_bytes()[:-10])
    result = run("show", digest)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith(f"error: entry_truncated: {path}: ")
    assert f"hint: {MEANINGS[Reason.ENTRY_TRUNCATED].remedy}" in result.stderr


def test_a_pipe_in_the_place_of_an_entry_does_not_hang(store: DirectoryStore, record: Record, run: Run) -> None:
    """Something that is no file is a finding, not a wait."""
    record()
    os.mkfifo(store.describe("f" * 64))
    result = run("show", "f" * 64)
    assert result.exit_code == 1
    assert "entry_unreadable" in result.stderr


def test_escape_sequences_are_shown_not_obeyed(record: Record, run: Run) -> None:
    """Control characters in factors and conditions cannot write on the terminal."""
    text = run("show", record("\x1b]0;title\x07", note="one\ntwo"), "--factors").stdout
    assert "\x1b" not in text
    assert r"revision  \x1b]0;title\x07" in text
    assert r"one\ntwo" in text


def test_what_sentinels_cost_is_told(store: DirectoryStore, record: Record, run: Run) -> None:
    """By the stored times, of one round: `sweep` of every captured size, `two` of the largest and the dearest other."""
    digest = record()
    found = json.loads(run("show", digest, "--json").stdout)["sentinels"]
    profile = _decoded(store, digest).profile
    assert found == {
        "two": {"replays": 2, "at_most_ms": pytest.approx(profile.expected_ms((16, 8)))},
        "sweep": {"replays": 5, "ms": pytest.approx(profile.expected_ms((1, 2, 4, 8, 16)))},
    }


@pytest.mark.parametrize("captured", [(8,), (8, 16)])
def test_what_sentinels_cost_where_little_is_captured(
    captured: tuple[int, ...], store: DirectoryStore, run: Run
) -> None:
    """One captured size is replayed twice."""
    engine = ScriptedEngine(captured)
    report = boot(engine, store)
    text = run("show", report.digest or "").stdout
    once = sum(engine.verify_ms(size) + engine.draft_ms(4) for size in captured) * 2 / len(captured)
    assert f"two sentinels take at most {once:.3g} ms, a sweep of 2 replays takes {once:.3g} ms\n" in text


def _history(text: str, machine: str = "cuda GPU-1") -> list[str]:
    return text.split(f"\nHistory on {machine}\n", 1)[1].split("\n\n", 1)[0].splitlines()


def test_without_a_history_there_is_no_section(record: Record, run: Run) -> None:
    """As where a store was baked into an image."""
    assert "History" not in run("show", record()).stdout


def test_histories_are_told_by_machine(record: Record, remember: Remember, run: Run) -> None:
    """When each calibration was and whether it was stored, and by how much it disagrees with the one before it."""
    digest = record()
    remember(digest, sizes_dearer=(1.0, 1.02, 2.0))
    remember(digest, "another")
    text = run("show", digest).stdout
    assert _history(text) == [
        "calibrated  stored  against the one before",
        "2030-01-01  yes     -",
        "2030-01-02  yes     agrees, within 2.0%",
        "2030-01-03  no      disagrees, a loss of up to 49.0%: verify of 16 tokens became 2× dearer, the rest did not",
    ]
    assert text.index("History on another") < text.index("History on cuda GPU-1")


def test_an_unstable_machine_is_told(record: Record, remember: Remember, run: Run) -> None:
    """In the words of a boot that does not store for it."""
    digest = record()
    remember(digest, sizes_dearer=(1.0, 1.5, 1.0))
    assert _history(run("show", digest).stdout)[0] == (
        "unstable: 3 calibrations in a row disagree, the last two by a loss of up to 33.3%: "
        "verify of 16 tokens became 1.5× cheaper, the rest did not"
    )


def test_a_machine_of_two_states_is_told(store: DirectoryStore, record: Record, run: Run) -> None:
    """Both states beside the entry, when and how often each was seen. Its own state keeps the entry from quarantine,
    however often it was turned down in the other.
    """
    digest = record()
    data = store.get(digest) or b""
    cheap = decode(data).profile
    costs = cheap.verify.costs_ms
    dear = msgspec.structs.replace(cheap, verify=CostCurve(cheap.verify.sizes, tuple(ms * 1.5 for ms in costs)))
    history = History("cuda GPU-1")
    for day, profile in enumerate((cheap, dear, cheap, dear, dear), 1):
        history = history.with_calibration(f"2030-01-0{day}", profile, Limits(), stored=day < 3)
    for _ in range(3):
        history = history.with_rejection(Rejection("2030-02-01", sha256(data).hexdigest(), Reason.SENTINEL_SHAPE))
    HistoryDirectory(store.directory, "cuda GPU-1").write(digest, history)
    lines = _history(run("show", digest).stdout)
    assert lines[:3] == [
        "unstable: this machine has 2 steady states, and came back to an earlier one 2 times",
        "this entry is of one of these states, and stays until the machine has changed for good",
        "this entry was turned down 3 times in a row",
    ]
    start = next(number for number, line in enumerate(lines) if line.startswith("in a state since"))
    assert [line.split("  ")[0] for line in lines[start + 1 : start + 3]] == ["2030-01-01", "2030-01-02"]
    assert lines[start + 1].endswith("agrees, within 0.0%")
    assert "      3  disagrees, a loss of up to 33.3%: " in lines[start + 2]
    (found,) = json.loads(run("show", digest, "--json").stdout)["histories"]
    assert (found["quarantined"], found["kept"], found["returns"]) == (False, True, 2)
    assert [(each["first"], each["last"], each["times"]) for each in found["states"]] == [
        ("2030-01-01", "2030-01-03", 2),
        ("2030-01-02", "2030-01-05", 3),
    ]
    assert [each["loss_bound"] for each in found["states"]] == [0, pytest.approx(1 / 3)]


TURNED_DOWN = {
    "in quarantine": (3, None, "quarantined: this entry was turned down 3 times in a row, and is not tried here"),
    "not yet": (2, None, "this entry was turned down 2 times in a row"),
    "once": (1, None, "this entry was turned down once in a row"),
    "another": (4, "0" * 64, "the entry that was turned down is not here any more"),
}


@pytest.mark.parametrize("case", TURNED_DOWN)
def test_rejections_are_told(case: str, record: Record, remember: Remember, run: Run) -> None:
    """When, why and what moved, and whether the entry that lies there now is the one, and in quarantine."""
    count, entry, said = TURNED_DOWN[case]
    digest = record()
    remember(digest, rejections=count, sizes_dearer=(), entry=entry)
    first, *rows = _history(run("show", digest).stdout)
    assert first == said
    assert rows[0].split("  ")[0] == "turned down"
    assert rows[1] == "2030-02-01   sentinel_shape  verify of 16 tokens became 1.5× dearer"
    assert len(rows) == 1 + count


def test_the_document_has_histories_too(record: Record, remember: Remember, run: Run) -> None:
    """Under keys of their own, with the bound as a number."""
    digest = record()
    path = remember(digest, rejections=3, sizes_dearer=(1.0, 1.5), detail=None)
    document: dict[str, Any] = json.loads(run("show", digest, "--json").stdout)
    (found,) = document["histories"]
    told = "a loss of up to 33.3%: verify of 16 tokens became 1.5× dearer, the rest did not"
    assert found == {
        "machine": "cuda GPU-1",
        "path": str(path),
        "quarantined": True,
        "unstable": None,
        "stored": None,
        "replaced": 0,
        "calibrations": [
            {"at": "2030-01-01", "stored": True, "loss_bound": None, "disagreement": None},
            {"at": "2030-01-02", "stored": True, "loss_bound": pytest.approx(1 / 3), "disagreement": told},
        ],
        "returns": 0,
        "states": [],
        "kept": False,
        "rejects_this_entry": True,
        "rejections": [
            {"at": f"2030-02-0{day}", "entry": document["checksum"], "reason": "sentinel_shape", "detail": None}
            for day in (1, 2, 3)
        ],
    }


def test_a_boot_is_told_as_it_was(store: DirectoryStore, run: Run) -> None:
    """From real boots: the entry that was turned down three times, by noisy calibrations that could not replace it."""
    engine, histories = ScriptedEngine(), HistoryDirectory(store.directory, "node-7")
    digest = boot(engine, store, histories=histories).digest or ""
    base = engine.verify_ms
    engine.verify_ms = lambda tokens: base(tokens) * (3 if tokens >= 16 else 1)
    engine.draft_ms = _noisy(engine)
    missed = []
    for _ in range(4):
        engine.runs.clear()
        missed.append(boot(engine, store, histories=histories).missed)
    assert missed == [Reason.SENTINEL_SCALE] * 3 + [Reason.ENTRY_QUARANTINED]
    lines = _history(run("show", digest).stdout, "node-7")
    assert lines[0].startswith("quarantined: ")
    assert [line.split()[1] for line in lines[-3:]] == ["sentinel_scale"] * 3
    assert "16 tokens became 3× dearer" in lines[-1]
    assert "quarantined on 1" in run("ls").stdout


def test_machines_that_store_in_turn_are_told(store: DirectoryStore, run: Run) -> None:
    """From real boots of two machines with one fingerprint: how often the one's entry was replaced by the other's."""
    engines = ScriptedEngine(), ScriptedEngine()
    base = engines[0].verify_ms
    engines[1].verify_ms = lambda tokens: base(tokens) * (1.5 if tokens >= 16 else 1)
    reasons = []
    for _ in range(3):
        for engine, name in zip(engines, ("node-7", "node-8"), strict=True):
            engine.clock.advance_ms(60_000)
            report = boot(engine, store, histories=HistoryDirectory(store.directory, name))
            reasons.append(report.reason)
    assert reasons[4] is Reason.MACHINES_DIFFER
    text = run("show", report.digest or "").stdout
    said = "replaced: 2 times by an entry of another machine that did not hold here"
    assert _history(text, "node-7")[0] == said
    assert said not in _history(text, "node-8")


def _noisy(engine: ScriptedEngine) -> Callable[[int], float]:
    """Quiet while sentinels run, of which there are six; then too noisy to be stored."""
    return lambda requests: (1.0 + requests / 16) * (1 + len(engine.runs) % 5 * (len(engine.runs) >= 6))


def test_a_history_that_cannot_be_read_is_named(record: Record, remember: Remember, run: Run) -> None:
    """On stderr, and the rest is shown; nothing is written."""
    digest = record()
    path = remember(digest)
    path.write_bytes(path.read_bytes()[:-9])
    before = sorted((str(each), each.lstat().st_mtime_ns) for each in path.parent.parent.rglob("*"))
    result = run("show", digest)
    assert result.exit_code == 0
    assert "History" not in result.stdout
    assert result.stderr == f"not read, since damaged or unsafe: {path}\n"
    assert json.loads(run("show", digest, "--json").stdout)["unreadable"] == [str(path)]
    assert sorted((str(each), each.lstat().st_mtime_ns) for each in path.parent.parent.rglob("*")) == before


def test_escape_sequences_of_a_history_are_shown_not_obeyed(record: Record, remember: Remember, run: Run) -> None:
    """A machine's name and a rejection's detail cannot write on the terminal."""
    digest = record()
    remember(digest, "\x1b[31mred\n", rejections=3, detail="\x1b]0;title\x07\n")
    text = run("show", digest).stdout
    assert r"History on \x1b[31mred\n" in text
    assert r"\x1b]0;title\x07\n" in text
    assert "\x1b" not in text
