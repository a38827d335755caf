"""GGUF files: the tensor type that llama.cpp gives each matrix, and the bits of each type.

Types and mixes are those of `presets/formats/gguf.toml`.
"""

from collections import Counter
from functools import lru_cache
from typing import Literal, NamedTuple

import msgspec

from planner.paths import read_shipped
from planner.workload.architecture import Architecture
from planner.workload.matrices import Matrix

KEPT_BITS = 32
"""Bits of norms, biases, routers and learned positions, which stay in FP32."""
TOWER_BITS = 16
"""Bits of vision and audio towers, which are in a separate file (mmproj) that convert_hf_to_gguf.py writes in FP16."""

_SMALLER_BLOCK = {"q2_k": "q4_0", "q3_k": "q4_0", "q4_k": "q5_0", "q5_k": "q5_1", "q6_k": "q8_0"}
"""Types used instead where rows are not multiples of 256; the iq types fall back to iq4_nl."""

_LEAST = ("iq1", "iq2")
"""Beginnings of the types whose mixes have special rules for values, keys and outputs."""

Layers = Literal["all", "more", "middle", "eighth", "sixteenth", "two", "four"]
"""Layers that a rule applies to; "more": the first and last eighth, and every third between; "middle": all but these eighths."""


class Mix(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tensor types of one kind of file. A rule is (type, layers it applies to); other layers have `base`."""

    bits: float
    """Mean bits per weight of Llama 3.1 8B."""
    base: str
    value: tuple[tuple[str, Layers], ...] = ()
    """Rules for the value projection, also a fused or latent one; the first that applies counts."""
    grouped_value: str = ""
    """Type of the value projection where four or more query heads share a key head."""
    down: tuple[tuple[str, Layers], ...] = ()
    gate_and_up: tuple[tuple[str, Layers], ...] = ()
    output: str = ""
    """Type of the attention's output projection."""
    query_key: str = ""
    embedding: str = ""
    head: str = "q6_k"
    raised_output: bool = False
    """True if the output projection has type q5_k in models of eight experts."""


class _Catalogue(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file, which describes each table."""

    types: dict[str, tuple[int, int]]
    mixes: dict[str, Mix]
    families: dict[str, str]
    keys: dict[str, tuple[str, ...]]
    file_types: dict[str, str]


CATALOGUE = read_shipped(_Catalogue, "formats", "gguf.toml")
TYPES, MIXES = CATALOGUE.types, CATALOGUE.mixes
"""Type -> (bytes of a block, weights in it); name of a format -> its mix."""


def type_bits(name: str, inputs: int) -> float:
    """Bits per weight of a tensor type, or of its replacement where rows of `inputs` weights do not fit its blocks."""
    size, weights = TYPES[name]
    if inputs % weights:
        name = "f16" if inputs % 32 else "iq4_nl" if name.startswith("iq") else _SMALLER_BLOCK[name] if weights == 256 else "f16"
        size, weights = TYPES[name]
    return 8 * size / weights


def head_bits(mix: Mix, architecture: Architecture) -> float:
    """Bits per weight of the output head, or of the embedding used as one."""
    inputs = architecture.token_width
    whole_blocks = inputs % TYPES[mix.base][1] == 0
    return type_bits(mix.head if whole_blocks and architecture.family != "falcon" else "q8_0", inputs)


def embedding_bits(mix: Mix, architecture: Architecture) -> float:
    """Bits per weight of the token embedding; a tied one is stored like the head."""
    if architecture.tied:
        return head_bits(mix, architecture)
    return type_bits(mix.embedding or mix.base, architecture.token_width)


def stored_bits(mix: Mix, matrix: Matrix, architecture: Architecture) -> float:
    """Bits of all weights of `matrix` together."""
    each, a = matrix.inputs * matrix.outputs * matrix.copies, architecture
    types = _types(mix, matrix.role, _Sizes(a.layers, a.experts, a.heads, a.kv_heads), matrix.first, matrix.kept // matrix.copies)
    return each * sum(layers * (type_bits(name, matrix.inputs) if name else KEPT_BITS) for name, layers in types)


class _Sizes(NamedTuple):
    """Sizes of an architecture that decide between types."""

    layers: int
    experts: int
    heads: int
    kv_heads: int


@lru_cache(maxsize=4096)
def _types(mix: Mix, role: str, a: _Sizes, first: int, layers: int) -> tuple[tuple[str, int], ...]:
    """Tensor type -> layers from `first` on whose matrices of `role` have it; "" if they are not quantised."""
    return tuple(Counter(_type(mix, role, a, first + layer) for layer in range(layers)).items())


def _type(mix: Mix, role: str, a: _Sizes, layer: int) -> str:
    """Tensor type of the matrix of `role` in one layer; "" if it is not quantised."""
    eight = a.experts == 8
    if role in {"router", "shared_gate"}:
        return ""
    if role in {"v", "qkv", "kv_b"}:
        return "q8_0" if eight and not mix.base.startswith(_LEAST) else _value(mix, a, layer)
    if role == "k" and eight:
        return "q4_k" if mix.base.startswith(_LEAST) else "q8_0"
    if role in {"q", "k"}:
        return mix.query_key or mix.base
    if role == "o":
        return "q5_k" if eight and mix.raised_output else mix.output or mix.base
    rules = mix.down if role == "down" else mix.gate_and_up if role in {"gate", "up", "gate_up"} else ()
    return _ruled(rules, mix.base, layer, a.layers)


def _value(mix: Mix, a: _Sizes, layer: int) -> str:
    grouped = mix.grouped_value and (a.heads >= 4 * a.kv_heads or (a.experts >= 4 and mix.base.startswith(_LEAST)))
    chosen = mix.grouped_value if grouped else _ruled(mix.value, mix.base, layer, a.layers)
    seventy = a.layers == 80 and a.heads != a.kv_heads
    return "q5_k" if seventy and chosen in {"q3_k", "q4_k"} else chosen


def _ruled(rules: tuple[tuple[str, Layers], ...], base: str, layer: int, layers: int) -> str:
    return next((name for name, which in rules if _taken(which, layer, layers)), base)


def _taken(which: Layers, layer: int, layers: int) -> bool:
    eighth = layers // 8
    return {
        "all": True,
        "more": layer < eighth or layer >= 7 * layers // 8 or (layer - eighth) % 3 == 2,
        "middle": eighth <= layer < 7 * layers // 8,
        "eighth": layer < eighth,
        "sixteenth": layer < layers // 16,
        "two": layer < 2,
        "four": layer < 4,
    }[which]
