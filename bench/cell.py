"""The result of one drift, as `trust.py` counts it and `page.py` prints it."""

from typing import NamedTuple

from drifts import Loss


class Cell(NamedTuple):
    """One drift of one base: its true loss, the share of trials in which each rule accepted, and its replays a boot."""

    base: str
    family: str
    amount: str
    seen: bool
    loss: Loss
    trials: int
    accepted: dict[str, float]
    replays: dict[str, float]
