"""`warmcurve explain`."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.cli.conftest import Record, Run
from tests.cli.test_diff import DAMAGED
from tests.support import NO_FILE
from tests.support import run as succeeds
from tests.test_report import REPORT
from warmcurve.outcome import MEANINGS, OUTCOMES, Outcome, Reason
from warmcurve.reporting.report import BootReport, RegretReport, ReportDirectory
from warmcurve.storage import entry
from warmcurve.storage.fingerprint import fingerprint
from warmcurve.storage.store import DirectoryStore

Write = Callable[..., Path]


@pytest.fixture
def factors(store: DirectoryStore, record: Record) -> dict[str, Any]:
    """Those of an entry that is stored, of revision a."""
    data = store.get(record("a"))
    assert data is not None
    return entry.decode(data).factors


@pytest.fixture
def write(store: DirectoryStore) -> Write:
    """Writes the report of a boot at a minute past midnight, by default a miss that could not be stored."""

    def write(minute: int = 0, **changes: Any) -> Path:
        fields = {"outcome": Outcome.UNRECORDED, "reason": Reason.STORE_READ_ONLY, "missed": Reason.ABSENT} | changes
        if fields.get("factors") is not None:
            fields["digest"] = fingerprint(fields["factors"])
        report = msgspec.structs.replace(REPORT, at=f"2030-01-01T00:{minute:02}:00.000Z", pid=minute + 1, **fields)
        assert isinstance(report, BootReport)
        return ReportDirectory(store.directory).write(report)

    return write


def _head(text: str) -> dict[str, str]:
    """What is told of the boot, by name."""
    return dict(line.split(maxsplit=1) for line in text.split("\n\n", 1)[0].splitlines())


def _explained(run: Run, *arguments: str | Path) -> dict[str, Any]:
    result = run("explain", "--json", *arguments)
    assert result.exit_code == 0
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_a_miss_is_explained(factors: dict[str, Any], write: Write, run: Run) -> None:
    """The boot, its outcome, why it missed and why nothing was stored, what to do, and what differs: "k: 7 -> 5"."""
    digest = fingerprint(factors)
    path = write(factors=factors | {"k": 5}, detail="v1: Read-only file system")
    result = run("explain")
    read_only, absent = MEANINGS[Reason.STORE_READ_ONLY], MEANINGS[Reason.ABSENT]
    assert (result.exit_code, result.stderr) == (0, "")
    assert _head(result.stdout) == {
        "boot": "2030-01-01T00:00:00.000Z, scripted 1.0, host, process 1",
        "report": str(path),
        "digest": fingerprint(factors | {"k": 5}),
        "outcome": f"unrecorded: {OUTCOMES[Outcome.UNRECORDED]}",
        "missed": f"absent: {absent.text}",
        "reason": f"store_read_only: {read_only.text}",
        "detail": "v1: Read-only file system",
        "to": f"do    {absent.remedy} {read_only.remedy}",
    }
    assert result.stdout.split("\n\n", 1)[1].splitlines() == [
        "Nearest of 1 other, entry -> boot:",
        "",
        f"{digest[:12]}  5 factors equal, 1 differs, recorded 2030-01-01 00:00",
        "  k: 7 -> 5",
    ]


def test_json_tells_the_same(store: DirectoryStore, factors: dict[str, Any], write: Write, run: Run) -> None:
    """One document: the miss without its factors, the meanings of its words, and the nearest entries."""
    digest = fingerprint(factors)
    path = write(factors=factors | {"k": 5})
    assert _explained(run) == {
        "schema": 1,
        "store": str(store.directory),
        "unreadable": [],
        "misplaced": [],
        "miss": {
            "path": str(path),
            "at": "2030-01-01T00:00:00.000Z",
            "engine": "scripted 1.0",
            "host": "host",
            "pid": 1,
            "rank": 0,
            "world": 1,
            "mode": "reuse",
            "outcome": "unrecorded",
            "reason": "store_read_only",
            "missed": "absent",
            "detail": None,
            "note": None,
            "calibration_runs": 0,
            "calibration_ms": 0.0,
            "recorded_ms": None,
            "regret": None,
            "shortened": False,
            "digest": fingerprint(factors | {"k": 5}),
            "found": False,
            "stored": False,
            "meanings": {word: MEANINGS[Reason(word)]._asdict() for word in ("absent", "store_read_only")},
        },
        "nearest": [
            {
                "digest": digest,
                "path": store.describe(digest),
                "recorded_at": "2030-01-01T00:00:00+00:00",
                "equal": 5,
                "differences": [{"section": "k", "factor": "k", "left": 7, "right": 5}],
            }
        ],
    }


def test_the_three_nearest_are_told(store: DirectoryStore, record: Record, write: Write, run: Run) -> None:
    """Of more entries those that share most, each with what differs, under digests that tell them apart."""
    factors: dict[str, Any] = {}
    for name in "abcde":
        data = store.get(record(name))
        assert data is not None
        factors = entry.decode(data).factors
    write(factors=factors | {"k": 5})
    found = _explained(run)["nearest"]
    assert [[each["factor"] for each in item["differences"]] for item in found] == [
        ["k"],
        ["k", "model.target.revision"],
        ["k", "model.target.revision"],
    ]
    text = run("explain").stdout
    assert "Nearest of 5 others" in text
    assert [line.split()[0] for line in text.splitlines() if "factors equal" in line] == [
        item["digest"][:12] for item in found
    ]


@pytest.mark.parametrize(("outcome", "said"), [("recorded", "This boot recorded"), ("unrecorded", "recorded since")])
def test_an_entry_of_its_own_is_no_neighbour(
    outcome: str, said: str, factors: dict[str, Any], record: Record, write: Write, run: Run
) -> None:
    """Where the entry that was missed is stored by now, that is said, and another is the nearest."""
    other = record("b")
    reason = None if outcome == "recorded" else Reason.STORE_READ_ONLY
    write(factors=factors, outcome=Outcome(outcome), reason=reason)
    found = _explained(run)
    assert found["miss"]["stored"] is True
    assert [each["digest"] for each in found["nearest"]] == [other]
    assert said in run("explain").stdout


def test_the_only_entry_is_its_own(factors: dict[str, Any], write: Write, run: Run) -> None:
    """A first boot of a new store has nothing to be compared with."""
    write(factors=factors, outcome=Outcome.RECORDED, reason=None)
    assert _explained(run)["nearest"] == []
    text = run("explain").stdout
    assert "This boot recorded its entry" in text
    assert "No other entry is stored" in text


@pytest.mark.parametrize("reason", [Reason.ENTRY_CHECKSUM, Reason.SENTINEL_SHAPE, Reason.INSTALL_REFUSED])
def test_no_factor_explains_an_entry_that_was_there(
    reason: Reason, factors: dict[str, Any], record: Record, write: Write, run: Run
) -> None:
    """A boot that found its own entry and could not use it is not compared with others."""
    record("b")
    write(factors=factors, outcome=Outcome.RECORDED, reason=reason, missed=reason)
    found = _explained(run)
    assert found["miss"]["found"] is True
    assert found["nearest"] == []
    text = run("explain").stdout
    assert "No factor explains this miss" in text
    assert _head(text)["missed"] == f"{reason}: {MEANINGS[reason].text}"
    assert "reason" not in _head(text)


def _stopped(missed: Reason, detail: str | None = None) -> dict[str, Any]:
    """What a boot of the mode `require` says that was stopped for this."""
    told = f"{missed}: {detail}" if detail else str(missed)
    return {"mode": "require", "reason": Reason.CURVES_REQUIRED, "missed": missed, "detail": told}


def test_a_boot_that_was_stopped_is_explained_by_what_it_missed(
    factors: dict[str, Any], write: Write, run: Run
) -> None:
    """The factors that differ, and what to do so that the next one is not stopped: that boot calibrates nothing."""
    write(factors=factors | {"k": 5}, **_stopped(Reason.ABSENT))
    text = run("explain").stdout
    head = _head(text)
    required = MEANINGS[Reason.CURVES_REQUIRED]
    assert head["mode"] == "require"
    assert head["missed"] == f"absent: {MEANINGS[Reason.ABSENT].text}"
    assert head["reason"] == f"curves_required: {required.text}"
    assert head["to"] == f"do    {required.remedy}"
    assert "detail" not in head
    assert text.endswith("\n  k: 7 -> 5\n")


CALIBRATES = [Reason.ENTRY_TRUNCATED, Reason.ENTRY_EXPIRED, Reason.SENTINEL_SHAPE]
OTHERWISE = [Reason.ENTRY_QUARANTINED, Reason.SENTINEL_SCALE, Reason.ENTRY_UNREADABLE, Reason.RANK_ABSENT]


@pytest.mark.parametrize("missed", [*CALIBRATES, *OTHERWISE])
def test_a_boot_that_was_stopped_says_what_was_met(
    missed: Reason, factors: dict[str, Any], write: Write, run: Run
) -> None:
    """Once, and no remedy that is a calibration."""
    write(factors=factors, **_stopped(missed, "what was met"))
    text = run("explain").stdout
    head = _head(text)
    assert head["missed"] == f"{missed}: {MEANINGS[missed].text}"
    assert head["detail"] == "what was met"
    remedies = [MEANINGS[missed].remedy] if missed in OTHERWISE else []
    assert head["to"] == f"do    {' '.join([*remedies, MEANINGS[Reason.CURVES_REQUIRED].remedy])}"
    assert "No factor explains this miss" in text


def test_a_boot_that_was_stopped_before_it_looked_says_why(write: Write, run: Run) -> None:
    """Its cause stands in the detail alone."""
    fields = _stopped(Reason.ENGINE_UNKNOWN, "vllm 9 is none of 1")
    write(**(fields | {"missed": Reason.CURVES_REQUIRED}))
    head = _head(run("explain").stdout)
    unknown = MEANINGS[Reason.ENGINE_UNKNOWN]
    assert head["missed"] == f"engine_unknown: {unknown.text}"
    assert head["reason"].startswith("curves_required: ")
    assert head["detail"] == "vllm 9 is none of 1"
    assert unknown.remedy in head["to"]
    assert _explained(run)["miss"]["meanings"].keys() == {"engine_unknown", "curves_required"}


@pytest.mark.parametrize("detail", [None, "", "something else", "ranks_asleep: of another version"])
def test_a_boot_that_was_stopped_for_an_unknown_cause(detail: str | None, write: Write, run: Run) -> None:
    """The word that is known is explained, and the detail told as it is."""
    write(reason=Reason.CURVES_REQUIRED, missed=Reason.CURVES_REQUIRED, detail=detail)
    head = _head(run("explain").stdout)
    assert head["missed"].startswith("curves_required: ")
    assert head.get("detail") == (detail or None)


REGRET = RegretReport(0.1234, 0.05, 0.3, 0.021, drafts=7, batches=84)


def test_an_audit_tells_the_regret_both_ways(factors: dict[str, Any], record: Record, write: Write, run: Run) -> None:
    """In words, and as numbers in the document; its own entry was there, so no other is compared."""
    record("b")
    verify = {"mode": "verify", "reason": Reason.MODE_VERIFY, "missed": Reason.MODE_VERIFY}
    write(factors=factors, **verify, detail="the stored curves hold", regret=REGRET)
    text = run("explain").stdout
    assert _head(text)["regret"] == (
        "of throughput, over 84 batches of 7 drafts a request: "
        "planning with the stored curves where the fresh ones are true loses 12.3% at worst, 5.0% on average; "
        "planning with the fresh curves where the stored ones are true loses 30.0% at worst, 2.1% on average"
    )
    assert _head(text)["mode"] == "verify"
    assert text.endswith("\nIts entry was there: in this mode a boot compares it and plans with fresh curves.\n")
    found = _explained(run)
    assert found["miss"]["regret"] == msgspec.to_builtins(REGRET)
    assert (found["miss"]["mode"], found["miss"]["found"], found["nearest"]) == ("verify", True, [])


def test_no_regret_is_told_in_a_word(factors: dict[str, Any], write: Write, run: Run) -> None:
    """Where both curves plan equally well."""
    write(factors=factors, regret=RegretReport(0.0, 0.0, 0.0, 0.0, drafts=3, batches=21))
    assert _head(run("explain").stdout)["regret"] == "none either way, over 21 batches of 3 drafts a request"


def test_a_regret_of_another_version_is_told_as_far_as_it_goes(factors: dict[str, Any], write: Write, run: Run) -> None:
    """One way alone, or in other fields, of which nothing can be said."""
    path = write(factors=factors, regret=REGRET)
    fields = json.loads(path.read_bytes())
    path.write_text(json.dumps(fields | {"regret": {"stored_worst": 0.5, "stored_mean": 0.25, "new": []}}))
    assert _head(run("explain").stdout)["regret"].endswith("loses 50.0% at worst, 25.0% on average")
    path.write_text(json.dumps(fields | {"regret": {"new": []}}))
    assert "regret" not in _head(run("explain").stdout)


def test_an_audit_of_nothing_is_a_miss(factors: dict[str, Any], write: Write, run: Run) -> None:
    """Where no entry was found to compare with, the nearest ones are told."""
    write(factors=factors | {"k": 5}, mode="verify", reason=Reason.MODE_VERIFY, missed=Reason.ABSENT)
    assert [each["factor"] for each in _explained(run)["nearest"][0]["differences"]] == ["k"]


@pytest.mark.parametrize(("mode", "reason"), [("off", Reason.SWITCHED_OFF), ("record", Reason.MODE_RECORD)])
def test_a_mode_that_looks_for_no_entry_missed_none(
    mode: str, reason: Reason, factors: dict[str, Any], write: Write, run: Run
) -> None:
    """No other entry is compared with the boot."""
    told = {"outcome": Outcome.RECORDED, "factors": factors | {"k": 5}} if mode == "record" else {}
    write(mode=mode, missed=reason, reason=None if told else reason, **told)
    text = run("explain").stdout
    assert _head(text)["mode"] == mode
    assert text.split("\n\n")[1] == "In this mode a boot looks for no entry, so none was missed.\n"
    assert (_explained(run)["miss"]["found"], _explained(run)["nearest"]) == (False, [])


@pytest.mark.parametrize(
    ("missed", "reason"),
    [
        (Reason.SENTINEL_SHAPE, Reason.MACHINE_UNSTABLE),
        (Reason.ENTRY_QUARANTINED, Reason.CALIBRATION_NOISY),
        (Reason.ENTRY_QUARANTINED, Reason.CURVES_REQUIRED),
    ],
)
def test_what_a_machine_remembers_has_a_command(
    missed: Reason, reason: Reason, factors: dict[str, Any], write: Write, run: Run
) -> None:
    """It shows the entry with its histories, from any store."""
    write(factors=factors, missed=missed, reason=reason, detail="met")
    text = run("explain").stdout
    assert MEANINGS[missed].text in text
    assert MEANINGS[reason].text in text
    last = text.splitlines()[-1]
    assert last.startswith("What each machine remembers of the entry: warmcurve show ")
    result = run(*last.partition("warmcurve ")[2].split())
    assert result.exit_code == 0
    assert result.stdout.startswith(f"digest    {fingerprint(factors)}\n")


def test_of_an_entry_that_is_gone_no_command_is_told(
    store: DirectoryStore, factors: dict[str, Any], write: Write, run: Run
) -> None:
    """It would find nothing to show."""
    write(factors=factors, missed=Reason.ENTRY_QUARANTINED, reason=Reason.ENTRY_QUARANTINED)
    assert store.delete(fingerprint(factors))
    assert "warmcurve show" not in run("explain").stdout.split("\n\n")[1]


@pytest.mark.parametrize("outcome", [Outcome.RECORDED, Outcome.UNRECORDED])
def test_an_expired_entry_is_explained_by_its_age(
    outcome: Outcome, factors: dict[str, Any], record: Record, write: Write, run: Run
) -> None:
    """By no factor; the detail says how old it was."""
    record("b")
    write(factors=factors, outcome=outcome, missed=Reason.ENTRY_EXPIRED, reason=Reason.ENTRY_EXPIRED, detail="9 s ago")
    text = run("explain").stdout
    head = _head(text)
    assert head["missed"] == f"entry_expired: {MEANINGS[Reason.ENTRY_EXPIRED].text}"
    assert head["detail"] == "9 s ago"
    assert text.endswith("\nNo factor explains this miss: its reason does.\n")


def test_a_copy_at_the_wrong_level_is_told(
    store: DirectoryStore, factors: dict[str, Any], write: Write, run: Run
) -> None:
    """Where entries lie that no boot looks at, and where they belong, also where no boot has left a report."""
    entries, copied = store.directory / "v1", store.directory / "backup" / "v1"
    copied.parent.mkdir()
    entries.rename(copied)
    told = f"entries lie in {copied}, where no boot looks: move them to {entries}\n"
    assert run("explain").stderr.endswith(f"all of them were hits\n{told}")
    write(factors=factors, detail=f"looked in {entries}")
    text = run("explain").stdout
    assert _head(text)["detail"] == f"looked in {entries}"
    assert text.endswith(f"No other entry is stored in {store.directory}, so there is nothing to compare with.\n{told}")
    assert _explained(run)["misplaced"] == [str(copied)]
    write(1, factors=factors, missed=Reason.SENTINEL_SHAPE)
    assert "entries lie in" not in run("explain").stdout


def test_times_are_told_in_words(factors: dict[str, Any], write: Write, run: Run) -> None:
    """What a calibration took, and what a reuse saved of it; also what the log noted of the entry."""
    write(1, factors=factors, calibration_runs=115, calibration_ms=2_742_135.0)
    assert _head(run("explain").stdout)["time"] == "45 min 42 s, with 115 runs of the calibration"
    hit = {"outcome": Outcome.REUSED, "missed": None, "reason": None, "note": "the clock is early"}
    path = write(2, calibration_ms=132_135.0, recorded_ms=2_742_135.0, **hit)
    head = _head(run("explain", path).stdout)
    assert head["time"] == "2 min 12 s, saved 43 min 30 s of the calibration that recorded the entry"
    assert head["note"] == "the clock is early"
    slower = write(3, calibration_ms=2_000.0, recorded_ms=1_000.0, **hit)
    assert _head(run("explain", slower).stdout)["time"] == "2.0 s"


def test_the_last_miss_is_the_newest(factors: dict[str, Any], write: Write, run: Run) -> None:
    """Later hits and earlier misses do not count."""
    write(1, factors=factors | {"k": 1})
    expected = write(2, factors=factors | {"k": 2})
    write(3, outcome=Outcome.REUSED, reason=None, missed=None)
    assert _explained(run)["miss"]["path"] == str(expected)


@pytest.mark.parametrize("ranks", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
def test_of_several_ranks_the_first_speaks(
    ranks: tuple[int, ...], factors: dict[str, Any], write: Write, run: Run
) -> None:
    """In whatever order the ranks of a boot wrote their reports, rank 0's is explained, of the newest boot."""
    write(1, rank=0, world=3, factors=factors | {"k": 1})
    paths = {rank: write(9 + n, rank=rank, world=3, factors=factors | {"k": 2}) for n, rank in enumerate(ranks)}
    assert _explained(run)["miss"]["path"] == str(paths[0])
    assert _head(run("explain").stdout)["boot"].endswith(", rank 0 of 3")


@pytest.mark.parametrize("earlier", [{"rank": 0, "world": 1}, {"rank": 0, "world": 4}, {"rank": 1, "world": 2}])
def test_without_a_report_of_rank_0_another_rank_speaks(
    earlier: dict[str, int], factors: dict[str, Any], write: Write, run: Run
) -> None:
    """An earlier boot, of this world or of another, does not stand in for the newest one."""
    write(1, rank=0, world=2, factors=factors | {"k": 1})
    write(2, **earlier, factors=factors | {"k": 2})
    newest = write(3, rank=1, world=2, factors=factors | {"k": 3})
    assert _explained(run)["miss"]["path"] == str(newest)


def test_a_miss_without_factors_comes_first(factors: dict[str, Any], write: Write, run: Run) -> None:
    """The last boot is explained also where it cannot be compared, and an earlier one that can has a line on stderr."""
    earlier = write(1, factors=factors | {"k": 1})
    last = write(2, reason=Reason.FACTOR_UNKNOWN, missed=Reason.FACTOR_UNKNOWN, detail="target.model: gone")
    result = run("explain")
    unknown = MEANINGS[Reason.FACTOR_UNKNOWN]
    head = _head(result.stdout)
    assert (head["report"], head["detail"]) == (str(last), "target.model: gone")
    assert head["missed"] == f"factor_unknown: {unknown.text}"
    assert head["to"] == f"do    {unknown.remedy}"
    assert "cannot be compared" in result.stdout
    assert result.stderr == f"a miss that can be compared with entries: warmcurve explain {earlier}\n"
    assert _head(run("explain", earlier).stdout)["report"] == str(earlier)


def test_a_miss_without_factors_is_explained_where_there_is_no_other(write: Write, run: Run) -> None:
    """What it means and what to do is said without a comparison, and without a note."""
    path = write(1, reason=Reason.ENGINE_UNKNOWN, missed=Reason.ENGINE_UNKNOWN)
    result = run("explain")
    assert (result.exit_code, result.stderr) == (0, "")
    assert _head(result.stdout)["report"] == str(path)
    assert MEANINGS[Reason.ENGINE_UNKNOWN].remedy in result.stdout
    assert _explained(run)["nearest"] == []


@pytest.mark.parametrize("stored", ["nothing", "a store", "a hit"])
def test_no_miss_is_no_error(stored: str, store: DirectoryStore, write: Write, run: Run) -> None:
    """Without a report, and where every boot was a hit, that is said on stderr: exit code 0, and nothing is created."""
    if stored == "a store":
        store.directory.mkdir(mode=0o700)
    elif stored == "a hit":
        write(outcome=Outcome.REUSED, reason=None, missed=None)
    result = run("explain")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.startswith(f"no miss is reported in {store.directory}")
    assert store.directory.exists() == (stored != "nothing")
    found = _explained(run)
    assert (found["miss"], found["nearest"]) == (None, [])


def test_a_hit_needs_no_explanation(write: Write, run: Run) -> None:
    """The named report of a hit says that it was one."""
    path = write(outcome=Outcome.REUSED, reason=None, missed=None)
    result = run("explain", path)
    assert result.exit_code == 0
    assert "there is no miss to explain" in result.stdout
    assert _explained(run, path)["miss"] is None


def test_words_of_another_version_are_told(factors: dict[str, Any], write: Write, run: Run) -> None:
    """A report with outcomes, reasons and fields that are not known here is explained as far as it goes."""
    path = write(factors=factors | {"k": 5})
    fields = json.loads(path.read_bytes())
    fields |= {"outcome": "postponed", "reason": "ranks_asleep", "missed": "ranks_asleep", "schema": 9, "new": {"a": 1}}
    path.write_text(json.dumps(fields))
    head = _head(run("explain").stdout)
    assert head["outcome"] == "postponed: a word that this version does not know."
    assert head["missed"] == "ranks_asleep: a word that this version does not know."
    found = _explained(run)
    assert found["miss"]["meanings"] == {"ranks_asleep": None}
    assert [each["factor"] for each in found["nearest"][0]["differences"]] == ["k"]


@pytest.mark.parametrize("damage", DAMAGED.keys() - {"no factors", "null factors"})
def test_damaged_reports_are_passed_over(damage: str, factors: dict[str, Any], write: Write, run: Run) -> None:
    """The newest report that can be read is explained, and the damaged one is named on stderr."""
    expected = write(1, factors=factors | {"k": 5})
    bad = write(2)
    bad.write_bytes(DAMAGED[damage])
    result = run("explain")
    assert result.exit_code == 0
    assert _head(result.stdout)["report"] == str(expected)
    assert result.stderr == f"not read, since damaged or unsafe: {bad}\n"
    assert _explained(run)["unreadable"] == [str(bad)]


@pytest.mark.parametrize("damage", DAMAGED.keys() - {"null factors"})
def test_a_damaged_report_that_is_named_is_an_error_of_the_environment(damage: str, run: Run, tmp_path: Path) -> None:
    """What is wrong with it is said in two lines: exit code 3."""
    bad = tmp_path / "bad.json"
    bad.write_bytes(DAMAGED[damage])
    result = run("explain", bad)
    assert (result.exit_code, result.stdout) == (3, "")
    error, hint = result.stderr.splitlines()
    assert error.startswith(f"error: {bad}: not a boot report: ")
    assert error.isprintable()
    assert hint.startswith("hint: ")


def test_an_entry_is_no_report(store: DirectoryStore, record: Record, run: Run) -> None:
    """An entry's file in the place of a report is refused, not explained."""
    assert run("explain", store.describe(record())).exit_code == 3


@pytest.mark.parametrize("kind", ["directory", "pipe", "link", "writable"])
def test_what_is_no_private_file_is_passed_over(kind: str, factors: dict[str, Any], write: Write, run: Run) -> None:
    """A directory, a pipe, a link or a file that others may write is not read from the store, and nothing hangs."""
    expected = write(1, factors=factors | {"k": 5})
    path = write(2, factors=factors | {"k": 6})
    if kind == "writable":
        path.chmod(0o666)
    else:
        path.rename(elsewhere := path.with_name("elsewhere"))
        (NO_FILE | {"link": lambda path: path.symlink_to(elsewhere)})[kind](path)
    result = run("explain")
    assert _head(result.stdout)["report"] == str(expected)
    assert str(path) in result.stderr


@pytest.mark.parametrize("kind", ["directory", "pipe", "device"])
def test_a_named_report_that_is_no_file_is_not_read(kind: str, run: Run, tmp_path: Path) -> None:
    """An error, not a wait."""
    path = tmp_path / "thing"
    NO_FILE[kind](path)
    result = run("explain", path)
    assert (result.exit_code, result.stdout) == (3, "")
    assert f"error: {path}: " in result.stderr


def test_a_name_that_does_not_exist_is_a_usage_error(run: Run, tmp_path: Path) -> None:
    """A mistyped REPORT is exit code 2."""
    result = run("explain", tmp_path / "missing")
    assert (result.exit_code, result.stdout) == (2, "")


@pytest.mark.parametrize("inner", ["reports", "v1"])
@pytest.mark.parametrize("missed", [False, True])
def test_an_unsafe_directory_inside_is_an_error_of_the_environment(
    inner: str, missed: bool, store: DirectoryStore, factors: dict[str, Any], write: Write, run: Run
) -> None:
    """Where others may write reports or entries nothing of them is explained: exit code 3."""
    hit = {"outcome": Outcome.REUSED, "reason": None, "missed": None}
    write(**({"factors": factors | {"k": 5}} if missed else hit))
    (store.directory / inner).chmod(0o777)
    result = run("explain")
    assert (result.exit_code, result.stdout) == (3, "")
    assert result.stderr.startswith(f"error: store_unsafe: {store.directory / inner} has mode 0777")


def test_reports_that_are_no_directory_are_an_error_of_the_environment(
    store: DirectoryStore, record: Record, run: Run
) -> None:
    """A file in the place of the reports' directory is said to be one."""
    record()
    (store.directory / "reports").touch()
    result = run("explain")
    assert (result.exit_code, result.stdout) == (3, "")
    assert f"error: store_unavailable: {store.directory / 'reports'}: Not a directory" in result.stderr


def test_damaged_entries_are_no_neighbours(
    store: DirectoryStore, factors: dict[str, Any], record: Record, write: Write, run: Run
) -> None:
    """An entry that cannot be used is passed over; `ls` and `verify` tell of it."""
    damaged = record("b")
    path = Path(store.describe(damaged))
    path.write_bytes(path.read_bytes()[:-10])
    os.mkfifo(store.describe("f" * 64))
    write(factors=factors | {"k": 5})
    assert [each["digest"] for each in _explained(run)["nearest"]] == [fingerprint(factors)]


def test_a_miss_is_explained_where_nothing_can_be_written(
    store: DirectoryStore, factors: dict[str, Any], write: Write, run: Run, tmp_path: Path
) -> None:
    """The report of a miss that lies elsewhere is explained against a store on a read-only file system."""
    path = write(factors=factors | {"k": 5}).rename(tmp_path / "report.json")
    path.chmod(0o444)
    if not succeeds("mount", "--bind", store.directory, store.directory):
        pytest.skip("this user may not mount a file system")
    try:
        assert succeeds("mount", "-o", "remount,bind,ro", store.directory)
        with pytest.raises(OSError, match="Read-only"):
            (store.directory / "file").touch()
        found = _explained(run, path)
        assert [each["factor"] for each in found["nearest"][0]["differences"]] == ["k"]
    finally:
        assert succeeds("umount", store.directory)


def test_explaining_changes_nothing(store: DirectoryStore, factors: dict[str, Any], write: Write, run: Run) -> None:
    """Neither reports nor entries are moved, tidied up or written."""
    write(factors=factors | {"k": 5}).with_name("damaged.json").write_bytes(b"damaged")
    store.put("0" * 64, b"damaged")

    def tree() -> list[tuple[str, int, int]]:
        paths = [store.directory, *store.directory.rglob("*")]
        return sorted((str(path), path.lstat().st_mode, path.lstat().st_mtime_ns) for path in paths)

    before = tree()
    _explained(run)
    assert run("explain").exit_code == 0
    assert tree() == before


def test_escape_sequences_are_shown_not_obeyed(factors: dict[str, Any], write: Write, run: Run) -> None:
    """Control characters in a report's words, in factors and in the path cannot write on the terminal."""
    bad = "\x1b]0;title\x07\n\u202e\x9b"
    path = write(factors=factors | {"k": bad, "\x7f\x1b[m": {"\x1b": bad}}, host=bad, engine=bad, detail=bad)
    fields = json.loads(path.read_bytes()) | {"outcome": f"odd{bad}", "reason": f"odd{bad}", "missed": f"odder{bad}"}
    path.write_text(json.dumps(fields))
    path = path.rename(path.with_name(f"9{bad.replace('/', '')}.json"))
    for result in (run("explain"), run("explain", path)):
        assert result.exit_code == 0
        assert all(line.isprintable() for line in result.output.splitlines())
        assert result.stdout.count("title") >= 7


def test_giant_values_are_cut_for_the_line_alone(factors: dict[str, Any], write: Write, run: Run) -> None:
    """A value of a megabyte is a short line, and whole in the document."""
    write(factors=factors | {"k": "x" * 1_000_000})
    assert max(map(len, run("explain").stdout.splitlines())) < 300
    assert _explained(run)["nearest"][0]["differences"][0]["right"] == "x" * 1_000_000


def test_many_differences_are_cut_short_with_the_way_to_all(
    store: DirectoryStore, factors: dict[str, Any], write: Write, run: Run
) -> None:
    """After some lines a command is named, which prints all of them from any store."""
    path = write(factors=factors | {"many": {f"n{number}": number for number in range(500)}})
    lines = run("explain", "--store", store.directory).stdout.splitlines()
    assert len(lines) < 60
    command = lines[-1].split("warmcurve ")[1].split()
    assert command == ["diff", store.describe(fingerprint(factors)), str(path)]
    assert len([line for line in run(*command).stdout.splitlines() if ": absent -> " in line]) == 500
