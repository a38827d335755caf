"""Parameters against `transformers`: every model is built on the meta device and counted, whole and module by module."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from repository import ROOT

from planner.paths import presets_folder
from planner.workload.huggingface.config import TEXT_PART, read_architecture
from planner.workload.huggingface.family import FAMILIES
from planner.workload.matrices import matrices
from planner.workload.models import ModelShelf

torch = pytest.importorskip("torch")

MODELS = ModelShelf(presets_folder() / "models")
ROWS = json.loads((ROOT / "tests" / "data" / "architectures.json").read_text())["models"]
REMOTE_CODE = {"qwen"}
"""Families whose modelling code is not in the library."""
CONFIGS: dict[str, dict[str, Any]] = {
    f"{source} {name}": config
    for source, name, config in (
        *(("row", row["name"], row["config"]) for row in ROWS),
        *(("catalogue", name, MODELS.config(name)) for name in MODELS.names()),
    )
    if config["model_type"] not in REMOTE_CODE
}


@pytest.fixture(scope="module")
def transformers() -> Iterator[ModuleType]:
    """The library, kept from looking for anything on the net."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("HF_HUB_OFFLINE", "1")
        yield pytest.importorskip("transformers")


def built(library: ModuleType, config: dict[str, Any]) -> Any:
    """The model the library builds for `config`, without memory."""
    kept = {key: value for key, value in (config.get(TEXT_PART) or config).items() if key != "torch_dtype"}
    if kept.get("q_lora_rank") == 0:
        kept["q_lora_rank"] = None  # a preset has no null
    if (family := config["model_type"]) != "bert":
        kept["model_type"] = kept.get("model_type", f"{family}_text")
    kind = library.AutoModelForMaskedLM if family == "bert" else library.AutoModelForCausalLM
    with torch.device("meta"):
        return kind.from_config(library.AutoConfig.for_model(**kept))


def kind_of(name: str, module: Any, *, tied: bool) -> str:
    """The component a parameter belongs to, by the names and classes the library gives its modules."""
    path, _, leaf = name.rpartition(".")
    if "norm" in type(module).__name__.lower():
        return "norms"
    if ".experts" in path:
        return "experts"
    if path.endswith((".gate", ".router")):
        return "router"
    if "shared_expert" in path:
        return "shared"
    if leaf == "bias":
        return "biases"
    if isinstance(module, torch.nn.Embedding) or path.endswith("project_in"):
        return "embedding"
    if path.endswith(("lm_head", "decoder", "embed_out", "project_out", "transform.dense")) and not (tied and path == "lm_head"):
        return "head"
    return "attention" if "attn" in path or "attention" in path else "mlp"


def counted(model: Any, *, tied: bool) -> Counter[str]:
    """Parameters by component; the corrections of a router count, which the library keeps as a buffer."""
    modules = dict(model.named_modules())
    found: Counter[str] = Counter()
    for name, tensor in model.named_parameters():
        found[kind_of(name, modules[name.rpartition(".")[0]], tied=tied)] += tensor.numel()
    for name, tensor in model.named_buffers():
        if name.endswith("e_score_correction_bias"):
            found["router"] += tensor.numel()
    return found


@pytest.mark.parametrize("name", CONFIGS)
def test_every_parameter_is_counted_where_it_is(transformers: ModuleType, name: str) -> None:
    architecture = read_architecture(CONFIGS[name])
    found = counted(built(transformers, CONFIGS[name]), tied=architecture.tied)
    assert architecture.total == found.total()
    assert {kind: count for kind, count in architecture.components.items() if count} == dict(found)


def test_every_family_is_built() -> None:
    families = {read_architecture(config).family for config in CONFIGS.values()}
    assert families == set(FAMILIES) - REMOTE_CODE
    assert len(CONFIGS) >= 100


@pytest.mark.parametrize("name", CONFIGS)
def test_the_matrices_have_the_shapes_the_library_gives_them(transformers: ModuleType, name: str) -> None:
    """Of the layers, without routed experts and their router, which the library keeps in modules of their own."""
    architecture = read_architecture(CONFIGS[name])
    found: Counter[tuple[int, ...]] = Counter()
    for path, module in built(transformers, CONFIGS[name]).named_modules():
        linear = isinstance(module, torch.nn.Linear) or type(module).__name__ == "Conv1D"
        if linear and any(part.isdigit() for part in path.split(".")):
            found[tuple(sorted(module.weight.shape))] += 1
    expected: Counter[tuple[int, ...]] = Counter()
    for matrix in matrices(architecture):
        if matrix.part != "experts" and matrix.role != "router":
            expected[tuple(sorted((matrix.inputs, matrix.outputs)))] += matrix.layers * matrix.copies
    assert found == expected


def test_the_parts_add_up_to_the_whole() -> None:
    for config in CONFIGS.values():
        a = read_architecture(config)
        assert sum(a.components.values()) == a.total
        by_part: Counter[str] = Counter()
        for matrix in matrices(a):
            by_part[matrix.part] += matrix.parameters
        assert by_part["attention"] == a.layers * a.attention_matrix
        assert by_part["mlp"] == a.dense_layers * a.dense_mlp_matrix
        assert by_part["experts"] == a.moe_layers * a.experts * a.expert_matrix
        assert by_part["shared"] + by_part["router"] == a.moe_layers * (a.shared_matrix + a.router_matrix)
        assert a.norms * a.width * (2 if a.centred else 1) >= a.norm_vector
