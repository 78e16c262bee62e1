"""What machines remember of entries: an algebra, and files that may be missing, damaged or someone else's."""

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from itertools import groupby, pairwise
from pathlib import Path

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.faults import FaultySystem, raising
from tests.support import NO_FILE, A, B, run
from warmcurve.curves.profile import CostCurve, CostProfile, Sample
from warmcurve.curves.sentinel import Limits, Reading
from warmcurve.errors import StoreError
from warmcurve.outcome import Reason
from warmcurve.storage.files import Directory
from warmcurve.storage.history import (
    KEPT,
    MAX_BYTES,
    Calibration,
    History,
    HistoryDirectory,
    Rejection,
    State,
    disagreement,
    loss_bound,
)

LIMIT = 0.2
LIMITS = Limits(max_regret=LIMIT)
SIZES = (1, 2, 4, 8, 16, 32)
MOST = 16
"""Rejections that are remembered."""

ordinary = st.floats(min_value=1e-2, max_value=1e3)
of_any_size = st.floats(min_value=5e-324, max_value=1e308)


@st.composite
def curves(draw: st.DrawFn, costs: st.SearchStrategy[float]) -> CostCurve:
    sizes = sorted(draw(st.sets(st.sampled_from(SIZES), min_size=1)))
    return CostCurve(tuple(sizes), tuple(draw(costs) for _ in sizes))


@st.composite
def profiles(draw: st.DrawFn, costs: st.SearchStrategy[float] = ordinary) -> CostProfile:
    verify = draw(curves(costs))
    return CostProfile(verify, draw(curves(costs)), draw(st.sampled_from(verify.sizes)), ())


def _profile(large: float = 1.0, samples: tuple[Sample, ...] = ()) -> CostProfile:
    """Whose largest captured size costs so many times what it should."""
    verify = CostCurve((1, 2, 4, 8), (4.0, 4.5, 5.0, 6.0 * large))
    return CostProfile(verify, CostCurve((1, 2), (1.0, 1.5)), 8, samples)


STEADY, DEARER = _profile(), _profile(1.5)
SEEN = (Reading(4, 2, 1, 5.0, 1.5, 1.0, 1.0), Reading(8, 2, 1, 6.0, 1.5, 1.0, 1.0))
"""By the sentinels of a machine that is steady; the first looked where both profiles cost the same."""


def _rejection(entry: str = A, at: str = "2030-01-01T00:00:00+00:00", detail: str | None = None) -> Rejection:
    return Rejection(at, entry, Reason.SENTINEL_SHAPE, detail)


def _calibrated(*measured: CostProfile) -> History:
    found = History("machine")
    for number, profile in enumerate(measured):
        found = found.with_calibration(str(number), profile, LIMITS, stored=True)
    return found


FULL = _calibrated(STEADY, DEARER).with_rejection(_rejection(detail="16 tokens became 1.5× dearer"))


@given(st.lists(st.sampled_from([A, B, None]), max_size=40), st.integers(0, 2 * MOST))
def test_quarantine_counts_the_same_entry_in_a_row(events: list[str | None], after: int):
    """Another entry's rejection starts a new row, an acceptance ends it, and more than are remembered are as many."""
    found, row = History("machine"), list[str]()
    for entry in events:
        if entry is None:
            found, row = found.with_acceptance("now", STEADY, SEEN, LIMITS), []
        else:
            found, row = found.with_rejection(_rejection(entry)), [*(row if entry in row[-1:] else ()), entry]
    assert len(found.rejected) == min(len(row), MOST)
    for entry in (A, B):
        assert found.quarantines(entry, after) == (entry in row and 0 < min(after, MOST) <= len(row))


def test_the_last_rejections_are_kept():
    """Oldest first, and what was met with the last of them."""
    found = History("machine")
    for number in range(MOST + 5):
        found = found.with_rejection(_rejection(at=str(number)))
    assert [each.at for each in found.rejected] == [str(number) for number in range(5, MOST + 5)]
    assert found.quarantines(A, MOST)
    assert not found.quarantines(B, MOST + 5)


@pytest.mark.parametrize("detail", ["\udcff\ud800", "\x1b]0;title\x07\n", "x" * 1_000_000])
def test_a_detail_is_kept_as_a_line(detail: str):
    """Whatever an engine's error says, it can be written, read again and shown."""
    found = History("machine").with_rejection(_rejection(detail=detail))
    kept = found.rejected[-1].detail or ""
    assert kept.isprintable()
    assert 0 < len(kept) <= 400
    assert msgspec.json.decode(msgspec.json.encode(found), type=History) == found


@given(st.lists(st.sampled_from([STEADY, DEARER, _profile(1.1)]), max_size=6), profiles())
def test_instability_needs_three_that_disagree_in_a_row(measured: list[CostProfile], fresh: CostProfile):
    """Two disagree where something changed once; where a middle one agrees with either neighbour, nothing flips."""
    found = _calibrated(*measured, fresh)
    last = [*measured[-2:], fresh]
    flips = len(last) == 3 and all(disagreement(a, b, LIMIT) for a, b in pairwise(last))
    assert (found.unstable(LIMIT) is not None) == flips


OTHER = _profile(2.0)
"""A third state."""
ALTERNATING = (STEADY, DEARER, STEADY, DEARER)
"""Two returns."""


@given(st.lists(st.sampled_from([STEADY, DEARER, OTHER]), max_size=40))
def test_states_are_counted_until_the_machine_has_changed(measured: list[CostProfile]):
    """Each calibration is of one state. The machine's returns, and the row it is in, are those since a state that was
    new was measured three times in a row, where all that was known before is forgotten.
    """
    found, seen = _calibrated(*measured), list[CostProfile]()
    for profile in measured:
        seen.append(profile)
        if len(seen) > 3 and seen[-3:] == [profile] * 3 and profile not in seen[:-3]:
            seen = seen[-3:]
    stays = [profile for profile, _ in groupby(seen)]
    order = sorted(set(map(seen.index, seen)), key=lambda first: max(n for n, p in enumerate(seen) if p == seen[first]))
    assert [state.profile for state in found.states] == [seen[first] for first in order]
    assert [state.times for state in found.states] == [seen.count(state.profile) for state in found.states]
    assert found.returns == len(stays) - len(set(map(seen.index, seen)))
    assert found.row == next((n for n, p in enumerate(reversed(seen)) if p != seen[-1]), len(seen))
    assert (found.flips() is None) == (found.returns < 2)


def test_calibrations_that_agree_are_of_one_state():
    """By the last that was measured in it, without samples; a state that was seen again is one still."""
    sampled = _profile(1.1, samples=(Sample(8, 2, 6.0, 1.5, True),))
    found = _calibrated(STEADY, sampled, DEARER, _profile(1.05))
    assert [(s.profile, s.first, s.last, s.times) for s in found.states] == [
        (DEARER, "2", "2", 1),
        (_profile(1.05), "0", "3", 3),
    ]


@given(st.lists(st.sampled_from([1.0, 1.5, 2.25, 3.4, 5.1, 7.6]), max_size=60))
def test_a_history_stays_small(factors: list[float]):
    """However many states a machine is found in."""
    found = _calibrated(*map(_profile, factors))
    assert len(found.states) <= 4
    assert len(msgspec.json.encode(found)) < 2500
    assert msgspec.json.decode(msgspec.json.encode(found), type=History) == found


@pytest.mark.parametrize(
    ("measured", "entry", "kept"),
    [
        pytest.param((STEADY, DEARER, STEADY), DEARER, False, id="came back once"),
        pytest.param(ALTERNATING, STEADY, True, id="came back twice"),
        pytest.param(ALTERNATING, _profile(1.05), True, id="agrees with an earlier state"),
        pytest.param(ALTERNATING, DEARER, False, id="of the present state"),
        pytest.param(ALTERNATING, OTHER, False, id="of no state"),
        pytest.param((*ALTERNATING, DEARER, DEARER), STEADY, True, id="stays for a while"),
        pytest.param((*ALTERNATING, DEARER, DEARER, DEARER), STEADY, False, id="stays for good"),
        pytest.param((*ALTERNATING * 8, *[DEARER] * 14), STEADY, True, id="came back often, stays for a while"),
        pytest.param((*ALTERNATING * 8, *[DEARER] * 15), STEADY, False, id="came back often, stays for good"),
        pytest.param((*ALTERNATING * 8, OTHER, OTHER), STEADY, True, id="may have changed"),
        pytest.param((*ALTERNATING * 8, OTHER, OTHER, OTHER), STEADY, False, id="has changed"),
    ],
)
def test_an_entry_of_another_state_is_kept_until_the_machine_stays(
    measured: tuple[CostProfile, ...], entry: CostProfile, kept: bool
):
    """For twice as many calibrations in a row as it came back before, at most 16; three, where the state is new."""
    assert (_calibrated(*measured).keeps(entry, LIMITS) is not None) == kept


@pytest.mark.parametrize(("factor", "kept"), [(2.4, False), (2.6, True), (1 / 2.4, False), (1 / 2.6, True)])
def test_another_scale_is_another_state(factor: float, kept: bool):
    """Beyond what sentinels allow: plans are the same, and yet each boot in one turns down the curves of the other."""
    costs, drafts = STEADY.verify.costs_ms, STEADY.draft.costs_ms
    scaled = CostProfile(
        CostCurve(STEADY.verify.sizes, tuple(ms * factor for ms in costs)),
        CostCurve(STEADY.draft.sizes, tuple(ms * factor for ms in drafts)),
        8,
        (),
    )
    found = _calibrated(STEADY, scaled, STEADY, scaled)
    assert found.unstable(LIMIT) is None
    assert (
        "; the stored entry is of another than now, another scale: all became 2.6× "
        in (found.keeps(STEADY, LIMITS) or "")
    ) == kept
    held = found.with_acceptance("now", STEADY, SEEN, LIMITS)
    assert (held.states[-1].profile, held.row, held.returns) == ((STEADY, 1, 3) if kept else (scaled, 4, 0))


def test_the_states_of_a_machine_are_told():
    """How many, how often it came back, and what is dearer now than in the state of the entry."""
    found = _calibrated(*ALTERNATING)
    assert found.flips() == "this machine has 2 steady states, and came back to an earlier one 2 times"
    assert found.keeps(STEADY, LIMITS) == (
        f"{found.flips()}; the stored entry is of another than now, "
        "a loss of up to 33.3%: verify of 8 tokens became 1.5× dearer, the rest did not"
    )


def test_a_history_of_an_earlier_version_is_read():
    """It knows of no states, and what it does know counts."""
    document = json.loads(msgspec.json.encode(FULL))
    for name in ("states", "row", "returns"):
        del document[name]
    found = msgspec.json.decode(msgspec.json.encode(document), type=History)
    assert found == msgspec.structs.replace(FULL, states=(), row=0, returns=0)
    assert found.with_calibration("now", STEADY, LIMITS, stored=False).states == (State(STEADY, "now", "now"),)


def test_the_last_calibrations_are_kept_without_samples():
    """Three of them, oldest first; a history is small however often a calibration replays."""
    sampled = _profile(samples=(Sample(8, 2, 6.0, 1.5, True),))
    found = _calibrated(STEADY, DEARER, sampled, DEARER)
    assert [each.at for each in found.calibrations] == ["1", "2", "3"]
    assert [each.profile for each in found.calibrations] == [DEARER, STEADY, DEARER]


@pytest.mark.parametrize(("last", "remembered"), [(None, []), (STEADY, ["0"]), (DEARER, ["0", "now"])])
def test_curves_that_hold_count_where_the_last_calibration_disagrees(last: CostProfile | None, remembered: list[str]):
    """The machine's costs have changed back; else there is nothing new to remember but the end of a row."""
    found = _calibrated(*([last] if last else [])).with_rejection(_rejection())
    held = found.with_acceptance("now", STEADY, SEEN, LIMITS)
    assert held.rejected == ()
    assert [each.at for each in held.calibrations] == remembered
    assert held.with_acceptance("later", STEADY, SEEN, LIMITS) == held


@pytest.mark.parametrize("profile", [STEADY, DEARER])
def test_curves_that_hold_where_nobody_looked_say_nothing(profile: CostProfile):
    """Sentinels at sizes at which the last calibration holds as well do not tell that the machine has changed."""
    found = _calibrated(DEARER if profile is STEADY else STEADY)
    assert found.with_acceptance("now", profile, SEEN[:1], LIMITS) == found


@given(profiles(), st.floats(1e-6, 1e6), st.floats(1e-9, 1))
def test_a_common_factor_never_disagrees(old: CostProfile, factor: float, limit: float):
    """Costs that all became so many times dearer give the same plans."""
    new = msgspec.structs.replace(
        old,
        verify=CostCurve(old.verify.sizes, tuple(ms * factor for ms in old.verify.costs_ms)),
        draft=CostCurve(old.draft.sizes, tuple(ms * factor for ms in old.draft.costs_ms)),
    )
    assert disagreement(old, new, limit) is None


@given(profiles(), profiles(), st.floats(0, 1))
def test_disagreement_is_mutual(one: CostProfile, other: CostProfile, limit: float):
    """Whichever is the older, and though only one captures some size or prices it."""
    bounds = loss_bound(one, other), loss_bound(other, one)
    assert bounds[0] == (None if bounds[1] is None else pytest.approx(bounds[1], abs=1e-12))
    assume(bounds[0] is None or abs(bounds[0] - limit) > 1e-9)
    assert (disagreement(one, other, limit) is None) == (disagreement(other, one, limit) is None)


@given(profiles(of_any_size), profiles(of_any_size), st.floats(0, 1))
def test_any_costs_can_be_compared(one: CostProfile, other: CostProfile, limit: float):
    """Also those whose ratio no float holds, as a file may say: the bound is a share, and the words are words."""
    bound, told = loss_bound(one, other), disagreement(one, other, limit)
    assert bound is None or 0 <= bound <= 1
    assert (told is None) == (bound is None or bound <= limit)
    assert told is None or told.startswith("a loss of up to ")


def test_a_disagreement_says_what_moved():
    """By how much, and which sizes; sizes above the captured ones are no part of it."""
    assert disagreement(STEADY, DEARER, LIMIT) == (
        "a loss of up to 33.3%: verify of 8 tokens became 1.5× dearer, the rest did not"
    )
    assert History("machine").unstable(LIMIT) is None
    assert _calibrated(STEADY, DEARER, STEADY).unstable(LIMIT) == (
        "3 calibrations in a row disagree, the last two by a loss of up to 33.3%: "
        "verify of 8 tokens became 1.5× cheaper, the rest did not"
    )
    eager = msgspec.structs.replace(STEADY, capture_limit=4)
    assert loss_bound(eager, DEARER) == 0


@pytest.fixture
def histories(tmp_path: Path) -> HistoryDirectory:
    return HistoryDirectory(tmp_path / "store", "machine")


def _file(histories: HistoryDirectory) -> Path:
    """Of the one history that is kept."""
    (path,) = (histories.directory / "history").iterdir()
    return path


def _tree(directory: Path) -> list[tuple[str, int, int]]:
    paths = [directory, *directory.rglob("*")]
    return sorted((str(path), path.lstat().st_mode, path.lstat().st_mtime_ns) for path in paths)


def test_what_is_written_is_read_back(histories: HistoryDirectory):
    """The same history, in a private file of a private directory, for its fingerprint and machine alone."""
    histories.write(A, FULL)
    assert histories.read(A) == FULL
    assert histories.of(A) == ((_file(histories), FULL),)
    assert histories.read(B) == History("machine")
    assert histories.of(B) == ()
    assert HistoryDirectory(histories.directory, "another").read(A) == History("another")
    assert stat.S_IMODE(_file(histories).stat().st_mode) == 0o600
    assert stat.S_IMODE(_file(histories).parent.stat().st_mode) == 0o700


def test_nothing_is_read_of_nothing(histories: HistoryDirectory):
    """Where there is no store, an empty history, and nothing is made."""
    assert histories.read(A) == History("machine")
    assert histories.of(A) == ()
    assert not histories.directory.exists()


def test_machines_are_told_in_the_order_of_their_names(histories: HistoryDirectory):
    """Each wrote its own file, and no other fingerprint's is among them."""
    for machine in ("c", "a", "b"):
        HistoryDirectory(histories.directory, machine).write(A, History(machine))
    histories.write(B, FULL)
    assert [kept.history and kept.history.machine for kept in histories.of(A)] == ["a", "b", "c"]


def _document(**changes: object) -> bytes:
    return msgspec.json.encode({**json.loads(msgspec.json.encode(FULL)), **changes})


def _costs(text: bytes) -> bytes:
    return msgspec.json.encode(FULL).replace(b"4.0", text)


DAMAGED = {
    "nothing": b"",
    "truncated": msgspec.json.encode(FULL)[:-20],
    "cut in a letter": msgspec.json.encode(FULL).partition(b"\xc3\x97")[0] + b"\xc3",
    "no text": b"\xff\xfe\x00",
    "a list": b"[]",
    "null": b"null",
    "another document": b'{"schema": 1, "entries": []}',
    "one field more": _document(more=1),
    "one field less": b'{"rejected": [], "calibrations": []}',
    "a reason of another version": _document(
        rejected=[{"at": "now", "entry": A, "reason": "entry_asleep", "detail": None}]
    ),
    "not a number": _costs(b"NaN"),
    "infinite": _costs(b"1e999"),
    "negative": _costs(b"-1.0"),
    "sizes that do not increase": msgspec.json.encode(FULL).replace(b"[1,2,4,8]", b"[1,4,2,8]"),
    "an integer of many digits": msgspec.json.encode(FULL).replace(b"[1,2,4,8]", b"[1,2,4," + b"8" * 5000 + b"]"),
    "half a surrogate": _document(machine="x").replace(b'"x"', b'"\\ud800"'),
    "nested": b'{"machine":' + b"[" * 200_000,
    "nested where it is skipped": b'{"machine":"machine","rejected":' + b'[{"at":' * 200_000,
    "too large": msgspec.json.encode(FULL) + b" " * MAX_BYTES,
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_what_is_damaged_counts_as_none(histories: HistoryDirectory, damage: str):
    """It is read as an empty history, told as a file that cannot be read, left as it is, and replaced by the next."""
    histories.write(A, FULL)
    path = _file(histories)
    path.write_bytes(DAMAGED[damage])
    before = _tree(histories.directory)
    assert histories.read(A) == History("machine")
    assert histories.of(A) == ((path, None),)
    assert _tree(histories.directory) == before
    histories.write(A, FULL)
    assert histories.read(A) == FULL


@given(st.binary(max_size=200) | st.integers(0, 10_000).map(lambda cut: msgspec.json.encode(FULL)[cut % 400 :]))
def test_bytes_of_any_kind_are_a_history_or_none(tmp_path_factory: pytest.TempPathFactory, data: bytes):
    """Reading never raises."""
    histories = HistoryDirectory(tmp_path_factory.getbasetemp() / "any", "machine")
    histories.write(A, FULL)
    _file(histories).write_bytes(data)
    assert histories.read(A) in {History("machine"), FULL}


@pytest.mark.parametrize("kind", NO_FILE)
def test_what_is_no_file_counts_as_none(histories: HistoryDirectory, kind: str):
    """A directory, a pipe or a link in its place is neither followed nor waited for, and a write replaces it."""
    histories.write(A, FULL)
    path = _file(histories)
    path.unlink()
    NO_FILE[kind](path)
    assert histories.read(A) == History("machine")
    assert histories.of(A) == ((path, None),)
    histories.write(A, FULL)
    assert histories.read(A) == FULL
    assert [kept.path for kept in histories.of(A)] == [path]


def test_a_link_to_a_history_is_not_followed(histories: HistoryDirectory, tmp_path: Path):
    """It may lead out of the directory that was checked."""
    histories.write(A, FULL)
    path = _file(histories)
    path.symlink_to(path.rename(tmp_path / "elsewhere"))
    assert histories.read(A) == History("machine")


def test_another_machines_history_under_the_same_name_counts_as_none(histories: HistoryDirectory):
    """Names hold a part of a hash alone: what a file says of its machine decides."""
    histories.write(A, FULL)
    path = _file(histories)
    path.write_bytes(msgspec.json.encode(History("another", FULL.rejected)))
    assert histories.read(A) == History("machine")
    assert HistoryDirectory(histories.directory, "another").read(A) == History("another")
    assert histories.of(A) == ((path, None),)


@pytest.mark.parametrize("mode", [0o770, 0o702])
@pytest.mark.parametrize("inner", ["", "history", "file"])
def test_what_others_may_write_is_not_read(histories: HistoryDirectory, inner: str, mode: int):
    """Neither in a store nor in a directory nor in a file that they could have written, unless the group is trusted."""
    histories.write(A, FULL)
    path = _file(histories) if inner == "file" else histories.directory / inner
    path.chmod(mode)
    assert histories.read(A) == History("machine")
    if inner == "file":
        assert histories.of(A) == ((path, None),)
    else:
        for operation in (lambda: histories.of(A), lambda: histories.write(A, FULL)):
            assert _reason(operation) is Reason.STORE_UNSAFE
    trusting = HistoryDirectory(histories.directory, "machine", trust_group=True)
    assert trusting.read(A) == (FULL if mode == 0o770 else History("machine"))


def _reason(operation: Callable[[], object]) -> Reason:
    with pytest.raises(StoreError) as refused:
        operation()
    return refused.value.reason


def test_histories_that_are_no_directory_are_none(histories: HistoryDirectory):
    """A file in the directory's place hinders writing and showing, not reading."""
    histories.directory.mkdir(mode=0o700)
    (histories.directory / "history").touch()
    assert histories.read(A) == History("machine")
    assert _reason(lambda: histories.of(A)) is Reason.STORE_UNAVAILABLE
    assert _reason(lambda: histories.write(A, FULL)) is Reason.STORE_UNAVAILABLE


def test_a_read_only_file_system_is_read(histories: HistoryDirectory):
    """What lies there is read, and a write is refused as read-only and changes nothing."""
    histories.write(A, FULL)
    directory = histories.directory
    if not run("mount", "--bind", directory, directory):
        pytest.skip("this user may not mount a file system")
    try:
        assert run("mount", "-o", "remount,bind,ro", directory)
        before = _tree(directory)
        assert histories.read(A) == FULL
        assert _reason(lambda: histories.write(A, History("machine"))) is Reason.STORE_READ_ONLY
        assert _tree(directory) == before
    finally:
        assert run("umount", directory)


WRITER = """
import sys
from pathlib import Path
from warmcurve.storage.history import History, HistoryDirectory, Rejection
from warmcurve.outcome import Reason

directory, letter, count, times = sys.argv[1:]
histories = HistoryDirectory(Path(directory), "machine")
rejected = tuple(Rejection("now", letter, Reason.SENTINEL_SHAPE, letter * 300) for _ in range(int(count)))
for _ in range(int(times)):
    histories.write("a" * 64, History("machine", rejected))
"""


def test_of_two_writers_at_once_one_is_read(histories: HistoryDirectory):
    """While two processes write one machine's history, every read gives one of theirs, whole."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    whole = {("p",) * 3, ("q",) * 12}
    histories.write(A, History("machine", (_rejection("p"),) * 3))
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, histories.directory, letter, str(count), "60"], env=environment)
        for letter, count in (("p", 3), ("q", 12))
    ]
    seen = set()
    while any(writer.poll() is None for writer in writers):
        seen.add(tuple(each.entry for each in histories.read(A).rejected))
    assert [writer.wait() for writer in writers] == [0, 0]
    assert {*seen, tuple(each.entry for each in histories.read(A).rejected)} <= whole
    assert list(histories.directory.rglob(".tmp-*")) == []


def test_no_more_files_are_kept_than_many(histories: HistoryDirectory):
    """Where every boot is another machine the files longest unchanged go, and nothing else in the directory does."""
    histories.write(A, FULL)
    directory = _file(histories).parent
    (directory / "README").touch()
    for number in range(KEPT + 7):
        path = directory / f"{number}.json"
        path.touch()
        os.utime(path, (number, number))
    histories.write(A, FULL)
    names = {path.name for path in directory.iterdir()}
    assert names == {"README", _name(directory), *(f"{number}.json" for number in range(8, KEPT + 7))}
    assert histories.read(A) == FULL


def _name(directory: Path) -> str:
    (path,) = directory.glob(f"{A}-*")
    return path.name


@pytest.mark.parametrize("machine", ["", "a/b", "../../etc", "x" * 300, "n\0l", "\udcff\ud800", "模型", "\x1b[31m"])
def test_machines_may_have_any_name(histories: HistoryDirectory, machine: str):
    """It does not lead out of the directory, and is read back, also where it is no Unicode."""
    named = HistoryDirectory(histories.directory, machine)
    found = named.read(A).with_rejection(_rejection())
    named.write(A, found)
    assert named.read(A) == found
    assert [kept.history for kept in histories.of(A)] == [found]
    assert _file(histories).parent == histories.directory / "history"


@pytest.mark.parametrize("lasting", [False, True])
def test_no_failing_call_escapes_from_reading(histories: HistoryDirectory, lasting: bool):
    """With the n-th of the system's calls failing, for every n, reading gives the history or an empty one."""
    histories.write(A, FULL)
    nth, reached, seen = 0, True, []
    while reached:
        nth += 1
        with FaultySystem(nth, raising(5), lasting=lasting) as system:
            seen.append(histories.read(A))
        reached = system.reached
    assert set(seen) == {FULL, History("machine")}
    assert seen[-1] == FULL


@pytest.mark.parametrize("operation", ["of", "write"])
@pytest.mark.parametrize("lasting", [False, True])
def test_any_failing_call_is_an_error_of_the_store(tmp_path: Path, operation: str, lasting: bool):
    """With the n-th of the system's calls failing, for every n, only a StoreError escapes, and files are whole."""
    nth, reached, refused = 0, True, 0
    while reached:
        nth += 1
        histories = HistoryDirectory(tmp_path / str(nth), "machine")
        histories.write(A, FULL)
        with FaultySystem(nth, raising(28), lasting=lasting) as system:
            try:
                histories.of(A) if operation == "of" else histories.write(A, History("machine"))
            except StoreError:
                refused += 1
        reached = system.reached
        assert histories.read(A) in ({FULL} if operation == "of" else {FULL, History("machine")})
    assert refused


def test_a_file_that_vanishes_meanwhile_is_none(histories: HistoryDirectory, monkeypatch: pytest.MonkeyPatch):
    """Removed between the listing and the reading, by a writer that keeps the newest: it is not told at all."""
    histories.write(A, FULL)
    monkeypatch.setattr(Directory, "names", lambda _: (f"{A}-0.json",))
    assert histories.of(A) == ()


def test_calibrations_are_read_with_their_profiles(histories: HistoryDirectory):
    """Costs bit for bit: they are compared with what is measured next."""
    odd = CostProfile(CostCurve((1, 3), (0.1 + 0.2, 5e-324)), CostCurve((1,), (1e308,)), 3, ())
    found = History("machine", calibrations=(Calibration("now", odd, stored=False),))
    histories.write(A, found)
    assert histories.read(A) == found
