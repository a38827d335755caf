"""Configs as they are published differ from the library's defaults: other names, parts of wrappers, quantisation beside or inside, sizes of their own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from planner.engine.performance.operators.matrix_products import flop_per_token
from planner.paths import presets_folder
from planner.workload.huggingface.config import known_family, read_architecture
from planner.workload.models import ModelShelf

SHELF = ModelShelf(presets_folder() / "models")
LLAMA: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 512, "num_hidden_layers": 4, "num_attention_heads": 8, "intermediate_size": 1024, "vocab_size": 1000,
}  # fmt: skip


def without(config: dict[str, Any], *names: str) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key not in names}


@pytest.mark.parametrize(
    ("model_type", "classes", "like"),
    [
        ("deepseek_ref", ["DeepseekV4ForCausalLM"], "deepseek-v4-flash"),  # sgl-project/DeepSeek-V4-Flash-FP8
        (None, ["LlamaForCausalLM"], "llama-3.1-8b"),
        ("minimax_m3", ["MiniMaxM3ForCausalLM"], "minimax-m3"),  # MiniMaxAI/MiniMax-M3
    ],
)
def test_a_family_is_found_by_the_class_of_the_model(model_type: str | None, classes: list[str], like: str) -> None:
    config = SHELF.config(like) | {"model_type": model_type, "architectures": classes}
    assert known_family(config)
    assert read_architecture(config).total == read_architecture(SHELF.config(like)).total


def test_a_text_part_without_a_type_has_that_of_its_wrapper() -> None:
    """nvidia/MiniMax-M3-NVFP4 names the wrapper's type alone."""
    text = without(SHELF.config("minimax-m3"), "model_type", "architectures")
    found = read_architecture({"model_type": "minimax_m3_vl", "text_config": text})
    assert (found.family, found.total) == ("minimax_m3_vl_text", read_architecture(SHELF.config("minimax-m3")).total)


def test_sizes_that_no_family_reads_are_told() -> None:
    assert read_architecture(LLAMA).left_out == ()
    assert read_architecture(LLAMA | {"routed_expert_hidden_size": 256}).left_out == ("routed_expert_hidden_size",)
    assert read_architecture(LLAMA | {"num_ffn_heads": 8}).left_out == (), "another name of a size that is read"


def test_layers_that_predict_further_tokens_are_read_under_any_name() -> None:
    for name in ("num_nextn_predict_layers", "num_mtp_modules", "mtp_num_hidden_layers"):
        assert read_architecture(LLAMA | {name: 2}).mtp_layers == 2


def test_narrowed_experts_by_hand() -> None:
    """Nemotron 3 Super: 40 layers of 512 experts between 1,024 and 2,688 elements, a token has 22, and a projection of 4,096 either way."""
    a = read_architecture(SHELF.config("nemotron-3-super-120b-a12b"))
    assert (a.moe_layers, a.expert_width) == (40, 1024)
    assert a.experts_total == 40 * 512 * 2 * 1024 * 2688
    wide = read_architecture(without(SHELF.config("nemotron-3-super-120b-a12b"), "moe_latent_size"))
    saved = 40 * (22 * 2 * (4096 - 1024) * 2688 - 2 * 4096 * 1024)
    assert flop_per_token(wide, 1) - flop_per_token(a, 1) == pytest.approx(2 * saved)


def test_a_model_of_a_search_by_hand() -> None:
    """Layers without attention, and MLPs of 2/3 · multiple · width elements in steps of 256: 28,672, 14,336 and so on of 8,192."""
    blocks = [
        {"attention": {"n_heads_in_group": 4}, "ffn": {"ffn_mult": 2.0}},
        {"attention": {"no_op": True}, "ffn": {"ffn_mult": 1.0}},
        {"attention": {"replace_with_linear": True}, "ffn": {"no_op": True}},
    ]
    a = read_architecture(
        without(LLAMA, "num_hidden_layers", "intermediate_size") | {"model_type": "nemotron-nas", "block_configs": blocks}
    )
    h, k = 512, 2 * 64
    attention = 2 * h * (h + k) + h + h * h + h
    mlp = 3 * h * 768 + h + 3 * h * 512 + h
    assert a.total == 2 * 1000 * h + h + attention + mlp
    assert a.cached_all == 2 * k


def test_layers_of_different_heads_by_hand() -> None:
    """Step 3.5: windowed layers have more heads; each head of every layer has a gate."""
    config = {
        "model_type": "step3p5", "hidden_size": 512, "intermediate_size": 1024, "num_hidden_layers": 4, "num_attention_heads": 4, "head_dim": 64,
        "num_attention_groups": 2, "vocab_size": 1000, "layer_types": ["full_attention", *["sliding_attention"] * 3, "full_attention"],
        "attention_other_setting": {"num_attention_heads": 6}, "moe_layers_enum": "3", "moe_num_experts": 8, "moe_top_k": 2,
        "moe_intermediate_size": 128, "share_expert_dim": 128, "sliding_window": 512, "num_nextn_predict_layers": 1,
    }  # fmt: skip
    a = read_architecture(config)
    h = 512
    attention = sum(2 * h * 64 * (heads + 2) + h * heads + 2 * 64 for heads in (4, 6, 6, 6))
    experts = h * 8 + 8 + 9 * 3 * h * 128
    assert a.total == 2 * 1000 * h + h + attention + 3 * 3 * h * 1024 + experts + 8 * h
    assert (a.cached_all, a.cached_window) == (1 * 2 * 2 * 64, 3 * 2 * 2 * 64)


def test_numbers_without_end_are_accepted_as_python_writes_them(tmp_path: Path) -> None:
    """time_step_limit of Nemotron 3: [0.0, Infinity], which is no JSON."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA | {"time_step_limit": [0.0, float("inf")]}))
    assert "Infinity" in path.read_text()
    assert SHELF.config(str(path))["time_step_limit"] == [0.0, None]
    assert read_architecture(SHELF.config(str(path))).total == read_architecture(LLAMA).total


def test_quantisation_is_read_from_the_file_beside(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    assert read_architecture(SHELF.config(f"{tmp_path}/")).stored_as == ""
    (tmp_path / "hf_quant_config.json").write_text(
        json.dumps({"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}})
    )
    assert read_architecture(SHELF.config(f"{tmp_path}/")).stored_as == "nvfp4"


@pytest.mark.parametrize(
    ("classes", "total"),
    [
        (["XLMRobertaModel"], 567_754_752),  # BAAI/bge-m3, with its pooler
        (["XLMRobertaForSequenceClassification"], 567_755_777),  # BAAI/bge-reranker-v2-m3
    ],
)
def test_an_encoder_has_what_its_class_puts_behind_the_layers(classes: list[str], total: int) -> None:
    config = {
        "model_type": "xlm-roberta", "architectures": classes, "vocab_size": 250002, "hidden_size": 1024, "num_hidden_layers": 24,
        "num_attention_heads": 16, "intermediate_size": 4096, "max_position_embeddings": 8194, "type_vocab_size": 1, "id2label": {"0": "LABEL_0"},
    }  # fmt: skip
    assert read_architecture(config).total == total


def test_text_parts_under_published_names() -> None:
    """InternVL 3.5 8B names its text `llm_config`; Qwen3-Omni answers by its thinker, and what speaks is told as left out."""
    text = SHELF.config("qwen3-8b")
    vision = {"model_type": "intern_vit_6b", "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24} | {
        "num_attention_heads": 16, "image_size": 448, "patch_size": 14, "qkv_bias": True, "qk_normalization": False,
    }  # fmt: skip
    seeing = read_architecture(
        {"model_type": "internvl_chat", "llm_config": text, "vision_config": vision, "downsample_ratio": 0.5}
    )
    assert (seeing.total, seeing.picture_tokens, seeing.left_out) == (8_528_318_464, 256, ())
    thinker = {
        "model_type": "qwen3_omni_moe_thinker",
        "text_config": SHELF.config("qwen3-30b-a3b"),
        "audio_config": {"d_model": 1280},
    }
    heard = read_architecture(
        {"model_type": "qwen3_omni_moe", "thinker_config": thinker, "talker_config": {}, "code2wav_config": {"n": 1}}
    )
    assert heard.family == "qwen3_moe"
    assert heard.left_out == ("audio_config", "talker_config", "code2wav_config")


@pytest.mark.parametrize(
    ("kind", "tower", "named"),
    [
        ("internvl", {"model_type": "internvl_vision"}, {"downsample_ratio": 1e-320}),
        ("llama4", {"model_type": "llama4_vision_model", "pixel_shuffle_ratio": 0}, {}),
        ("qwen2_vl", {"model_type": "qwen2_vl", "mlp_ratio": 1e308}, {}),
    ],
)
def test_a_tower_of_an_impossible_ratio_is_left_out(kind: str, tower: dict[str, object], named: dict[str, object]) -> None:
    config = {"model_type": kind, "text_config": SHELF.config("qwen3-8b"), "vision_config": tower} | named
    assert read_architecture(config).left_out == ("vision_config",)


def test_towers_of_published_wrappers() -> None:
    """Sizes of Kimi K2.5, Gemma 4 and MiniMax M3 as their files name them: 0.47, 0.57 and 0.87 billion parameters, none left out."""
    moonvit = {
        "vt_hidden_size": 1152, "vt_intermediate_size": 4304, "vt_num_hidden_layers": 27, "vt_num_attention_heads": 16, "patch_size": 14,
        "init_pos_emb_height": 64, "init_pos_emb_width": 64, "merge_kernel_size": [2, 2],
    }  # fmt: skip
    gemma = {"hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27, "num_attention_heads": 16, "head_dim": 72} | {
        "num_key_value_heads": 16, "patch_size": 16, "pooling_kernel_size": 3, "position_embedding_size": 10240, "model_type": "gemma4_vision",
    }  # fmt: skip
    clip = {
        "model_type": "clip_vision_model", "hidden_size": 1280, "intermediate_size": 5120, "num_hidden_layers": 32, "num_attention_heads": 16,
        "patch_size": 14, "image_size": 2016, "img_token_compression_config": {"spatial_merge_size": 2, "temporal_patch_size": 2},
    }  # fmt: skip
    cases = (
        ("kimi_k25", "kimi-k2.5", moonvit, 471_143_920),
        ("gemma4", "gemma-4-26b-a4b", gemma, 572_792_112),
        ("minimax_m3_vl", "minimax-m3", clip, 865_567_232),
    )
    for wrapper, name, vision, parameters in cases:
        text = {
            key: value
            for key, value in (SHELF.config(name).get("text_config") or SHELF.config(name)).items()
            if key != "vision_config"
        }
        a = read_architecture({"model_type": wrapper, "text_config": text, "vision_config": vision, "projector_hidden_size": 6144})
        assert a.towers == parameters
        assert "vision_config" not in a.left_out


@pytest.mark.parametrize(
    ("wrapper", "sizes", "width", "parameters"),
    [
        ("voxtral", {"hidden_size": 1280, "intermediate_size": 5120, "num_hidden_layers": 32}, 3072, 662_134_784),
        ("qwen2_audio", {"d_model": 1280, "encoder_ffn_dim": 5120, "encoder_layers": 32}, 4096, 642_215_936),
        (
            "qwen2_5_omni_audio",
            {"d_model": 1280, "encoder_ffn_dim": 5120, "encoder_layers": 32, "output_dim": 3584},
            3584,
            639_647_232,
        ),
    ],
)
def test_encoders_of_sound_are_stored_beside_the_text(wrapper: str, sizes: dict[str, int], width: int, parameters: int) -> None:
    """Parameters that transformers 5.23 builds beside the text: Whisper's encoder and what projects it."""
    text = LLAMA | {"hidden_size": width, "num_attention_heads": width // 64}
    sound = sizes | {"model_type": f"{wrapper}_encoder", "num_mel_bins": 128, "max_source_positions": 1500}
    a = read_architecture({"model_type": wrapper, "text_config": text, "audio_config": sound})
    assert (a.towers, a.left_out) == (parameters, ())
    assert a.active == a.total - parameters
