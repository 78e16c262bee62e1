"""Which of vLLM's plugins are factors, and what is told of installed packages."""

from importlib import metadata
from pathlib import Path

import pytest

from warmcurve.vllm.factors import plugins
from warmcurve.vllm.factors.distributions import installed, version


def install(place: Path, name: str, told: str, points: str = "") -> None:
    directory = place / f"{name}-{told}.dist-info"
    directory.mkdir(parents=True)
    (directory / "METADATA").write_text(f"Name: {name}\nVersion: {told}\n")
    if points:
        (directory / "entry_points.txt").write_text(points)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with plugins of three distributions, and entry points that are none."""
    install(
        tmp_path, "theirs", "1.0", "[vllm.general_plugins]\nb = theirs:register\n[console_scripts]\nb2 = theirs:main\n"
    )
    install(tmp_path, "npu", "2.0", "[vllm.platform_plugins]\na = npu:platform\n")
    install(tmp_path, "warmcurve", "0.1", "[vllm.general_plugins]\nwarmcurve = warmcurve.vllm:register\n")
    install(tmp_path, "other", "1.0", "[console_scripts]\nb = other:main\n")
    return tmp_path


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (None, {"vllm.general_plugins:b": "theirs 1.0", "vllm.platform_plugins:a": "npu 2.0"}),
        ("b", {"vllm.general_plugins:b": "theirs 1.0"}),
        ("warmcurve,a", {"vllm.platform_plugins:a": "npu 2.0"}),
        ("warmcurve", {}),
        ("", {}),
    ],
)
def test_what_may_be_loaded_is_told(names: str | None, told: dict[str, str], place: Path) -> None:
    """All of them, or those that VLLM_PLUGINS names, by distribution and version, but not warmcurve's own."""
    assert plugins.factors(names, [str(place)]) == told


def test_the_first_on_the_path_is_the_one(tmp_path: Path) -> None:
    """Names in any spelling are one distribution's; what is no directory is passed over."""
    install(tmp_path / "one", "Some_Thing", "1.0+cpu")
    install(tmp_path / "two", "some.thing", "2.0")
    (tmp_path / "archive.zip").touch()
    places = [str(tmp_path / name) for name in ("none", "archive.zip", "one", "two")]
    assert version(installed(places)["some-thing"]) == "1.0+cpu"
    assert version(installed(places[3:])["some-thing"]) == "2.0"
    egg = tmp_path / "three" / "other.egg-info"
    egg.mkdir(parents=True)
    (egg / "PKG-INFO").write_text("Name: other\nVersion: 3.0\n")
    assert version(installed([str(egg.parent)])["other"]) == "3.0"


def test_versions_are_those_of_the_metadata() -> None:
    """For what is installed here, the names of directories say what the metadata says."""
    for name in ("msgspec", "click", "pytest", "hypothesis"):
        assert version(installed()[name]) == metadata.version(name)
