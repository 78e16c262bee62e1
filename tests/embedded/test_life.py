"""Requests come, are trimmed, preempted and finished in any order, and the cache stays right."""

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from warmcurve.embedded.engine import Engine, Policy, Request
from warmcurve.embedded.model import LAYERS, POSITIONS, load
from warmcurve.planning.planner import CostTables

MODELS = load()
SLOTS = 3
CLOSELY = 1e-4


class Life(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.engine = Engine(*MODELS, SLOTS, Policy())
        self.alone = Engine(*MODELS, 1)
        self.every = []

    @rule(prompt=st.binary(min_size=1, max_size=80), limit=st.integers(1, 20), seed=st.integers(0, 99))
    def add(self, prompt, limit, seed):
        self.every.append(Request(prompt, limit, seed))
        self.engine.add(self.every[-1])

    @rule(steps=st.integers(1, 3))
    def step(self, steps):
        for _ in range(steps):
            for request in self.engine.step():
                assert len(request.reply()) == request.limit
                assert request.slot == -1

    @rule(slope=st.floats(0, 2), draft=st.floats(0.01, 2), positions=st.integers(0, POSITIONS))
    def trim(self, slope, draft, positions):
        """From here on other curves decide how much is verified."""
        verify = 1 + slope * np.arange(self.engine.max_tokens + 1)
        self.engine.policy = Policy(positions, CostTables(np.full(SLOTS + 1, draft), verify))

    @precondition(lambda self: self.engine.running)
    @rule(index=st.integers(0, SLOTS - 1))
    def preempt(self, index):
        running = self.engine.running
        self.engine.preempt(running[index % len(running)])

    @invariant()
    def slots_are_held_once(self):
        held = [request.slot for request in self.engine.running]
        assert len(set(held)) == len(held) == SLOTS - self.engine._cache.free()
        assert all(0 <= slot < SLOTS for slot in held)

    @invariant()
    def the_cache_holds_what_was_computed(self):
        for request in self.engine.running[:1]:
            if request.computed:
                self.alone.recompute(request.tokens[: request.computed])
                ours, right = self.engine._cache, self.alone._cache
                seen = slice(request.computed)
                for mine, theirs in (
                    (ours.keys[:LAYERS, request.slot, :, seen], right.keys[:LAYERS, 1, :, seen]),
                    (ours.values[:LAYERS, request.slot, seen], right.values[:LAYERS, 1, seen]),
                ):
                    np.testing.assert_allclose(mine, theirs, atol=CLOSELY)

    def teardown(self):
        self.engine.serve([], 1)
        for request in self.every[:3]:
            alone = Request(request.prompt, request.limit, request.seed)
            Engine(*MODELS, 1).serve([alone], 1)
            assert request.reply() == alone.reply()


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=15, stateful_step_count=20, deadline=None)
TestLife.__doc__ = "Any order of adding, stepping, trimming and preempting ends in the replies that each gives alone."
