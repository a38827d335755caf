"""Picture towers whose neighbouring patches are joined after the layers: Kimi K2.5, Gemma 4, MiniMax M3 and others.

Each is known by the `model_type` of its wrapper, as transformers 5.23 builds it; published configs name some sizes otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from planner.errors import Problems
from planner.workload.huggingface.keys import ConfigKeys


class Stack(NamedTuple):
    """Layers for patches of a picture, each of which attends to all other patches of its picture."""

    width: int
    heads: int
    layers: int
    ffn: int
    gated: bool
    patch: int
    """Matrix parameters of the embedding of a patch."""
    patches: int
    """Patches of a picture, including a class token; or patches per token, where pictures have their own sizes."""
    window: int = 0
    """Patches of the window of all layers but `whole`; 0: no window."""
    whole: int = 0


class Tower(NamedTuple):
    """Tower of one config: its parameters, and the tokens of a picture."""

    parameters: int
    tokens: int = 0
    """Tokens of a picture, or of each of its tiles, that all have one size; 0: they depend on its size."""
    pixels: int = 0
    """Side in pixels of the square that becomes one token; 0: all pictures have `tokens`."""
    stack: Stack | None = None
    """None: the work of a picture is unknown."""
    projection: int = 0
    """Matrix parameters that each token of a picture is multiplied with after the layers."""


def sizes_of(keys: ConfigKeys, **usual: int) -> list[int]:
    """Sizes under the names of `usual`, with the library's defaults."""
    return [keys.size(name, default=size) for name, size in usual.items()]


def usual_sizes(keys: ConfigKeys, width: int, ffn: int, layers: int, heads: int) -> list[int]:
    """The four sizes of a stack of layers under their usual names, with the library's defaults."""
    return sizes_of(keys, hidden_size=width, intermediate_size=ffn, num_hidden_layers=layers, num_attention_heads=heads)


def layered(
    keys: ConfigKeys,
    width: int,
    ffn: int,
    layers: int,
    heads: int,
    *,
    patch: int,
    norm: int = 2,
    gated: bool = False,
    attention: int = 4,
    mlp: bool = True,
    own: int = 0,
    pictures: int = 0,
    classed: int = 0,
    temporal: bool = False,
    merged: int | None = None,
    projection: int = 0,
    window: int = 0,
    whole: int = 0,
) -> Tower:
    """A tower of layers: `norm` vectors per norm, `attention` biases of the width, `mlp`: biases of the MLP, `own`: other parameters.

    `pictures`: patches along a side of pictures of one size, `classed` of them class tokens; 0: pictures have their own sizes, and `merged`
    neighbouring patches become one token (None: as many as `spatial_merge_size` says). `temporal`: a patch spans several frames. For the
    others see `Stack`.
    """
    side, matrices = keys.size("patch_size", default=patch), 3 if gated else 2
    frames = keys.size("temporal_patch_size", default=2) if temporal else 1
    embedded = frames * side**2 * keys.size("in_channels", "num_channels", "in_chans", default=3) * width
    biases = attention * width + ((matrices - 1) * ffn + width) * mlp
    blocks = layers * (4 * width * width + matrices * width * ffn + biases + 2 * norm * width)
    if merged is None:
        merged = 1 if pictures else keys.size("spatial_merge_size", default=2) ** 2
    patches = pictures**2 + classed if pictures else merged
    stack = Stack(width, heads, layers, ffn, gated, embedded, patches, window, whole)
    return Tower(embedded + blocks + own, pictures**2, 0 if pictures else round(side * merged**0.5), stack, projection)


def pooling_head(width: int, ffn: int) -> int:
    """Parameters of SigLIP's head: a learned query's attention to all patches, a norm and an MLP."""
    return 4 * width * width + 2 * width * ffn + ffn + 8 * width


def _named(keys: ConfigKeys, **names: str) -> ConfigKeys:
    """`keys` with the library's names of sizes in addition to those of published files."""
    return keys.also(**{new: keys.value(old) for new, old in names.items() if keys.value(old) is not None})


def _sides(keys: ConfigKeys, name: str, usual: int) -> int:
    """Patches per token, from the sides of their rectangle."""
    sides = keys.items(name) or [usual, usual]
    good = [side for side in sides if isinstance(side, int) and 0 < side <= 64]  # far larger than any
    return good[0] * good[-1] if len(good) == len(sides) else 1


def kimi_k25(keys: ConfigKeys, _: ConfigKeys, text: int) -> Tower:
    """MoonViT, with learned positions of a square; four patches become one token."""
    keys = _named(
        keys,
        hidden_size="vt_hidden_size", intermediate_size="vt_intermediate_size", num_hidden_layers="vt_num_hidden_layers",
        num_attention_heads="vt_num_attention_heads", pos_emb_height="init_pos_emb_height", pos_emb_width="init_pos_emb_width",
    )  # fmt: skip
    width, ffn, layers, heads = usual_sizes(keys, 1152, 4304, 27, 16)
    high, wide = keys.size("pos_emb_height", default=64), keys.size("pos_emb_width", default=64)
    merge = _sides(keys, "merge_kernel_size", 2)
    joined = merge * width
    matrices = joined * joined + joined * text
    own = (1 + high * wide + 2 + 2) * width + matrices + joined + text
    return layered(keys, width, ffn, layers, heads, patch=14, own=own, merged=merge, projection=matrices)


def gemma4(keys: ConfigKeys, wrapper: ConfigKeys, text: int) -> Tower:
    """Layers of Gemma without biases; nine patches are averaged to one token."""
    width, ffn, layers, heads = usual_sizes(keys, 768, 3072, 16, 12)
    groups, dim = keys.size("num_key_value_heads", default=heads), keys.size("head_dim", default=64)
    side, pool = keys.size("patch_size", default=16), keys.size("pooling_kernel_size", default=3)
    embedded, tables = 3 * side**2 * width, 2 * keys.size("position_embedding_size", default=10240)
    attention = 2 * width * (heads + groups) * dim
    clipped = 7 * 4 * keys.flag("use_clipped_linears", default=False)
    each = attention + 3 * width * ffn + 4 * width + 2 * dim + clipped
    own = embedded + tables * width + width * text
    tokens = wrapper.count("vision_soft_tokens_per_image") or keys.count("default_output_length") or 280
    stack = Stack(width, heads, layers, ffn, True, embedded, tokens * pool**2)
    return Tower(own + layers * each, tokens=tokens, stack=stack, projection=width * text)


def minimax_m3(keys: ConfigKeys, wrapper: ConfigKeys, text: int) -> Tower:
    """CLIP's layers for patches of two frames; each is projected, then four of them joined."""
    joined = keys.part("img_token_compression_config")
    keys = keys.also(**{name: joined.value(name) for name in ("spatial_merge_size", "temporal_patch_size") if joined.value(name)})
    width, ffn, layers, heads = usual_sizes(keys, 1280, 5120, 32, 16)
    merge = keys.size("spatial_merge_size", default=2)
    inner = wrapper.size("projector_hidden_size", default=text)
    first, second = width * inner + inner * text, merge**2 * text * inner + inner * text
    own, projection = 2 * width + first + second + 2 * (inner + text), merge**2 * first + second
    return layered(keys, width, ffn, layers, heads, patch=14, temporal=True, own=own, merged=merge**2, projection=projection)


def step3p7(keys: ConfigKeys, _: ConfigKeys, text: int) -> Tower:
    """Layers with scales of what they add; two convolutions of stride 2 make sixteen patches one token."""
    keys = _named(keys, hidden_size="width", num_hidden_layers="layers", num_attention_heads="heads")
    width, layers, heads = sizes_of(keys, hidden_size=1536, num_hidden_layers=47, num_attention_heads=16)
    ffn = keys.size("intermediate_size", default=round(width * keys.factor("mlp_ratio", default=8960 / 1536)))
    grid = keys.size("image_size", default=728) // keys.size("patch_size", default=14)
    halves = 9 * width * 2 * width, 9 * 2 * width * 4 * width
    scales = 2 * layers * width
    own = (grid**2 + 2 + 6) * width + scales + sum(halves) + 4 * width * text
    projection = 4 * halves[0] + halves[1] + 4 * width * text
    found = layered(keys, width, ffn, layers, heads, patch=14, own=own, pictures=grid, projection=projection)
    return found._replace(tokens=(grid // 4) ** 2)


def lfm2_vl(keys: ConfigKeys, wrapper: ConfigKeys, text: int) -> Tower:
    """SigLIP 2 for pictures of different sizes; four patches become one token."""
    width, ffn, layers, heads = usual_sizes(keys, 768, 3072, 12, 12)
    places = keys.size("num_patches", default=256)
    factor, inner = wrapper.size("downsample_factor", default=2), wrapper.size("projector_hidden_size", default=2560)
    head = pooling_head(width, ffn) * keys.flag("vision_use_head", default=True)
    joined = factor**2 * width
    matrices, biased = joined * inner + inner * text, wrapper.flag("projector_bias", default=True)
    normed = 2 * joined * wrapper.flag("projector_use_layernorm", default=True)
    own = (1 + places + 2) * width + head + matrices + (inner + text) * biased + normed
    return layered(keys, width, ffn, layers, heads, patch=16, own=own, merged=factor**2, projection=matrices)


def phi4(keys: ConfigKeys, _: ConfigKeys, text: int) -> Tower:
    """SigLIP for tiles of one size; the mean of four patches becomes one token, with two learned vectors between tiles."""
    width, ffn, layers, heads = usual_sizes(keys, 1152, 4304, 27, 16)
    side = keys.size("patch_size", default=14)
    grid, places = (keys.size(name, default=448) // side for name in ("crop_size", "image_size"))
    matrices = width * text + text * text
    own = (1 + places**2 + 2 + 2) * width + pooling_head(width, ffn) + matrices + 2 * text
    found = layered(keys, width, ffn, layers, heads, patch=14, own=own, pictures=grid, projection=matrices)
    return found._replace(tokens=(grid // 2) ** 2)


BY_WRAPPER: dict[str, Callable[[ConfigKeys, ConfigKeys, int], Tower]] = {
    "gemma4": gemma4,
    "kimi_k25": kimi_k25,
    "kimi_vl": kimi_k25,
    "lfm2_vl": lfm2_vl,
    "minimax_m3_vl": minimax_m3,
    "phi4_multimodal": phi4,
    "step3p7": step3p7,
}
"""`model_type` of a wrapper -> its tower with its projection."""


def whole_tower(wrapper: str, config: Any, part: Any, text_width: int) -> Tower | None:
    """Tower of one of these wrappers; None if its config cannot be read."""
    problems = Problems("")
    found = BY_WRAPPER[wrapper](ConfigKeys(part, problems), ConfigKeys(config, Problems("")), text_width)
    return None if problems.found else found
