"""Towers that read pictures and sound, and their projections to the text's width: parameters exact to the unit, and tokens of a picture.

A tower is known by the `model_type` of its `vision_config`, a projection by that of the wrapper, as transformers 5.23 builds them.
The time of encoders of sound is not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from planner.errors import Problems
from planner.workload.architecture import Architecture
from planner.workload.block import Block
from planner.workload.huggingface.keys import ConfigKeys
from planner.workload.huggingface.towers import BY_WRAPPER, Tower, layered, pooling_head, sizes_of, usual_sizes, whole_tower
from planner.workload.sublayers import Sublayer

QWEN_WHOLE_LAYERS = 4
"""Layers of Qwen2.5-VL's tower that attend to a whole picture, where the config does not name them."""

LEAST_RATIO = 1 / 64
"""Smallest share of a picture's side that remains where patches are joined: 64 × 64 patches become one."""
_WHISPER = ("voxtral_encoder", "qwen2_audio_encoder", "qwen2_5_omni_audio_encoder")
"""`model_type` of an `audio_config` whose encoder is Whisper's."""


def _merged(keys: ConfigKeys, width: int, out: int) -> tuple[int, int]:
    """Merger of neighbouring patches, without its norm: (parameters, matrices) of two products with biases."""
    joined = keys.size("spatial_merge_size", default=2) ** 2 * width
    matrices = joined * joined + joined * out
    return matrices + joined + out, matrices


def _grid(keys: ConfigKeys, *, image: int, patch: int) -> int:
    """Patches along the side of a picture."""
    return keys.size("image_size", default=image) // keys.size("patch_size", default=patch)


def _qwen2(keys: ConfigKeys) -> Tower:
    width, out, layers, heads = sizes_of(keys, embed_dim=1280, hidden_size=3584, depth=32, num_heads=16)
    ffn, (merger, joined) = int(width * keys.factor("mlp_ratio", default=4)), _merged(keys, width, out)
    return layered(keys, width, ffn, layers, heads, patch=14, temporal=True, own=merger + 2 * width, projection=joined)


def _qwen2_5(keys: ConfigKeys) -> Tower:
    width, out, ffn, layers, heads = sizes_of(
        keys, hidden_size=3584, out_hidden_size=3584, intermediate_size=3420, depth=32, num_heads=16
    )
    window = (keys.size("window_size", default=112) // keys.size("patch_size", default=14)) ** 2
    whole, (merger, joined) = len(keys.items("fullatt_block_indexes")) or QWEN_WHOLE_LAYERS, _merged(keys, width, out)
    more: dict[str, Any] = {"temporal": True, "own": merger + width, "projection": joined, "window": window, "whole": whole}
    return layered(keys, width, ffn, layers, heads, patch=14, norm=1, gated=True, **more)


def _qwen3(keys: ConfigKeys) -> Tower:
    width, out, ffn, layers, heads, positions, merge = sizes_of(
        keys, hidden_size=1152, out_hidden_size=3584, intermediate_size=4304, depth=27, num_heads=16, num_position_embeddings=2304,
        spatial_merge_size=2,
    )  # fmt: skip
    (merger, joined), deep = _merged(keys, width, out), len(keys.items("deepstack_visual_indexes"))
    own = (1 + positions + 2) * width + merger + deep * (merger + 2 * merge**2 * width)
    return layered(keys, width, ffn, layers, heads, patch=16, temporal=True, own=own, projection=(1 + deep) * joined)


def _glm4v(keys: ConfigKeys) -> Tower:
    width, out, ffn, layers, heads, merge = sizes_of(
        keys, hidden_size=1536, out_hidden_size=4096, intermediate_size=13696, depth=24, num_heads=12, spatial_merge_size=2
    )
    grid, biased = _grid(keys, image=336, patch=14), 4 * keys.flag("attention_bias", default=False)
    projection = out * out + 3 * out * ffn + width * merge**2 * out
    own = (1 + grid**2 + 2) * width + projection + 3 * out
    more: dict[str, Any] = {"attention": biased, "mlp": False, "own": own, "temporal": True, "projection": projection}
    return layered(keys, width, out, layers, heads, patch=14, norm=1, gated=True, **more)


def _siglip(keys: ConfigKeys) -> Tower:
    width, ffn, layers, heads = usual_sizes(keys, 768, 3072, 12, 12)
    grid, headed = _grid(keys, image=224, patch=16), keys.flag("vision_use_head", default=True)
    head = pooling_head(width, ffn) * headed
    return layered(keys, width, ffn, layers, heads, patch=16, own=(1 + grid**2 + 2) * width + head, pictures=grid)


def _idefics3(keys: ConfigKeys) -> Tower:
    width, ffn, layers, heads = usual_sizes(keys, 1152, 3072, 12, 12)
    grid = _grid(keys, image=224, patch=32)
    return layered(keys, width, ffn, layers, heads, patch=32, own=(1 + grid**2 + 2) * width, pictures=grid)


def _clip(keys: ConfigKeys) -> Tower:
    width, ffn, layers, heads = usual_sizes(keys, 768, 3072, 12, 12)
    grid = _grid(keys, image=224, patch=32)
    return layered(keys, width, ffn, layers, heads, patch=32, own=(1 + grid**2 + 1 + 4) * width, pictures=grid, classed=1)


def _pixtral(keys: ConfigKeys) -> Tower:
    width, ffn, layers, heads = usual_sizes(keys, 1024, 4096, 24, 16)
    return layered(keys, width, ffn, layers, heads, patch=16, norm=1, gated=True, attention=0, mlp=False, own=width, merged=1)


def _llama4(keys: ConfigKeys) -> Tower:
    width, ffn, layers, inner, out = sizes_of(
        keys, hidden_size=768, intermediate_size=5632, num_hidden_layers=34, projector_input_dim=4096, projector_output_dim=4096
    )
    grid, ratio = _grid(keys, image=448, patch=14), keys.share("pixel_shuffle_ratio", default=0.5, least=LEAST_RATIO)
    own = (1 + grid**2 + 1 + 4) * width + ffn * inner + inner * out
    found = layered(keys, width, ffn, layers, 1, patch=14, own=own, pictures=grid)
    return Tower(found.parameters, tokens=round(grid**2 * ratio * ratio))


def _internvl(keys: ConfigKeys) -> Tower:
    width, ffn, layers, heads = usual_sizes(keys, 1024, 4096, 24, 16)
    published = {"attention_bias": keys.value("qkv_bias"), "use_qk_norm": keys.value("qk_normalization")}
    keys = keys.also(**{name: value for name, value in published.items() if value is not None})
    grid, biases = _grid(keys, image=448, patch=14), 1 + 3 * keys.flag("attention_bias", default=False)
    norm = 1 if keys.value("norm_type") == "rms_norm" else 2
    last = norm * (not keys.flag("use_mean_pooling", default=True))
    own = (1 + grid**2 + 1 + 1 + last + layers * (2 + 2 * keys.flag("use_qk_norm", default=False))) * width
    return layered(keys, width, ffn, layers, heads, patch=14, norm=norm, attention=biases, own=own, pictures=grid, classed=1)


_READ_BY: dict[Callable[[ConfigKeys], Tower], tuple[str, ...]] = {
    _clip: ("clip_vision_model",),
    _glm4v: ("glm4v_moe_vision", "glm4v_vision"),
    _idefics3: ("idefics3_vision", "smolvlm_vision"),
    _internvl: ("intern_vit_6b", "internvl_vision"),
    _llama4: ("llama4_vision_model",),
    _pixtral: ("pixtral",),
    _qwen2: ("qwen2_vl", "qwen2_vl_vision"),
    _qwen2_5: ("qwen2_5_omni_vision_encoder", "qwen2_5_vl", "qwen2_5_vl_vision"),
    _qwen3: (
        "qwen3_5", "qwen3_5_moe", "qwen3_5_moe_vision", "qwen3_5_vision", "qwen3_omni_moe_vision_encoder", "qwen3_vl", "qwen3_vl_moe",
        "qwen3_vl_moe_vision", "qwen3_vl_vision",
    ),
    _siglip: ("siglip_vision_model",),
}  # fmt: skip
TOWERS = {name: read for read, names in _READ_BY.items() for name in names}
"""`model_type` of a `vision_config` -> its tower."""


def _projection(wrapper: str, keys: ConfigKeys, part: ConfigKeys, text: int, tower: Tower) -> Tower | None:
    """Tower with the projection of the wrapper that `keys` reads; None for an unknown one."""
    width = part.size("hidden_size", default=1024)
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
    if wrapper in {"internvl", "internvl_chat"}:
        ratio = keys.share("downsample_ratio", default=0.5, least=LEAST_RATIO)
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
    """Tower of a wrapper whose text has `text_width`; None if it has none, or one that is not fully known."""
    part, wrapper = config.get("vision_config"), config.get("model_type")
    if not isinstance(part, Mapping) or not isinstance(wrapper, str):
        return None
    if wrapper in BY_WRAPPER:
        return whole_tower(wrapper, config, part, text_width)
    kind = part.get("model_type", wrapper)
    problems = Problems("")
    keys = ConfigKeys(part, problems)
    if not isinstance(kind, str) or kind not in TOWERS:
        return None
    tower = _projection(wrapper, ConfigKeys(config, problems), keys, text_width, TOWERS[kind](keys))
    return None if problems.found else tower


def tower_architecture(tower: Tower) -> Architecture | None:
    """Layers of `tower` as an architecture whose tokens are patches, which share its projection; None for unknown layers."""
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


def sound_parameters(config: Mapping[str, Any], text_width: int) -> int:
    """Parameters of the encoder of sound and its projection; 0 if the config has none that is known."""
    part, problems = config.get("audio_config"), Problems("")
    if isinstance(part, Mapping) and part.get("model_type") == "phi4_multimodal_audio":
        found = _conformer(ConfigKeys(part, problems), text_width)
        return 0 if problems.found else found
    if not isinstance(part, Mapping) or part.get("model_type") not in _WHISPER:
        return 0
    keys, kind = ConfigKeys(part, problems), str(part["model_type"])
    width = keys.size("d_model", "hidden_size", default=1280)
    layers, ffn = (
        keys.size("encoder_layers", "num_hidden_layers", default=32),
        keys.size("encoder_ffn_dim", "intermediate_size", default=5120),
    )
    channels, heard = keys.size("num_mel_bins", default=128), keys.size("max_source_positions", default=1500)
    each = 4 * width * width + 2 * width * ffn + 3 * width + ffn + width + 4 * width
    encoder = layers * each + 3 * width * (channels + width) + 2 * width + 2 * width
    projections = {
        "voxtral_encoder": heard * width + ffn * text_width + text_width * text_width,
        "qwen2_audio_encoder": heard * width + (width + 1) * text_width,
        "qwen2_5_omni_audio_encoder": (width + 1) * keys.size("output_dim", default=3584)
        + 2 * keys.size("output_dim", default=3584),
    }
    return 0 if problems.found else encoder + projections[kind]


def _conformer(keys: ConfigKeys, text: int) -> int:
    """Encoder of Phi-4-multimodal: convolutions, blocks of an MLP, attention, a convolution and an MLP, and two projections."""
    width, ffn = keys.size("hidden_size", default=1024), keys.size("intermediate_size", default=1536)
    wide, deep = keys.size("ext_pw_out_channel", default=1024), keys.size("depthwise_separable_out_channel", default=1024)
    channels, taps = keys.size("nemo_conv_channels", default=1024), keys.size("kernel_size", default=3)
    halvings = keys.size("time_reduction", default=8).bit_length() - 1
    each_channel = width * keys.size("depthwise_multiplier", default=1)
    mlp = 2 * width + width * 2 * ffn + 2 * ffn + ffn * width + width
    glu = width * 2 * wide + 2 * wide + 2 * wide
    convolved = 2 * width + glu + each_channel * (taps + 1) + (each_channel + 1) * deep + (width + 1) * wide
    block = 2 * mlp + 4 * width * width + 4 * width + convolved + 4 * width
    entry = 10 * channels + (halvings - 1) * (10 * channels + (channels + 1) * channels)
    entry += (channels * keys.size("nemo_final_size", default=10) + 1) * width
    distances = 2 * keys.size("bias_max_distance", default=1000) * keys.size("num_attention_heads", default=16)
    projection = (width * keys.size("downsample_rate", default=1) + 1) * text + (text + 1) * text
    return entry + distances + keys.size("num_blocks", default=24) * block + 2 * projection
