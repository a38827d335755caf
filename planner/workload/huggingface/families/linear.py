"""Layers that access earlier tokens by a state of constant size: linear attention, state spaces, short convolutions."""

from __future__ import annotations

from typing import NamedTuple

from planner.workload.huggingface.keys import ConfigKeys
from planner.workload.sublayers import AttentionGroup, Matrices, Sublayer

CHUNK = 64
"""Tokens per chunk of the gated delta rule, in transformers 5.23 and in flash-linear-attention."""


class MambaKeys(NamedTuple):
    """Names of the keys of Mamba-2's sizes, which differ from family to family."""

    heads: str = "mamba_n_heads"
    head_dim: str = "mamba_d_head"
    state: str = "mamba_d_state"
    groups: str = "mamba_n_groups"
    kernel: str = "mamba_d_conv"
    conv_bias: str = "mamba_conv_bias"
    proj_bias: str = "mamba_proj_bias"
    chunk: str = "mamba_chunk_size"


def gated_delta(keys: ConfigKeys, width: int, layers: int, *, joined: bool | None) -> Sublayer:
    """Gated DeltaNet of Qwen3-Next; `joined`: query, key, value and gate come from one product, and so do both rates; None: from one each.

    For each token and head a chunk of c tokens takes 4c·k + 2c·v + 6k·v FLOP, k and v the elements of a head's key and value.
    """
    key_heads, heads = keys.size("linear_num_key_heads"), keys.size("linear_num_value_heads")
    key, value = keys.size("linear_key_head_dim"), keys.size("linear_value_head_dim")
    kernel = keys.size("linear_conv_kernel_dim", default=4)
    inputs, outputs = 2 * key_heads * key + heads * value, heads * value
    split: Matrices = (
        ("in", width, inputs),
        ("in", width, outputs),
        ("in", width, heads),
        ("in", width, heads),
    )
    if joined is None:
        split = (("q", width, key_heads * key), ("k", width, key_heads * key), ("v", width, outputs), *split[1:])
    return Sublayer(
        part="attention",
        layers=layers,
        matrices=(*((("in", width, inputs + outputs), ("in", width, 2 * heads)) if joined else split), ("out", outputs, width)),
        convolution=inputs * kernel,
        other=2 * heads,
        norm=value,
        attending=(
            AttentionGroup(
                layers=layers,
                state=inputs * kernel,
                wide_state=heads * key * value,
                scan_flop=heads * (4 * CHUNK * key + 2 * CHUNK * value + 6 * key * value),
            ),
        ),
    )


def kimi_delta(width: int, layers: int, *, heads: int, dim: int, kernel: int, low_rank: bool, gate_low_rank: bool) -> Sublayer:
    """Kimi Delta Attention: a gated delta rule with a decay per channel; decay and gate may each pass a vector of `dim` elements.

    For each token and head of d elements a chunk of c tokens takes 6c·d + 6d² FLOP of products, as in transformers 5.23.
    """
    inner = heads * dim
    narrow: Matrices = (("in", width, dim), ("in", dim, inner))
    wide: Matrices = (("in", width, inner),)
    return Sublayer(
        part="attention",
        layers=layers,
        matrices=(
            ("q", width, inner),
            ("k", width, inner),
            ("v", width, inner),
            *(narrow if low_rank else wide),
            *(narrow if gate_low_rank else wide),
            ("in", width, heads),
            ("out", inner, width),
        ),
        convolution=3 * inner * kernel,
        other=inner + heads,
        norm=dim,
        attending=(
            AttentionGroup(
                layers=layers, state=3 * inner * kernel, wide_state=inner * dim, scan_flop=heads * (6 * CHUNK * dim + 6 * dim * dim)
            ),
        ),
    )


def mamba2(
    keys: ConfigKeys, width: int, layers: int, *, named: MambaKeys, inner: int | None = None, normed: bool = True
) -> Sublayer:
    """Mamba-2: one product for gate, input, both selections and steps; a convolution; a state of each head in FP32.

    `inner`: inner width, heads · head_dim by default. `normed`: the output is normed together with its gate.
    For each token and head a chunk of c tokens takes 2c·(n + d) + 4n·d FLOP, n and d the elements of a head's state and input.
    """
    heads, dim, state = keys.size(named.heads), keys.size(named.head_dim), keys.size(named.state)
    inner = inner or heads * dim
    chunk = keys.size(named.chunk, default=256)
    mixed = inner + 2 * keys.size(named.groups, default=1) * state
    kernel, biased = keys.size(named.kernel, default=4), keys.flag(named.proj_bias, default=False)
    into = inner + mixed + heads
    return Sublayer(
        part="attention",
        layers=layers,
        matrices=(("in", width, into), ("out", inner, width)),
        convolution=mixed * kernel,
        other=3 * heads,
        bias=mixed * keys.flag(named.conv_bias, default=True) + (into + width) * biased,
        norm=inner * normed,
        attending=(
            AttentionGroup(
                layers=layers,
                state=mixed * kernel,
                wide_state=inner * state,
                scan_flop=heads * (2 * chunk * (state + inner // heads) + 4 * state * (inner // heads)),
            ),
        ),
    )
