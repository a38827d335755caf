"""Towers that read pictures, and their projections to the text's width: parameters exact to the unit, and tokens of a picture.

A tower is known by the `model_type` of its `vision_config`, a projection by that of the wrapper, as transformers 5.23 builds them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from planner.errors import Problems
from planner.workload.huggingface.keys import ConfigKeys


class Tower(NamedTuple):
    """Tower of one config: its parameters, and the tokens of a picture."""

    parameters: int
    tokens: int = 0
    """Tokens of a picture, or of each of its tiles, that all have one size; 0: they go by its size."""
    pixels: int = 0
    """Side of the square of pixels that makes one token; 0: all pictures have `tokens`."""


def _blocks(width: int, ffn: int, layers: int, *, norm: int = 2, gated: bool = False, attention: int = 4, mlp: bool = True) -> int:
    """Parameters of a stack: `norm` vectors a norm, `attention` biases of the width, `mlp`: biases of the MLP."""
    matrices = 3 if gated else 2
    biases = attention * width + ((matrices - 1) * ffn + width) * mlp
    return layers * (4 * width * width + matrices * width * ffn + biases + 2 * norm * width)


def _side(keys: ConfigKeys, name: str, default: int) -> int:
    """A side in pixels, which some configs give twice."""
    return keys.size(name, default=default)


def _merged(keys: ConfigKeys, width: int, out: int, *, norm: int) -> int:
    """Merger of neighbouring patches: a norm, and two products with biases."""
    joined = keys.size("spatial_merge_size", default=2) ** 2 * width
    return norm + joined * joined + joined + joined * out + out


def _patch(keys: ConfigKeys, width: int, *, patch: int) -> int:
    return _side(keys, "patch_size", patch) ** 2 * keys.size("in_channels", "num_channels", "in_chans", default=3) * width


def _by_size(keys: ConfigKeys, parameters: int, patch: int) -> Tower:
    return Tower(parameters, pixels=_side(keys, "patch_size", patch) * keys.size("spatial_merge_size", default=2))


def _qwen2(keys: ConfigKeys) -> Tower:
    width, out = keys.size("embed_dim", default=1280), keys.size("hidden_size", default=3584)
    ratio = keys.value("mlp_ratio")
    ffn = int(width * (ratio if isinstance(ratio, int | float) else 4))
    patches = keys.size("temporal_patch_size", default=2) * _patch(keys, width, patch=14)
    blocks = _blocks(width, ffn, keys.size("depth", default=32))
    return _by_size(keys, patches + blocks + _merged(keys, width, out, norm=2 * width), 14)


def _qwen2_5(keys: ConfigKeys) -> Tower:
    width, out = keys.size("hidden_size", default=3584), keys.size("out_hidden_size", default=3584)
    patches = keys.size("temporal_patch_size", default=2) * _patch(keys, width, patch=14)
    blocks = _blocks(width, keys.size("intermediate_size", default=3420), keys.size("depth", default=32), norm=1, gated=True)
    return _by_size(keys, patches + blocks + _merged(keys, width, out, norm=width), 14)


def _qwen3(keys: ConfigKeys) -> Tower:
    width, out = keys.size("hidden_size", default=1152), keys.size("out_hidden_size", default=3584)
    patches = keys.size("temporal_patch_size", default=2) * _patch(keys, width, patch=16) + width
    positions = keys.size("num_position_embeddings", default=2304) * width
    blocks = _blocks(width, keys.size("intermediate_size", default=4304), keys.size("depth", default=27))
    joined = keys.size("spatial_merge_size", default=2) ** 2 * width
    mergers = _merged(keys, width, out, norm=2 * width)
    mergers += len(keys.items("deepstack_visual_indexes")) * _merged(keys, width, out, norm=2 * joined)
    return _by_size(keys, patches + positions + blocks + mergers, 16)


def _glm4v(keys: ConfigKeys) -> Tower:
    width, out = keys.size("hidden_size", default=1536), keys.size("out_hidden_size", default=4096)
    ffn, merge = keys.size("intermediate_size", default=13696), keys.size("spatial_merge_size", default=2)
    patches = keys.size("temporal_patch_size", default=2) * _patch(keys, width, patch=14) + width
    grid = _side(keys, "image_size", 336) // _side(keys, "patch_size", 14)
    biased = 4 * keys.flag("attention_bias", default=False)
    blocks = _blocks(width, out, keys.size("depth", default=24), norm=1, gated=True, attention=biased, mlp=False)
    merger = out * out + 2 * out + 3 * out * ffn
    return _by_size(keys, patches + grid**2 * width + blocks + merger + 2 * width + width * merge**2 * out + out, 14)


def _siglip(keys: ConfigKeys) -> Tower:
    width, ffn = keys.size("hidden_size", default=768), keys.size("intermediate_size", default=3072)
    grid = _side(keys, "image_size", 224) // _side(keys, "patch_size", 16)
    head = 5 * width + 4 * width * width + 2 * width * ffn + ffn + 3 * width
    own = _patch(keys, width, patch=16) + width + grid**2 * width + 2 * width
    blocks = _blocks(width, ffn, keys.size("num_hidden_layers", default=12))
    headed = keys.value("model_type") != "idefics3_vision" and keys.flag("vision_use_head", default=True)
    return Tower(own + blocks + head * headed, tokens=grid**2)


def _idefics3(keys: ConfigKeys) -> Tower:
    width, grid = keys.size("hidden_size", default=1152), _side(keys, "image_size", 224) // _side(keys, "patch_size", 32)
    own = _patch(keys, width, patch=32) + width + grid**2 * width + 2 * width
    ffn, layers = keys.size("intermediate_size", default=3072), keys.size("num_hidden_layers", default=12)
    return Tower(own + _blocks(width, ffn, layers), tokens=grid**2)


def _clip(keys: ConfigKeys) -> Tower:
    width, grid = keys.size("hidden_size", default=768), _side(keys, "image_size", 224) // _side(keys, "patch_size", 32)
    own = width + _patch(keys, width, patch=32) + (grid**2 + 1) * width + 4 * width
    ffn, layers = keys.size("intermediate_size", default=3072), keys.size("num_hidden_layers", default=12)
    return Tower(own + _blocks(width, ffn, layers), tokens=grid**2)


def _pixtral(keys: ConfigKeys) -> Tower:
    width, ffn = keys.size("hidden_size", default=1024), keys.size("intermediate_size", default=4096)
    blocks = _blocks(width, ffn, keys.size("num_hidden_layers", default=24), norm=1, gated=True, attention=0, mlp=False)
    return Tower(_patch(keys, width, patch=16) + width + blocks, pixels=_side(keys, "patch_size", 16))


def _llama4(keys: ConfigKeys) -> Tower:
    width, ffn = keys.size("hidden_size", default=768), keys.size("intermediate_size", default=5632)
    grid = _side(keys, "image_size", 448) // _side(keys, "patch_size", 14)
    own = width + (grid**2 + 1) * width + _patch(keys, width, patch=14) + 4 * width
    inner, out = keys.size("projector_input_dim", default=4096), keys.size("projector_output_dim", default=4096)
    ratio = keys.share("pixel_shuffle_ratio", default=0.5)
    blocks = _blocks(width, ffn, keys.size("num_hidden_layers", default=34))
    return Tower(own + blocks + ffn * inner + inner * out, tokens=round(grid**2 * ratio * ratio))


def _internvl(keys: ConfigKeys) -> Tower:
    width, ffn = keys.size("hidden_size", default=1024), keys.size("intermediate_size", default=4096)
    grid = _side(keys, "image_size", 448) // _side(keys, "patch_size", 14)
    layers = keys.size("num_hidden_layers", default=24)
    biases = 1 + 3 * keys.flag("attention_bias", default=False)
    own = width + (grid**2 + 1) * width + _patch(keys, width, patch=14) + width
    scales = layers * width * (2 + 2 * keys.flag("use_qk_norm", default=False))
    norm = 1 if keys.value("norm_type") == "rms_norm" else 2
    last = norm * width * (not keys.flag("use_mean_pooling", default=True))
    return Tower(own + _blocks(width, ffn, layers, norm=norm, attention=biases) + scales + last, tokens=grid**2)


TOWERS: dict[str, Callable[[ConfigKeys], Tower]] = {
    "clip_vision_model": _clip,
    "glm4v_moe_vision": _glm4v,
    "glm4v_vision": _glm4v,
    "idefics3_vision": _idefics3,
    "internvl_vision": _internvl,
    "llama4_vision_model": _llama4,
    "pixtral": _pixtral,
    "qwen2_5_vl": _qwen2_5,
    "qwen2_5_vl_vision": _qwen2_5,
    "qwen2_vl": _qwen2,
    "qwen2_vl_vision": _qwen2,
    "qwen3_5_moe_vision": _qwen3,
    "qwen3_5_vision": _qwen3,
    "qwen3_vl": _qwen3,
    "qwen3_vl_moe": _qwen3,
    "qwen3_vl_moe_vision": _qwen3,
    "qwen3_vl_vision": _qwen3,
    "siglip_vision_model": _siglip,
    "smolvlm_vision": _idefics3,
}
"""`model_type` of a `vision_config` -> its tower."""


def _projection(wrapper: str, config: Mapping[str, Any], part: ConfigKeys, text: int, tower: Tower) -> Tower | None:
    """The tower with the projection of the wrapper; None for one that is not known."""
    width, keys = part.size("hidden_size", default=1024), ConfigKeys(config, Problems(""))
    biased = keys.flag("multimodal_projector_bias", default=wrapper.startswith("llava"))
    if "merger" in wrapper or (tower.pixels and wrapper != "mistral3" and not wrapper.startswith("llava")):
        return tower
    if wrapper == "gemma3":
        return Tower(tower.parameters + width * text + width, tokens=keys.size("mm_tokens_per_image", default=256))
    if wrapper == "paligemma":
        return Tower(tower.parameters + width * text + text, tokens=tower.tokens)
    if wrapper in {"llava", "llava_next", "llava_next_video", "llava_onevision"}:
        layers = keys.value("vision_feature_layer")
        inputs = width * (len(layers) if isinstance(layers, list) else 1)
        newline = text * (wrapper != "llava")
        return tower._replace(parameters=tower.parameters + inputs * text + text * text + 2 * text * biased + newline)
    if wrapper == "mistral3":
        merge = keys.size("spatial_merge_size", default=2)
        own = width + merge**2 * width * width + width * text + text * text + 2 * text * biased
        return Tower(tower.parameters + own, pixels=tower.pixels * merge)
    if wrapper == "llama4":
        return tower._replace(parameters=tower.parameters + part.size("vision_output_dim", default=7680) * text)
    if wrapper == "internvl":
        ratio = keys.share("downsample_ratio", default=0.5)
        joined = round(width / ratio / ratio)
        own = 2 * joined + joined * text + text + text * text + text
        return Tower(tower.parameters + own, tokens=keys.size("image_seq_length", default=256))
    if wrapper in {"idefics3", "smolvlm"}:
        factor = keys.size("scale_factor", default=2) ** 2
        return Tower(tower.parameters + factor * width * text, tokens=tower.tokens // factor)
    return None


def read_tower(config: Mapping[str, Any], text_width: int) -> Tower | None:
    """The tower of a wrapper whose text has `text_width`; None where it has none, or one that is not known in full."""
    part, wrapper = config.get("vision_config"), config.get("model_type")
    if not isinstance(part, Mapping) or not isinstance(wrapper, str):
        return None
    kind = part.get("model_type", wrapper)
    problems = Problems("")
    keys = ConfigKeys(part, problems)
    if not isinstance(kind, str) or kind not in TOWERS:
        return None
    tower = _projection(wrapper, config, keys, text_width, TOWERS[kind](keys))
    return None if problems.found else tower
