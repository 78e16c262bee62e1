"""How the ranks of a step communicate: which of vLLM's own collectives are enabled, and over which links.

vLLM tries each collective when it makes a group. It leaves one disabled if the boards or their links do not allow it.
So these objects distinguish NVLink from PCIe, which no setting and no property of one board does. vLLM gathered what is
read here from all ranks of the group. So all ranks read the same.
"""

from collections.abc import Iterator
from typing import Any, Final

from warmcurve.storage.fingerprint import Value
from warmcurve.vllm.plain import class_of

# Of vllm/distributed/device_communicators/cuda_communicator.py, in every supported release that has them.
_ATTRIBUTES: Final = (
    "ca_comm",
    "qr_comm",
    "symm_mem_comm",
    "fi_ar_comm",
    "fi_pcie_ipc_ar_comm",
    "aiter_ar_comm",
    "all2all_manager",
)
_GROUPS: Final = ("tp", "ep", "dp")
# AITER's is wrapped: vllm/distributed/device_communicators/aiter_custom_all_reduce.py.
_WRAPPED: Final = "_impl"


def factors() -> dict[str, Value] | None:
    """The collectives by group and attribute. None if there are none, as with one rank or on a CPU."""
    found: dict[str, Value] = {}
    for name in _GROUPS:
        if facts := dict(_facts(_communicator(name))):
            found[name] = facts
    return found or None


def _communicator(name: str) -> Any:
    from vllm.distributed import parallel_state

    try:
        group = getattr(parallel_state, f"get_{name}_group")()
    # There is no group of experts for a dense model.
    except AssertionError:
        return None
    return group.device_communicator


def _facts(communicator: Any) -> Iterator[tuple[str, Value]]:
    for attribute in _ATTRIBUTES:
        part = getattr(communicator, attribute, None)
        if part is not None:
            yield attribute, {"class": class_of(part), **dict(_answers(part))}


def _answers(part: Any) -> Iterator[tuple[str, Value]]:
    wrapped = getattr(part, _WRAPPED, None)
    for fact in ("disabled", "fully_connected"):
        value = getattr(part, fact, getattr(wrapped, fact, None))
        yield fact, None if value is None else bool(value)
