"""The bundled table of models, and finding one by name."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from importlib import resources

import pytest

from core.errors import InputError
from optimizer.models import Attention, ModelSpec, catalogue, find, nearest, search


def rows() -> Iterator[dict[str, str]]:
    text = resources.files("optimizer").joinpath("models.csv").read_text("utf-8")
    yield from csv.DictReader(text.splitlines())


def test_every_row_of_the_table_is_a_model() -> None:
    assert len(catalogue()) == len(list(rows())) == 91


def test_layers_of_all_kinds_never_exceed_the_layers() -> None:
    for model in catalogue().values():
        kinds = (model.full_attention_layers or 0) + model.sliding_layers + model.linear_layers
        assert kinds <= model.layers, model.id


def test_active_parameters_never_exceed_the_total() -> None:
    for model in catalogue().values():
        assert 0 < model.params_active <= model.params_total, model.id


def test_routed_experts_explain_the_idle_parameters() -> None:
    for model in catalogue().values():
        if model.routed_expert_params:
            idle = model.routed_expert_params * (1 - model.experts_per_token / model.experts)
            assert model.params_total - idle == pytest.approx(model.params_active, rel=1e-3)


def test_16_bit_checkpoints_weigh_two_bytes_per_parameter_plus_their_tower() -> None:
    for row in rows():
        model = catalogue()[row["model_id"]]
        if row["native_dtype"] == "bf16" and row["native_weight_gb"]:
            counted = 2 * model.params_total + model.vision_bytes
            assert counted >= float(row["native_weight_gb"]) * 1e9 * 0.997, model.id


def test_what_the_table_leaves_empty_is_unknown_and_not_zero() -> None:
    assert find("Kimi-Linear-48B-A3B-Instruct").full_attention_layers is None
    assert find("NVIDIA-Nemotron-Nano-9B-v2").linear_state_bytes is None
    assert find("NVIDIA-Nemotron-Nano-9B-v2").vocab is None


def test_facts_that_the_notes_column_holds_are_read() -> None:
    assert find("Qwen2.5-7B-Instruct").yarn_context == 131_072
    assert find("Mistral-7B-Instruct-v0.3").yarn_context is None
    assert find("gemma-3-12b-it").vision_bytes == 840_000_000
    assert find("DeepSeek-V3.2").indexer_head_dim == 128
    assert find("Llama-3.1-8B-Instruct").vision_bytes == 0


@pytest.mark.parametrize(
    "name",
    [
        "meta-llama/Llama-3.1-8B-Instruct",
        "llama-3.1-8b-instruct",
        "Llama 3.1 8B Instruct",
        "META-LLAMA/LLAMA_3.1_8B_INSTRUCT",
    ],
)
def test_a_model_is_found_by_full_or_short_name_in_any_spelling(name: str) -> None:
    model = find(name)
    assert model.id == "meta-llama/Llama-3.1-8B-Instruct"
    assert (model.layers, model.kv_heads, model.head_dim) == (32, 8, 128)


def test_an_unknown_name_is_an_error_with_the_nearest_names() -> None:
    with pytest.raises(InputError, match=r"'qwen2.5-7b' is not known; nearest: Qwen/Qwen2.5-7B-In"):
        find("qwen2.5-7b")
    with pytest.raises(InputError, match=r"no name is near"):
        find("zzzzz")
    with pytest.raises(InputError, match=r"a name is needed"):
        find(" / ")


def test_a_version_number_is_not_confused_with_another() -> None:
    assert find("Qwen3.6-27B").id == "Qwen/Qwen3.6-27B"
    with pytest.raises(InputError):
        find("Qwen36-27B")


def test_nearest_names_are_few_and_best_first() -> None:
    assert nearest("llama-3.1-70b")[0] == "meta-llama/Llama-3.1-70B-Instruct"
    assert len(nearest("llama")) <= 3


def test_search_finds_every_word() -> None:
    found = [model.id for model in search("gemma 27b")]
    assert found == ["google/gemma-2-27b-it", "google/gemma-3-27b-it"]
    assert len(search("")) == 91


def test_kinds_of_attention_follow_the_heads() -> None:
    for model in catalogue().values():
        heads = model.kv_heads
        if model.attention is Attention.MHA:
            assert heads == model.attention_heads, model.id
        elif model.attention is Attention.MQA:
            assert heads == 1, model.id
        elif model.attention is Attention.MLA:
            assert heads is None, model.id
            assert model.is_mla, model.id


def test_gemma_4_has_other_heads_in_its_global_layers() -> None:
    model = find("gemma-4-31B-it")
    assert (model.kv_heads, model.head_dim) == (16, 256)
    assert (model.full_kv_heads, model.full_head_dim) == (4, 512)


def test_a_spec_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        find("phi-4").layers = 1  # type: ignore[misc]


def test_tied_embeddings_are_stored_once() -> None:
    tied, untied = find("Llama-3.2-1B-Instruct"), find("Llama-3.1-8B-Instruct")
    assert isinstance(tied, ModelSpec)
    assert tied.embedding_params_stored == 128_256 * 2048
    assert untied.embedding_params_stored == 2 * 128_256 * 4096
