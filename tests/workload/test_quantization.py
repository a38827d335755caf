"""Formats of checkpoints by their `quantization_config`, and what a workload that names none is planned in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from repository import RunPlanner

from planner.paths import presets_folder
from planner.workload.huggingface.config import read_architecture
from planner.workload.huggingface.quantization import quantised_format
from planner.workload.models import ModelShelf
from planner.workload.weights import FORMATS

QWEN = ModelShelf(presets_folder() / "models").config("qwen3-8b")
COMPRESSED = {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "float"}}}}
GIVEN: list[tuple[dict[str, Any], str]] = [
    ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8"),
    ({"quant_method": "mxfp4"}, "mxfp4"),
    ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4"),
    ({"quant_method": "awq", "bits": 4, "group_size": 128}, "awq"),
    ({"quant_method": "gptq", "bits": 4, "group_size": 32}, "gptq-int4-g32"),
    (
        {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": True},
        "nf4-dq",
    ),
    ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "int8"),
    (COMPRESSED, "fp8"),
]
UNNAMED: list[object] = [None, "fp8", {}, {"quant_method": ["fp8"]}, {"quant_method": "awq", "bits": 3, "group_size": 128}]


@pytest.mark.parametrize(("given", "stored"), GIVEN)
def test_a_checkpoint_says_its_format(given: dict[str, Any], stored: str) -> None:
    assert stored in FORMATS
    assert read_architecture(QWEN | {"quantization_config": given}).stored_as == stored
    wrapped = {"model_type": "llava", "text_config": QWEN, "quantization_config": given}
    assert read_architecture(wrapped).stored_as == stored


@pytest.mark.parametrize("given", UNNAMED)
def test_a_format_without_a_name_is_none(given: object) -> None:
    assert quantised_format({"quantization_config": given}) == ""


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
