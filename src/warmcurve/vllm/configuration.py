"""Sections of vLLM's configuration that its own hash is blind to, field by field.

`VllmConfig.compute_hash` asks what changes the compiled graph; what a step costs also depends on the rest. Opt-out: a
field that a later release adds counts, unless it is excluded here with its reason.
"""

from typing import Any, Final

from warmcurve.fingerprint import Value
from warmcurve.vllm.plain import plain

_MODEL: Final = "told by content, under draft.model and target.model"
_OWN: Final = "a configuration of its own, hashed by vLLM"

SECTIONS: Final[dict[str, dict[str, str]]] = {
    "attention_config": {},
    "kernel_config": {},
    "mamba_config": {},
    "offload_config": {},
    "speculative_config": {
        "model": _MODEL,
        "revision": _MODEL,
        "code_revision": _MODEL,
        "draft_model_config": _MODEL,
        "target_model_config": _MODEL,
        "draft_load_config": "how weights are read",
        "draft_parallel_config": _OWN,
        "target_parallel_config": _OWN,
    },
    "watermark_config": {"key": "a secret, whose value changes no kernel"},
}
"""Section → excluded field → why."""


def factors(config: Any) -> dict[str, Value]:
    """Every field of these sections that is not excluded; null for a section that this configuration lacks."""
    return {section: _fields(getattr(config, section, None), excluded) for section, excluded in SECTIONS.items()}


def _fields(section: Any, excluded: dict[str, str]) -> Value:
    if section is None:
        return None
    return {name: plain(getattr(section, name)) for name in section.__dataclass_fields__ if name not in excluded}
