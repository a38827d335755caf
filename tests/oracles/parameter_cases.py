"""The models whose parameters are counted, and the golden values of what `transformers` builds for each."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

from golden import ORACLES, ROOT, Golden, digest

from planner.paths import presets_folder
from planner.workload.architecture import Architecture
from planner.workload.huggingface.families.remote import REMOTE_CODE as ON_THE_HUB
from planner.workload.huggingface.two_stacks_parts import TWO_STACKS
from planner.workload.models import ModelShelf

GOLDEN = Golden("parameters", ORACLES / "parameter_oracle.py")
SHELF = ModelShelf(presets_folder() / "models")
ROWS = json.loads((ROOT / "tests" / "data" / "architectures.json").read_text())["models"]
DEFAULTS: dict[str, dict[str, Any]] = json.loads((ROOT / "tests" / "data" / "default_configs.json").read_text())
"""What the library takes for each `model_type` of which nothing is said, as far as its family reads it (`oracles/default_configs.py`)."""
REMOTE_CODE = {
    "qwen", "nemotron-nas", "bailing_moe", "bailing_moe_v2", "kimi_k3", "step3p5", "step3p7", "mistral4", "qwen3_omni_moe_text",
    "mllama_text_model", *ON_THE_HUB,
}  # fmt: skip
"""Families whose modelling code is not in the library, or not by itself; Kimi K3's keys are more than its `kimi_linear` reads."""
IN_OTHER_WORDS = {"grok-1", "grok-2"}
"""Models of the catalogue whose own code is not in the library, written as another family whose products they have."""


def in_16_bit(config: dict[str, Any]) -> dict[str, Any]:
    """`config` without the format of its checkpoint, which changes no parameter."""
    return {key: value for key, value in config.items() if key not in {"quantization_config", "expert_dtype"}}


CONFIGS: dict[str, dict[str, Any]] = {
    f"{source} {name}": config
    for source, name, config in (
        *(("row", row["name"], row["config"]) for row in ROWS),
        *(("catalogue", name, in_16_bit(SHELF.config(name))) for name in SHELF.names() if name not in IN_OTHER_WORDS),
        *(("default", name, config) for name, config in DEFAULTS.items()),
    )
    if config["model_type"] not in REMOTE_CODE and config["model_type"] not in TWO_STACKS
}


@dataclass(frozen=True)
class Built:
    """What the library builds for one configuration."""

    parameters: Counter[str]
    """By component."""
    shapes: Counter[tuple[int, ...]]
    """Linear layers of the stack by shape, the smaller side first."""


def key(name: str) -> str:
    """Under which the golden value of a configuration lies: the name, and a digest of its content."""
    return f"{name} {digest(json.dumps(CONFIGS[name], sort_keys=True))}"


def built(name: str) -> Built:
    """What is built for the configuration `name`: the golden value, or the library asked where there is none."""
    found = GOLDEN.get(key(name), lambda: compute(name))
    return Built(Counter(found["parameters"]), Counter({tuple(shape): count for *shape, count in found["shapes"]}))


def compute(name: str) -> dict[str, Any]:
    """What is kept as a golden value, from the library itself."""
    from parameter_oracle import build, counted, shapes

    model = build(CONFIGS[name])
    return {"parameters": dict(sorted(counted(model).items())), "shapes": sorted([*shape, n] for shape, n in shapes(model).items())}


def components(a: Architecture) -> dict[str, int]:
    """Parameters by kind, in the order of the forward pass; they add up to `total`.

    "experts" include their biases; "attention" the sinks, "router" its biases or corrections, "shared" its gate, "norms" their
    biases; "biases" are of all other projections, the head included; "head" is 0 when tied; "towers" read pictures.
    """
    further_parts = (*a.instead, *a.beside)
    further = {
        part: sum(one.kept * (one.matrix + one.convolution + one.other) for one in further_parts if one.part == part)
        for part in ("attention", "mlp", "router")
    }
    norms, biases = (sum(one.kept * getattr(one, name) for one in further_parts) for name in ("norm", "bias"))
    own = a.attention_layers
    source = components(a.source) if a.source else {}
    counted = {
        "embedding": a.embedding - source.get("embedding", 0),
        "attention": own * (a.attention_matrix + a.sinks) + further["attention"],
        "mlp": a.dense_layers * a.dense_mlp_matrix + further["mlp"],
        "experts": a.experts_total - source.get("experts", 0),
        "router": a.moe_layers * (a.router_matrix + a.router_vector) + further["router"],
        "shared": a.moe_layers * a.shared_matrix,
        "norms": own * a.attention_norm + a.layers * a.norm_vector + norms + a.final_norms * a.norm_parameters,
        "biases": own * a.attention_bias + a.dense_layers * a.mlp_vector + biases + a.final_bias,
        "head": a.head,
        "towers": a.towers,
    }
    return {kind: count + source.get(kind, 0) for kind, count in counted.items()}
