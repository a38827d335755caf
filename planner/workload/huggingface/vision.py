"""Towers that read pictures, and their projections to the text's width: parameters exact to the unit, and tokens of a picture.

A tower is known by the `model_type` of its `vision_config`, a projection by that of the wrapper, as transformers 5.23 builds them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from planner.errors import Problems
from planner.workload.architecture import Architecture
from planner.workload.block import Block
from planner.workload.huggingface.keys import ConfigKeys
from planner.workload.sublayers import Sublayer

QWEN_WHOLE_LAYERS = 4
"""Layers of Qwen2.5-VL's tower that attend to a whole picture, where the config does not name them."""


class Stack(NamedTuple):
    """The layers that patches of a picture pass, each of which attends to all others of its picture."""

    width: int
    heads: int
    layers: int
    ffn: int
    gated: bool
    patch: int
    """Matrix parameters of the embedding of a patch."""
    patches: int
    """Patches, with a class token, of a picture; or those that make one token, where pictures have their own sizes."""
    window: int = 0
    """Patches of the window that all layers but `whole` attend to; 0: none has one."""
    whole: int = 0


class Tower(NamedTuple):
    """Tower of one config: its parameters, and the tokens of a picture."""

    parameters: int
    tokens: int = 0
    """Tokens of a picture, or of each of its tiles, that all have one size; 0: they go by its size."""
    pixels: int = 0
    """Side of the square of pixels that makes one token; 0: all pictures have `tokens`."""
    stack: Stack | None = None
    """None: what a picture takes is not known."""
    projection: int = 0
    """Matrix parameters that each token of a picture is multiplied with behind the layers."""


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


def _by_size(keys: ConfigKeys, parameters: int, patch: int, stack: Stack, projection: int) -> Tower:
    merge = keys.size("spatial_merge_size", default=2)
    pixels = _side(keys, "patch_size", patch) * merge
    return Tower(parameters, pixels=pixels, stack=stack._replace(patches=merge**2), projection=projection)


def _square(
    keys: ConfigKeys, parameters: int, grid: int, width: int, *, patch: int, ffn: int, layers: int, classed: int = 0
) -> Tower:
    """A tower of pictures of one size, `grid` patches wide, of `layers` plain layers; `classed`: class tokens."""
    heads, embedded = keys.size("num_attention_heads", default=12), _patch(keys, width, patch=patch)
    stack = Stack(width, heads, layers, ffn, gated=False, patch=embedded, patches=grid**2 + classed)
    return Tower(parameters, tokens=grid**2, stack=stack)


def _joined(keys: ConfigKeys, width: int, out: int) -> int:
    """Matrices of the merger of neighbouring patches."""
    joined = keys.size("spatial_merge_size", default=2) ** 2 * width
    return joined * joined + joined * out


def _qwen2(keys: ConfigKeys) -> Tower:
    width, out = keys.size("embed_dim", default=1280), keys.size("hidden_size", default=3584)
    ratio = keys.value("mlp_ratio")
    ffn = int(width * (ratio if isinstance(ratio, int | float) else 4))
    patches = keys.size("temporal_patch_size", default=2) * _patch(keys, width, patch=14)
    layers, heads = keys.size("depth", default=32), keys.size("num_heads", default=16)
    stack = Stack(width, heads, layers, ffn, gated=False, patch=patches, patches=0)
    whole = patches + _blocks(width, ffn, layers) + _merged(keys, width, out, norm=2 * width)
    return _by_size(keys, whole, 14, stack, _joined(keys, width, out))


def _qwen2_5(keys: ConfigKeys) -> Tower:
    width, out = keys.size("hidden_size", default=3584), keys.size("out_hidden_size", default=3584)
    patches = keys.size("temporal_patch_size", default=2) * _patch(keys, width, patch=14)
    ffn, layers, heads = (
        keys.size(name, default=usual) for name, usual in (("intermediate_size", 3420), ("depth", 32), ("num_heads", 16))
    )
    window = (keys.size("window_size", default=112) // _side(keys, "patch_size", 14)) ** 2
    whole = len(keys.items("fullatt_block_indexes")) or QWEN_WHOLE_LAYERS
    stack = Stack(width, heads, layers, ffn, gated=True, patch=patches, patches=0, window=window, whole=whole)
    blocks = _blocks(width, ffn, layers, norm=1, gated=True)
    return _by_size(keys, patches + blocks + _merged(keys, width, out, norm=width), 14, stack, _joined(keys, width, out))


def _qwen3(keys: ConfigKeys) -> Tower:
    width, out = keys.size("hidden_size", default=1152), keys.size("out_hidden_size", default=3584)
    patches = keys.size("temporal_patch_size", default=2) * _patch(keys, width, patch=16) + width
    positions = keys.size("num_position_embeddings", default=2304) * width
    ffn, layers = keys.size("intermediate_size", default=4304), keys.size("depth", default=27)
    joined = keys.size("spatial_merge_size", default=2) ** 2 * width
    mergers, deep = _merged(keys, width, out, norm=2 * width), len(keys.items("deepstack_visual_indexes"))
    mergers += deep * _merged(keys, width, out, norm=2 * joined)
    heads = keys.size("num_heads", default=16)
    stack = Stack(width, heads, layers, ffn, gated=False, patch=patches - width, patches=0)
    whole = patches + positions + _blocks(width, ffn, layers) + mergers
    return _by_size(keys, whole, 16, stack, (1 + deep) * _joined(keys, width, out))


def _glm4v(keys: ConfigKeys) -> Tower:
    width, out = keys.size("hidden_size", default=1536), keys.size("out_hidden_size", default=4096)
    ffn, merge = keys.size("intermediate_size", default=13696), keys.size("spatial_merge_size", default=2)
    patches = keys.size("temporal_patch_size", default=2) * _patch(keys, width, patch=14) + width
    grid = _side(keys, "image_size", 336) // _side(keys, "patch_size", 14)
    biased = 4 * keys.flag("attention_bias", default=False)
    layers, heads = keys.size("depth", default=24), keys.size("num_heads", default=12)
    blocks = _blocks(width, out, layers, norm=1, gated=True, attention=biased, mlp=False)
    projection = out * out + 3 * out * ffn + width * merge**2 * out
    stack = Stack(width, heads, layers, out, gated=True, patch=patches - width, patches=0)
    return _by_size(keys, patches + grid**2 * width + blocks + projection + 3 * out + 2 * width, 14, stack, projection)


def _siglip(keys: ConfigKeys) -> Tower:
    width, ffn = keys.size("hidden_size", default=768), keys.size("intermediate_size", default=3072)
    grid = _side(keys, "image_size", 224) // _side(keys, "patch_size", 16)
    head = 5 * width + 4 * width * width + 2 * width * ffn + ffn + 3 * width
    own = _patch(keys, width, patch=16) + width + grid**2 * width + 2 * width
    layers = keys.size("num_hidden_layers", default=12)
    headed = keys.value("model_type") != "idefics3_vision" and keys.flag("vision_use_head", default=True)
    whole = own + _blocks(width, ffn, layers) + head * headed
    return _square(keys, whole, grid, width, patch=16, ffn=ffn, layers=layers)


def _idefics3(keys: ConfigKeys) -> Tower:
    width, grid = keys.size("hidden_size", default=1152), _side(keys, "image_size", 224) // _side(keys, "patch_size", 32)
    own = _patch(keys, width, patch=32) + width + grid**2 * width + 2 * width
    ffn, layers = keys.size("intermediate_size", default=3072), keys.size("num_hidden_layers", default=12)
    return _square(keys, own + _blocks(width, ffn, layers), grid, width, patch=32, ffn=ffn, layers=layers)


def _clip(keys: ConfigKeys) -> Tower:
    width, grid = keys.size("hidden_size", default=768), _side(keys, "image_size", 224) // _side(keys, "patch_size", 32)
    own = width + _patch(keys, width, patch=32) + (grid**2 + 1) * width + 4 * width
    ffn, layers = keys.size("intermediate_size", default=3072), keys.size("num_hidden_layers", default=12)
    return _square(keys, own + _blocks(width, ffn, layers), grid, width, patch=32, ffn=ffn, layers=layers, classed=1)


def _pixtral(keys: ConfigKeys) -> Tower:
    width, ffn = keys.size("hidden_size", default=1024), keys.size("intermediate_size", default=4096)
    layers, heads, patch = (
        keys.size("num_hidden_layers", default=24),
        keys.size("num_attention_heads", default=16),
        _side(keys, "patch_size", 16),
    )
    blocks = _blocks(width, ffn, layers, norm=1, gated=True, attention=0, mlp=False)
    embedded = _patch(keys, width, patch=16)
    stack = Stack(width, heads, layers, ffn, gated=True, patch=embedded, patches=1)
    return Tower(embedded + width + blocks, pixels=patch, stack=stack)


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
    heads = keys.size("num_attention_heads", default=16)
    stack = Stack(width, heads, layers, ffn, gated=False, patch=_patch(keys, width, patch=14), patches=grid**2 + 1)
    scales = layers * width * (2 + 2 * keys.flag("use_qk_norm", default=False))
    norm = 1 if keys.value("norm_type") == "rms_norm" else 2
    last = norm * width * (not keys.flag("use_mean_pooling", default=True))
    return Tower(own + _blocks(width, ffn, layers, norm=norm, attention=biases) + scales + last, tokens=grid**2, stack=stack)


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
    "qwen3_5": _qwen3,
    "qwen3_5_moe": _qwen3,
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
        tokens = keys.size("mm_tokens_per_image", default=256)
        return tower._replace(parameters=tower.parameters + width * text + width, tokens=tokens, projection=width * text)
    if wrapper == "paligemma":
        return tower._replace(parameters=tower.parameters + width * text + text, projection=width * text)
    if wrapper in {"llava", "llava_next", "llava_next_video", "llava_onevision"}:
        layers = keys.value("vision_feature_layer")
        inputs = width * (len(layers) if isinstance(layers, list) else 1)
        newline = text * (wrapper != "llava")
        matrices = inputs * text + text * text
        return tower._replace(parameters=tower.parameters + matrices + 2 * text * biased + newline, projection=matrices)
    if wrapper == "mistral3":
        merge = keys.size("spatial_merge_size", default=2)
        matrices = merge**2 * width * width + width * text + text * text
        stack = tower.stack and tower.stack._replace(patches=merge**2)
        own = width + matrices + 2 * text * biased
        return Tower(tower.parameters + own, pixels=tower.pixels * merge, stack=stack, projection=matrices)
    if wrapper == "llama4":
        return tower._replace(parameters=tower.parameters + part.size("vision_output_dim", default=7680) * text)
    if wrapper == "internvl":
        ratio = keys.share("downsample_ratio", default=0.5)
        joined = round(width / ratio / ratio)
        matrices = joined * text + text * text
        tokens = keys.size("image_seq_length", default=256)
        return tower._replace(parameters=tower.parameters + 2 * joined + matrices + 2 * text, tokens=tokens, projection=matrices)
    if wrapper in {"idefics3", "smolvlm"}:
        factor = keys.size("scale_factor", default=2) ** 2
        matrices = factor * width * text
        return tower._replace(parameters=tower.parameters + matrices, tokens=tower.tokens // factor, projection=matrices)
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


def tower_architecture(tower: Tower) -> Architecture | None:
    """The layers of `tower` as an architecture whose tokens are patches: its projection is shared out among them. None where they are not known."""
    if (stack := tower.stack) is None:
        return None
    each = stack.patches / tower.tokens if tower.tokens else stack.patches
    return Architecture(
        family="tower",
        block=Block(),
        eager_attention=False,
        layers=stack.layers,
        width=stack.width,
        heads=stack.heads,
        kv_heads=stack.heads,
        head_dim=max(1, stack.width // stack.heads),
        ffn=stack.ffn,
        gated=stack.gated,
        vocabulary=0,
        tied=True,
        encoder=True,
        window=stack.window or None,
        windowed_layers=stack.layers - stack.whole if stack.window else 0,
        norm_parameters=stack.width,
        dense_layers=stack.layers,
        beside=(Sublayer(part="mlp", layers=1, convolution=stack.patch + round(tower.projection / each)),),
    )
