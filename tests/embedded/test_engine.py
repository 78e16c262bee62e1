"""The engine serves the target's own choices, whatever it drafts, trims and batches."""

import random
from itertools import pairwise

import numpy as np
import pytest

from warmcurve.embedded.cache import Group
from warmcurve.embedded.engine import CHUNK, Engine, Policy, Request
from warmcurve.embedded.model import CAPACITY, POSITIONS, Rows
from warmcurve.planning.planner import CostTables

PROMPTS = (
    b"import os\nimport sys\n\n\ndef main(",
    b"    def __init__(self, name",
    b"# ",
    b"x" * 100,
    b"class A:\n" * 9,
)


def requests(limit=12, temperature=0.3) -> list[Request]:
    return [Request(prompt, limit, seed, temperature) for seed, prompt in enumerate(PROMPTS)]


def tables(seed, engine) -> CostTables:
    """Costs of any shape, so that budgets are of any size."""
    draw = np.random.default_rng(seed)
    verify = np.maximum.accumulate(np.cumsum(draw.exponential(1, engine.max_tokens + 1) * draw.integers(0, 2)) + 0.1)
    return CostTables(np.full(engine.max_requests + 1, draw.uniform(0, 3)), verify)


@pytest.mark.parametrize("temperature", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("positions", [0, 1, POSITIONS])
def test_every_byte_is_the_targets_own_choice(engine, reference, positions, temperature):
    """Replies are those of the target alone, one byte after the other, at every temperature and drafted length."""
    served = requests(temperature=temperature)
    engine(policy=Policy(positions)).serve(served, 4)
    assert [request.reply() for request in served] == [reference(request) for request in served]


@pytest.mark.parametrize("seed", range(6))
def test_budgets_change_no_byte(engine, reference, seed):
    """Whatever curves trim the drafts, the output stays."""
    serving = engine()
    serving.policy = Policy(tables=tables(seed, serving))
    served = requests()
    serving.serve(served, 3)
    assert [request.reply() for request in served] == [reference(request) for request in served]


def test_batch_and_order_change_no_byte(engine, reference):
    """A request's reply is the same alone, among others, before or after them."""
    for at_once in (1, 2, 5):
        served = requests()
        random.Random(at_once).shuffle(served)
        engine(5, Policy()).serve(served, at_once)
        assert all(request.reply() == reference(request) for request in served)


def test_temperatures_mix_in_a_batch(engine, reference):
    """Each request of a batch is sampled at its own temperature."""
    served = [Request(PROMPTS[0], 24, 7, heat) for heat in (0.0, 0.2, 0.5, 1.5)]
    engine(policy=Policy()).serve(served, 4)
    assert [request.reply() for request in served] == [reference(request) for request in served]
    assert len({request.reply() for request in served}) > 1


def test_preempted_requests_start_again(engine, reference):
    """A request that loses its slot computes its tokens again and goes on where it was."""
    serving = engine(2, Policy())
    served = requests()
    for request in served:
        serving.add(request)
    turn = random.Random(0)
    while serving.waiting or serving.running:
        serving.step()
        if serving.running and turn.random() < 0.3:
            serving.preempt(turn.choice(serving.running))
    assert [request.reply() for request in served] == [reference(request) for request in served]


def test_drafts_are_accepted(engine):
    """Speculation takes fewer steps than there are bytes, and verifies no more than it drafts."""
    serving = engine(policy=Policy())
    serving.serve(requests(64), 4)
    counts = serving.counts
    assert counts.emitted == 64 * len(PROMPTS) == counts.steps + counts.accepted
    assert counts.accepted <= counts.verified <= POSITIONS * counts.steps
    assert counts.steps < counts.emitted / 2


def test_shapes_change_no_bit(models, exact):
    """Logits of the same tokens are equal in any batch, to the bit where the self-test says so, else closely."""
    target, drafter = models
    serving = Engine(target, drafter, 4)
    tokens = list((PROMPTS[0] * 9)[: 2 * CHUNK])
    draw = random.Random(1)
    for _ in range(8):
        splits = [0, *sorted(draw.sample(range(1, len(tokens)), 4)), len(tokens)]
        slots = draw.sample(range(4), draw.randint(1, 4))
        for start, end in pairwise(splits):
            rows = Rows(max(2, len(slots) * (end - start) + draw.choice([0, 1, 30])))
            places = np.arange(start, end)
            rows.fill(
                tokens[start:end] * len(slots), places.tolist() * len(slots), np.repeat(slots, end - start).tolist()
            )
            group = Group(slots, np.broadcast_to(places + 1, (len(slots), end - start)))
            logits = target.forward(rows, [group], serving._cache)
            for last in (len(slots) * (end - start) - 1, end - start - 1):
                expected = serving.recompute(tokens[:end])
                np.testing.assert_allclose(logits[last], expected, atol=0 if exact else 2e-4, rtol=0)


def test_close_choices_are_settled_in_one_shape(engine, reference, monkeypatch):
    """Where bits depend on the shape, a choice that is close is made again from a shape of its own."""
    serving = engine(policy=Policy())
    serving.exact = False
    monkeypatch.setattr("warmcurve.embedded.engine.CLOSE", np.inf)
    settled = []

    def settle(request):
        settled.append(request)
        return Engine._settle(serving, request)

    monkeypatch.setattr(serving, "_settle", settle)
    served = requests(8)
    serving.serve(served, 4)
    assert [request.reply() for request in served] == [reference(request) for request in served]
    assert len(settled) == 8 * len(PROMPTS)


def test_dummy_steps_are_full_graphs_up_to_the_capture_limit(engine):
    """A dummy step has the tokens asked for, prices both stages, and leaves no trace in what is counted."""
    serving = engine(8)
    for tokens in (*serving.captured, serving.captured[-1] + 1, serving.max_tokens):
        sample = serving.dummy(tokens)
        assert sample.flaw() is None
        assert sample.tokens == tokens
        assert sample.requests == min(8, -(-tokens // 4))
        assert sample.full_graph is (tokens <= serving.captured[-1])
    assert serving.counts == (0, 0, 0, 0)
    assert not serving.running


def test_dummy_steps_keep_off_running_requests(engine):
    """Calibrating while requests run is refused: it would overwrite what they have computed."""
    serving = engine()
    serving.add(Request(b"a", 5))
    serving.step()
    with pytest.raises(RuntimeError, match="dummy"):
        serving.dummy(2)


@pytest.mark.parametrize(("prompt", "limit"), [(b"", 1), (b"a", 0), (b"a" * CAPACITY, 1)])
def test_a_request_must_fit(prompt, limit):
    """An empty prompt, an empty reply and one past the cache's capacity are refused when they are made."""
    with pytest.raises(ValueError, match="bytes"):
        Request(prompt, limit)


def test_drafts_that_do_not_pay_are_not_verified(engine, reference):
    """Where verifying costs more than it can yield nothing is verified, and the replies are the same."""
    serving = engine()
    dear = np.exp(np.arange(serving.max_tokens + 1.0))
    serving.policy = Policy(tables=CostTables(np.zeros(5), dear))
    served = requests(16)
    serving.serve(served, 4)
    assert serving.counts.verified == 0
    assert [request.reply() for request in served] == [reference(request) for request in served]


TEXT = b"""
    def __init__(self, name, value=None):
        self.name = name
        if value is None:
            value = []
        self.value = value

    def __repr__(self):
        return f"{self.__class__.__name__}({self.name!r}, {self.value!r})"
"""


def test_the_target_has_learned_to_read(engine):
    """On plain Python that it never saw, the next byte costs the target far fewer bits than a guess."""
    alone = engine(1)
    bits = []
    for end in range(64, len(TEXT)):
        logits = alone.recompute(list(TEXT[:end])).astype(np.float64)
        bits.append((np.log(np.exp(logits - logits.max()).sum()) + logits.max() - logits[TEXT[end]]) / np.log(2))
    assert np.mean(bits) < 2


def test_the_drafter_has_learned_to_draft(engine):
    """At T = 0.3 more than two of seven drafts are accepted a step, and fewer than all."""
    serving = engine(policy=Policy())
    serving.serve([Request(TEXT, 96, seed) for seed in range(8)], 4)
    assert 2 < serving.counts.accepted / serving.counts.steps < POSITIONS
