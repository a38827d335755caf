"""Parameters against `transformers`: every model is built on the meta device and counted, whole and module by module."""

from __future__ import annotations

from collections import Counter
from types import ModuleType

import pytest
from each_case import each_case
from parameter_cases import CONFIGS, GOLDEN, REMOTE_CODE, built, components, compute, key

from planner.workload.huggingface.config import read_architecture
from planner.workload.huggingface.keys import FAMILIES
from planner.workload.huggingface.two_stacks_parts import TWO_STACKS
from planner.workload.matrices import matrices

pytestmark = pytest.mark.sweep

SPOT_CHECKS = [name for name in CONFIGS if CONFIGS[name]["model_type"] in {"gpt2", "deepseek_v3"}][:3]
"""Few of the golden values, computed in every run, so that the oracle itself is tried."""


@each_case("name", CONFIGS)
def test_every_parameter_is_counted_where_it_is(name: str) -> None:
    architecture = read_architecture(CONFIGS[name])
    found = built(name).parameters
    counted = {kind: count for kind, count in components(architecture).items() if count and kind != "towers"}
    assert architecture.total - architecture.towers == found.total()
    assert counted == dict(found)


@pytest.mark.parametrize("name", SPOT_CHECKS)
def test_golden_values_are_what_the_library_gives_today(torch: ModuleType, name: str) -> None:
    pytest.importorskip("transformers")
    assert compute(name) == GOLDEN.values[key(name)]


def test_golden_values_are_of_the_oracle_as_it_is() -> None:
    assert GOLDEN.made_from == GOLDEN.digests(), "make oracles"
    assert set(GOLDEN.values) <= {key(name) for name in CONFIGS}, "make oracles"


def test_every_family_is_built() -> None:
    families = {read_architecture(config).family for config in CONFIGS.values()}
    assert families == set(FAMILIES) - REMOTE_CODE - set(TWO_STACKS) - {"blt"}, (
        "two stacks: test_two_stacks; bytes: test_families_by_value"
    )
    assert len(CONFIGS) >= 100


@each_case("name", CONFIGS)
def test_the_matrices_have_the_shapes_the_library_gives_them(name: str) -> None:
    """Matrices of the layers, without routed experts and their router, which the library keeps in modules of their own."""
    expected: Counter[tuple[int, ...]] = Counter()
    for matrix in matrices(read_architecture(CONFIGS[name])):
        if matrix.part != "experts" and matrix.role != "router":
            again = name.endswith((" hrm_text", " albert"))  # one module for all its uses
            expected[tuple(sorted((matrix.inputs, matrix.outputs)))] += matrix.kept if again else int(matrix.layers) * matrix.copies
    assert built(name).shapes == expected


def test_the_parts_add_up_to_the_whole() -> None:
    for config in CONFIGS.values():
        a = read_architecture(config)
        assert sum(components(a).values()) == a.total
        by_part: Counter[str] = Counter()
        for matrix in matrices(a):
            by_part[matrix.part] += matrix.parameters
        further = {
            part: sum(one.kept * one.matrix for one in (*a.instead, *a.beside) if one.part == part) for part in ("attention", "mlp")
        }
        assert by_part["attention"] == a.attention_layers * a.attention_matrix + further["attention"]
        assert by_part["mlp"] == a.dense_layers * a.dense_mlp_matrix + further["mlp"]
        assert by_part["experts"] == a.moe_layers * a.experts * a.expert_matrix
        assert by_part["shared"] + by_part["router"] == a.moe_layers * (a.shared_matrix + a.router_matrix)
        assert a.norms * a.width * (2 if a.centred else 1) >= a.norm_vector
