"""`warmcurve compare`."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.cli.conftest import Run
from tests.support import boot
from warmcurve.planning.planner import losses
from warmcurve.planning.workload import SURVIVAL, cases
from warmcurve.storage import entry
from warmcurve.storage.store import DirectoryStore
from warmcurve.testing import ScriptedEngine

CAPTURED = (1, 2, 4, 8, 16, 32)


def _flat(tokens: int) -> float:
    return 10 + tokens / 100


def _kneed(tokens: int) -> float:
    return 10 + max(0, tokens - 8) * 2.0


@pytest.fixture
def put(store: DirectoryStore) -> Callable[..., str]:
    """Boots an engine with this cost of a step, and gives the digest of what it stored."""

    def put(
        verify_ms: Callable[[int], float],
        drafts: Any = 7,
        captured: tuple[int, ...] = CAPTURED,
        most: int = 4,
        top: int = 64,
    ) -> str:
        engine = ScriptedEngine(captured, top, most, verify_ms=verify_ms, draft_ms=lambda requests: 0.1)
        factors: dict[str, Any] = {"speculation": {"draft_tokens": drafts}, "costs": verify_ms.__name__}
        report = boot(engine, store, read_factors=lambda: factors)
        assert report.digest is not None
        return report.digest

    return put


def test_the_loss_is_told_both_ways(store: DirectoryStore, put: Callable[..., str], run: Run) -> None:
    """Per batch size, worst and mean, as the planner says; exit code 1 where more is lost than allowed."""
    one, two = put(_flat), put(_kneed)
    result = run("compare", one[:8], two, "--json")
    found = json.loads(result.stdout)
    a, b = (entry.decode(store.get(digest) or b"").profile for digest in (one, two))
    declared = cases(4, 7, 64)
    planned_a, planned_b = (losses(*pair, [case.batch for case in declared]) for pair in ((b, a), (a, b)))
    assert result.exit_code == 1
    assert (found["drafts"], found["obstacles"], found["left_out"], found["equal_factors"]) == (7, [], [], False)
    assert found["a_planned"] == {"mean": pytest.approx(planned_a.mean()), "worst": pytest.approx(planned_a.max())}
    assert found["b_planned"] == {"mean": pytest.approx(planned_b.mean()), "worst": pytest.approx(planned_b.max())}
    assert found["worst"] == pytest.approx(max(planned_a.max(), planned_b.max()))
    assert found["worst"] > 0.1
    assert [row["requests"] for row in found["batches"]] == [1, 2, 4]
    single = planned_a[: len(SURVIVAL)]
    assert found["batches"][0]["a_mean"] == pytest.approx(single.mean())
    assert found["batches"][0]["a_worst"] == pytest.approx(single.max())
    enough = run("compare", one[:8], two, "--within", str(found["worst"] + 1e-9))
    assert (enough.exit_code, enough.stderr) == (0, f"factors differ: warmcurve diff {one[:8]} {two}\n")


def test_a_table_for_people(put: Callable[..., str], run: Run) -> None:
    """Both sides, a row a batch size and one for all; nothing is lost against itself, and nothing is noted."""
    digest = put(_kneed)
    result = run("compare", digest[:6], digest)
    lines = result.stdout.splitlines()
    assert (result.exit_code, result.stderr) == (0, "")
    assert [line[:4] for line in lines[:2]] == [f"A  {digest[0]}", f"B  {digest[0]}"]
    assert lines[-4].split() == ["1", "0.00%", "0.00%", "0.00%", "0.00%"]
    assert [line.split()[0] for line in lines[-4:]] == ["1", "2", "4", "all"]


def test_a_common_factor_costs_nothing(
    put: Callable[..., str], run: Run, store: DirectoryStore, tmp_path: Path
) -> None:
    """The same curves, twice as dear, from a file: every plan is the same."""
    digest = put(_kneed)
    found = entry.decode(store.get(digest) or b"")
    doubled = [
        msgspec.structs.replace(sample, verify_ms=2 * sample.verify_ms, draft_ms=2 * sample.draft_ms)
        for sample in found.profile.samples
    ]
    curves = [
        msgspec.structs.replace(curve, costs_ms=tuple(2 * ms for ms in curve.costs_ms))
        for curve in (found.profile.verify, found.profile.draft)
    ]
    profile = msgspec.structs.replace(found.profile, verify=curves[0], draft=curves[1], samples=tuple(doubled))
    path = tmp_path / "doubled.jsonl"
    path.write_bytes(entry.encode(msgspec.structs.replace(found, profile=profile)))
    result = run("compare", digest, path, "--json", "--within", "0")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["worst"] == 0


@pytest.mark.parametrize(
    ("changes", "obstacle"),
    [
        ({"drafts": 5}, "7 and 5 drafted tokens a request; --drafts K compares the curves all the same"),
        ({"captured": (1, 2, 4, 8, 16)}, "other captured sizes: only A has [32], only B has none"),
        ({"most": 2}, "other requests that the drafter's curve prices: only A has [4], only B has none"),
    ],
)
def test_what_cannot_be_compared_is_said(
    changes: dict[str, Any], obstacle: str, put: Callable[..., str], run: Run
) -> None:
    """Other drafts, graphs or requests make other batches: no figure, the reason, exit code 1."""
    one, two = put(_flat), put(_kneed, **changes)
    result = run("compare", one, two, "--within", "1")
    assert result.exit_code == 1
    assert f"not comparable: {obstacle}" in result.stdout.splitlines()
    found = json.loads(run("compare", one, two, "--json").stdout)
    assert (found["obstacles"], found["worst"], found["batches"], found["a_planned"]) == ([obstacle], None, [], None)


def test_named_drafts_settle_it(put: Callable[..., str], run: Run) -> None:
    """Curves alone do not depend on the number of drafts that somebody asks about."""
    one, two = put(_flat), put(_kneed, drafts=5)
    found = json.loads(run("compare", one, two, "--drafts", "3", "--json").stdout)
    assert (found["drafts"], found["obstacles"]) == (3, [])
    assert found["worst"] > 0


@pytest.mark.parametrize("drafts", [None, True, 0, "seven", 1000])
def test_a_keyed_number_that_is_none_is_not_taken(drafts: Any, put: Callable[..., str], run: Run) -> None:
    """The usual block is taken where the factors name no number of drafts."""
    digest = put(_flat, drafts)
    assert json.loads(run("compare", digest, digest, "--json").stdout)["drafts"] == 7


def test_other_tails_leave_batches_out(put: Callable[..., str], run: Run) -> None:
    """Of eager tails with other points the captured sizes are compared, and what reaches beyond is named."""
    one, two = put(_flat, most=8), put(_kneed, most=8, top=80)
    result = run("compare", one, two)
    assert "left out: steps of 8 requests may exceed the 32 tokens that both price alike" in result.stderr
    assert [line.split()[0] for line in result.stdout.splitlines()[-4:]] == ["1", "2", "4", "all"]
    found = json.loads(run("compare", one, two, "--json").stdout)
    assert (found["left_out"], len(found["batches"])) == ([8], 3)


def test_no_batch_at_all_is_a_finding(put: Callable[..., str], run: Run) -> None:
    """Where not even one request's drafts fit, nothing is said to be equal."""
    digest = put(_flat)
    result = run("compare", digest, digest, "--drafts", "64")
    assert result.exit_code == 1
    assert "not comparable: a step of one request with 64 drafts exceeds the 64 tokens that both price" in result.stdout


def test_an_entry_is_needed(put: Callable[..., str], run: Run, tmp_path: Path) -> None:
    """Nothing of that name is a usage error, a report or any other file one of the environment."""
    digest = put(_flat)
    assert run("compare", digest, "0000").exit_code == 2
    assert run("compare", digest, tmp_path / "none.jsonl").exit_code == 2
    path = tmp_path / "report.json"
    path.write_text("{}")
    result = run("compare", digest, path)
    assert (result.exit_code, result.stdout) == (3, "")
    assert result.stderr.startswith("error: ")


def test_without_numpy_it_says_what_to_install(
    put: Callable[..., str], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command line alone does not need numpy; this command does, and says so."""
    digest = put(_flat)
    monkeypatch.setitem(sys.modules, "warmcurve.planning.workload", None)
    result = run("compare", digest, digest)
    assert (result.exit_code, result.stdout) == (3, "")
    assert "comparing needs numpy" in result.stderr
    assert "warmcurve[demo]" in result.stderr
