"""Names of models, GPUs and engines as people type them, without the network: each is answered, or refused for a reason that is known here."""

from __future__ import annotations

import json

import pytest
from engine_sample import session
from repository import ROOT

from planner.cli.estimate.lines import Refusal, answer_lines
from planner.errors import UserError
from planner.paths import presets_folder
from planner.workload.models import ModelShelf

LINES = (ROOT / "tests" / "data" / "names_people_type.jsonl").read_bytes().splitlines()
GENERATES_NOTHING = "is an encoder and generates nothing"
REFUSED = {
    "m:bert-large-uncased": GENERATES_NOTHING,
    "m:roberta-large": GENERATES_NOTHING,
    "m:FacebookAI/xlm-roberta-large": GENERATES_NOTHING,
    "m:BAAI/bge-m3": GENERATES_NOTHING,
    "m:BAAI/bge-reranker-v2-m3": GENERATES_NOTHING,
    "m:answerdotai/ModernBERT-large": GENERATES_NOTHING,
    "m:openai/whisper-large-v3": "whisper always reads 30 seconds of sound",
    "m:google/vit-large-patch16-224": "is not in the catalogue",
    "m:openai/clip-vit-large-patch14": "is not in the catalogue",
    "m:apple/OpenELM-3B": "is not in the catalogue",
    "m:CohereForAI/aya-23-8B": "is not in the catalogue",
    "m:Snowflake/snowflake-arctic-instruct": "is not in the catalogue",
    "m:Salesforce/codegen-16B-mono": "is not in the catalogue",
    "g:Jetson Thor": "is not a known GPU. Did you mean 'Jetson AGX Orin 64GB'?",
    "g:TPU v5e": "which are GPUs and Gaudi",
    "g:CMP 170HX": "which are GPUs and Gaudi",
    "e:ktransformers": "computes experts on the host's processors",
}
UPLOADS = {
    "Qwen/Qwen3-32B-AWQ": ("qwen3-32b", "awq"),
    "TheBloke/Llama-2-13B-chat-GPTQ": ("llama-2-13b", "gptq-int4"),
    "unsloth/Meta-Llama-3.1-8B-Instruct-bnb-4bit": ("llama-3.1-8b", "nf4"),
    "RedHatAI/Meta-Llama-3.1-70B-Instruct-FP8-dynamic": ("llama-3.1-70b", "fp8"),
    "nvidia/Llama-3.1-405B-Instruct-FP4": ("llama-3.1-405b", "nvfp4"),
    "lmstudio-community/Qwen3-8B-GGUF": ("qwen3-8b", "q4_k_m"),
    "bartowski/Qwen3-8B-Q6_K-GGUF": ("qwen3-8b", "q6_k"),
    "bartowski/Qwen3-8B-GGUF:Q2_K_L": ("qwen3-8b", "q2_k_l"),
    "mlx-community/Qwen3-8B-4bit": ("qwen3-8b", "int4-g64"),
    "Llama-3.1-405B-Instruct-FP8": ("llama-3.1-405b", "fp8"),
    "TheBloke/Mistral-7B-Instruct-v0.2-GPTQ": ("mistral-7b-v0.2", "gptq-int4"),
    "google/gemma-3-27b-it-qat-q4_0-gguf": ("gemma-3-27b", "q4_0"),
    "google/gemma-3-12b-it-qat-q4_0-unquantized": ("gemma-3-12b", "bf16"),
    "nvidia/DeepSeek-R1-0528-FP4-v2": ("deepseek-v3", "nvfp4"),
    "amd/DeepSeek-R1-MXFP4-Preview": ("deepseek-v3", "mxfp4"),
    "ISTA-DASLab/gemma-3-27b-it-GPTQ-4b-128g": ("gemma-3-27b", "gptq-int4"),
    "Intel/Qwen3-30B-A3B-int4-AutoRound": ("qwen3-30b-a3b", "gptq-int4"),
    "OPEA/Llama-3.3-70B-Instruct-int4-sym-inc": ("llama-3.1-70b", "gptq-int4"),
    "RedHatAI/Qwen3-8B-NVFP4A16": ("qwen3-8b", "nvfp4-a16"),
    "mradermacher/Qwen3-8B-i1-GGUF:Q5_K_M": ("qwen3-8b", "q5_k_m"),
    "CohereLabs/c4ai-command-a-03-2025-AWQ": ("command-a", "awq"),
}


@pytest.mark.sweep
def test_every_name_is_answered_or_refused_for_its_reason() -> None:
    answers = answer_lines(session(), LINES)
    assert [answer.id for answer in answers] == [json.loads(line)["id"] for line in LINES]
    refused = {answer.id: answer.error for answer in answers if isinstance(answer, Refusal)}
    assert set(refused) == set(REFUSED)
    assert all(REFUSED[name] in error for name, error in refused.items())


@pytest.mark.parametrize(("name", "model", "stored"), [(name, *found) for name, found in UPLOADS.items()])
def test_an_upload_is_its_model_in_the_format_of_its_name(name: str, model: str, stored: str) -> None:
    shelf = ModelShelf(presets_folder() / "models")
    config = shelf.config(name)
    assert {key: config[key] for key in shelf.config(model)} == shelf.config(model)
    assert config["stored_as"] == stored
    assert config["taken_as"].startswith(f"{model}, stored in {stored}: ")


def test_types_of_unsloth_are_taken_as_others_and_unknown_ones_as_none() -> None:
    shelf = ModelShelf(presets_folder() / "models")
    for name, stored in (("UD-Q2_K_XL", "q2_k"), ("UD-IQ1_S", "iq1_s")):
        config = shelf.config(f"unsloth/Qwen3-30B-A3B-GGUF:{name}")
        assert config["stored_as"] == stored
        assert config["taken_as"].startswith(f"qwen3-30b-a3b, stored in a mix like {stored}: ")
    with pytest.raises(UserError, match="is not a known model"):
        shelf.config("someone/Qwen3-30B-A3B-GGUF:Q4_K_XXXL")


def test_what_a_name_was_taken_for_is_told() -> None:
    line = {"model": "Qwen/Qwen3-32B-AWQ", "gpu": "H100", "task": "generate"}
    (answer,) = answer_lines(session(), [json.dumps(line).encode()])
    assert answer.assumed["model"] == "qwen3-32b, stored in awq: so Qwen/Qwen3-32B-AWQ reads"
    assert answer.assumed["weight_dtype"] == "awq"
