"""Towers for pictures as `transformers` builds them from the defaults of each wrapper: their parameters with the projection."""

from __future__ import annotations

from typing import Any

from golden import ORACLES, Golden

GOLDEN = Golden("towers", ORACLES / "tower_cases.py")
WRAPPERS = (
    "gemma3", "gemma4", "glm4v", "glm4v_moe", "idefics3", "internvl", "kimi_k25", "lfm2_vl", "llama4", "llava", "llava_next", "llava_onevision",
    "minimax_m3_vl", "mistral3", "paligemma", "qwen2_5_vl", "qwen2_vl", "qwen3_5", "qwen3_5_moe", "qwen3_vl", "qwen3_vl_moe", "smolvlm", "step3p7",
)  # fmt: skip
FLOWN = {"internvl": 1024, "llava": 576, "paligemma": 256, "qwen2_vl": 96, "qwen2_5_vl": 96, "qwen3_vl": 96, "glm4v": 96}
"""Wrappers whose tower runs on the meta device, and tokens of the picture that is tried (before InternVL joins four)."""
GIVEN: dict[str, Any] = {"gemma4": {"vision_config": {"model_type": "gemma4_vision"}}}
"""Settings that the defaults of a wrapper lack to have a tower."""
ROWS, COLUMNS = 16, 24
"""Patches of a picture that goes by its size."""
TEXT = ("language_model", "text_model", "lm_head")
"""Parts of the names of the text's parameters."""


def picture_flop(name: str, model: Any, vision: Any) -> int:
    """FLOP of the products of one picture, without attention's where it goes by its size: a fused kernel makes it there."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    with torch.no_grad(), FlopCounterMode(display=False) as counted:
        if hasattr(vision, "spatial_merge_size"):
            size = vision.in_channels * vision.temporal_patch_size * vision.patch_size**2
            tower, patches = _small(model.model.visual), torch.zeros(ROWS * COLUMNS, size)
            tower(patches, grid_thw=torch.tensor([[1, ROWS, COLUMNS]]))
        else:
            side = vision.image_size if isinstance(vision.image_size, int) else vision.image_size[0]
            model.get_image_features(torch.zeros(1, 3, side, side, device="meta"))
    return int(counted.get_total_flops())


def _small(tower: Any) -> Any:
    """`tower` with memory for its weights, all 0."""
    tower = tower.to_empty(device="cpu")
    for tensor in (*tower.parameters(), *tower.buffers()):
        tensor.data.zero_()
    return tower


def compute(name: str) -> dict[str, Any]:
    """The config without its text part, the text's width, and the parameters of all else."""
    import torch
    import transformers
    from golden import as_json
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    config = CONFIG_MAPPING[name](**GIVEN.get(name, {}))
    if name in FLOWN and hasattr(config.vision_config, "depth"):
        config.vision_config.depth = 8  # so that it runs on the processor
        for indexes in ("fullatt_block_indexes", "deepstack_visual_indexes"):
            if hasattr(config.vision_config, indexes):
                setattr(config.vision_config, indexes, [3, 7])
    with torch.device("meta"):
        model = transformers.AutoModelForImageTextToText.from_config(config)
    said = as_json({key: value for key, value in config.to_dict().items() if isinstance(value, (int, float, str, list))})
    vision = {key: value for key, value in config.vision_config.to_dict().items() if isinstance(value, (int, float, str, list))}
    flown = {"flop": picture_flop(name, model, config.vision_config)} if name in FLOWN else {}
    return flown | {
        "config": {**said, "vision_config": vision},
        "text_width": config.text_config.hidden_size,
        "parameters": sum(one.numel() for path, one in model.named_parameters() if not any(part in path for part in TEXT)),
    }
