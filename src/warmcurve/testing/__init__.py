"""For tests of engines and stores: a perfect or scripted replacement for everything that a boot is given."""

from warmcurve.testing.clock import FakeClock
from warmcurve.testing.contract import StoreContract
from warmcurve.testing.engine import ScriptedEngine
from warmcurve.testing.memory import FaultStore, MemoryHistories, MemoryStore
from warmcurve.testing.ranks import MemoryKeyValue, together

__all__ = [
    "FakeClock",
    "FaultStore",
    "MemoryHistories",
    "MemoryKeyValue",
    "MemoryStore",
    "ScriptedEngine",
    "StoreContract",
    "together",
]
