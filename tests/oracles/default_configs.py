"""Write `tests/data/default_configs.json`: the configuration `transformers` takes for each `model_type` of which nothing is said.

Of every family that the library builds, the keys that it reads.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from golden import ROOT
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, MODEL_FOR_MASKED_LM_MAPPING_NAMES

from planner.errors import UserError
from planner.workload.huggingface.config import read_architecture
from planner.workload.huggingface.families.remote import REMOTE_CODE
from planner.workload.huggingface.keys import FAMILIES
from planner.workload.huggingface.two_stacks_parts import TWO_STACKS

GIVEN: dict[str, dict[str, Any]] = {
    "dots1": {"n_routed_experts": 128, "num_experts_per_tok": 6, "n_shared_experts": 2, "first_k_dense_replace": 1},
    "esm": {"vocab_size": 33, "position_embedding_type": "rotary"},
    "hunyuan_v1_dense": {"head_dim": 128},
    "hunyuan_v1_moe": {"head_dim": 128, "num_key_value_heads": 8, "num_experts": 16, "moe_topk": 1},
    "lfm2_moe": {"layer_types": ["conv", "conv", "full_attention", "conv"] * 8},
    "ministral": {"head_dim": 128},
    "nemotron": {"head_dim": 128, "num_key_value_heads": 8},
}
"""What the defaults of a family lack to be built."""


BYTES = {"blt"}
"""Families of bytes and patches, whose modules have other names: `test_families_by_value` counts them."""


class Recorded(Mapping[str, Any]):
    """A mapping that remembers which of its keys were asked for."""

    def __init__(self, inner: Mapping[str, Any]) -> None:
        self.inner, self.asked = inner, {"model_type"}

    def __getitem__(self, key: str) -> Any:
        self.asked.add(key)
        return self.inner[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.inner)

    def __len__(self) -> int:
        return len(self.inner)

    def __contains__(self, key: object) -> bool:
        self.asked.add(str(key))
        return key in self.inner


def main() -> None:
    """Write the file."""
    rows = json.loads((ROOT / "tests" / "data" / "architectures.json").read_text())["models"]
    counted = {row["config"]["model_type"] for row in rows}
    found = {}
    for name in sorted(
        {*MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, *MODEL_FOR_MASKED_LM_MAPPING_NAMES}
        & set(FAMILIES) - {*TWO_STACKS, *REMOTE_CODE, *BYTES}
    ):
        config = Recorded(json.loads(json.dumps(CONFIG_MAPPING[name](**GIVEN.get(name, {})).to_dict(), default=str)))
        try:
            read_architecture(config)
        except UserError:
            if name in counted:  # its defaults are of no model: rows of `architectures.json` count it
                continue
            raise
        found[name] = {
            key: config.inner[key]
            for key in config.inner
            if key in config.asked and (key, config.inner[key]) != ("architectures", None)
        }
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(config)}" for name, config in found.items())
    (ROOT / "tests" / "data" / "default_configs.json").write_text(f"{{\n{lines}\n}}\n")


if __name__ == "__main__":
    main()
