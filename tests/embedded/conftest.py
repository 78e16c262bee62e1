"""The shipped models, loaded once, and what they say without any engine."""

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from warmcurve.embedded import noise
from warmcurve.embedded.engine import Engine, Policy, Request
from warmcurve.embedded.model import Drafter, Target, load

Models = tuple[Target, Drafter]
Reference = Callable[[Request], bytes]


@pytest.fixture(scope="session")
def models() -> Models:
    return load()


@pytest.fixture(scope="session")
def exact(models: Models) -> bool:
    """Whether bits are the same in every shape of batch on this machine."""
    engine = Engine(*models, 3)
    engine.warm_up()
    return engine.exact


@pytest.fixture
def engine(models: Models, exact: bool) -> Callable[..., Engine]:
    def engine(max_requests: int = 4, policy: Policy | None = None) -> Engine:
        made = Engine(*models, max_requests, policy)
        made.exact = exact
        return made

    return engine


@pytest.fixture(scope="session")
def reference(models: Models) -> Reference:
    """The reply that the target gives on its own: one choice after the other, each from all tokens before it."""
    alone = Engine(*models, 1)

    @cache
    def reply(prompt: bytes, limit: int, seed: int, temperature: float) -> bytes:
        tokens = list(prompt)
        for _ in range(limit):
            row = noise.rows(np.array([seed]), np.array([len(tokens)]))[0]
            tokens.append(int((alone.recompute(tokens) + np.float32(temperature) * noise.table()[row]).argmax()))
        return bytes(tokens[len(prompt) :])

    return lambda request: reply(request.prompt, request.limit, request.seed, request.temperature)
