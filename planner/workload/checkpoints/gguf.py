"""GGUF files: the tensor type that llama.cpp gives each matrix, and the bits of each type.

Block layouts are those of ggml-common.h; the mixes those of `llama_tensor_get_type_impl` in src/llama-quant.cpp of
llama.cpp: with an importance matrix for `iq1_*`, `iq2_*` and `iq3_*`, which are hardly made without, and without for the others.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from planner.workload.architecture import Architecture
from planner.workload.matrices import Matrix

TYPES: dict[str, tuple[int, int]] = {
    # name: bytes of a block, weights in it
    "f16": (2, 1),
    "q8_0": (34, 32),
    "q6_k": (210, 256),
    "q5_k": (176, 256),
    "q5_1": (24, 32),
    "q5_0": (22, 32),
    "q4_k": (144, 256),
    "q4_1": (20, 32),
    "q4_0": (18, 32),
    "q3_k": (110, 256),
    "q2_k": (84, 256),
    "iq4_nl": (18, 32),
    "iq4_xs": (136, 256),
    "iq3_s": (110, 256),
    "iq3_xxs": (98, 256),
    "iq2_s": (82, 256),
    "iq2_xs": (74, 256),
    "iq2_xxs": (66, 256),
    "iq1_m": (56, 256),
    "iq1_s": (50, 256),
}
KEPT_BITS = 32
"""Norms, biases, routers and learned positions stay in FP32."""
TOWER_BITS = 16
"""Vision and audio towers come in a file of their own (mmproj), which convert_hf_to_gguf.py writes in FP16."""

_SMALLER_BLOCK = {"q2_k": "q4_0", "q3_k": "q4_0", "q4_k": "q5_0", "q5_k": "q5_1", "q6_k": "q8_0"}
"""Types used instead where rows are no multiple of 256; the iq types fall back to iq4_nl."""

_LEAST = ("iq1", "iq2")
"""Beginnings of the types whose mixes have rules of their own for values, keys and outputs."""

Layers = Literal["all", "more", "middle", "eighth", "sixteenth", "two", "four"]
"""Layers that a rule applies to; "more": the first and last eighth, and every third between; "middle": all but these eighths."""


class Mix(msgspec.Struct, frozen=True, kw_only=True):
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
    """The output projection has type q5_k in models of eight experts."""


_IQ2_M = Mix(
    bits=2.9294,
    base="iq2_s",
    value=(("iq3_s", "all"),),
    grouped_value="q4_k",
    down=(("iq3_s", "eighth"),),
    output="iq3_s",
    embedding="iq3_s",
    head="q5_k",
    raised_output=True,
)
_IQ2_XS = Mix(
    bits=2.5882,
    base="iq2_xs",
    value=(("q2_k", "all"),),
    grouped_value="q4_k",
    down=(("q2_k", "eighth"),),
    embedding="q2_k",
    head="q5_k",
    raised_output=True,
)
_LLAMA_CPP: dict[str, Mix] = {
    "q8_0": Mix(bits=8.5, base="q8_0", head="q8_0"),
    "q6_k": Mix(bits=6.5625, base="q6_k"),
    "q5_k_m": Mix(bits=5.7036, base="q5_k", value=(("q6_k", "more"),), down=(("q6_k", "more"),)),
    "q5_k_s": Mix(bits=5.5704, base="q5_k"),
    "q5_1": Mix(bits=6.0377, base="q5_1"),
    "q5_0": Mix(bits=5.5704, base="q5_0"),
    "q4_k_m": Mix(bits=4.8944, base="q4_k", value=(("q6_k", "more"),), down=(("q6_k", "more"),), raised_output=True),
    "q4_k_s": Mix(bits=4.6672, base="q4_k", value=(("q5_k", "four"),), down=(("q5_k", "eighth"),), raised_output=True),
    "q4_1": Mix(bits=5.1031, base="q4_1"),
    "q4_0": Mix(bits=4.6358, base="q4_0"),
    "iq4_nl": Mix(bits=4.6818, base="iq4_nl", grouped_value="q5_k", down=(("q5_k", "eighth"),), raised_output=True),
    "iq4_xs": Mix(bits=4.4597, base="iq4_xs", grouped_value="q5_k", down=(("q5_k", "eighth"),), raised_output=True),
    "q3_k_l": Mix(bits=4.2979, base="q3_k", value=(("q5_k", "all"),), down=(("q5_k", "all"),), output="q5_k"),
    "q3_k_m": Mix(
        bits=3.996,
        base="q3_k",
        value=(("q5_k", "two"), ("q4_k", "all")),
        down=(("q5_k", "sixteenth"), ("q4_k", "all")),
        output="q4_k",
        raised_output=True,
    ),
    "q3_k_s": Mix(bits=3.6429, base="q3_k", raised_output=True),
    "iq3_m": Mix(
        bits=3.7628, base="iq3_s", value=(("q4_k", "all"),), down=(("q4_k", "eighth"),), output="q4_k", raised_output=True
    ),
    "iq3_s": Mix(bits=3.6606, base="iq3_s", grouped_value="q4_k", raised_output=True),
    "iq3_xs": Mix(
        bits=3.4977,
        base="iq3_s",
        grouped_value="q4_k",
        gate_and_up=(("iq3_xxs", "middle"),),
        query_key="iq3_xxs",
        raised_output=True,
    ),
    "iq3_xxs": Mix(
        bits=3.2548,
        base="iq3_xxs",
        grouped_value="q4_k",
        output="iq3_s",
        query_key="iq2_s",
        embedding="iq3_s",
        head="q5_k",
        raised_output=True,
    ),
    "q2_k": Mix(
        bits=3.1593,
        base="q2_k",
        value=(("q3_k", "all"),),
        grouped_value="q4_k",
        down=(("q3_k", "all"),),
        output="q3_k",
        raised_output=True,
    ),
    "q2_k_s": Mix(bits=2.9697, base="q2_k", grouped_value="q4_k", down=(("q4_k", "eighth"),)),
    "iq2_m": _IQ2_M,
    "iq2_s": replace(_IQ2_M, bits=2.7403, base="iq2_xs"),
    "iq2_xs": _IQ2_XS,
    "iq2_xxs": replace(_IQ2_XS, bits=2.3824, base="iq2_xxs"),
    "iq1_m": replace(_IQ2_XS, bits=2.146, base="iq1_m", output="iq2_xxs"),
    "iq1_s": replace(_IQ2_XS, bits=2.0042, base="iq1_s", output="iq2_xxs"),
}
_WIDE_ENDS = {
    "q6_k_l": ("q6_k", 6.8168),
    "q5_k_l": ("q5_k_m", 6.0266),
    "q4_k_l": ("q4_k_m", 5.2828),
    "q3_k_xl": ("q3_k_l", 4.7558),
    "q2_k_l": ("q2_k", 3.6704),
}
"""Names of bartowski's files on the hub -> llama.cpp's mix that they have, but for embedding and head in q8_0 (his model cards), and their bits."""
MIXES: dict[str, Mix] = _LLAMA_CPP | {
    name: replace(_LLAMA_CPP[base], bits=bits, embedding="q8_0", head="q8_0") for name, (base, bits) in _WIDE_ENDS.items()
}
"""Name of a format -> its mix."""


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
    """Bits per weight of the token embedding; a tied one is stored as the head is."""
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
    """Tensor type -> layers from `first` on whose matrices of `role` have it; "" where they are not quantised."""
    return tuple(Counter(_type(mix, role, a, first + layer) for layer in range(layers)).items())


def _type(mix: Mix, role: str, a: _Sizes, layer: int) -> str:
    """Tensor type of the matrix of `role` in one layer; "" where it is not quantised."""
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
