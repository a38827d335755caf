"""Families and traced descriptions against what the code of `transformers` does: FLOPs of a prompt, bytes of its cache, parameters."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from description_cases import CASES, GOLDEN, WHOLE, compute, key, product

from planner.engine.performance.operators.matrix_products import pass_products
from planner.errors import UserError
from planner.observe.benchmark.description import kept_description, make_description
from planner.workload.architecture import Architecture
from planner.workload.huggingface.config import read_architecture
from planner.workload.huggingface.described import described_architecture

ALL_EXPERTS = {"llama4_text"}
"""Families whose code in transformers sends every token through every expert and weighs most of them with 0."""


def golden(name: str) -> dict[str, Any]:
    found: dict[str, Any] = GOLDEN.get(key(name), lambda: compute(name))
    return found


def flops(a: Architecture, tokens: int) -> float:
    """As the eager code makes them: scores of all tokens, whatever a window hides."""
    return sum(one.flop for one in pass_products(a, tokens, tokens, head_rows=tokens, new=tokens, windows=False))


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
    assert set(GOLDEN.values) == {key(name) for name in CASES}, "make oracles"
    assert len(CASES) >= 130


@pytest.mark.parametrize("name", CASES)
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
    assert kept_description({"model_type": "strange"}, tmp_path) is None


@pytest.mark.process
def test_a_description_is_kept_by_its_config(tmp_path: Path) -> None:
    config, found = CASES["olmo3"], golden("olmo3")
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\ncat > /dev/null\ncat <<'END'\n{json.dumps(found)}\nEND\n")
    python.chmod(0o755)
    assert make_description(config, tmp_path, python) == kept_description(config, tmp_path) == found
    assert kept_description(config | {"vocab_size": 1}, tmp_path) is None
