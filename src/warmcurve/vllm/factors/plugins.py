"""Which plugins of vLLM this process has loaded. A plugin may replace kernels, models or the platform itself."""

from importlib import metadata
from pathlib import Path
from typing import Final

from warmcurve.vllm.factors.distributions import installed, version

_GROUPS: Final = ("vllm.general_plugins", "vllm.platform_plugins")
_OWN: Final = "warmcurve"


def factors(names: str | None, places: list[str] | None = None) -> dict[str, str]:
    """The distribution and version of each plugin, by group and name.

    If VLLM_PLUGINS is set, only the plugins that it names count. warmcurve's own does not count: it changes nothing
    that is timed.
    """
    allowed = None if names is None else names.split(",")
    found = {}
    for name, directory in installed(places).items():
        for point in _points(directory):
            if (allowed is None or point.name in allowed) and point.module.partition(".")[0] != _OWN:
                found[f"{point.group}:{point.name}"] = f"{name} {version(directory)}"
    return dict(sorted(found.items()))


def _points(directory: Path) -> list[metadata.EntryPoint]:
    try:
        text = (directory / "entry_points.txt").read_text(encoding="utf-8")
    except OSError:
        return []
    if not any(group in text for group in _GROUPS):
        return []
    return [point for point in metadata.Distribution.at(directory).entry_points if point.group in _GROUPS]
