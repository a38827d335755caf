"""The format that a model of the catalogue is published in is what it is planned in, where nothing else is asked."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from engine_sample import architecture, ask, session
from repository import RunPlanner
from test_checkpoints import checkpoint

from planner.engine.answers.answer import Answer
from planner.engine.fit.variants import variants_of
from planner.schema import read_struct
from planner.units import GIB
from planner.workload.tasks import Request
from planner.workload.weights import FORMATS

FP8 = {"quant_method": "fp8", "weight_block_size": [128, 128]}


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("gpt-oss-20b", 12.8 * GIB),  # arXiv:2508.10925, table 1
        ("gpt-oss-120b", 60.8 * GIB),
        ("deepseek-v3", 671e9),  # github.com/deepseek-ai/DeepSeek-V3: 671 B in FP8, without the layer that predicts a further token
        ("kimi-k2.5", 594e9),  # the hub's size of Kimi K2 Thinking, which has the same layers and format
        ("minimax-m2", 230e9),  # its card: 230 B in FP8
        ("ministral-3-14b-instruct", 15.7e9),  # its files on the hub, tower included
        ("ministral-3-3b-instruct", 4.67e9),
    ],
)
def test_a_checkpoint_has_the_size_its_makers_state(name: str, size: float) -> None:
    a = architecture(name)
    assert FORMATS[a.stored_as].stored(a).total_bytes == pytest.approx(size, rel=0.01)


def served(**more: Any) -> Answer:
    return ask(**{"gpu": "H200 SXM", "gpus": 8, "task": "serve", "concurrency": 4, "input_tokens": 64, "output_tokens": 64} | more)


def test_a_model_published_in_mxfp4_fits_where_its_makers_say() -> None:
    answer = served(model="openai/gpt-oss-120b", gpu="H100 SXM", gpus=1)
    assert (answer.fits, answer.assumed["weight_dtype"], answer.assumed["dtype"]) == (True, "mxfp4", "bf16")
    assert answer.memory_bytes is not None
    assert answer.memory_bytes.weights == pytest.approx(65.9 * GIB, rel=0.001), "as wide as vLLM's kernels take them"
    plain = served(model="openai/gpt-oss-120b", gpu="H100 SXM", gpus=1, engine="sglang").memory_bytes
    assert plain is not None
    assert plain.weights == pytest.approx(60.8 * GIB, rel=0.001)


def test_a_model_published_in_fp8_is_served_by_one_node() -> None:
    answer = served(model="deepseek-ai/DeepSeek-R1")
    assert (answer.fits, answer.assumed["weight_dtype"], answer.assumed["dtype"]) == (True, "fp8", "fp8")
    assert not served(model="deepseek-ai/DeepSeek-R1", weight_dtype="bf16").fits


def test_what_is_asked_goes_before_what_is_published() -> None:
    assert served(model="deepseek-v3", gpu="B200 SXM", dtype="fp4").assumed["weight_dtype"] == "fp4", "FP8 cannot be read by it"
    assert served(model="gpt-oss-20b", gpu="B200 SXM", dtype="fp4").assumed["weight_dtype"] == "mxfp4"
    assert served(model="kimi-k2.5", gpu="B200 SXM", dtype="fp8").assumed["weight_dtype"] == "w4a16-experts"


def test_training_holds_weights_in_the_dtype_of_its_recipe() -> None:
    answer = ask(model="gpt-oss-20b", gpu="B300 SXM", gpus=8, task="finetune", sequence=512)
    assert answer.memory_bytes is not None
    assert answer.parameters is not None
    assert answer.memory_bytes.weights * 8 >= 2 * answer.parameters.total


@pytest.mark.parametrize(
    ("name", "stored"), [("gpt-oss-20b", "mxfp4_moe"), ("deepseek-v3", "q8_0"), ("deepseek-v4-flash", "mxfp4_moe")]
)
def test_llama_cpp_reads_the_file_that_keeps_what_is_published(name: str, stored: str) -> None:
    assert served(model=name, engine="llama.cpp", task="generate", batch=1, concurrency=None).assumed["weight_dtype"] == stored


@pytest.mark.parametrize(
    ("name", "stored"),
    [
        ("Qwen/Qwen3-235B-A22B-FP8", "fp8"),
        ("nvidia/GLM-5.2-NVFP4", "nvfp4"),
        ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-FP8", "fp8"),
        ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", ""),
        ("unsloth/DeepSeek-V3-bf16", "bf16"),
        ("unsloth/gpt-oss-120b-GGUF:Q4_K_M", "mxfp4_moe"),
        ("unsloth/DeepSeek-R1-GGUF:Q4_K_M", "q4_k_m"),
    ],
)
def test_an_upload_is_stored_as_its_name_says(name: str, stored: str) -> None:
    assert architecture(name).stored_as == stored


def test_no_other_name_of_a_model_says_a_format_that_it_is_not_published_in() -> None:
    said = [
        (model.name, alias)
        for model in map(session().models.find, session().models.names())
        for alias in model.aliases
        if re.search(r"[-_.](fp8|nvfp4|mxfp4|awq|gptq|int[48]|w[48]a16|gguf)\b", alias.casefold())
    ]
    assert said == []


@pytest.mark.parametrize(
    ("model", "given", "left"),
    [
        ("openai/gpt-oss-120b", {}, None),
        ("openai/gpt-oss-120b", {"weight_dtype": "fp8"}, "fp8"),
        ("deepseek-v3", {}, "fp8"),
        ("qwen3-32b", {}, "fp8"),
        ("no-such-model", {}, "fp8"),
    ],
)
def test_the_format_of_another_model_is_not_taken_over_in_more_bits(model: str, given: dict[str, str], left: str | None) -> None:
    preset = session().presets.load("llama-3.1-70b-chat-service").workload
    assert preset.weight_dtype == "fp8"
    assert session().changed(preset, {"model": model, **given}).get("weight_dtype") == left


def test_an_unknown_family_is_stored_as_its_config_says(tmp_path: Path, run_planner: RunPlanner) -> None:
    folder = checkpoint(tmp_path, "olmo3", quantization_config=FP8)
    shown = json.loads(run_planner("models", "show", str(folder), "--json").stdout)
    assert shown["format"]["name"] == "fp8"


@pytest.mark.parametrize(
    ("name", "engine", "formats"),
    [
        ("gpt-oss-120b", None, {"mxfp4"}),
        ("gpt-oss-120b", "llama.cpp", {"mxfp4_moe"}),
        ("deepseek-v3", None, {"fp8", "awq", "mxfp4", "q4_k_m"}),
        ("deepseek-v3", "llama.cpp", {"q8_0", "q4_k_m"}),
        ("qwen3-8b", None, {"bf16", "fp8", "gptq-int8", "awq", "q4_k_m"}),
    ],
)
def test_nobody_stores_a_model_in_more_bits_than_it_is_published_in(name: str, engine: str | None, formats: set[str]) -> None:
    base = read_struct(Request, {"model": name, "gpu": "H200 SXM", "task": "serve"} | ({"engine": engine} if engine else {}), "")
    found = variants_of(base, session().gpus.find("H200 SXM"), 8, architecture(name))
    assert {variant.weight_dtype for variant in found} == formats
