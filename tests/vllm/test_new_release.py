"""`make new-release` says what is left to do for a release: here for one whose entries are taken away."""

import importlib
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.vllm.declared import Declared, declared
from tests.vllm.sources import INSTALLED, package
from warmcurve.vllm import releases
from warmcurve.vllm.reviewed.review import Section
from warmcurve.vllm.reviewed.sections import SECTIONS
from warmcurve.vllm.reviewed.variables import COUNTED

ROOT = Path(__file__).resolve().parent.parent.parent
TAKEN = "0.33.0"
BEFORE = tuple(version for version in sorted(releases.KNOWN) if version < TAKEN)


@cache
def _declared(version: str) -> Declared:
    return declared(package(version))


def _new_fields() -> dict[str, list[str]]:
    """What the release declares and none before it does."""
    rest = [_declared(version).fields for version in BEFORE]
    new = {
        name: names - {field for each in rest for field in each.get(name, ())}
        for name, names in _declared(TAKEN).fields.items()
        if name in SECTIONS
    }
    return {name: sorted(names) for name, names in new.items() if names}


def _new_variables() -> set[str]:
    variables = _declared(TAKEN).variables - {name for version in BEFORE for name in _declared(version).variables}
    return {name for name in variables if name in COUNTED}


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The tool as it was before the release: neither its digests are known nor what it was the first to declare."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    new_release: Any = importlib.import_module("new_release")
    new = _new_fields()
    sections = {name: _without(section, set(new.get(name, ()))) for name, section in SECTIONS.items()}
    monkeypatch.setattr(new_release, "SECTIONS", sections)
    monkeypatch.setattr(new_release, "COUNTED", COUNTED - _new_variables())
    monkeypatch.setattr(releases, "KNOWN", {version: releases.KNOWN[version] for version in BEFORE})
    monkeypatch.setattr(new_release, "KNOWN", releases.KNOWN)
    return new_release


def _without(section: Section, names: set[str]) -> Section:
    counts = tuple(name for name in section.counts if name not in names)
    left = tuple(
        msgspec.structs.replace(each, names=tuple(name for name in each.names if name not in names))
        for each in section.excluded
    )
    return msgspec.structs.replace(section, counts=counts, excluded=left)


def test_it_reproduces_the_entries_of_a_release(tool: Any) -> None:
    """The line of `KNOWN` is the one that was taken away; what no review names is what it was first to have."""
    root, before = package(TAKEN).parent, package(INSTALLED).parent
    printed = "\n".join(tool.todo(TAKEN, root, INSTALLED, before))
    assert f"vLLM {TAKEN} calibrates like {', '.join(BEFORE)}\n" in printed
    assert tool.entry(TAKEN, tool.loader(root)) in printed
    assert tool.entry(TAKEN, tool.loader(root)) in (ROOT / "src/warmcurve/vllm/releases.py").read_text()
    assert {name: list(new) for name, new in tool.fields(package(TAKEN)).items()} == _new_fields() != {}
    assert tool.variables(package(TAKEN)).keys() == _new_variables() != set()


def test_what_is_new_comes_with_vllms_own_description(tool: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A field has its docstring, a variable the comment above it, a function that differs its diff."""
    without = _without(tool.SECTIONS["CacheConfig"], {"enable_extensible_kv_cache"})
    monkeypatch.setitem(tool.SECTIONS, "CacheConfig", without)
    monkeypatch.setattr(tool, "COUNTED", tool.COUNTED - {"VLLM_MORI_EP_V2"})
    found = tool.fields(package("0.34.0"))
    assert found["CacheConfig"]["enable_extensible_kv_cache"].startswith("Reserve the KV cache address range")
    assert tool.variables(package("0.34.0"))["VLLM_MORI_EP_V2"].startswith("MoRI EPv2 for --all2all-backend mori.")
    loads = [tool.loader(package(version).parent) for version in ("0.34.0", INSTALLED)]
    diff = "\n".join(tool.differences("0.34.0", loads[0], INSTALLED, loads[1]))
    assert "+            self._dummy_run(**batch, skip_eplb=True)" in diff
    assert "AdaptiveVerificationManager.batches_to_profile" not in diff


def test_the_newest_release_is_read_off_the_index(tool: Any) -> None:
    """From the first line of pip's answer; anything else is an error."""
    assert tool.newest("vllm (0.34.0)\nAvailable versions: 0.34.0, 0.33.0\n") == "0.34.0"
    with pytest.raises(ValueError, match="no version"):
        tool.newest("ERROR: No matching distribution\n")
