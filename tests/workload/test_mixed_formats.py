"""Checkpoints whose parts are stored in different formats: bytes by kind of tensor, as the lists of their configs say."""

from __future__ import annotations

import time
from typing import Any

import pytest
from engine_sample import ask

from planner.paths import presets_folder
from planner.workload.architecture import Architecture
from planner.workload.huggingface.config import read_architecture
from planner.workload.models import ModelShelf
from planner.workload.sublayers import formats_text
from planner.workload.weights import FORMATS, StoredWeights

SHELF = ModelShelf(presets_folder() / "models")
NVFP4 = 4 / 8 + 1 / 16
"""Bytes of an element: four bits, and a byte a block of 16."""


def read(name: str, **quantization: Any) -> Architecture:
    return read_architecture(SHELF.config(name) | {"quantization_config": quantization})


def stored(a: Architecture) -> StoredWeights:
    return FORMATS[a.stored_as].stored(a)


def each(number: int, *names: str) -> list[str]:
    """`names` within each of so many layers."""
    return [f"model.layers.{layer}.{name}" for layer in range(number) for name in names]


def test_modelopt_leaves_factors_of_latent_attention_in_16_bit() -> None:
    """hf_quant_config.json of nvidia/DeepSeek-V3.1-NVFP4, which stores the output projection alone in four bits."""
    kept = each(61, *(f"self_attn.{name}" for name in ("kv_a_proj_with_mqa", "kv_b_proj", "q_a_proj", "q_b_proj")))
    a = read("deepseek-v3", quant_method="modelopt", quant_algo="NVFP4", exclude_modules=[*kept, "lm_head", "model.layers.61*"])
    packed = 128 * 128 * 7168
    found = stored(a)
    assert found.mixing == pytest.approx((packed * NVFP4 + (a.attention_matrix - packed) * 2) / a.attention_matrix)
    assert (found.mlp, found.expert, found.head) == (NVFP4, NVFP4, 2)
    assert formats_text(a.stored_parts) == "attention in bf16"


def test_experts_alone_as_published() -> None:
    """vllm-project/recipes#877: routed experts alone in NVFP4, GLM-5.3, of the sizes of 5.2, takes about 465 GB with its layer for further tokens."""
    kept = ["lm_head", "model.layers.0*", "model.layers.1.*", "model.layers.2.*", *each(78, "self_attn*", "mlp.shared_experts*")]
    a = read("glm-5.2", quant_method="modelopt", quant_algo="NVFP4", ignore=kept)
    found = stored(a)
    assert (found.mixing, found.mlp, found.expert) == (2, 2, NVFP4)
    assert found.total_bytes + 2 * (a.mtp_parameters - 2 * a.token_matrix * a.mtp_copies) == pytest.approx(465e9, rel=0.005)


def test_a_layer_with_a_number_that_begins_another_is_not_it() -> None:
    """`layers.1.` is not layer 10: of three dense layers one is left out."""
    a = read("deepseek-v3", quant_method="modelopt", quant_algo="NVFP4", exclude_modules=["model.layers.1.*"])
    assert stored(a).mlp == pytest.approx(
        (3 * 3 * 7168 * 18432 * NVFP4 + 3 * 7168 * 18432 * (2 - NVFP4) + 58 * 3 * 7168 * 2048 * NVFP4)
        / (3 * 3 * 7168 * 18432 + 58 * 3 * 7168 * 2048)
    )


def test_each_module_with_its_algorithm() -> None:
    """Mixed precision of Qwen3.6 27B: attention in FP8 but for rates of the recurrence, which no list names; MLPs and head in NVFP4."""
    algorithms = {
        **dict.fromkeys(each(64, "linear_attn.in_proj_qkv", "linear_attn.in_proj_z", "linear_attn.out_proj"), "FP8"),
        **dict.fromkeys(each(64, "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj"), "FP8"),
        **dict.fromkeys(each(64, "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"), "W4A16_NVFP4"),
        "lm_head": "W4A16_NVFP4",
    }
    # every fourth layer attends, the others recur
    modules = {
        name: {"quant_algo": one}
        for name, one in algorithms.items()
        if name == "lm_head" or "mlp" in name or (int(name.split(".")[2]) % 4 == 3) == ("self_attn" in name)
    }
    a = read("qwen3.5-27b", quant_method="modelopt", quant_algo="MIXED_PRECISION", quantized_layers=modules)
    found = stored(a)
    rates = 48 * 2 * 48 * 5120
    attention = sum(one.layers * one.matrix for one in a.instead) + a.attention_layers * a.attention_matrix
    assert found.mixing == pytest.approx((attention + rates) / attention)
    assert (found.mlp, found.head) == (NVFP4, NVFP4)


def test_experts_with_numbers_are_all_of_them() -> None:
    modules = {name: {"quant_algo": "MXFP8"} for name in each(62, "self_attn.q_proj", "self_attn.k_proj")}
    modules |= {
        name: {"quant_algo": "NVFP4"}
        for name in each(62, *(f"block_sparse_moe.experts.{n}.w{w}" for n in range(4) for w in (1, 2, 3)))
    }
    found = stored(read("minimax-m2", quant_method="modelopt", quant_algo="MIXED_PRECISION", quantized_layers=modules))
    assert found.expert == NVFP4
    assert 1.03125 < found.mixing < 2, "values and outputs are in no list"


def test_groups_with_targets_of_their_own() -> None:
    """compressed-tensors with two groups: attention in FP8, experts in NVFP4, by regular expressions."""
    groups = {
        "group_0": {"targets": ["re:.*self_attn.*"], "weights": {"num_bits": 8, "type": "float"}},
        "group_1": {"targets": ["re:.*mlp\\.experts.*"], "weights": {"num_bits": 4, "type": "float", "group_size": 16}},
    }
    a = read("qwen3-30b-a3b", quant_method="compressed-tensors", config_groups=groups, ignore=["lm_head"])
    found = stored(a)
    assert (a.stored_as, found.mixing, found.expert) == ("nvfp4", 1, NVFP4)


@pytest.mark.parametrize(
    "given",
    [
        {"quant_method": "fp8", "modules_to_not_convert": each(36, "self_attn.o_proj")},
        {"quant_method": "bitsandbytes", "load_in_8bit": True, "llm_int8_skip_modules": ["o_proj"]},
        {"quant_method": "awq", "bits": 4, "group_size": 128, "modules_to_not_convert": ["self_attn.o_proj"]},
        {"quant_method": "gptq", "bits": 4, "group_size": 128, "dynamic": {"-:.*\\.o_proj": {}}},
        {"quant_method": "auto-round", "bits": 4, "group_size": 128, "extra_config": {n: {"bits": 16} for n in each(36, "self_attn.o_proj")}},
        {"quant_method": "compressed-tensors", "ignore": ["re:.*o_proj$"], "config_groups": {"g": {"targets": ["Linear"], "weights": {"num_bits": 8}}}},
        {"quant_method": "quark", "exclude": ["*o_proj"], "global_quant_config": {"weight": {"dtype": "fp8_e4m3"}}},
    ],
)  # fmt: skip
def test_lists_of_every_tool(given: dict[str, Any]) -> None:
    """Output projections of attention in 16 bit, in the words of seven tools: 36 layers of 4,096 by 4,096."""
    whole = {
        key: value for key, value in given.items() if key not in {"modules_to_not_convert", "llm_int8_skip_modules", "dynamic"}
    }
    whole = {key: value for key, value in whole.items() if key not in {"extra_config", "ignore", "exclude"}}
    a, plain = read("qwen3-8b", **given), read("qwen3-8b", **whole)
    matrix = 36 * 4096 * 4096
    one = FORMATS[a.stored_as]
    scales = 36 * 4096 * (one.row_bits + one.column_bits)
    assert stored(a).total_bytes - stored(plain).total_bytes == pytest.approx(matrix * 2 - (matrix * one.bits + scales) / 8)
    assert not plain.stored_parts


def test_gptq_stores_some_modules_in_more_bits() -> None:
    a = read("qwen3-8b", quant_method="gptq", bits=4, group_size=128, dynamic={"+:.*down_proj": {"bits": 8}})
    assert formats_text(a.stored_parts) == "mlp in gptq-int8"


def test_towers_and_layers_for_further_tokens_are_none_of_these() -> None:
    ignored = [
        "model.visual.blocks.0.mlp.up_proj",
        "mtp.layers.0.mlp.up_proj",
        "vision_tower*",
        "model.vision_tower.layers.0.self_attn.q_proj",
    ]
    assert not read("qwen3-8b", quant_method="fp8", modules_to_not_convert=ignored).stored_parts


def test_another_format_asked_for_has_no_parts_of_the_checkpoint() -> None:
    a = read("qwen3-8b", quant_method="modelopt", quant_algo="NVFP4", ignore=["*self_attn*"])
    assert FORMATS["fp8"].stored(a).mixing == 1
    assert FORMATS["nvfp4"].stored(a).mixing == 2


def test_hostile_lists_end_in_time() -> None:
    """Expressions that would be tried for ages, lists without end, and names that are none."""
    began = time.process_time()
    names: list[Any] = ["re:(.*)*(.*)*x", "re:(a|a)*$", "re:" + ".*" * 90 + "z", "re:[", 5, None, {"a": 1}, "*" * 200 + "x"]
    many = [f"model.layers.{n}.*{n % 7}*x" for n in range(40_000)]
    a = read("deepseek-v3", quant_method="fp8", modules_to_not_convert=names + many)
    assert not a.stored_parts
    assert time.process_time() - began < 5


def test_16_bit_attention_is_read_and_multiplied_as_such() -> None:
    """Of 32 heads the whole attention in 16 bit: more bytes, and a slower prompt where products compute in FP4."""
    config = SHELF.config("qwen3-8b")
    asked = {"gpu": "B200 SXM", "task": "generate", "engine": "vllm", "input_tokens": 4096, "output_tokens": 8, "batch": 1}
    whole = {"quant_method": "modelopt", "quant_algo": "NVFP4"}
    packed, mixed = (
        ask(model=config | {"quantization_config": whole | more}, **asked) for more in ({}, {"ignore": ["*self_attn*"]})
    )
    attention = 36 * (2 * 4096 * 4096 + 2 * 4096 * 1024)
    assert mixed.memory_bytes
    assert packed.memory_bytes
    assert mixed.ttft_s
    assert packed.ttft_s
    assert mixed.memory_bytes.weights - packed.memory_bytes.weights == pytest.approx(attention * (2 - NVFP4), rel=1e-6)
    assert mixed.ttft_s.mean.value > 1.1 * packed.ttft_s.mean.value
    assert mixed.assumed["dtype"] == packed.assumed["dtype"] == "fp4"


def test_experts_over_more_gpus_than_the_rest_keep_their_own_bytes() -> None:
    """gpt-oss 20B on two GPUs, each with half of the experts (4.25 bits, biases in 16) and the whole of the rest."""
    a = read("gpt-oss-20b", quant_method="mxfp4", modules_to_not_convert=["model.layers.*.self_attn", "lm_head"])
    found = stored(a)
    asked = {"task": "serve", "engine": "sglang", "concurrency": 16, "tp": 1, "dp": 2, "ep": 2, "gpus": 2}
    held = ask(model=SHELF.config("gpt-oss-20b"), gpu="H100 SXM5 80GB", weight_dtype="mxfp4", **asked).memory_bytes
    assert held
    assert held.weights == pytest.approx(found.total_bytes - found.expert_bytes / 2, rel=1e-6)


def test_weights_alone_in_four_bits_multiply_in_16() -> None:
    """W4A16 runs where no unit multiplies in FP4, and is not taken to compute in it where one does."""
    given = {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"}
    layers = {name: {"quant_algo": "W4A16_NVFP4"} for name in each(36, "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")}
    model = SHELF.config("qwen3-8b") | {"quantization_config": given | {"quantized_layers": layers}}
    for gpu in ("H100 SXM5 80GB", "B200 SXM"):
        found = ask(model=model, gpu=gpu, task="generate", engine="vllm", batch=1)
        assert (found.fits, found.assumed["weight_dtype"], found.assumed["dtype"]) == (True, "nvfp4-a16", "bf16")
    assert stored(read_architecture(model)).mixing == 2, "attention is in no list"
