"""Which of vLLM's plugins this process has loaded: they may replace kernels, models, the platform itself."""

from collections.abc import Iterable
from importlib import metadata
from typing import Final

_GROUPS: Final = ("vllm.general_plugins", "vllm.platform_plugins")
_OWN: Final = "warmcurve"


def factors(names: str | None, points: Iterable[metadata.EntryPoint] | None = None) -> dict[str, str]:
    """By group and name the distribution and its version, of those that VLLM_PLUGINS, where it is set, names.

    Without warmcurve's own, which changes nothing that is timed.
    """
    allowed = None if names is None else names.split(",")
    found = {}
    for point in _installed() if points is None else points:
        if (allowed is None or point.name in allowed) and point.module.partition(".")[0] != _OWN:
            distribution = point.dist
            told = point.value if distribution is None else f"{distribution.name} {distribution.version}"
            found[f"{point.group}:{point.name}"] = told
    return dict(sorted(found.items()))


def _installed() -> Iterable[metadata.EntryPoint]:
    return [point for group in _GROUPS for point in metadata.entry_points(group=group)]
