"""The walk over a configuration: every field counts that no review excludes, and what no review knows is told."""

from collections.abc import Callable
from dataclasses import dataclass, field, make_dataclass
from typing import Any

import pytest

from warmcurve.errors import FactorError
from warmcurve.outcome import Reason
from warmcurve.storage.fingerprint import diff
from warmcurve.vllm.factors import configuration
from warmcurve.vllm.reviewed.review import KINDS, Kind
from warmcurve.vllm.reviewed.sections import SECTIONS


def section(name: str, bases: tuple[type, ...] = (), home: str = "vllm.config.some", **values: Any) -> Any:
    """A section of vLLM's configuration, of a class of this name."""
    kind = make_dataclass(name, [(key, Any, field(default=None)) for key in values], bases=bases)
    kind.__module__ = home
    return kind(**values)


def vllm_config(**changes: Any) -> Any:
    cache = section("CacheConfig", block_size=16, num_gpu_blocks=100, _block_size_resolved=True)
    given = {"cache_config": cache, "instance_id": "drawn", "additional_config": {}, "lora_config": None}
    return section("VllmConfig", **given | changes)


def test_every_field_counts_that_is_not_excluded() -> None:
    """Sections become maps, a section that is not there is null, excluded fields are gone."""
    assert configuration.factors(vllm_config()) == {
        "cache_config": {"block_size": 16},
        "additional_config": {},
        "lora_config": None,
    }
    assert configuration.unreviewed(vllm_config()) == ()


def test_a_field_of_tomorrow_counts_and_is_told() -> None:
    """A field in no review is keyed, wherever it stands, and named as its difference would be."""
    cache = section("CacheConfig", block_size=16, new_layout="a")
    new = section("NewConfig", speed=1.5)
    today = vllm_config(cache_config=cache, new_config=new)
    assert configuration.factors(today)["new_config"] == {"speed": "float 1.5"}
    assert configuration.unreviewed(today) == ("configuration.cache_config.new_layout", "configuration.new_config")
    cache = section("CacheConfig", block_size=16, new_layout="b")
    found = diff(
        {"configuration": configuration.factors(today)},
        {"configuration": configuration.factors(vllm_config(cache_config=cache, new_config=new))},
    )
    assert [each.factor for each in found] == ["configuration.cache_config.new_layout"]


def test_a_platforms_own_section_is_reviewed_as_the_one_it_inherits_from() -> None:
    """What a platform adds to a section is unreviewed; what it inherits is reviewed as ever."""
    base = type(section("CacheConfig", block_size=16, num_gpu_blocks=1))
    theirs = section("NpuCacheConfig", (base,), "vllm_npu.config", block_size=32, num_gpu_blocks=9, nz_layout=True)
    config = vllm_config(cache_config=theirs)
    assert configuration.factors(config)["cache_config"] == {"block_size": 32, "nz_layout": True}
    assert configuration.unreviewed(config) == ("configuration.cache_config.nz_layout",)


def _model(length: int, asked: int | None) -> Any:
    model = section("ModelConfig", max_model_len=length)
    # vLLM sets it beside the fields.
    model.original_max_model_len = asked
    return model


def test_a_length_that_was_fitted_to_the_memory_counts_roughly() -> None:
    """What is free varies from boot to boot; one that was asked for, or is the model's, counts as it is."""
    fitted = [configuration.factors(_model(length, -1))["max_model_len"] for length in (40_000, 65_536, 65_537)]
    assert fitted == [{"fitted": 65_536}, {"fitted": 65_536}, {"fitted": 131_072}]
    for asked in (None, 40_000):
        assert configuration.factors(_model(40_000, asked)) == {"max_model_len": 40_000}


@pytest.mark.parametrize(
    ("kind", "field"),
    [("KVTransferConfig", "kv_connector_extra_config"), ("ECTransferConfig", "ec_connector_extra_config")],
)
def test_where_a_connector_finds_others_does_not_count(kind: str, field: str) -> None:
    """Of what users tell a connector, addresses, paths and secrets are left out, however written and at any depth."""
    told: dict[str, Any] = {
        "port": 7, "host": "a", "servicePort": 7, "discovery-url": "a", "local_path": "a", "root": "a", "API_KEY": "a",
        "backends": ["UCX"], "chunkSize": 256, "inner": [{"ip": "a", "threads": 4}],
    }  # fmt: skip
    config = section(kind, **dict[str, Any]({field: told}))
    assert configuration.factors(config) == {field: {"backends": ["UCX"], "chunkSize": 256, "inner": [{"threads": 4}]}}


def test_dataclasses_of_others_are_values() -> None:
    """A dataclass that is no section of vLLM's configuration stands with its class, as any value does."""

    @dataclass
    class Foreign:
        size: int = 1

    assert configuration.factors(vllm_config(additional_config=Foreign()))["additional_config"] == {
        "class": f"{__name__}.{Foreign.__qualname__}",
        "size": 1,
    }


@pytest.mark.parametrize(
    ("broken", "problem"),
    [
        (lambda: section("ModelConfig", hf_overrides=lambda config: config), "has no stable name"),
        (lambda: _without(section("ModelConfig", hf_overrides=None)), "no attribute 'hf_overrides'"),
        (lambda: section("ModelConfig", hf_overrides=_endless()), "recursion"),
    ],
    ids=["a lambda", "a field that is not there", "a value that contains itself"],
)
def test_a_field_without_a_form_is_unknown(broken: Callable[[], Any], problem: str) -> None:
    """It is a FactorError that names the field: such a boot neither loads nor stores."""
    with pytest.raises(FactorError, match=problem) as unknown:
        configuration.factors(vllm_config(model_config=broken()))
    assert unknown.value.factor == "configuration.model_config.hf_overrides"
    assert unknown.value.reason is Reason.FACTOR_UNKNOWN


def _without(config: Any) -> Any:
    del type(config).hf_overrides
    del config.hf_overrides
    return config


def _endless() -> list[Any]:
    items: list[Any] = []
    items.append(items)
    return items


@pytest.mark.parametrize("name", SECTIONS)
def test_a_review_does_not_contradict_itself(name: str) -> None:
    """No field is named twice, and every exclusion has a reason."""
    review = SECTIONS[name]
    names = [*review.counts, *(field for exclusion in review.excluded for field in exclusion.names)]
    assert len(set(names)) == len(names)
    assert review.why
    assert all(exclusion.why and exclusion.names for exclusion in review.excluded)


def test_every_kind_has_a_meaning() -> None:
    """The words of the review are explained, and what a review claims to be told elsewhere has one to tell it."""
    assert list(KINDS) == list(Kind)
    kinds = {exclusion.kind for review in SECTIONS.values() for exclusion in review.excluded}
    assert kinds == set(Kind)


@pytest.mark.parametrize(
    ("section_name", "fields"),
    [
        ("SpeculativeConfig", "num_speculative_tokens draft_sample_method rejection_sample_method kv_cache_dtype"),
        ("ModelConfig", "logprobs_mode use_fp64_gumbel hf_overrides dtype"),
        ("ParallelConfig", "disable_custom_all_reduce all2all_backend enable_eplb"),
    ],
)
def test_blind_spots_of_vllms_own_hash_count(section_name: str, fields: str) -> None:
    """What changes no graph and yet what a step costs."""
    assert set(fields.split()) <= set(SECTIONS[section_name].counts)


def test_what_vllms_own_hash_takes_in_besides_does_not_count() -> None:
    """Paths, revisions of the tokenizer, names."""
    assert SECTIONS["ModelConfig"].left_out >= {"model", "revision", "tokenizer", "tokenizer_revision", "seed"}
