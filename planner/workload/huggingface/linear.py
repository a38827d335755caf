"""Layers that see earlier tokens by a state of constant size: linear attention, state spaces, short convolutions."""

from __future__ import annotations

from planner.workload.huggingface.keys import ConfigKeys
from planner.workload.sublayers import Attending, Sublayer

CHUNK = 64
"""Tokens that a chunk of the gated delta rule takes at once, in transformers 5.23 and in flash-linear-attention."""


def gated_delta(keys: ConfigKeys, width: int, layers: int, *, joined: bool) -> Sublayer:
    """Gated DeltaNet of Qwen3-Next; `joined`: query, key, value and gate come of one product, and so do both rates.

    For each token and head a chunk of c tokens takes 4c·k + 2c·v + 6k·v FLOP, k and v the elements of a head's key and value.
    """
    key_heads, heads = keys.size("linear_num_key_heads"), keys.size("linear_num_value_heads")
    key, value = keys.size("linear_key_head_dim"), keys.size("linear_value_head_dim")
    kernel = keys.size("linear_conv_kernel_dim", default=4)
    inputs, outputs = 2 * key_heads * key + heads * value, heads * value
    split = (("in", width, inputs), ("in", width, outputs), ("in", width, heads), ("in", width, heads))
    return Sublayer(
        part="attention",
        layers=layers,
        matrices=(
            *((("in", width, inputs + outputs), ("in", width, 2 * heads)) if joined else split),
            ("out", outputs, width),
        ),
        convolution=inputs * kernel,
        other=2 * heads,
        norm=value,
        attending=(
            Attending(
                layers=layers,
                state=inputs * kernel,
                wide_state=heads * key * value,
                scan_flop=heads * (4 * CHUNK * key + 2 * CHUNK * value + 6 * key * value),
            ),
        ),
    )
