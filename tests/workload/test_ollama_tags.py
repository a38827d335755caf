"""Names of Ollama's library: the model that each means, by a rule, and the file that Ollama fetches of it."""

from __future__ import annotations

import pytest
from each_case import each_case
from engine_sample import architecture, ask, session
from repository import ROOT

from planner.engine.fit.variants import variants_of
from planner.errors import UserError
from planner.paths import presets_folder
from planner.schema import read_struct
from planner.workload.models import ModelShelf
from planner.workload.tasks import Request

TAGS = [line.split() for line in (ROOT / "tests" / "data" / "ollama_tags.txt").read_text().splitlines() if not line.startswith("#")]
SHELF = ModelShelf(presets_folder() / "models")


@pytest.mark.sweep
@each_case("tag, model, stored", [(tag, model, *(stored or [""])) for tag, model, *stored in TAGS])
def test_a_tag_is_its_model(tag: str, model: str, stored: str) -> None:
    config, expected = SHELF.config(tag), SHELF.config(model)
    assert {key: config[key] for key in expected} == expected
    assert config.get("stored_as", "") == stored
    assert config.get("taken_as", model).startswith(model)


@pytest.mark.parametrize("tag", ["llava", "gemma3:270m", "phi3.5", "nomic-embed-text", "dolphin3", "vicuna:7b"])
def test_what_the_catalogue_lacks_is_nothing_else(tag: str) -> None:
    with pytest.raises(UserError, match="is not a known model"):
        SHELF.config(tag)


def test_a_size_that_a_family_lacks_suggests_those_it_has() -> None:
    with pytest.raises(UserError, match="Did you mean 'gemma3:27b'"):
        SHELF.config("gemma3:270m")


def test_only_names_without_an_owner_are_tags() -> None:
    assert SHELF.config("library/gemma3:4b")["taken_as"].startswith("gemma-3-4b")
    with pytest.raises(UserError):
        SHELF.config("someone/gemma3:4b")


@pytest.mark.parametrize("engine", ["ollama", "lm-studio", "Ollama@0.3"])
@pytest.mark.parametrize(
    ("model", "stored"),
    [
        ("qwen3:8b", "q4_k_m"),
        ("gpt-oss", "mxfp4_moe"),
        ("deepseek-v3", "q4_k_m"),
        ("llama3.1:8b-instruct-q8_0", "q8_0"),
        ("Qwen/Qwen3-8B-GGUF:Q6_K", "q6_k"),
    ],
)
def test_ollama_fetches_the_file_of_four_bits_where_nothing_is_asked_for(engine: str, model: str, stored: str) -> None:
    assert ask(model=model, gpu="H200 SXM", gpus=8, task="generate", engine=engine).assumed["weight_dtype"] == stored


def test_a_format_that_is_asked_for_is_kept() -> None:
    answer = ask(model="qwen3:8b", gpu="H200 SXM", task="generate", engine="ollama", weight_dtype="bf16")
    assert "weight_dtype" not in answer.assumed
    assert (
        ask(model="deepseek-v3", gpu="H200 SXM", gpus=8, task="generate", engine="ollama", weight_dtype="fp8").assumed[
            "weight_dtype"
        ]
        == "q8_0"
    )


def test_fit_tries_what_llama_cpp_reads() -> None:
    base = read_struct(Request, {"model": "qwen3:8b", "gpu": "H200 SXM", "task": "serve", "engine": "ollama"}, "")
    found = list(variants_of(base, session().gpus.find("H200 SXM"), 8, architecture("qwen3-8b")))
    assert {variant.weight_dtype for variant in found} == {"bf16", "q8_0", "q4_k_m"}
    assert {variant.request.tp for variant in found} == {1}
