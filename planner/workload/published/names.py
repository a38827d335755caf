"""Names in sources of published measurements, and the corresponding names here: `presets/catalogues/published_names.toml`."""

from __future__ import annotations

import re
from functools import cache
from typing import Literal

import msgspec

from planner.paths import read_shipped

FAMILIES_WITH_VERSION = re.compile(r"(llama|codellama|gpt|vicuna)(\d[\d.]*)")


Quantity = Literal[
    "fits",
    "device_bytes",
    "used_bytes",
    "reserved_bytes",
    "allocated_bytes",
    "tokens_per_s",
    "tokens_per_s_per_gpu",
    "step_s",
    "prefill_s",
    "decode_tokens_per_s",
    "ttft_s",
    "tpot_s",
    "request_s",
    "output_tokens_per_s",
    "requests_per_s",
]
"""Part of an answer that a value is compared with. Memory is counted by the device (context, libraries and all), as NVML reports what is used
(with what the driver keeps for itself), by PyTorch's allocator as reserved, or as allocated."""


class Framework(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Beginning of a framework column, and its engine."""

    begins: str
    engine: str
    numbered: bool = False
    """True if the number after it is the engine's release."""


class Names(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file, which describes each table."""

    words_without_size: frozenset[str]
    engines: tuple[Framework, ...]
    tasks: dict[str, str]
    dtypes: dict[str, str]
    weights: dict[str, str]
    weights_in_names: dict[str, str]
    optimizers: dict[str, str]
    shardings: dict[str, str]
    checkpointing: dict[str, str]
    same_architecture: dict[str, str]
    metrics: dict[str, Quantity]


@cache
def published_names() -> Names:
    """The shipped names, read at the first call."""
    return read_shipped(Names, "catalogues", "published_names.toml")


def named_format(model: str) -> str | None:
    """Storage format of weights in a model's name: '…-AWQ', '…-FP8'."""
    formats = published_names().weights_in_names
    return next((formats[word] for word in re.split(r"[-_\s/]+", model.lower()) if word in formats), None)


def model_key(name: str) -> str:
    """Part of a model's name that determines its architecture: 'meta-llama/Llama-2-7b-chat-hf' is 'llama-2-7b'."""
    known = published_names()
    words = re.split(r"[-_\s]+", name.partition(" (")[0].rsplit("/", 1)[-1].strip().lower())
    kept = [word for word in words if word not in known.words_without_size]
    first = FAMILIES_WITH_VERSION.fullmatch(kept[0]) if len(kept) > 1 else None
    key = "-".join([*first.groups(), *kept[1:]] if first else kept)
    return known.same_architecture.get(key, key)
