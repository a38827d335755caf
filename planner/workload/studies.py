"""Published studies of compute per dollar, read from `presets/studies/`, and their models: Qwen3 decoders of any width and depth."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from planner.numbers import Positive
from planner.reading import read_toml
from planner.schema import read_struct

NAME_PREFIX = "qwen3-study-"
HEAD_WIDTH = 128


class PublishedLead(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A range of model sizes in which a GPU gave the most FLOP per dollar; an absent end is open."""

    gpu: str
    """Name in the study."""
    parts: tuple[str, ...]
    """Possible names in the catalogue."""
    from_parameters: Positive | None = None
    to_parameters: Positive | None = None


class PublishedPart(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A GPU of the study that was hardly ever the best."""

    gpu: str
    parts: tuple[str, ...]


class PublishedPrice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Price of a GPU at the time of the study."""

    gpu: str
    """Canonical name."""
    usd_per_gpu_h: Positive
    as_of: str
    source: str


class PublishedStudy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Results of a study, and its conditions."""

    title: str
    source: str
    retrieved: dt.date
    conditions: str
    prices: str
    tokens_per_step: int
    price_set: str
    """Name of the list of prices at that time."""
    price: tuple[PublishedPrice, ...]
    lead: tuple[PublishedLead, ...]
    rarely: tuple[PublishedPart, ...] = ()


def load_study(path: Path) -> PublishedStudy:
    """Study in a TOML file; raises `UserError` with one problem per fault."""
    return read_struct(PublishedStudy, read_toml(path), str(path))


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
    """True if the parameters of a measured point name a model of the study."""
    return str(measured.get("model")).startswith(NAME_PREFIX)


def stated_shape(measured: Mapping[str, object]) -> tuple[int, int, int] | None:
    """(width, depth, vocabulary) in the parameters of a measured point; None if it does not state all three."""
    width, depth, vocabulary = (measured.get(name) for name in ("width", "depth", "vocabulary"))
    if isinstance(width, int) and isinstance(depth, int) and isinstance(vocabulary, int):
        return width, depth, vocabulary
    return None


def model_of_point(measured: Mapping[str, object]) -> str | dict[str, Any]:
    """The model of a measured point: the study's config where the point states its shape, else its name. Raises `KeyError`."""
    name, shape = str(measured["model"]), stated_shape(measured)
    return study_config(*shape) if shape and is_study_model(measured) else name
