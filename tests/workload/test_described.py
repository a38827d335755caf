"""Families and traced descriptions against what the code of `transformers` does: FLOPs of a prompt, bytes of its cache, parameters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from description_cases import ASKED, CASES, GOLDEN, TRACED, WHOLE, compute, key, product
from each_case import each_case
from msgspec.structs import replace
from repository import RunPlanner

from planner.engine.performance.operators.matrix_products import pass_products
from planner.errors import UserError
from planner.observe.benchmark import description
from planner.observe.benchmark.description import make_description, require_few_layers, stored_description
from planner.session.inventory import Inventory
from planner.workload.architecture import Architecture
from planner.workload.huggingface.config import read_architecture
from planner.workload.huggingface.described import described_architecture

ALL_EXPERTS = {"llama4_text"}
"""Families whose code in transformers sends every token through every expert and weighs most of them with 0."""


def golden(name: str) -> dict[str, Any]:
    found: dict[str, Any] = GOLDEN.get(key(name), lambda: compute(name))
    return found


def flops(a: Architecture, tokens: int) -> float:
    """FLOPs as the eager code makes them: scores of all tokens, whatever a window hides."""
    everywhere = replace(a, window=None, chosen=None)
    return sum(one.flop for one in pass_products(everywhere, tokens, tokens, head_rows=tokens, new=tokens))


def cache_bytes(a: Architecture, tokens: int) -> float:
    """In 16 bit, states of recurrences in FP32; the library keeps one token less than a window holds."""
    windowed = a.cached_window * min(tokens, (a.window or 1) - 1)
    return 2 * (a.cached_all * tokens + windowed + a.state) + 4 * a.wide_state


def sums(found: dict[str, Any]) -> dict[str, int]:
    if "cache_bytes" in found:
        return dict(found["cache_bytes"])
    return {tokens: sum(product(one["shape"]) * one["bytes"] for one in caches) for tokens, caches in found["caches"].items()}


def test_golden_values_are_of_the_tracer_as_it_is() -> None:
    assert GOLDEN.made_from == GOLDEN.digests(), "make oracles"
    assert set(GOLDEN.values) == {key(name) for name in ASKED}, "make oracles"
    assert len(CASES) >= 130


@each_case("name", CASES)
def test_flops_and_cache_of_a_family_are_those_of_its_code(name: str) -> None:
    a, found = read_architecture(CASES[name]), golden(name)
    a = replace(a, experts_per_token=a.experts) if name in ALL_EXPERTS else a
    assert {tokens: flops(a, int(tokens)) for tokens in found["flops"]} == pytest.approx(found["flops"], rel=1e-3)
    assert {tokens: cache_bytes(a, int(tokens)) for tokens in found["flops"]} == sums(found)


@pytest.mark.parametrize("name", WHOLE)
def test_a_description_says_what_the_family_says(name: str) -> None:
    family, traced = read_architecture(CASES[name]), described_architecture(golden(name))
    for measured in ("layers", "width", "vocabulary", "tied", "total", "active", "experts", "experts_per_token"):
        assert getattr(traced, measured) == getattr(family, measured), measured
    assert traced.active_matrix == pytest.approx(family.active_matrix, rel=3e-3), (
        "small products without a layer count as FLOP alone"
    )
    for measured in ("cached_all", "cached_window", "state", "wide_state"):
        assert getattr(traced, measured) == pytest.approx(getattr(family, measured)), measured
    for tokens, count in golden(name)["flops"].items():
        assert flops(traced, int(tokens)) == pytest.approx(count, rel=1e-3)


@pytest.mark.parametrize("name", TRACED)
def test_a_decoder_of_no_family_is_planned_as_its_code_is(name: str) -> None:
    traced, found = described_architecture(golden(name)), golden(name)
    assert traced.total == sum(product(shape) for _, _, shape in found["tensors"]) + found["corrections"] + found["towers"]
    assert bool(found["towers"]) == ("text_config" in ASKED[name] or name in {"git", "phi4_multimodal"})
    assert traced.encoder == (name == "ibert")
    assert {tokens: flops(traced, int(tokens)) for tokens in found["flops"]} == pytest.approx(found["flops"], rel=1e-3)
    assert {tokens: cache_bytes(traced, int(tokens)) for tokens in found["flops"]} == sums(found)


def test_layers_may_be_narrower_than_the_head_reads() -> None:
    traced = described_architecture(golden("rembert"))
    assert (traced.width, traced.embedding_width, traced.vocabulary) == (1152, 1664, 250300)


def test_a_description_that_does_not_add_up_is_refused() -> None:
    found = golden("olmo3")
    more = found | {"tensors": [*found["tensors"], ["model.layers.0.self_attn.q_proj.weight", "bias", [7]]]}
    described_architecture(more)
    with pytest.raises(ValueError, match="no output head"):
        described_architecture(found | {"products": []})


@pytest.mark.process
def test_a_python_without_the_library_is_told_how_to_get_it(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\ncat > /dev/null\necho \'{"error": "No module", "missing": "transformers"}\'\nexit 3\n')
    python.chmod(0o755)
    with pytest.raises(UserError) as refused:
        make_description({"model_type": "strange"}, tmp_path, python)
    assert "pip install 'gpu-planner[models]'" in refused.value.problems[0].message
    assert stored_description({"model_type": "strange"}, tmp_path) is None


def answering(folder: Path, found: object) -> Path:
    """An interpreter that describes every model like that."""
    python = folder / "python"
    python.write_text(f"#!/bin/sh\ncat > /dev/null\ncat <<'END'\n{json.dumps(found)}\nEND\n")
    python.chmod(0o755)
    return python


@pytest.mark.process
def test_a_listed_model_is_shown_by_its_code_when_asked(tmp_path: Path, run_planner: RunPlanner) -> None:
    known = json.loads(run_planner("models", "show", "--json", "qwen3-14b").stdout)
    python = answering(tmp_path, golden("olmo3"))
    done = run_planner("models", "show", "--json", "--exact", "--python", str(python), "qwen3-14b")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["parameters"] != known["parameters"]


@pytest.mark.process
def test_a_description_is_kept_by_its_config(tmp_path: Path) -> None:
    config, found = CASES["olmo3"], golden("olmo3")
    python = answering(tmp_path, found)
    assert make_description(config, tmp_path, python) == stored_description(config, tmp_path) == found
    assert stored_description(config | {"vocab_size": 1}, tmp_path) is None


@pytest.mark.parametrize(
    ("more", "key"),
    [
        ({"num_hidden_layers": 10_000}, "num_hidden_layers"),
        ({"n_layer": 1e300}, "n_layer"),
        ({"text_config": {"num_layers": 201}}, "text_config.num_layers"),
        ({"decoder_layers": 10**400}, "decoder_layers"),
    ],
)
def test_more_layers_than_any_model_has_are_refused_before_anything_is_started(
    more: dict[str, Any], key: str, tmp_path: Path
) -> None:
    inventory, told = Inventory.open(state=tmp_path, config=tmp_path), list[str]()
    inventory.narrate = told.append
    with pytest.raises(UserError) as refused:
        inventory.described({"model_type": "strange", **more}, tmp_path / "no such python")
    assert told == []
    assert [one.key for one in refused.value.problems] == [f"model.{key}"]
    assert "more than 200 layers are not traced" in refused.value.problems[0].message


def test_sizes_of_other_things_are_no_layers() -> None:
    sizes = {"num_hidden_layers": 126, "vocab_size_per_layer_input": 262_144, "layer_norm_eps": 1e-5, "max_window_layers": 1000}
    few = {**sizes, "layer_types": ["full_attention"] * 126, "text_config": {"num_layers": True}}
    require_few_layers(few)
    with pytest.raises(UserError, match="more than 200 layers"):
        require_few_layers({**few, "num_hidden_layers": 201})


@pytest.mark.process
def test_code_that_does_not_end_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexec sleep 60\n")
    python.chmod(0o755)
    monkeypatch.setattr(description, "LONGEST_S", 0.3)
    with pytest.raises(UserError, match="its code took longer than 0 s"):
        make_description({"model_type": "strange"}, tmp_path, python)


SMALL = {
    "model_type": "git",
    "num_hidden_layers": 1,
    "hidden_size": 64,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "vocab_size": 5000,
}


@pytest.mark.thorough  # five seconds; a stand-in for the interpreter is run below, and the tracer is compared with families
@pytest.mark.torch
@pytest.mark.process
def test_a_model_of_no_family_is_planned_by_its_code_where_the_library_is_here(tmp_path: Path) -> None:
    told: list[str] = []
    inventory = Inventory.open(state=tmp_path, config=tmp_path)
    inventory.narrate = told.append
    found = inventory.architecture(SMALL)
    assert (found.layers, found.width, found.vocabulary) == (1, 64, 5000)
    assert stored_description(SMALL, inventory.descriptions)
    assert Inventory.open(state=tmp_path, config=tmp_path).architecture(SMALL) == found
    assert len(told) == 1, "what takes long is told, once"


def test_an_encoder_with_a_decoder_is_not_planned_as_a_decoder_alone(tmp_path: Path) -> None:
    inventory = Inventory.open(state=tmp_path, config=tmp_path)
    for config in ({"model_type": "prophetnet"}, {"model_type": "prophetnet", "is_encoder_decoder": True}):
        with pytest.raises(UserError, match=r"encoder with a decoder.*is_encoder_decoder = false plans its decoder alone"):
            inventory.architecture(config)
    with pytest.raises(UserError, match=r"encoder with a decoder.*builds no part of it alone"):
        inventory.architecture({"model_type": "moonshine"})


@pytest.mark.process
def test_code_that_cannot_be_run_is_tried_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python, runs = tmp_path / "python", tmp_path / "runs"
    python.write_text(f'#!/bin/sh\ncat > /dev/null\necho run >> {runs}\necho \'{{"error": "it needs values"}}\'\nexit 3\n')
    python.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(python))
    monkeypatch.setattr(description, "described_types", lambda: {"strange"})
    inventory = Inventory.open(state=tmp_path, config=tmp_path)
    for _ in range(3):
        with pytest.raises(UserError, match="it needs values"):
            inventory.architecture({"model_type": "strange"})
    assert runs.read_text().split() == ["run"]
