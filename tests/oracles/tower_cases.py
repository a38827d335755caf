"""Towers for pictures as `transformers` builds them from the defaults of each wrapper: their parameters with the projection."""

from __future__ import annotations

from typing import Any

from golden import ORACLES, Golden

GOLDEN = Golden("towers", ORACLES / "tower_cases.py")
WRAPPERS = (
    "gemma3", "glm4v", "glm4v_moe", "idefics3", "internvl", "llama4", "llava", "llava_next", "llava_onevision", "mistral3", "paligemma",
    "qwen2_5_vl", "qwen2_vl", "qwen3_5", "qwen3_5_moe", "qwen3_vl", "qwen3_vl_moe", "smolvlm",
)  # fmt: skip
TEXT = ("language_model", "text_model", "lm_head")
"""Parts of the names of the text's parameters."""


def compute(name: str) -> dict[str, Any]:
    """The config without its text part, the text's width, and the parameters of all else."""
    import torch
    import transformers
    from golden import as_json
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    config = CONFIG_MAPPING[name]()
    with torch.device("meta"):
        model = transformers.AutoModelForImageTextToText.from_config(config)
    said = as_json({key: value for key, value in config.to_dict().items() if isinstance(value, (int, float, str, list))})
    vision = {key: value for key, value in config.vision_config.to_dict().items() if isinstance(value, (int, float, str, list))}
    return {
        "config": {**said, "vision_config": vision},
        "text_width": config.text_config.hidden_size,
        "parameters": sum(one.numel() for path, one in model.named_parameters() if not any(part in path for part in TEXT)),
    }
