"""Reads a Hugging Face `config.json` into an `Architecture`, family by family, exact to the parameter.

Each family is one function from the config's keys to sizes (`family.py`); it states what the modelling code of
`transformers` builds for that `model_type`, and what it takes for a key that is left out. An unknown `model_type` is refused.
A model of text and something else (`gemma3`, `mistral3`, …) holds its text part under `text_config`: that part is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.errors import Problem, Problems, UserError, nearest_names, shown
from planner.workload.architecture import Architecture
from planner.workload.huggingface import experts, gemma, gpt, hybrid, line, llama  # noqa: F401  # each adds its families
from planner.workload.huggingface.family import FAMILIES
from planner.workload.huggingface.keys import ConfigKeys

TEXT_PART = "text_config"
_OTHER_PARTS = ("vision_config", "audio_config")
_TEXT_FAMILIES = {"gemma3": "gemma3_text"}
"""`model_type` of a wrapper -> that of its text part, where the part may leave it out."""


def known_family(config: Mapping[str, Any]) -> bool:
    """Whether the family of `config`, or of its text part, is known."""
    part = config.get(TEXT_PART)
    inner = part.get("model_type", _TEXT_FAMILIES.get(str(config.get("model_type")))) if isinstance(part, Mapping) else None
    return any(isinstance(name, str) and name in FAMILIES for name in (config.get("model_type"), inner))


def read_architecture(config: Mapping[str, Any], where: str = "") -> Architecture:
    """The architecture a config describes; raises `UserError` naming every missing, unusable or contradictory key.

    Of a wrapper only the text part is counted; `Architecture.left_out` names the others.
    """
    family = config.get("model_type")
    part = config.get(TEXT_PART)
    if isinstance(part, Mapping) and (not isinstance(family, str) or family not in FAMILIES):
        inner = part.get("model_type", _TEXT_FAMILIES.get(family) if isinstance(family, str) else None)
        others = tuple(name for name in _OTHER_PARTS if config.get(name) is not None)
        tied = (
            {}
            if "tie_word_embeddings" in part or config.get("tie_word_embeddings") is None
            else {"tie_word_embeddings": config["tie_word_embeddings"]}
        )
        return _read(inner, {**part, **tied}, where, f"model.{TEXT_PART}.", others)
    return _read(family, config, where, "model.", ())


def _read(name: object, config: Mapping[str, Any], where: str, prefix: str, left_out: tuple[str, ...]) -> Architecture:
    if not isinstance(name, str) or name not in FAMILIES:
        given = (
            "missing"
            if name is None
            else f"{shown(name)} is not supported, unless `gpu-planner models describe` can trace its code"
        )
        near = nearest_names(str(name), FAMILIES) if name is not None else ()
        raise UserError(Problem(where, f"{prefix}model_type", f"{given}; supported: {', '.join(sorted(FAMILIES))}.", near))
    problems = Problems(where)
    family = FAMILIES[name]
    keys = ConfigKeys(config, problems, prefix)
    sizes = family.read_sizes(keys)
    groups, chosen = keys.count("n_group"), keys.count("topk_group")
    if 0 < chosen < groups:
        sizes["routed_share"] = chosen / groups
    if not problems.found:
        _check(sizes, config, problems, prefix)
    problems.raise_if_any()
    sizes["left_out"] = (*sizes.get("left_out", ()), *left_out)
    return Architecture(family=name, block=family.block, eager_attention=family.eager_attention, **sizes)


def _check(sizes: Mapping[str, Any], config: Mapping[str, Any], problems: Problems, prefix: str) -> None:
    """Sizes that are usable one by one, but not together."""
    heads, groups, layers = sizes["heads"], sizes["kv_heads"], sizes["layers"]
    if heads % groups:
        name = "num_kv_heads" if "num_kv_heads" in config else "num_key_value_heads"
        problems.add(f"{prefix}{name}", f"{groups} does not divide num_attention_heads = {heads}.")
    routed, used = sizes.get("experts", 0), sizes.get("experts_per_token", 0)
    if used > routed:
        problems.add(f"{prefix}num_experts_per_tok", f"{used} is more than the {routed} experts there are.")
    if sizes["dense_layers"] > layers:
        problems.add(f"{prefix}first_k_dense_replace", f"{sizes['dense_layers']} is more than the {layers} layers there are.")
    if isinstance(kinds := config.get("layer_types"), list) and kinds and len(kinds) != layers:
        problems.add(f"{prefix}layer_types", f"names {len(kinds)} layers; num_hidden_layers is {layers}.")
