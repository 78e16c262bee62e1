"""A step from schedule to tokens: continuous batching, speculative decoding, adaptive verification.

    add ─→ waiting ─→ running ── step ──────────────────────────────────────────────────────┐
             ↑  a slot of the   schedule  each request's next tokens, and how many of its     │
             │  cache is free             drafts are worth verifying (`planner.py`)           │
          preempt                 verify    one forward of the target over all of them        │
                                  accept    drafts up to the first the target does not choose,│
                                            and the target's own next token                   │
                                  draft     the next 7 tokens of each request                 │
    finished ←──────────────────────────────────────────────────────────────────────────────┘

Every emitted token is the target's own choice for its prefix, so what is drafted or trimmed decides how fast a reply
comes, never what it says.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import groupby, product
from typing import Final, NamedTuple

import numpy as np

from warmcurve.curves.profile import Sample
from warmcurve.embedded import noise
from warmcurve.embedded.cache import Cache, Group, Integers
from warmcurve.embedded.model import CAPACITY, LAYERS, POSITIONS, Drafter, Rows, Target
from warmcurve.embedded.weights import Floats
from warmcurve.planning.planner import Batch, CostTables, allocate, draft_budget

CAPTURED: Final = (2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
MAX_TOKENS: Final = 1024
CONTEXT: Final = 192
"""Positions behind each request of a dummy step."""
CHUNK: Final = 64
"""Tokens of a prompt that one step runs at most."""
CLOSE: Final = 1e-3
"""A choice by less than this may be another one in a batch of another shape, where bits depend on the shape."""


@dataclass(eq=False)
class Request:
    """`tokens` are the prompt and what was emitted so far; `computed` of them have keys and values in the cache."""

    prompt: bytes
    limit: int
    seed: int = 0
    temperature: float = 0.3
    tokens: list[int] = field(default_factory=list)
    computed: int = 0
    slot: int = -1
    drafts: list[int] = field(default_factory=list)
    confidence: Floats = field(default_factory=lambda: np.zeros(POSITIONS, np.float32))

    def __post_init__(self) -> None:
        if not self.prompt or self.limit < 1 or len(self.prompt) + self.limit > CAPACITY:
            raise ValueError(f"a prompt of {len(self.prompt)} and {self.limit} more bytes, of {CAPACITY} in all")
        self.tokens = list(self.prompt)

    def reply(self) -> bytes:
        return bytes(self.tokens[len(self.prompt) :])

    def missing(self) -> int:
        """How many bytes the reply still lacks."""
        return len(self.prompt) + self.limit - len(self.tokens)


class Policy(NamedTuple):
    """How many positions of a block are used (0: no speculation), and the cost tables that trim them, if any."""

    positions: int = POSITIONS
    tables: CostTables | None = None


class Entry(NamedTuple):
    """What one request runs in a step: `base` of its tokens, then `drafts`; `samples` if its tokens end there."""

    request: Request
    base: int
    drafts: list[int]
    samples: bool


class Counts(NamedTuple):
    """What was served: steps of a request, drafts verified and accepted, tokens emitted."""

    steps: int = 0
    verified: int = 0
    accepted: int = 0
    emitted: int = 0


class Engine:
    """`max_requests` run at once. `exact` says whether bits are the same in every shape of batch on this machine.

    `clock_ns` times its steps; `time.process_time_ns` leaves out what they wait for other programs.
    """

    def __init__(
        self,
        target: Target,
        drafter: Drafter,
        max_requests: int,
        policy: Policy | None = None,
        clock_ns: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self.policy = policy or Policy(0)
        self.clock_ns = clock_ns
        self.max_requests = max_requests
        self.max_tokens = min(MAX_TOKENS, max_requests * CHUNK)
        self.captured = tuple(size for size in CAPTURED if size <= max_requests * (1 + POSITIONS))
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []
        self.counts = Counts()
        self.sample = Sample(0, 0, 0.0, 0.0, full_graph=False)
        """The timing of the last step."""
        self._target, self._drafter = target, drafter
        self._cache = Cache(LAYERS + 1, max_requests + 1, CAPACITY)
        self._scratch = max_requests
        self._cache.reserve(self._scratch)
        self._captured = {size: Rows(size) for size in self.captured}
        self.exact = False

    # Requests come and go.

    def add(self, request: Request) -> None:
        self.waiting.append(request)

    def preempt(self, request: Request) -> None:
        """Take a running request off its slot; it is computed again when it comes back, first of all that wait."""
        self._leave(request)
        self.waiting.appendleft(request)

    def _leave(self, request: Request) -> None:
        self.running.remove(request)
        self._cache.give_back(request.slot)
        request.slot, request.computed, request.drafts = -1, 0, []

    def _admit(self) -> None:
        while self.waiting and (slot := self._cache.take()) is not None:
            request = self.waiting.popleft()
            request.slot = slot
            self.running.append(request)

    def serve(self, requests: Iterable[Request], at_once: int) -> list[int]:
        """Run all of them to their ends, this many at a time; gives the ns that each step took."""
        coming, taken = deque(requests), []
        while coming or self.waiting or self.running:
            while coming and len(self.waiting) + len(self.running) < at_once:
                self.add(coming.popleft())
            began = self.clock_ns()
            self.step()
            taken.append(self.clock_ns() - began)
        return taken

    # A step.

    def step(self) -> list[Request]:
        """Run one step; gives the requests that are finished."""
        self._admit()
        if not self.running:
            return []
        self._run(self._trim(self._schedule()))
        finished = [request for request in self.running if not request.missing()]
        for request in finished:
            self._leave(request)
        return finished

    def _schedule(self) -> list[Entry]:
        """Newest tokens with all their drafts first, then chunks of prompts as far as there is room."""
        entries, room = [], self.max_tokens
        for request in sorted(self.running, key=lambda each: len(each.tokens) - each.computed):
            wanted = len(request.tokens) - request.computed
            base = min(wanted, CHUNK, room)
            if base:
                entries.append(Entry(request, base, request.drafts, base == wanted))
                room -= base
        return entries

    def _trim(self, entries: list[Entry]) -> list[Entry]:
        """Keep the drafts that are worth their cost."""
        drafts = np.array([len(entry.drafts) for entry in entries])
        if not drafts.any():
            return entries
        base = sum(entry.base for entry in entries)
        batch = Batch(
            np.stack([entry.request.confidence for entry in entries]), drafts, base, sum(e.samples for e in entries)
        )
        room = self.max_tokens - base
        budget = min(room, int(drafts.sum()))
        if tables := self.policy.tables:
            budget = draft_budget(tables, batch, room)
        kept = allocate(batch, budget)
        return [entry._replace(drafts=entry.drafts[:count]) for entry, count in zip(entries, kept, strict=True)]

    def _run(self, entries: list[Entry]) -> None:
        """Verify, accept, draft."""
        started = self.clock_ns()
        # By number of tokens, so that attention runs one group for each; by slot, so that slots are in a row.
        entries = sorted(entries, key=lambda entry: (entry.base + len(entry.drafts), entry.request.slot))
        rows = self._verify(entries)
        ends = np.cumsum([entry.base + len(entry.drafts) for entry in entries])
        sampled, last = [], []
        for entry, end in zip(entries, ends, strict=True):
            accepted = self._accept(entry, int(end))
            if accepted is not None and entry.request.missing():
                sampled.append(entry.request)
                last.append(int(end) - len(entry.drafts) + accepted - 1)
        verified = self.clock_ns()
        if self.policy.positions:
            self._drafter.feed(rows, self._cache)
            if sampled:
                self._draft(sampled, rows.features[last])
        ended = self.clock_ns()
        full = rows.real <= self.captured[-1]
        self.sample = Sample(rows.real, len(entries), (verified - started) / 1e6, (ended - verified) / 1e6, full)

    def _verify(self, entries: list[Entry]) -> Rows:
        """One forward over the tokens of all entries; leaves the target's choices after each of them."""
        tokens: list[int] = []
        positions: list[int] = []
        slots: list[int] = []
        seeds: list[int] = []
        heat: list[float] = []
        for request, base, drafts, _ in entries:
            count = base + len(drafts)
            tokens += request.tokens[request.computed : request.computed + base]
            tokens += drafts
            positions += range(request.computed, request.computed + count)
            slots += [request.slot] * count
            seeds += [request.seed] * count
            heat += [request.temperature] * count
        rows = self._buffers(len(tokens))
        rows.fill(tokens, positions, slots)
        logits = self._target.forward(rows, _groups(entries), self._cache)[: rows.real]
        chances = noise.table()[noise.rows(np.array(seeds), rows.positions[: rows.real] + 1)]
        chances *= np.array(heat, np.float32)[:, None]
        chances += logits
        self._choices: list[int] = chances.argmax(axis=1).tolist()
        if not self.exact:
            best = np.partition(chances, -2, axis=1)[:, -2:]
            self._close = best[:, 1] - best[:, 0] < CLOSE
        return rows

    def _buffers(self, tokens: int) -> Rows:
        """Captured ones, padded to the next size, or above the capture limit new ones of just this size."""
        size = next((size for size in self.captured if size >= tokens), tokens)
        return self._captured.get(size) or Rows(size)

    def _accept(self, entry: Entry, end: int) -> int | None:
        """Emit the drafts that the target chooses too, and its choice after them; gives how many, if it samples."""
        request, base, drafts, samples = entry
        if not samples:
            request.computed += base
            return None
        first = end - len(drafts) - 1
        accepted = 0
        while True:
            chosen = self._choices[first + accepted]
            if not self.exact and self._close[first + accepted]:
                chosen = self._settle(request)
            request.tokens.append(chosen)
            if accepted == len(drafts) or drafts[accepted] != chosen:
                break
            accepted += 1
        request.computed += base + accepted
        request.drafts = []
        steps, verified, all_accepted, emitted = self.counts
        self.counts = Counts(steps + 1, verified + len(drafts), all_accepted + accepted, emitted + accepted + 1)
        return accepted

    def _draft(self, requests: list[Request], features: Floats) -> None:
        """The next block of each request, from the target's features [requests, 2 × 192] before its newest token."""
        seeds = np.array([request.seed for request in requests])
        places = np.array([len(request.tokens) - 1 for request in requests])
        chances = noise.table()[noise.rows(seeds[:, None], places[:, None] + np.arange(1, POSITIONS + 1))]
        chances *= np.array([request.temperature for request in requests], np.float32)[:, None, None]
        anchors = np.array([request.tokens[-1] for request in requests])
        slots = [request.slot for request in requests]
        block = self._drafter.draft(features, anchors, places, slots, chances, self._cache)
        for request, tokens, confidence in zip(requests, block.tokens.tolist(), block.confidence, strict=True):
            # The target's own token completes a reply: no draft is needed for its last byte.
            request.drafts = tokens[: min(self.policy.positions, request.missing() - 1)]
            request.confidence = confidence

    # Bits.

    def _settle(self, request: Request) -> int:
        """The choice after a request's tokens, from all of them in chunks of one shape: the same in any batch."""
        logits = self.recompute(request.tokens)
        row = noise.rows(np.array([request.seed]), np.array([len(request.tokens)]))
        return int((logits + np.float32(request.temperature) * noise.table()[row[0]]).argmax())

    def recompute(self, tokens: list[int]) -> Floats:
        """The target's logits after these tokens, [256], without any state."""
        rows, logits = Rows(CHUNK), np.empty(0, np.float32)
        padded = tokens + [0] * (-len(tokens) % CHUNK)
        for start in range(0, len(padded), CHUNK):
            places = np.arange(start, start + CHUNK)
            rows.fill(padded[start : start + CHUNK], places.tolist(), [self._scratch] * CHUNK)
            logits = self._target.forward(rows, [Group([self._scratch], places[None] + 1)], self._cache)
        last: Floats = logits[(len(tokens) - 1) % CHUNK]
        return last

    def warm_up(self) -> None:
        """Touch every buffer once, as the capture of graphs does, and find out whether bits depend on the shape."""
        for size in reversed(self.captured):
            self.dummy(size)
        self.exact = self._same_bits()

    def _same_bits(self) -> bool:
        """Whether logits of the same tokens are equal alone and in a batch, one by one and in a row, padded or not."""
        tokens = np.random.default_rng(0).integers(0, 256, CHUNK + 8).tolist()
        slots = list(range(min(3, self.max_requests)))
        reference = [self.recompute(tokens[: CHUNK + count + 1]) for count in range(8)]
        for slot in slots:
            rows = Rows(CHUNK)
            rows.fill(tokens[:CHUNK], list(range(CHUNK)), [slot] * CHUNK)
            self._target.forward(rows, [Group([slot], np.arange(1, CHUNK + 1)[None])], self._cache)
        for count, several, padding in product((1, 2, 7, 8), (slots[:1], slots), (0, 1, 70)):
            real = count * len(several)
            rows = Rows(max(2, real + padding))
            places = np.arange(CHUNK, CHUNK + count)
            rows.fill(
                tokens[CHUNK : CHUNK + count] * len(several),
                places.tolist() * len(several),
                np.repeat(several, count).tolist(),
            )
            lengths = np.broadcast_to(places + 1, (len(several), count))
            logits = self._target.forward(rows, [Group(several, lengths)], self._cache)[:real]
            if not np.array_equal(logits, np.tile(reference[:count], (len(several), 1))):
                return False
        return True

    # Dummy steps, for calibration and sentinels.

    def dummy(self, tokens: int) -> Sample:
        """Time one step of this many tokens, as requests that verify half their drafts.

        Cost depends on how tokens are spread over requests as well, so the dummy mix is the middle of what is served.
        """
        if self.running:
            raise RuntimeError("dummy steps overwrite what requests have computed")
        requests = min(self.max_requests, -(-tokens // (1 + POSITIONS // 2)))
        share, more = divmod(tokens, requests)
        entries = []
        for slot in range(requests):
            drafts = min(POSITIONS, share + (slot < more) - 1)
            base = share + (slot < more) - drafts
            prompt = bytes(CONTEXT + base)
            request = Request(prompt, CAPACITY - len(prompt), seed=slot, computed=CONTEXT, slot=slot)
            entries.append(Entry(request, base, [0] * drafts, samples=True))
        counts, policy, exact = self.counts, self.policy, self.exact
        # Without trimming, and without settling: choices behind an empty context are close, those served rarely.
        self.policy, self.exact = Policy(), True
        self._run(entries)
        self.policy, self.counts, self.exact = policy, counts, exact
        return self.sample


def _groups(entries: list[Entry]) -> list[Group]:
    """Entries in their order, grouped by similar numbers of tokens: a group costs time, filling one up as well."""
    counts = [entry.base + len(entry.drafts) for entry in entries]
    decoding = 1 + POSITIONS
    few = len(entries) <= decoding

    def width(index: int) -> int:
        count = counts[index]
        return count if count > decoding else decoding if few else 1 << (count - 1).bit_length()

    groups, first = [], 0
    for _, same in groupby(range(len(entries)), key=width):
        members = list(same)
        asked = np.array([counts[index] for index in members])[:, None]
        steps = np.minimum(np.arange(asked.max()), asked - 1)
        lengths: Integers = np.array([[entries[index].request.computed] for index in members]) + steps + 1
        end = first + int(asked.sum())
        rows: slice | Integers = slice(first, end)
        if lengths.size > end - first:
            rows = (first + np.cumsum(asked, axis=0) - asked + steps).reshape(-1)
        groups.append(Group([entries[index].request.slot for index in members], lengths, rows))
        first = end
    return groups
