"""Parameter counts to the unit, adapters by hand, and configs that cannot be used."""

from __future__ import annotations

import json
from typing import Any

import pytest
from each_case import each_case
from parameter_cases import components
from repository import ROOT
from two_stack_cases import GOLDEN as TWO_STACKS

from planner.errors import Problem, UserError
from planner.paths import presets_folder
from planner.workload.architecture import Architecture
from planner.workload.huggingface.config import read_architecture
from planner.workload.huggingface.keys import FAMILIES
from planner.workload.models import ModelShelf

MODELS = ModelShelf(presets_folder() / "models")
DEFAULTS = json.loads((ROOT / "tests" / "data" / "default_configs.json").read_text())
COUNTED = json.loads((ROOT / "tests" / "data" / "architectures.json").read_text())["models"]

CATALOGUE = json.loads((ROOT / "tests" / "data" / "catalogue_parameters.json").read_text())
"""Every model, counted on the meta device with transformers 5.23; with the corrections of routers, of which deepseek-v3 has 14,848.

Qwen 1, whose code is with its checkpoint, by hand. BERT as `BertForMaskedLM`. Models with a tower for pictures as `AutoModelForImageTextToText`; Gemma 3 without it.
"""

LLAMA_8B = 8_030_261_248

ACTIVE = {
    "gpt2": 124_439_808,
    "mixtral-8x7b": 12_879_925_248,
    "mixtral-8x22b": 39_152_031_744,
    "qwen3-30b-a3b": 3_353_032_704,
    "qwen3-235b-a22b": 22_190_763_520,
}


def architecture(name: str) -> Architecture:
    return read_architecture(MODELS.config(name))


def problems(config: dict[str, Any]) -> dict[str, Problem]:
    with pytest.raises(UserError) as caught:
        read_architecture(config, "config.json")
    assert all(problem.where == "config.json" for problem in caught.value.problems)
    return {problem.key: problem for problem in caught.value.problems}


def test_every_model_of_the_catalogue_has_its_published_count() -> None:
    assert {name: architecture(name).total for name in MODELS.names()} == CATALOGUE


@pytest.mark.parametrize(
    ("name", "mixers", "mlps"),
    [
        ("llama-3.1-8b", 1.0, 1.0),
        ("deepseek-v3", 1.0, 1.0),
        ("qwen3-next-80b-a3b", 1.0, 1.0),
        ("nemotron-3-nano-30b-a3b", 29 / 52, 23 / 52),  # 23 Mamba-2 and 6 attention layers, 23 of experts
    ],
)
def test_a_layer_has_attention_and_an_mlp_or_is_one_of_them(name: str, mixers: float, mlps: float) -> None:
    model = architecture(name)
    assert model.mixer_share == pytest.approx(mixers)
    assert model.dense_share + model.moe_layers / model.layers == pytest.approx(mlps)


@pytest.mark.parametrize(
    ("name", "context"),
    [
        ("mistralai/Mistral-Small-24B-Instruct-2501", 32_768),  # its card: "A 32k context window"
        ("mistralai/Mistral-Small-3.2-24B-Instruct-2506", 131_072),
        ("Qwen/Qwen2.5-Coder-7B-Instruct", 32_768),
        ("Qwen/Qwen2.5-Math-7B-Instruct", 4_096),
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", 131_072),
        ("moonshotai/Kimi-K2-Instruct-0905", 262_144),
        ("ibm-granite/granite-3.0-8b-instruct", 4_096),
        ("gradientai/Llama-3-8B-Instruct-262k", 262_144),
        ("codellama/CodeLlama-70b-hf", 16_384),
    ],
)
def test_a_version_with_its_own_context_does_not_get_that_of_another(name: str, context: int) -> None:
    assert architecture(name).max_context == context


@pytest.mark.parametrize(
    ("name", "total", "active"),
    [
        ("qwen3.5-9b", 9_409_813_744, None),  # keras-hub 0.32, qwen3_5_presets.py; the tower included
        ("qwen3.5-4b", 4_539_265_536, None),
        ("qwen3.5-2b", 2_213_241_664, None),
        ("qwen3.5-0.8b", 852_985_920, None),
        ("gemma-4-e4b", 7.5e9, None),  # fairseq2's table of Gemma 4
        ("mistral-large-3-675b", 675e9, None),  # its name, which counts the encoder, too
        ("step-3.5-flash", 196e9, 11e9),  # arXiv:2602.10604
        ("ling-1t", 1000e9, 51e9),  # arXiv:2510.22115
        ("ling-flash-2.0", 103e9, 6.1e9),
        ("granite-4.0-h-tiny", 7e9, None),  # ollama.com, sam860/granite-4.0
        ("granite-4.0-h-micro", 3.2e9, None),
        ("granite-4.0-micro", 3.4e9, None),
        ("command-r-plus", 104e9, None),  # its name on the hub
        ("a.x-k1", 519e9, 33e9),  # its card
    ],
)
def test_a_model_has_the_parameters_its_makers_state(name: str, total: float, active: float | None) -> None:
    a = architecture(name)
    assert a.total == pytest.approx(total, rel=0 if isinstance(total, int) else 0.01)
    assert active is None or a.active == pytest.approx(active, rel=0.1)


def test_every_config_of_the_catalogue_names_its_number_of_layers() -> None:
    """Whoever reads `models list --json` finds it under one of two names."""
    configs = [MODELS.config(name) for name in MODELS.names()]
    texts = [config.get("text_config", config) for config in configs]
    assert [text.get("model_type") for text in texts if not {"num_hidden_layers", "n_layer", "n_layers"} & set(text)] == []


@each_case("row", COUNTED)
def test_every_family_counts_as_transformers_builds_it(row: dict[str, Any]) -> None:
    assert read_architecture(row["config"]).total == row["parameters"]


def test_no_family_goes_unchecked() -> None:
    counted = [row["config"] for row in COUNTED] + [MODELS.config(name) for name in MODELS.names()] + list(DEFAULTS.values())
    counted += [found["config"] for found in TWO_STACKS.values.values()]
    assert {read_architecture(config).family for config in counted} == set(FAMILIES) - {"blt"}, "bytes: test_families_by_value"


@pytest.mark.parametrize("name", ACTIVE)
def test_a_token_uses_the_experts_it_is_routed_to(name: str) -> None:
    assert architecture(name).active == ACTIVE[name]


def test_qwen_1_by_hand() -> None:
    """Its tensors as modeling_qwen.py of Qwen/Qwen-7B names them; its eight files hold 15.41 GB of 16-bit weights."""
    h, f, v = 4096, 22016 // 2, 151936
    attention = (h * 3 * h + 3 * h) + h * h  # attn.c_attn with its bias, attn.c_proj
    layer = attention + 2 * h * f + f * h + 2 * h  # mlp.w1, mlp.w2, mlp.c_proj, ln_1, ln_2
    a = architecture("qwen-7b")
    assert a.total == v * h + 32 * layer + h + v * h == 7_721_324_544
    assert 2 * a.total == pytest.approx((1.96 + 6 * 2.02 + 1.33) * 1e9, rel=3e-3)  # each rounded to 10 MB
    biased = read_architecture(MODELS.config("qwen-7b") | {"no_bias": False})
    assert biased.total == a.total + 32 * (h + 2 * f + h)
    assert set(problems(MODELS.config("qwen-7b") | {"intermediate_size": 11007})) == {"model.intermediate_size"}
    assert set(problems(MODELS.config("qwen-7b") | {"kv_channels": 64})) == {"model.kv_channels"}


def test_the_layers_that_predict_further_tokens_stand_apart() -> None:
    """README_WEIGHTS.md of DeepSeek-V3: 671B, and 11.5B without the copies of embedding and head; 685B on the hub."""
    a = architecture("deepseek-v3")
    assert (a.mtp_layers, a.left_out) == (1, ("num_nextn_predict_layers",))
    own = 2 * 7168 * 7168 + 3 * 7168
    layer = a.attention_matrix + a.attention_vector + a.norm_vector + 256 * a.expert_matrix + a.shared_matrix + 257 * 256 * 28
    assert a.mtp_parameters == own + layer - 256 * 28 + 256 + 2 * 129280 * 7168
    assert a.mtp_parameters - 2 * a.token_matrix == pytest.approx(11.5e9, rel=0.01)
    assert round((a.total + a.mtp_parameters) / 1e9, 1) == 684.5
    assert architecture("llama-3.1-8b").mtp_parameters == 0


def test_the_text_part_of_a_wrapper_is_read() -> None:
    """gemma-3-4b as published names little of its text; 4,300,079,472 on the hub are its text, vision tower and projector."""
    row = next(row for row in COUNTED if row["name"] == "gemma-3-4b")
    a = read_architecture(row["config"])
    assert (a.family, a.left_out, a.window, a.windowed_layers) == ("gemma3_text", (), 1024, 29)
    tower, projector = 416_866_032, 1152 * 2560 + 1152
    assert (a.total, a.towers) == (4_300_079_472, tower + projector)
    assert a.total - a.towers == architecture("gemma-3-4b").total
    llama = MODELS.config("llama-3.1-8b")
    wrapped = {"model_type": "llava", "text_config": llama, "vision_config": {}}
    assert read_architecture(wrapped).total == LLAMA_8B
    assert read_architecture({"text_config": llama}).left_out == ()
    bare = {key: value for key, value in llama.items() if key != "tie_word_embeddings"}
    tied = read_architecture({"model_type": "llava", "text_config": bare, "tie_word_embeddings": True})
    assert tied.total == LLAMA_8B - tied.token_matrix
    assert set(problems({"model_type": "llava", "text_config": llama | {"vocab_size": 0}})) == {"model.text_config.vocab_size"}
    assert set(problems({"model_type": "llava", "text_config": {}})) == {"model.text_config.model_type"}
    assert "qwen3" in problems({"text_config": {"model_type": "qwen9"}})["model.text_config.model_type"].nearest


@pytest.mark.parametrize(
    ("config", "parameters"),
    [
        ({"model_type": "baichuan", "vocab_size": 125696, "intermediate_size": 11008}, 7_505_973_248),
        ({"model_type": "internlm2", "vocab_size": 92544, "intermediate_size": 14336, "num_key_value_heads": 8}, 7_737_708_544),
    ],
)
def test_a_model_type_that_is_built_as_another_family(config: dict[str, Any], parameters: int) -> None:
    """Baichuan2-7B and InternLM2-7B, whose code is with their checkpoints; the counts are those of their tensors."""
    sizes = {"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "tie_word_embeddings": False}
    assert read_architecture(sizes | config).total == parameters


def test_an_encoder_keeps_no_cache() -> None:
    a = architecture("bert-base")
    assert (a.encoder, a.cached_per_token, a.token_types, a.learned_positions) == (True, 0, 2, 512)
    assert components(a)["head"] == 768 * 768  # the transform before the tied head
    assert set(problems(MODELS.config("bert-base") | {"is_decoder": True})) == {"model.is_decoder"}
    read = {path.stem for path in (presets_folder() / "models" / "encoders").glob("*.toml") if not path.stem.startswith("bart")}
    assert {name for name in CATALOGUE if architecture(name).encoder} == read | {"bert-base", "bert-large"}


@pytest.mark.parametrize(
    ("name", "alibi", "rotary", "learned"),
    [
        ("bloom-7b1", True, False, 0),
        ("mpt-7b", True, False, 0),
        ("falcon-7b", False, True, 0),
        ("gpt-j-6b", False, True, 0),
        ("llama-3.1-8b", False, True, 0),
        ("opt-6.7b", False, False, 2050),
        ("gpt2", False, False, 1024),
    ],
)
def test_how_positions_are_told(name: str, alibi: bool, rotary: bool, learned: int) -> None:
    a = architecture(name)
    assert (a.alibi, a.rotary, a.learned_positions) == (alibi, rotary, learned)


def test_falcon_in_its_three_forms() -> None:
    rw = read_architecture(next(row["config"] for row in COUNTED if row["name"] == "falcon-rw-1b"))
    seven, forty = architecture("falcon-7b"), architecture("falcon-40b")
    assert (rw.alibi, rw.kv_heads, rw.norms, rw.attention_vector > 0) == (True, 32, 2, True)
    assert (seven.alibi, seven.kv_heads, seven.norms, seven.attention_vector) == (False, 1, 1, 0)
    assert (forty.alibi, forty.kv_heads, forty.norms, forty.attention_vector) == (False, 8, 2, 0)


def test_a_narrow_embedding_is_projected_at_both_ends() -> None:
    a = read_architecture(next(row["config"] for row in COUNTED if row["name"] == "opt-350m"))
    assert a.token_matrix == 50272 * 512
    assert a.embedding == 50272 * 512 + 2050 * 1024 + 512 * 1024
    assert a.head == components(a)["head"] == 1024 * 512
    assert a.active_matrix == 24 * 12 * 1024**2 + 2 * 512 * 1024 + 50272 * 512


@pytest.mark.sweep
@each_case("name", CATALOGUE)
def test_the_parts_are_the_whole(name: str) -> None:
    a = architecture(name)
    assert a.total == a.embedding + a.head + a.layers_shared + a.experts_total + a.final_vector
    assert a.active <= a.total
    assert a.active_matrix <= a.active + a.vocabulary * a.width
    assert (a.active == a.total - a.towers) == (a.experts == 0)
    assert 0 <= a.dense_layers <= a.layers
    assert a.windowed_layers <= a.layers
    assert (a.window is not None) == any(one.attends_to == "window" for one in a.attention)


def test_matrices_of_llama_by_hand() -> None:
    a = architecture("llama-3.1-8b")
    assert a.attention_matrix == 2 * 4096 * 4096 + 2 * 4096 * 1024
    assert a.dense_mlp_matrix == 3 * 4096 * 14336
    assert a.embedding == a.head == 128256 * 4096
    assert a.active_matrix == a.total - a.embedding - 65 * 4096  # all but the input embedding and 65 norms
    assert a.cached_per_token == 2 * 8 * 128


def test_a_tied_head_counts_once_but_is_multiplied_with() -> None:
    a = architecture("gpt2")
    assert a.head == 0
    assert a.embedding == (50257 + 1024) * 768
    assert a.active_matrix == 12 * 12 * 768 * 768 + 50257 * 768


def test_latent_attention_caches_one_vector_and_one_rotary_key() -> None:
    a = architecture("deepseek-v3")
    assert a.cached_per_token == 512 + 64
    assert a.moe_layers == 58
    assert a.query == 128 * (128 + 64)


@pytest.mark.parametrize(
    ("name", "window", "layers"),
    [
        ("mistral-7b-v0.1", 4096, 32),
        ("mistral-7b-v0.3", None, 0),
        ("gemma-2-9b", 4096, 21),
        ("gpt-oss-20b", 128, 12),
        ("qwen2.5-7b", None, 0),
        ("llama-3.1-8b", None, 0),
    ],
)
def test_windows_are_where_the_model_has_them(name: str, window: int | None, layers: int) -> None:
    a = architecture(name)
    assert (a.window, a.windowed_layers) == (window, layers)


def test_switched_off_windows_do_not_count() -> None:
    config = MODELS.config("qwen3-8b") | {"sliding_window": 1024, "max_window_layers": 30}
    assert read_architecture(config | {"use_sliding_window": False}).windowed_layers == 0
    assert read_architecture(config | {"use_sliding_window": True}).windowed_layers == 6


def test_one_gemma3_layer_in_six_sees_everything() -> None:
    config = next(row["config"] for row in COUNTED if row["name"] == "gemma-3-1b")
    a = read_architecture(config)
    assert (a.window, a.windowed_layers) == (512, 22)
