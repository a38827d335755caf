"""Formats of checkpoints by their `quantization_config`, and what a workload that names none is planned in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from each_case import each_case
from repository import RunPlanner

from planner.paths import presets_folder
from planner.workload.huggingface.config import read_architecture
from planner.workload.huggingface.quantization import quantised_format
from planner.workload.models import ModelShelf
from planner.workload.weights import FORMATS

QWEN = ModelShelf(presets_folder() / "models").config("qwen3-8b")


def packed(weights: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}}, **more}


def torchao(kind: str, **data: Any) -> dict[str, Any]:
    return {"quant_method": "torchao", "quant_type": {"default": {"_type": kind, "_version": 1, "_data": data}}}


INT4 = {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "group"}
GIVEN: list[tuple[dict[str, Any], str]] = [
    ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8"),
    ({"quant_method": "fbgemm_fp8"}, "fp8"),
    ({"quant_method": "mxfp4"}, "mxfp4"),
    ({"quant_method": "mxfp8"}, "mxfp8"),
    ({"quant_method": "eetq", "weights": "int8"}, "int8"),
    ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4"),
    ({"quant_method": "modelopt_fp4", "quant_algo": "NVFP4_AWQ"}, "nvfp4"),
    ({"quant_method": "modelopt", "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}}, "fp8"),
    ({"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "W4A8_AWQ"}}, "awq"),
    (packed({"num_bits": 4, "type": "float", "group_size": 16}) | {"quant_method": "modelopt"}, "nvfp4"),
    ({"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}}, "nvfp4"),
    (
        {
            "quant_method": "modelopt",
            "quant_algo": "MIXED_PRECISION",
            "quantized_layers": {
                "layers.0.self_attn.q_proj": {"quant_algo": "FP8"},
                "layers.0.self_attn.k_proj": {"quant_algo": "FP8"},
                "layers.0.mlp.up_proj": {"quant_algo": "W4A16_NVFP4"},
            },
        },
        "nvfp4-a16",
    ),
    ({"quant_method": "awq", "bits": 4, "group_size": 128}, "awq"),
    ({"quant_method": "awq", "w_bit": 4, "q_group_size": 32}, "awq-g32"),
    ({"quant_method": "gptq", "bits": 4, "group_size": 32}, "gptq-int4-g32"),
    ({"quant_method": "gptq", "bits": 4, "group_size": -1}, "gptq-int4"),
    ({"quant_method": "gptq", "bits": 3, "group_size": 128}, "gptq-int3"),
    ({"quant_method": "auto-round", "bits": 4, "group_size": 128, "packing_format": "auto_round:auto_gptq"}, "gptq-int4"),
    ({"quant_method": "auto-round", "bits": 4, "group_size": 128, "packing_format": "auto_round:auto_awq"}, "awq"),
    (
        {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": True},
        "nf4-dq",
    ),
    ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "int8"),
    ({"load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}, "nf4"),
    (packed({"num_bits": 8, "type": "float"}), "fp8"),
    (packed({"num_bits": 8, "type": "float", "strategy": "block", "block_structure": [128, 128]}), "fp8"),
    (packed({"num_bits": 8, "type": "float", "group_size": 32}), "mxfp8"),
    (
        {"quant_method": "compressed-tensors"}
        | {"config_groups": {"g": {"input_activations": None, "weights": {"num_bits": 4, "type": "float", "group_size": 16}}}},
        "nvfp4-a16",
    ),
    (packed({"num_bits": 4, "type": "float", "group_size": 32}), "mxfp4"),
    (packed({"num_bits": 8, "type": "int", "strategy": "channel", "symmetric": True}), "int8"),
    (packed({"num_bits": 8, "type": "int", "strategy": "group", "group_size": 128, "symmetric": True}), "w8a16"),
    (packed(INT4 | {"group_size": 128}), "w4a16"),
    (packed(INT4 | {"group_size": 128, "symmetric": False}), "awq"),
    (packed(INT4 | {"group_size": 32}, ignore=["lm_head"]), "w4a16-g32"),
    (packed(INT4 | {"group_size": 32}, ignore=["lm_head", "re:.*self_attn.*", "re:.*shared_experts.*"]), "w4a16-experts"),
    (torchao("Int4WeightOnlyConfig", group_size=128), "int4"),
    (torchao("Int8DynamicActivationInt4WeightConfig", group_size=32), "int4-g32"),
    (torchao("Float8DynamicActivationFloat8WeightConfig"), "fp8"),
    (torchao("Float8DynamicActivationInt4WeightConfig"), "int4"),
    ({"quant_method": "torchao", "quant_type": "int4_weight_only", "quant_type_kwargs": {"group_size": 64}}, "int4-g64"),
    ({"quant_method": "torchao", "quant_type": "int8_weight_only"}, "int8"),
    ({"quant_method": "hqq", "quant_config": {"weight_quant_params": {"nbits": 4, "group_size": 64}}}, "int4-g64"),
    ({"quant_method": "quanto", "weights": "float8"}, "fp8"),
    ({"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "fp4", "group_size": 32}}}, "mxfp4"),
]
UNNAMED: list[object] = [
    None,
    "fp8",
    {},
    {"quant_method": ["fp8"]},
    {"quant_method": "awq", "bits": 3, "group_size": 128},
    {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"},
    {"quant_method": "modelopt", "quant_algo": None, "config_groups": {}},
    {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": None}}},
    {"quant_method": "compressed-tensors", "config_groups": ["group_0"]},
    {"quant_method": "torchao", "quant_type": {"default": {"_type": "UIntXWeightOnlyConfig"}}},
    {"quant_method": "torchao"},
    {"quant_method": "hqq", "quant_config": {"weight_quant_params": {"nbits": 2, "group_size": 16}}},
    {"quant_method": "aqlm", "nbits_per_codebook": 16},
    {"quant_method": "quark", "global_quant_config": {"weight": {"dtype": {}}}},
    {"quant_method": "bitnet"},
]


@each_case("given, stored", GIVEN)
def test_a_checkpoint_says_its_format(given: dict[str, Any], stored: str) -> None:
    assert stored in FORMATS
    assert read_architecture(QWEN | {"quantization_config": given}).stored_as == stored
    wrapped = {"model_type": "llava", "text_config": QWEN, "quantization_config": given}
    assert read_architecture(wrapped).stored_as == stored


@pytest.mark.parametrize("given", UNNAMED)
def test_a_format_without_a_name_is_none(given: object) -> None:
    assert quantised_format({"quantization_config": given}) == ""


def test_formats_of_groups_by_hand() -> None:
    """4 bits and a scale of 16 for each 32 weights of a routed expert, of which Kimi K2 has 60 · 384; 16 bits of all else."""
    a = read_architecture(ModelShelf(presets_folder() / "models").config("kimi-k2"))
    found = FORMATS["w4a16-experts"].stored(a)
    assert found.expert_bytes == 60 * 384 * 3 * 7168 * 2048 * (4 + 16 / 32) / 8
    assert found.dense == 2
    assert found.total_bytes / 1e9 == pytest.approx(594, rel=0.01), "the hub says 594 GB of moonshotai/Kimi-K2-Thinking"
    bits = {name: FORMATS[name].bits for name in ("int4-g64", "w4a16", "w8a16", "mxfp8", "awq-g32", "gptq-int3")}
    assert bits == {"int4-g64": 4.5, "w4a16": 4.125, "w8a16": 8.125, "mxfp8": 8.25, "awq-g32": 4.625, "gptq-int3": 3 + 19 / 128}


def test_what_is_stored_in_fp8_computes_in_fp8_where_nothing_else_is_said(tmp_path: Path, run_planner: RunPlanner) -> None:
    request = {
        "model": QWEN | {"quantization_config": {"quant_method": "fp8"}}, "gpu": "H100 SXM", "task": "generate", "input_tokens": 64,
    }  # fmt: skip
    lines = tmp_path / "lines.jsonl"
    lines.write_text(
        "".join(json.dumps(request | more) + "\n" for more in ({}, {"weight_dtype": "bf16"}, {"gpu": "A100 SXM 80GB"}))
    )
    narrow, wide, unpacked = map(json.loads, run_planner("estimate", str(lines)).stdout.splitlines())
    assert (narrow["assumed"]["weight_dtype"], narrow["assumed"]["dtype"]) == ("fp8", "fp8")
    assert narrow["memory_bytes"]["weights"] < 0.6 * wide["memory_bytes"]["weights"]
    assert "weight_dtype" not in wide["assumed"]
    assert (unpacked["assumed"]["weight_dtype"], unpacked["assumed"]["dtype"]) == ("fp8", "bf16")
