"""Adapters on the matrices of an architecture, and configs that cannot be read."""

from __future__ import annotations

from typing import Any

import pytest
from each_case import each_case

from planner.errors import Problem, UserError
from planner.paths import presets_folder
from planner.workload.architecture import Architecture
from planner.workload.huggingface.config import read_architecture
from planner.workload.huggingface.keys import FAMILIES
from planner.workload.matrices import adapter_parameters
from planner.workload.models import ModelShelf
from planner.workload.tasks import LORA_TARGETS, Lora

MODELS = ModelShelf(presets_folder() / "models")


def architecture(name: str) -> Architecture:
    return read_architecture(MODELS.config(name))


def problems(config: dict[str, Any]) -> dict[str, Problem]:
    with pytest.raises(UserError) as caught:
        read_architecture(config, "config.json")
    assert all(problem.where == "config.json" for problem in caught.value.problems)
    return {problem.key: problem for problem in caught.value.problems}


@pytest.mark.parametrize(
    ("name", "rank", "targets", "adapters"),
    [
        ("llama-2-7b", 8, ("q", "v"), 4_194_304),  # 32 layers · 2 projections · 8 · (4096 + 4096)
        ("llama-2-7b", 8, LORA_TARGETS, 19_988_480),  # 32 · 8 · (4·8192 + 3·(4096 + 11008))
        ("llama-2-7b", 16, LORA_TARGETS, 39_976_960),
        ("llama-3.1-8b", 16, LORA_TARGETS, 41_943_040),
        ("qwen3-8b", 16, LORA_TARGETS, 43_646_976),
        ("llama-3.1-70b", 16, LORA_TARGETS, 207_093_760),
        ("mixtral-8x7b", 16, ("q", "k", "v", "o"), 13_631_488),
        ("gpt2", 8, ("gate",), 0),  # its MLP has no gate
        # 48 layers · 8 · ((1024 + 4384) + (2048 + 1024)): in_proj makes 2·2048 channels, 2·128 of selections and 32 steps
        ("mamba2-370m", 8, Lora().adapted, 3_256_320),
    ],
)
def test_adapters(name: str, rank: int, targets: tuple[str, ...], adapters: int) -> None:
    assert adapter_parameters(architecture(name), rank, targets) == adapters


def test_adapters_sit_on_every_expert() -> None:
    a = architecture("mixtral-8x7b")
    assert adapter_parameters(a, 4, ("down",)) == 32 * 8 * 4 * (4096 + 14336)
    deepseek = architecture("deepseek-v3")
    experts, shared, dense = 58 * 256 * (7168 + 2048), 58 * (7168 + 2048), 3 * (7168 + 18432)
    assert adapter_parameters(deepseek, 1, ("up",)) == experts + shared + dense


@pytest.mark.parametrize(
    ("name", "targets", "per_layer"),
    [
        ("phi-4", ("q", "k", "v"), 5120 + (5120 + 2 * 1280)),  # qkv_proj
        ("phi-4", ("q",), 5120 + (5120 + 2 * 1280)),  # there is no other matrix to put it on
        ("phi-4", ("gate", "up"), 5120 + 2 * 17920),  # gate_up_proj
        ("gpt2", ("q", "v"), 768 + 3 * 768),  # c_attn
        ("gpt2", ("up", "down"), 2 * (768 + 3072)),
        ("pythia-6.9b", ("q", "k", "v", "o"), (4096 + 3 * 4096) + 2 * 4096),
        ("falcon-7b", ("q", "v"), 4544 + (71 + 2) * 64),
        ("deepseek-v3", ("q",), (7168 + 1536) + (1536 + 128 * 192)),  # q_a_proj, q_b_proj
        ("deepseek-v3", ("k", "v"), (7168 + 576) + (512 + 128 * 256)),  # kv_a_proj_with_mqa, kv_b_proj
        ("deepseek-v2-lite", ("q", "o"), (2048 + 16 * 192) + (16 * 128 + 2048)),
        ("gpt-oss-20b", ("o",), 64 * 64 + 2880),
    ],
)
def test_a_fused_matrix_has_one_adapter_and_a_factored_one_two(name: str, targets: tuple[str, ...], per_layer: int) -> None:
    a = architecture(name)
    assert adapter_parameters(a, 16, targets) == 16 * a.layers * per_layer


def test_adapters_grow_with_their_rank_and_add_up() -> None:
    a = architecture("qwen3-8b")
    assert Lora().adapted == (*LORA_TARGETS, "in", "out")
    assert Lora(targets=["q", "v"]).adapted == ("q", "v")
    alone = sum(adapter_parameters(a, 8, (target,)) for target in LORA_TARGETS)
    assert adapter_parameters(a, 8, LORA_TARGETS) == alone
    assert adapter_parameters(a, 16, LORA_TARGETS) == 2 * alone


def test_every_model_has_something_to_adapt_and_far_less_than_it_is() -> None:
    for name in MODELS.names():
        a = architecture(name)
        assert 0 < adapter_parameters(a, 1, Lora().adapted) < a.total / 30, name


def test_an_unknown_family_names_the_nearest() -> None:
    found = problems({"model_type": "qwen4"})["model.model_type"]
    assert "'qwen4' is not supported" in found.message
    assert "qwen3" in found.nearest
    assert "missing" in problems({})["model.model_type"].message
    assert "model.model_type" in problems({"model_type": ["llama"]})


SIZES = {
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
}
EXPERTS = {"num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768, "head_dim": 128}


@pytest.mark.parametrize(
    ("name", "more", "alike"),
    [
        ("foo", {}, "llama"),
        ("qwen4_moe", EXPERTS, "qwen3_moe"),
        ("foo", EXPERTS, "qwen3_moe"),
        ("foo", {"linear_num_value_heads": 32}, None),
        ("foo", {"hidden_size": "wide"}, None),
    ],
)
def test_an_unknown_family_whose_sizes_a_known_one_reads_says_which(name: str, more: dict[str, object], alike: str | None) -> None:
    """A size with another name has a meaning of its own, even where its number is that of a known key."""
    found = problems({"model_type": name, **SIZES, **more})["model.model_type"].message
    assert (f"write model_type = {alike!r}" in found) if alike else ("write model_type" not in found)


def test_every_missing_key_is_named() -> None:
    assert set(problems({"model_type": "llama"})) == {
        "model.hidden_size",
        "model.num_attention_heads",
        "model.num_hidden_layers",
        "model.intermediate_size",
        "model.vocab_size",
    }
    assert set(problems({"model_type": "gpt2"})) == {"model.n_embd", "model.n_head", "model.n_layer"}


def test_a_misspelt_key_is_offered() -> None:
    config = {key: value for key, value in MODELS.config("qwen3-8b").items() if key != "hidden_size"}
    assert problems(config | {"hiden_size": 4096})["model.hidden_size"].nearest[0] == "hiden_size"


@pytest.mark.sweep
@each_case("family", FAMILIES)
def test_no_family_crashes_on_an_empty_config(family: str) -> None:
    assert problems({"model_type": family})


@pytest.mark.parametrize(
    ("name", "change", "key", "words"),
    [
        ("llama-3.1-8b", {"num_key_value_heads": 5}, "num_key_value_heads", "5 does not divide num_attention_heads = 32"),
        ("llama-2-7b", {"num_attention_heads": 31, "num_key_value_heads": 31}, "num_attention_heads", "31 does not divide"),
        ("gpt2", {"n_head": 7}, "num_attention_heads", "7 does not divide the width of 768"),
        ("mixtral-8x7b", {"num_experts_per_tok": 9}, "num_experts_per_tok", "9 is more than the 8 experts"),
        ("deepseek-v3", {"first_k_dense_replace": 62}, "first_k_dense_replace", "62 is more than the 61 layers"),
        ("gpt-oss-20b", {"layer_types": ["full_attention"]}, "layer_types", "names 1 layers"),
        ("gpt-oss-20b", {"layer_types": "full_attention"}, "layer_types", "has to be a list"),
        ("qwen3-8b", {"hidden_size": "4096"}, "hidden_size", "'4096' is not accepted"),
        ("qwen3-8b", {"hidden_size": -1}, "hidden_size", "-1 is not accepted; it has to be a whole number from 1 to 1,000,000,000"),
        ("qwen3-8b", {"vocab_size": True}, "vocab_size", "True is not accepted"),
        ("qwen3-8b", {"num_hidden_layers": 36.0}, "num_hidden_layers", "36.0 is not accepted"),
        ("mistral-7b-v0.1", {"sliding_window": -4}, "sliding_window", "a whole number from 0 to 1,000,000,000"),
        ("qwen3-8b", {"tie_word_embeddings": "yes"}, "tie_word_embeddings", "it has to be true or false"),
        ("opt-6.7b", {"dropout": 1.0}, "dropout", "a number from 0 to below 1"),
        ("opt-6.7b", {"dropout": True}, "dropout", "a number from 0 to below 1"),
    ],
)
def test_unusable_and_contradictory_values_are_named(name: str, change: dict[str, Any], key: str, words: str) -> None:
    found = problems(MODELS.config(name) | change)
    assert set(found) == {f"model.{key}"}
    assert words in found[f"model.{key}"].message
