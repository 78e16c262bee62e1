"""Which of vLLM's plugins are factors."""

from importlib.metadata import Distribution, EntryPoint

import pytest

from warmcurve.vllm import plugins


class Installed(Distribution):
    """A distribution without files."""

    def __init__(self, name: str, version: str) -> None:
        self._told = f"Name: {name}\nVersion: {version}\n"

    def read_text(self, filename: str) -> str | None:
        return self._told if filename == "METADATA" else None

    def locate_file(self, path: object) -> None:  # type: ignore[override]
        raise NotImplementedError


def point(name: str, value: str, version: str = "1.0", group: str = "vllm.general_plugins") -> EntryPoint:
    found = EntryPoint(name, value, group)
    vars(found).update(dist=Installed(f"{name}-dist", version))
    return found


POINTS = [
    point("b", "theirs:register"),
    point("a", "npu:platform", group="vllm.platform_plugins"),
    point("warmcurve", "warmcurve.vllm:register"),
]


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (None, ["vllm.general_plugins:b", "vllm.platform_plugins:a"]),
        ("b", ["vllm.general_plugins:b"]),
        ("warmcurve,a", ["vllm.platform_plugins:a"]),
        ("warmcurve", []),
        ("", []),
    ],
)
def test_what_may_be_loaded_is_told(names: str | None, told: list[str]) -> None:
    """All of them, or those that VLLM_PLUGINS names, in order, but not warmcurve's own."""
    assert list(plugins.factors(names, POINTS)) == told


def test_another_version_of_a_plugin_differs() -> None:
    """A plugin counts by its distribution and the version of that; one of no distribution by what it names."""
    assert plugins.factors(None, POINTS[:1]) == {"vllm.general_plugins:b": "b-dist 1.0"}
    assert plugins.factors(None, [point("b", "theirs:register", "2.0")]) == {"vllm.general_plugins:b": "b-dist 2.0"}
    loose = EntryPoint("c", "loose:register", "vllm.general_plugins")
    assert plugins.factors(None, [loose]) == {"vllm.general_plugins:c": "loose:register"}
