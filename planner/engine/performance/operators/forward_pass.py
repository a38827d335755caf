"""What one forward pass is made of, in seconds of device time per operator class, over the columns of a table.

Every product takes t = ((FLOP/F)^p + (bytes/B)^p)^(1/p) with the device's reachable compute F, bandwidth B and knee p; the
latency of kernels and the host's launches are added once a layer.

Symbols: r rows of the product (tokens of this pass on this GPU) · h width · q, k query and key elements · f feed-forward ·
V vocabulary · E experts · e experts a token is routed to · n ranks of a collective.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from planner.engine.columns import Floats, Table, added
from planner.engine.performance.operators.communication import hand_over_s, tensor_parallel_s
from planner.engine.performance.operators.soft_maximum import soft_maximum

SMALL_KERNEL_S = 1.5e-6
"""One short kernel inside a CUDA graph; elementwise kernels take 1 to 8 us on A40, A100 and H100 alike (Vidur profiles, MIT)."""
ROUNDED_INPUTS = 4.0
"""Such kernels of a layer that computes below 16 bit, where they are not one with those before: each rounds the input of a product."""
CONVERSION_BYTES = 6
"""FP32 read and 16 bit written for each input of a product, and back for each output."""
FUSED_UNPACK_ROWS = 50
"""Kernels that read packed weights serve this many rows (ExLlama's threshold); above it 16-bit weights are written and read."""
SCORE_BYTES = 28
"""Of one attention score that goes through memory: written, scaled, masked, in FP32 for the softmax, back, read."""
EAGER_READS = 3.0
"""Passes over the cache of a decoding step with eager attention: keys and values are brought into another order before they are
multiplied. From the published decline of llama.cpp without flash attention with growing contexts."""
COMPILED_LAUNCHES = 0.15
"""Share of the launches that torch.compile leaves: fused kernels, guards, no graphs. An assumption."""


@dataclass(frozen=True)
class Pass:
    """Seconds of one forward pass through one pipeline stage, shape [rows]."""

    matmul: Floats
    attention: Floats
    elementwise: Floats
    head: Floats
    communication: Floats
    latency: Floats
    host: Floats
    """Time the host needs to launch it; hides behind the device while shorter."""
    compute_bound: Floats
    """Part of matmul and head whose FLOPs take longer than their bytes."""
    shape: tuple[Floats, Floats, Floats, Floats]
    """What it was asked for: rows, context, new, head_rows."""

    @property
    def device(self) -> Floats:
        """Seconds the device works."""
        return self.matmul + self.attention + self.elementwise + self.head + self.communication + self.latency

    @property
    def total(self) -> Floats:
        """Seconds until it is done: the slower of device and host."""
        return np.maximum(self.device, self.host)

    def slowed(self, factor: Floats | float) -> Pass:
        """The same with `factor` times the device time."""
        if np.all(factor == 1):
            return self
        device = ("matmul", "attention", "elementwise", "head", "communication", "latency", "compute_bound")
        return replace(self, **{name: getattr(self, name) * factor for name in device})


def distinct_experts(t: Table, rows: Floats) -> Floats:
    """Experts of a layer that `rows` tokens touch: E·(1 - (1 - e/E)^r), if routing were uniform."""
    experts = np.where(t.model.experts > 0, t.model.experts, 1.0)
    touched: Floats = experts * (1 - (1 - np.minimum(1.0, t.model.experts_per_token / experts)) ** np.minimum(rows, 1e6))
    return touched


@dataclass(frozen=True)
class Product:
    """Matrix products that are timed as one, shape [rows]."""

    weights: Floats
    """Elements of the weights on one GPU."""
    rows: Floats
    moved: Floats
    """Elements of activations read and written."""
    stored: Floats
    """Bytes a weight is kept in."""


def layer_products(t: Table, rows: Floats) -> dict[str, Product]:
    """The products of one layer for `rows` tokens: its attention, and its MLP dense or with experts."""
    m, j, s = t.model, t.job, t.layout
    touched = distinct_experts(t, rows) / np.maximum(s.ep, 1)
    routed_rows = rows * m.experts_per_token / np.maximum(touched * s.ep, 1e-9)
    routed_moved = rows * m.experts_per_token * (2 * m.width + 3 * m.expert_ffn / s.tp) / s.ep
    return {
        "attention": Product(m.attention_matrix / s.tp, rows, rows * 2 * (m.width + (m.query + m.key) / s.tp), j.linear_bytes),
        "mlp": Product(m.dense_mlp_matrix / s.tp, rows, rows * (2 * m.width + 3 * m.ffn / s.tp), j.linear_bytes),
        "experts": Product(touched * m.expert_matrix / s.tp, routed_rows, routed_moved, j.linear_bytes),
        "shared": Product((m.shared_matrix + m.router_matrix) / s.tp, rows, rows * 2 * m.width, j.linear_bytes),
    }


def head_product(t: Table, head_rows: Floats) -> Product:
    """The output head for `head_rows` tokens."""
    m, s = t.model, t.layout
    return Product(m.vocabulary * m.width / s.tp, head_rows, head_rows * m.vocabulary / s.tp, t.job.other_bytes)


def product_s(t: Table, one: Product) -> tuple[Floats, Floats, Floats]:
    """(seconds, seconds of its FLOPs alone, seconds of its bytes alone) of one product."""
    j, c = t.job, t.chip
    reached = c.flop_per_s * np.where(t.engine.fp16_accumulate > 0, c.fp16_accumulate_gain, 1.0)
    flop_s = 2 * one.rows * one.weights / reached
    few = np.where((c.is_hbm > 0) & (one.rows <= FUSED_UNPACK_ROWS), t.engine.hbm_share, 1.0)
    bytes_s = (
        one.weights * one.stored / (c.weight_bandwidth_bytes_per_s * few) + one.moved * j.activation_bytes / c.bandwidth_bytes_per_s
    )
    around = one.moved * CONVERSION_BYTES * t.engine.fp32_between
    unpacked = t.engine.unpacks * (one.stored + j.unpacked_bytes) * j.weight_bits_packed
    around = around + one.weights * unpacked * (one.rows > FUSED_UNPACK_ROWS)
    return soft_maximum(flop_s, bytes_s, c.knee) + around / c.bandwidth_bytes_per_s, flop_s, bytes_s


def head_share(t: Table, head_rows: Floats) -> Floats:
    """What of the head counts for one of the pipeline's stages."""
    share: Floats = np.where(t.layout.pp > 1, 1 / t.layout.pp, 1.0) * (head_rows > 0)
    return share


def forward(t: Table, rows: Floats, context: Floats, new: Floats, *, head_rows: Floats) -> Pass:
    """One pass of `rows` tokens in sequences that attend to `context` tokens each (mean), `new` of them computed now.

    `head_rows`: rows the output head is applied to. Returns the stage's layers; the head counts where pp = 1, else as the
    last stage's share.
    """
    m, s, c = t.model, t.layout, t.chip
    layers = m.layers / s.pp
    moe = m.moe_layers / m.layers
    share = head_share(t, head_rows)
    took, bound = {}, {}
    for name, product in (*layer_products(t, rows).items(), ("head", head_product(t, head_rows))):
        took[name], flop_s, bytes_s = product_s(t, product)
        bound[name] = np.where(flop_s > bytes_s, took[name], 0.0)
    per_layer, bound_layer = (
        of["attention"] + (1 - moe) * of["mlp"] + moe * (of["experts"] + of["shared"]) for of in (took, bound)
    )
    elementwise = between_bytes(t, rows) / c.bandwidth_bytes_per_s + quantise_s(t, rows)
    factor = t.engine.device_factor
    return Pass(
        matmul=layers * per_layer * factor,
        attention=attention_pass_s(t, rows, context, new),
        elementwise=layers * elementwise * factor,
        head=took["head"] * share * factor,
        communication=layers * added(tensor_parallel_s(t, rows)) + hand_over_s(t, rows) * (s.pp - 1) / s.pp,
        latency=latency_pass_s(t, new),
        host=layers * host_s(t),
        compute_bound=(layers * bound_layer + bound["head"] * share) * factor,
        shape=(rows, context, new, head_rows),
    )


def attention_pass_s(t: Table, rows: Floats, context: Floats, new: Floats) -> Floats:
    """Seconds of attention in a pass through one pipeline stage; see `forward`."""
    scores_s, eager_s, _, _ = attention_s(t, rows, context, new)
    return t.model.layers / t.layout.pp * (scores_s + eager_s) * t.engine.device_factor


def latency_pass_s(t: Table, new: Floats) -> Floats:
    """Seconds that a pass through one pipeline stage spends in starting and ending kernels."""
    return t.model.layers / t.layout.pp * added(latencies_s(t, new))


def latencies_s(t: Table, new: Floats) -> tuple[Floats, Floats, Floats]:
    """Seconds one layer spends in starting and ending its products, its attention, and its small kernels."""
    m, c = t.model, t.chip
    on = np.where(c.is_cpu > 0, 0.0, 1.0)
    attention = np.where(new > 1, c.attention_latency_s, c.decode_latency_s)
    rounding = ROUNDED_INPUTS * t.engine.rounds_apart * (t.job.narrow_bytes > 0)
    small = (np.maximum(t.engine.kernels_per_layer - 5, 0) + rounding) * SMALL_KERNEL_S
    return c.latency_s * (4 + 3 * (m.moe_layers / m.layers)) * on, attention * on, small * on


def quantise_s(t: Table, rows: Floats) -> Floats:
    """Seconds one layer takes to round the inputs of its products where they compute below 16 bit."""
    m, narrow = t.model, t.job.narrow_bytes
    seconds = rows * (3 * m.width + m.ffn / t.layout.tp) * (2 + narrow) / t.chip.quantise_bytes_per_s
    return np.where(narrow > 0, seconds, 0.0)


def host_s(t: Table) -> Floats:
    """Seconds the host takes to launch one layer: operators, the loop over experts, and unpacking where no graph is replayed."""
    m, e = t.model, t.engine
    launches = e.launches_per_layer + e.launches_per_expert * m.experts * m.moe_layers / m.layers
    products = np.where(m.gated > 0, 7.0, 6.0)
    unpacking = products * t.job.unpack_host_s * (e.launches_per_layer > 0)
    seconds: Floats = (launches * t.chip.launch_s + unpacking) * np.where(t.job.compiled > 0, COMPILED_LAUNCHES, 1.0)
    return seconds


def attended_tokens(t: Table, context: Floats) -> Floats:
    """Tokens one token attends to, the mean over the layers: windows cut the context."""
    m = t.model
    window = np.where(m.window > 0, np.minimum(context, m.window), context)
    seen: Floats = context + (window - context) * m.windowed_layers / m.layers
    return seen


def _kv_split(t: Table) -> Floats:
    """Share of the key and value heads that one of the tensor-parallel ranks holds; a head is on one rank at least."""
    heads = np.maximum(t.model.kv_heads, 1)
    share: Floats = np.ceil(heads / t.layout.tp) / heads
    return share


def cache_bytes(t: Table, rows: Floats, context: Floats, new: Floats) -> Floats:
    """Bytes of keys and values that one layer's attention reads: of every sequence once a pass."""
    element = np.where(t.job.kv_bytes > 0, t.job.kv_bytes, 2.0)
    of_token: Floats = t.model.cached_per_token * _kv_split(t) * element
    return rows / np.maximum(new, 1.0) * attended_tokens(t, context) * of_token


def attention_s(t: Table, rows: Floats, context: Floats, new: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """One layer: (seconds, those of scores that go through memory, of its FLOPs alone, of its reads alone).

    2·(queries + values) FLOP per token and attended token, 4·q where heads are alike; the cache is read once a pass.
    """
    m, j, s, c = t.model, t.job, t.layout, t.chip
    seen = attended_tokens(t, context)
    flop_s = 2 * m.attended / s.tp * seen * rows / c.attention_flop_per_s
    heads_s = rows * (m.kv_heads * _kv_split(t)) * c.decode_head_s * (new <= 1)
    read_s = cache_bytes(t, rows, context, new) / c.decode_bandwidth_bytes_per_s + heads_s
    read_s = read_s * np.where((new <= 1) & (j.eager_attention > 0), EAGER_READS, 1.0)
    eager_s = j.eager_attention * rows * seen * m.heads / s.tp * SCORE_BYTES / c.bandwidth_bytes_per_s
    return soft_maximum(flop_s, read_s, c.knee), eager_s, flop_s, read_s


@dataclass(frozen=True)
class Between:
    """Bytes per token of one kind of work between products, as multiples of h, q, k and f."""

    fused: tuple[float, float, float, float]
    """By fused kernels in 16 bit."""
    each: tuple[float, float, float, float]
    """Operator by operator: those of Llama in transformers 5.23 on the meta device, bytes in and out."""


BETWEEN: Mapping[str, Between] = {
    "norms": Between((8, 0, 0, 0), (72, 0, 0, 0)),
    "residual sums": Between((12, 0, 0, 0), (12, 0, 0, 0)),
    "rotary embedding": Between((0, 4, 4, 0), (0, 20, 20, 0)),
    "copies into the cache": Between((0, 0, 0, 0), (0, 0, 8, 0)),
    "copy of attention's output": Between((0, 0, 0, 0), (0, 4, 0, 0)),
    "activation of the MLP": Between((0, 0, 0, 6), (0, 0, 0, 10)),
    "dropout": Between((0, 0, 0, 0), (12, 0, 0, 0)),
}
"""An RMSNorm in FP32 is copy, square, mean, scale, copy back and weight: 36h, and most layers have two of them."""
LAYER_NORM, PLAIN_ACTIVATION = 1 / 9, 0.4
"""A LayerNorm and an activation without a gate are one kernel each: 4h for 36h, 4f for 10f."""


def between_bytes(t: Table, rows: Floats, kind: str | None = None) -> Floats:
    """Bytes of one layer outside products, of one kind in `BETWEEN` or of all.

    Of Llama 20h + 4(q + k) + 6f fused, 84h + 24q + 28k + 10f not.
    """
    m, j, s = t.model, t.job, t.layout
    moe = m.moe_layers / m.layers
    ffn = m.ffn * (1 - moe) + (m.experts_per_token * m.expert_ffn + m.shared_ffn) * moe
    fused = np.maximum(t.engine.fused_elementwise, j.compiled)
    scale = j.activation_bytes / 2 * np.where(j.autocast > 0, 1.6, 1.0) * (1 + t.engine.fp32_between)
    there = {
        "norms": m.norms / 2 * np.where(m.centred > 0, LAYER_NORM, 1.0),
        "rotary embedding": np.where(m.rotary > 0, 1.0, 0.0),
        "activation of the MLP": np.where(m.gated > 0, 1.0, PLAIN_ACTIVATION),
        "dropout": m.dropout,
    }

    def of(name: str) -> Floats:
        one, each = (
            h * m.width + (q * m.query + k * m.key + f * ffn) / s.tp for h, q, k, f in (BETWEEN[name].fused, BETWEEN[name].each)
        )
        return np.where(fused > 0, one, each * there.get(name, 1.0))

    return rows * added(of(name) for name in ([kind] if kind else BETWEEN)) * scale
