"""The engine boots through the core as any engine would."""

import math

import msgspec
import numpy as np
import pytest

from warmcurve.boot.settings import Settings
from warmcurve.curves.admission import Thresholds
from warmcurve.curves.calibration import profile_from
from warmcurve.curves.profile import Sample
from warmcurve.curves.sentinel import Limits
from warmcurve.embedded.engine import CAPTURED
from warmcurve.embedded.startup import Startup, calibration_plan, factors, start
from warmcurve.planning.planner import cost_tables
from warmcurve.storage.entry import decode, encode
from warmcurve.storage.fingerprint import fingerprint
from warmcurve.testing import MemoryStore

# Real timings on a machine of any load: what is tried here is the path, not the clock.
ANY = Settings(
    Limits(scale_low=1e-9, scale_high=1e9, max_regret=1.0), thresholds=Thresholds(math.inf, math.inf, 0, math.inf)
)


@pytest.fixture
def booted(engine):
    """Two boots of two engines on one store."""
    store, boots = MemoryStore(), []
    for _ in range(2):
        serving = engine(2)
        startup = Startup(serving)
        boots.append((serving, startup, start(serving, store, ANY, startup=startup)))
    return boots


def test_the_first_boot_records_and_the_second_reuses(booted):
    """A cold boot runs the whole plan, a warm one two replays."""
    (serving, _, cold), (_, _, warm) = booted
    runs = len(calibration_plan(serving).runs)
    assert (cold.outcome, cold.reason, cold.calibration_runs, cold.sentinel_runs) == ("recorded", None, runs, 0)
    assert (warm.outcome, warm.reason, warm.calibration_runs, warm.sentinel_runs) == ("reused", None, 0, 2)
    assert cold.digest == warm.digest


def test_both_boots_plan_with_the_same_tables(booted):
    """Stored curves give, to the bit, the tables of the calibration that measured them."""
    (cold, fresh, _), (warm, stored, _) = booted
    assert fresh.profile == stored.profile
    for mine, theirs in zip(cold.policy.tables, warm.policy.tables, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    expected = cost_tables(stored.profile, 2, warm.max_tokens)
    np.testing.assert_array_equal(warm.policy.tables.verify, expected.verify)


def test_another_blas_setting_is_another_fingerprint(engine, monkeypatch):
    """What chooses kernels is a factor, and so is the number of requests."""
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    one = fingerprint(factors(engine(2)))
    assert fingerprint(factors(engine(2))) == one
    assert fingerprint(factors(engine(3))) != one
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "2")
    assert fingerprint(factors(engine(2))) != one


def _scripted(tokens):
    """A dummy step of an engine of two requests that always costs the same."""
    return Sample(tokens, min(2, -(-tokens // 4)), 1.0 + tokens / 8, 0.5, full_graph=tokens <= 16)


@pytest.mark.parametrize("factor", [3, 1 / 3])
@pytest.mark.parametrize("size", [size for size in CAPTURED if size <= 16])
def test_an_entry_with_one_wrong_cost_is_refused_by_a_sweep(engine, monkeypatch, size, factor):
    """By default limits, whichever it is: the boot names it, plans with what it measures, and mends the entry."""
    serving, store, sweep = engine(2), MemoryStore(), Settings(sentinels="sweep")
    monkeypatch.setattr(serving, "dummy", _scripted)
    start(serving, store, sweep)
    [digest] = store.list()
    right = decode(store.entries[digest])
    samples = [
        msgspec.structs.replace(sample, verify_ms=sample.verify_ms * (factor if sample.tokens == size else 1))
        for sample in right.profile.samples
    ]
    wrong = msgspec.structs.replace(right, profile=profile_from(samples, right.profile.capture_limit))
    store.put(digest, encode(wrong))
    startup = Startup(serving)
    report = start(serving, store, sweep, startup=startup)
    assert (report.outcome, report.reason) == ("recorded", "sentinel_scale")
    became = "cheaper" if factor > 1 else "dearer"
    assert (report.detail or "").endswith(f": verify of {size} tokens became 3× {became}, the rest did not")
    assert startup.profile == decode(store.entries[digest]).profile == right.profile
    assert start(serving, store, sweep).outcome == "reused"
