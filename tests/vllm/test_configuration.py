"""The review of the configuration and of the environment against vLLM itself, in every supported release."""

import os
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from typing import Any

import pytest

from tests.vllm.declared import Asked, Declared, asked, declared
from tests.vllm.sources import package
from warmcurve.storage.fingerprint import diff
from warmcurve.vllm.factors import configuration, environment, packages
from warmcurve.vllm.releases import KNOWN
from warmcurve.vllm.reviewed.sections import SECTIONS
from warmcurve.vllm.reviewed.variables import BY_CONTENT, COUNTED, EXCLUDED, OURS, UNRELATED

# Sections that VllmConfig's or another section's review excludes as a whole, and dataclasses that are no section.
NOT_WALKED = {
    "AudioDummyOptions",
    "BaseDummyOptions",
    "EncoderCacheManagerConfig",
    "FaultToleranceConfig",
    "ImageDummyOptions",
    "KVEventsConfig",
    "LoggingConfig",
    "ModelArchitectureConfig",
    "PoolerConfig",
    "Range",
    "SpeechToTextConfig",
    "SpeechToTextParams",
    "StructuredOutputsConfig",
    "VideoDummyOptions",
    "WatchdogConfig",
    "WeightTransferConfig",
}
LEFT_OUT = {name for exclusion in EXCLUDED for name in exclusion.names}
# Set by vLLM or read by warmcurve alone: vLLM's own list does not have them.
UNDECLARED = {"VLLM_DIST_IDENT", "VLLM_ENABLE_ADAPTIVE_VERIFICATION_PROFILE_CACHE", "VLLM_INSTANCE_ID"}


@cache
def _declared(version: str) -> Declared:
    return declared(package(version))


@cache
def _asked(version: str) -> Asked:
    return asked(package(version))


@pytest.fixture(params=sorted(KNOWN))
def release(request: pytest.FixtureRequest) -> Declared:
    return _declared(request.param)


def test_every_field_of_every_release_is_reviewed(release: Declared) -> None:
    """No class of the configuration is without a review, and no field of one is in neither of its lists."""
    assert release.fields.keys() - SECTIONS.keys() <= NOT_WALKED
    unknown = {
        f"{name}.{field}"
        for name, names in release.fields.items()
        if name in SECTIONS
        for field in names
        if field not in SECTIONS[name].reviewed
    }
    assert unknown == set()


def test_every_variable_of_every_release_is_reviewed(release: Declared) -> None:
    """Each variable that vLLM itself declares either counts or is excluded, by name."""
    ours = {name for name in release.variables if name.startswith(OURS)}
    assert ours - COUNTED - LEFT_OUT - set(BY_CONTENT) == set()


@pytest.mark.parametrize("version", sorted(KNOWN))
def test_every_variable_that_a_release_reads_is_reviewed(version: str) -> None:
    """Each variable that any file of vLLM asks for by its name counts, or has a form, or is excluded by name."""
    read = _asked(version).variables
    assert len(read) > 300
    unrelated = {name for exclusion in UNRELATED for name in exclusion.names}
    reviewed = LEFT_OUT | unrelated
    assert {
        name
        for name in read
        if name not in reviewed and not environment.counts(name) and not environment.has_form(name)
    } == set()


@pytest.mark.parametrize("version", sorted(KNOWN))
def test_every_package_that_a_release_asks_for_is_reviewed(version: str) -> None:
    """Each module and distribution that vLLM looks for counts by its distribution's version, or is excluded by name."""
    modules = {name.partition(".")[0] for name in _asked(version).packages}
    assert len(modules) > 20
    excluded = {name for exclusion in packages.EXCLUDED for name in exclusion.names}
    for module in modules - excluded:
        assert set(packages.MODULES.get(module, (module.replace("_", "-"),))) <= set(packages.COUNTED)


def test_no_review_is_of_what_no_release_has() -> None:
    """Every reviewed field and variable is one of some supported release."""
    releases = [_declared(version) for version in sorted(KNOWN)]
    for name, review in SECTIONS.items():
        assert review.reviewed - {field for each in releases for field in each.fields.get(name, ())} == set()
    ours = {name for name in COUNTED.union(LEFT_OUT, BY_CONTENT) if name.startswith(OURS)}
    assert ours - {name for each in releases for name in each.variables} == UNDECLARED
    modules = {name.partition(".")[0] for version in KNOWN for name in _asked(version).packages}
    assert {name for exclusion in packages.EXCLUDED for name in exclusion.names} <= modules
    assert packages.MODULES.keys() <= modules
    unrelated = {name for exclusion in UNRELATED for name in exclusion.names}
    assert unrelated - {name for version in KNOWN for name in _asked(version).variables} == set()


def _walked(config: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[Any, tuple[str, ...]]]:
    """Every section of a live configuration with its place, by a walk of the test's own."""
    yield config, path
    for field in fields(config):
        value = getattr(config, field.name)
        if type(value).__name__ in SECTIONS and field.name not in SECTIONS[type(config).__name__].left_out:
            yield from _walked(value, (*path, field.name))


def test_a_live_configuration_holds_nothing_unreviewed(runner: Any) -> None:
    """The walk finds no field unclassified, nor do the variables that vLLM has set."""
    assert configuration.unreviewed(runner.vllm_config) == ()
    assert environment.unreviewed(os.environ) == ()


def test_each_field_that_counts_is_a_factor_of_its_own(runner: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Field by field of the live configuration: another value is a difference, and the only one, by its own name."""
    before = configuration.factors(runner.vllm_config)
    tried = 0
    for section, path in list(_walked(runner.vllm_config)):
        for field in fields(section):
            if field.name in SECTIONS[type(section).__name__].left_out:
                continue
            with monkeypatch.context() as patch:
                patch.setattr(section, field.name, f"not {getattr(section, field.name)!r:.20}")
                found = diff(before, configuration.factors(runner.vllm_config))
            name = ".".join((*path, field.name))
            assert found
            assert {
                each.factor for each in found if each.factor != name and not each.factor.startswith(f"{name}.")
            } == set()
            tried += 1
    assert tried > 300
    assert configuration.factors(runner.vllm_config) == before


def test_no_field_that_is_excluded_is_a_factor(runner: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Field by field: what the review leaves out can be anything, even what has no form."""
    before = configuration.factors(runner.vllm_config)
    tried = 0
    for section, _ in list(_walked(runner.vllm_config)):
        for field in fields(section):
            if field.name in SECTIONS[type(section).__name__].left_out:
                with monkeypatch.context() as patch:
                    patch.setattr(section, field.name, lambda: "another")
                    assert configuration.factors(runner.vllm_config) == before
                tried += 1
    assert tried > 100
