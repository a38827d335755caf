"""Models of the study of compute per dollar: Qwen3 decoders of any width and depth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

NAME_PREFIX = "qwen3-study-"
HEAD_WIDTH = 128


def study_config(width: int, depth: int, vocabulary: int) -> dict[str, Any]:
    """The model as a Hugging Face config."""
    heads = max(2, width // HEAD_WIDTH)
    return {
        "model_type": "qwen3",
        "hidden_size": width,
        "num_hidden_layers": depth,
        "num_attention_heads": heads,
        "num_key_value_heads": heads // 2,
        "head_dim": HEAD_WIDTH,
        "intermediate_size": 3 * width,
        "vocab_size": vocabulary,
        "tie_word_embeddings": True,
        "max_position_embeddings": 40960,
        "attention_bias": False,
        "hidden_act": "silu",
        "torch_dtype": "float32",
    }


def is_study_model(measured: Mapping[str, object]) -> bool:
    """Whether the parameters of a measured point name a model of the study."""
    return str(measured.get("model")).startswith(NAME_PREFIX)


def stated_shape(measured: Mapping[str, object]) -> tuple[int, int, int] | None:
    """(width, depth, vocabulary) in the parameters of a measured point; None where it does not state all three."""
    width, depth, vocabulary = (measured.get(name) for name in ("width", "depth", "vocabulary"))
    if isinstance(width, int) and isinstance(depth, int) and isinstance(vocabulary, int):
        return width, depth, vocabulary
    return None


def model_of_point(measured: Mapping[str, object]) -> str | dict[str, Any]:
    """The model of a measured point: the study's config where the point states its shape, else its name. Raises `KeyError`."""
    name, shape = str(measured["model"]), stated_shape(measured)
    return study_config(*shape) if shape and is_study_model(measured) else name
