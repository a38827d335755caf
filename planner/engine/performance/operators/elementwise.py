"""Work between matrix products, whose time is that of its bytes: norms, sums, rotary embedding, activations, rounding.

Symbols: h width · q, k query and key elements of a token · f feed-forward width.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np

from planner.engine.columns import Floats, Table, added


class ElementwiseWork(msgspec.Struct, frozen=True):
    """Bytes per token of one kind of work between products, as multiples of h, q, k and f."""

    fused: tuple[float, float, float, float]
    """Bytes in 16 bit with fused kernels."""
    each: tuple[float, float, float, float]
    """Bytes in 16 bit, operator by operator: input and output of Llama's in transformers 5.23, counted on the meta device."""


ELEMENTWISE: Mapping[str, ElementwiseWork] = {
    "norms": ElementwiseWork((8, 0, 0, 0), (72, 0, 0, 0)),
    "residual sums": ElementwiseWork((12, 0, 0, 0), (12, 0, 0, 0)),
    "rotary embedding": ElementwiseWork((0, 4, 4, 0), (0, 20, 20, 0)),
    "copies into the cache": ElementwiseWork((0, 0, 0, 0), (0, 0, 8, 0)),
    "copy of attention's output": ElementwiseWork((0, 0, 0, 0), (0, 4, 0, 0)),
    "activation of the MLP": ElementwiseWork((0, 0, 0, 6), (0, 0, 0, 10)),
    "dropout": ElementwiseWork((0, 0, 0, 0), (12, 0, 0, 0)),
}
"""Kind of work -> its bytes. An RMSNorm in FP32 is copy, square, mean, scale, copy back and weight: 36h; most layers have two."""
ADAPTERS = "adapters"
"""Kind of work for bytes that low-rank adapters read and write apart from their products."""
LAYER_NORM, PLAIN_ACTIVATION = 1 / 9, 0.4
"""Share of those bytes that a LayerNorm and an activation without a gate take, one kernel each: 4h of 36h, 4f of 10f."""


def elementwise_bytes(t: Table, rows: Floats, kind: str | None = None) -> Floats:
    """Bytes of one layer outside its products, of one kind in `ELEMENTWISE`, of `ADAPTERS`, or of all; shape [rows].

    For Llama 20h + 4(q + k) + 6f per token fused, 84h + 24q + 28k + 10f operator by operator. Training in FP8 is fused: PyTorch has no such
    products of its own, and Transformer Engine and torchao under torch.compile, which have them, fuse the work between them.
    """
    m, j, s = t.model, t.job, t.layout
    between = whole_ranks(t)
    fused = np.maximum(np.maximum(t.engine.fused_elementwise, j.compiled), j.train * (j.narrow_bytes > 0))
    scale = j.activation_bytes / 2 * np.where(j.autocast > 0, 1.6, 1.0) * (1 + t.engine.fp32_between)
    factors = {
        "norms": m.norms / 2 * np.where(m.centred > 0, LAYER_NORM, 1.0),
        "rotary embedding": np.where(m.rotary > 0, 1.0, 0.0),
        "activation of the MLP": np.where(m.gated > 0, 1.0, PLAIN_ACTIVATION),
        "dropout": m.dropout,
    }

    divided = (m.query, m.key, m.common_ffn)

    def elements(h: float, *multiples: float) -> Floats:
        whole = [h * m.width / between] if h else []
        parts = [multiple * size for multiple, size in zip(multiples, divided, strict=True) if multiple]
        return added([*whole, added(parts) / s.tp] if parts else whole or [np.zeros(1)])

    def of(name: str) -> Floats:
        work = ELEMENTWISE[name]
        each = elements(*work.each)
        apart = each * factors[name] if name in factors else each
        return np.where(fused > 0, np.minimum(elements(*work.fused), apart), apart)

    if kind == ADAPTERS:
        return rows * j.adapter_traffic / s.tp
    return rows * (
        added(of(name) for name in ([kind] if kind else ELEMENTWISE)) * scale + j.adapter_traffic / s.tp * (kind is None)
    )


def whole_ranks(t: Table) -> Floats:
    """Ranks of tensor parallelism that share the tokens between products: all where training divides them (sequence parallelism), else one."""
    return np.where((t.job.train > 0) & (t.engine.whole_between == 0), t.layout.tp, 1.0)


def adapters_s(t: Table, rows: Floats) -> Floats:
    """Seconds that one layer takes to read the adapters of the requests of a pass, each at most once."""
    j, s = t.job, t.layout
    different = np.minimum(1.0, rows / np.maximum(j.served_adapters, 1.0))
    return j.adapter_bytes / t.model.layers / s.tp * different / t.chip.bandwidth_bytes_per_s * (j.served_adapters > 0)


def quantise_s(t: Table, rows: Floats) -> Floats:
    """Seconds that one layer takes to round the inputs of its products below 16 bit, routed experts excepted."""
    m, narrow = t.model, t.job.narrow_bytes
    seconds = rows * (3 * m.width / whole_ranks(t) + m.common_ffn / t.layout.tp) * (2 + narrow) / t.chip.quantise_bytes_per_s
    return np.where(narrow > 0, seconds, 0.0)
