"""Reads a Hugging Face `config.json` into an `Architecture`, family by family, exact to the parameter.

Each family is one function from the config's keys to sizes; it states what the modelling code of `transformers`
builds for that `model_type`, and what it takes for a key that is left out. An unknown `model_type` is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from planner.errors import Problem, Problems, UserError, nearest_names
from planner.workload import gpt_families, llama_families
from planner.workload.architecture import Architecture
from planner.workload.config_keys import ConfigKeys

FAMILIES: dict[str, Callable[[ConfigKeys], dict[str, Any]]] = {
    "llama": llama_families.llama,
    "mistral": llama_families.mistral,
    "mixtral": llama_families.mixtral,
    "qwen2": llama_families.qwen2,
    "qwen2_moe": llama_families.qwen2_moe,
    "qwen3": llama_families.qwen3,
    "qwen3_moe": llama_families.qwen3_moe,
    "phi3": llama_families.phi3,
    "gemma2": llama_families.gemma2,
    "gemma3_text": llama_families.gemma3,
    "olmo2": llama_families.olmo2,
    "gpt_oss": llama_families.gpt_oss,
    "deepseek_v2": llama_families.deepseek_v2,
    "deepseek_v3": llama_families.deepseek_v3,
    "gpt2": gpt_families.gpt2,
    "gptj": gpt_families.gptj,
    "gpt_neox": gpt_families.gpt_neox,
    "falcon": gpt_families.falcon,
    "mpt": gpt_families.mpt,
    "phi": gpt_families.phi,
}
"""`model_type` -> reader."""


def read_architecture(config: Mapping[str, Any], where: str = "") -> Architecture:
    """The architecture a config describes; raises `UserError` naming every missing, unusable or contradictory key."""
    family = config.get("model_type")
    if not isinstance(family, str) or family not in FAMILIES:
        given = "missing" if family is None else f"{family!r} is not supported"
        near = nearest_names(str(family), FAMILIES) if family is not None else ()
        raise UserError(Problem(where, "model.model_type", f"{given}; supported: {', '.join(sorted(FAMILIES))}.", near))
    problems = Problems(where)
    sizes = FAMILIES[family](ConfigKeys(config, problems))
    if not problems.found:
        _check(sizes, config, problems)
    problems.raise_if_any()
    return Architecture(family=family, **sizes)


def _check(sizes: Mapping[str, Any], config: Mapping[str, Any], problems: Problems) -> None:
    """Sizes that are usable one by one, but not together."""
    heads, groups, layers = sizes["heads"], sizes["kv_heads"], sizes["layers"]
    if heads % groups:
        name = "num_kv_heads" if "num_kv_heads" in config else "num_key_value_heads"
        problems.add(f"model.{name}", f"{groups} does not divide num_attention_heads = {heads}.")
    experts, used = sizes.get("experts", 0), sizes.get("experts_per_token", 0)
    if used > experts:
        problems.add("model.num_experts_per_tok", f"{used} is more than the {experts} experts there are.")
    if sizes["dense_layers"] > layers:
        problems.add("model.first_k_dense_replace", f"{sizes['dense_layers']} is more than the {layers} layers there are.")
    if (kinds := config.get("layer_types")) and len(kinds) != layers:
        problems.add("model.layer_types", f"names {len(kinds)} layers; num_hidden_layers is {layers}.")
