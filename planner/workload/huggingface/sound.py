"""Encoders of sound with their projections. Their parameters are counted exactly, their time is not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.errors import Problems
from planner.workload.huggingface.keys import ConfigKeys

_WHISPER = ("voxtral_encoder", "qwen2_audio_encoder", "qwen2_5_omni_audio_encoder")
"""`model_type` of an `audio_config` whose encoder is Whisper's."""


def sound_parameters(config: Mapping[str, Any], text_width: int) -> int:
    """Parameters of the encoder of sound and its projection; 0 where the config has none that is known."""
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
