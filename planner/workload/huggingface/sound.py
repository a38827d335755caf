"""Encoders of sound beside a text, with their projections: parameters exact to the unit. What a second of sound takes is not timed."""

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
