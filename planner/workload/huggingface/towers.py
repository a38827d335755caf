"""Picture towers whose neighbouring patches are joined after the layers: Kimi K2.5, Gemma 4, MiniMax M3 and others.

Each is known by the `model_type` of its wrapper, as transformers 5.23 builds it; published configs name some sizes otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from planner.errors import Problems
from planner.workload.huggingface.keys import ConfigKeys


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
    """None: the work of a picture is unknown."""
    projection: int = 0
    """Matrix parameters that each token of a picture is multiplied with behind the layers."""


def _named(keys: ConfigKeys, **names: str) -> ConfigKeys:
    """`keys` with the library's names of sizes beside those of published files."""
    return keys.also(**{new: keys.value(old) for new, old in names.items() if keys.value(old) is not None})


def _sides(keys: ConfigKeys, name: str, usual: int) -> int:
    """Patches that become one token, by the sides of their rectangle."""
    sides = keys.items(name) or [usual, usual]
    good = [side for side in sides if isinstance(side, int) and 0 < side <= 64]  # far beyond any
    return good[0] * good[-1] if len(good) == len(sides) else 1


def _layer(width: int, ffn: int, *, matrices: int, biases: int, vectors: int) -> int:
    return 4 * width * width + matrices * width * ffn + biases + vectors


def kimi_k25(keys: ConfigKeys, _: ConfigKeys, text: int) -> Tower:
    """MoonViT, positions of a square that are learned; four patches become one token."""
    keys = _named(
        keys,
        hidden_size="vt_hidden_size", intermediate_size="vt_intermediate_size", num_hidden_layers="vt_num_hidden_layers",
        num_attention_heads="vt_num_attention_heads", pos_emb_height="init_pos_emb_height", pos_emb_width="init_pos_emb_width",
    )  # fmt: skip
    width, ffn = keys.size("hidden_size", default=1152), keys.size("intermediate_size", default=4304)
    layers, side = keys.size("num_hidden_layers", default=27), keys.size("patch_size", default=14)
    positions = keys.size("pos_emb_height", default=64) * keys.size("pos_emb_width", default=64)
    each = _layer(width, ffn, matrices=2, biases=4 * width + ffn + width, vectors=4 * width)
    embedded, merge = 3 * side**2 * width, _sides(keys, "merge_kernel_size", 2)
    joined = merge * width
    matrices = joined * joined + joined * text
    own = embedded + width + positions * width + 2 * width + 2 * width + matrices + joined + text
    stack = Stack(width, keys.size("num_attention_heads", default=16), layers, ffn, False, embedded, merge)
    return Tower(own + layers * each, pixels=round(side * merge**0.5), stack=stack, projection=matrices)


def gemma4(keys: ConfigKeys, wrapper: ConfigKeys, text: int) -> Tower:
    """Layers of Gemma without biases; nine patches are averaged to one token."""
    width, ffn = keys.size("hidden_size", default=768), keys.size("intermediate_size", default=3072)
    layers, heads = keys.size("num_hidden_layers", default=16), keys.size("num_attention_heads", default=12)
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
    width, ffn = keys.size("hidden_size", default=1280), keys.size("intermediate_size", default=5120)
    layers, side = keys.size("num_hidden_layers", default=32), keys.size("patch_size", default=14)
    inner, merge = wrapper.size("projector_hidden_size", default=text), keys.size("spatial_merge_size", default=2)
    each = _layer(width, ffn, matrices=2, biases=4 * width + ffn + width, vectors=4 * width)
    embedded = 3 * keys.size("temporal_patch_size", default=2) * side**2 * width
    first, second = width * inner + inner * text, merge**2 * text * inner + inner * text
    own = embedded + 2 * width + first + second + 2 * (inner + text)
    stack = Stack(width, keys.size("num_attention_heads", default=16), layers, ffn, False, embedded, merge**2)
    return Tower(own + layers * each, pixels=side * merge, stack=stack, projection=merge**2 * first + second)


def step3p7(keys: ConfigKeys, _: ConfigKeys, text: int) -> Tower:
    """Layers with scales of what they add; two convolutions of stride 2 make sixteen patches one token."""
    keys = _named(keys, hidden_size="width", num_hidden_layers="layers", num_attention_heads="heads")
    width, side = keys.size("hidden_size", default=1536), keys.size("patch_size", default=14)
    ratio = keys.factor("mlp_ratio", default=8960 / 1536)
    ffn, layers = keys.size("intermediate_size", default=round(width * ratio)), keys.size("num_hidden_layers", default=47)
    grid = keys.size("image_size", default=728) // side
    each = _layer(width, ffn, matrices=2, biases=4 * width + ffn + width, vectors=6 * width)
    embedded = 3 * side**2 * width
    halves = 9 * width * 2 * width, 9 * 2 * width * 4 * width
    own = embedded + grid**2 * width + 2 * width + sum(halves) + 6 * width + 4 * width * text
    stack = Stack(width, keys.size("num_attention_heads", default=16), layers, ffn, False, embedded, grid**2)
    projection = 4 * halves[0] + halves[1] + 4 * width * text
    return Tower(own + layers * each, tokens=(grid // 4) ** 2, stack=stack, projection=projection)


def lfm2_vl(keys: ConfigKeys, wrapper: ConfigKeys, text: int) -> Tower:
    """SigLIP 2 with pictures of their own sizes; four patches become one token."""
    width, ffn = keys.size("hidden_size", default=768), keys.size("intermediate_size", default=3072)
    layers, side = keys.size("num_hidden_layers", default=12), keys.size("patch_size", default=16)
    factor, inner = wrapper.size("downsample_factor", default=2), wrapper.size("projector_hidden_size", default=2560)
    each = _layer(width, ffn, matrices=2, biases=4 * width + ffn + width, vectors=4 * width)
    embedded, joined = 3 * side**2 * width, factor**2 * width
    headed = keys.flag("vision_use_head", default=True)
    head = (5 * width + 4 * width * width + 2 * width * ffn + ffn + 3 * width) * headed
    matrices, biased = joined * inner + inner * text, wrapper.flag("projector_bias", default=True)
    normed = 2 * joined * wrapper.flag("projector_use_layernorm", default=True)
    own = embedded + width + keys.size("num_patches", default=256) * width + 2 * width + head + matrices + (inner + text) * biased
    stack = Stack(width, keys.size("num_attention_heads", default=12), layers, ffn, False, embedded, factor**2)
    return Tower(own + normed + layers * each, pixels=side * factor, stack=stack, projection=matrices)


def phi4(keys: ConfigKeys, _: ConfigKeys, text: int) -> Tower:
    """SigLIP for tiles of one size; the mean of four patches becomes one token, and two learned vectors stand between tiles."""
    width, ffn = keys.size("hidden_size", default=1152), keys.size("intermediate_size", default=4304)
    layers, side = keys.size("num_hidden_layers", default=27), keys.size("patch_size", default=14)
    grid, places = (keys.size(name, default=448) // side for name in ("crop_size", "image_size"))
    each = _layer(width, ffn, matrices=2, biases=4 * width + ffn + width, vectors=4 * width)
    embedded, head = 3 * side**2 * width, 4 * width * width + 2 * width * ffn + ffn + 8 * width
    matrices = width * text + text * text
    own = embedded + (1 + places**2 + 2 + 2) * width + head + matrices + 2 * text
    stack = Stack(width, keys.size("num_attention_heads", default=16), layers, ffn, False, embedded, grid**2)
    return Tower(own + layers * each, tokens=(grid // 2) ** 2, stack=stack, projection=matrices)


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
    """The tower of one of these wrappers; None where its config cannot be read."""
    problems = Problems("")
    found = BY_WRAPPER[wrapper](ConfigKeys(part, problems), ConfigKeys(config, Problems("")), text_width)
    return None if problems.found else found
