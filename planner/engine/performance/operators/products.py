"""Seconds of the matrix products of one layer and of the head, in groups that are timed as one.

A group takes t = ((FLOP/F)^p + (bytes/B)^p)^(1/p) with the device's reachable compute F, bandwidth B and knee p.

Symbols: r rows of the product (tokens of this pass on this GPU).
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np

from planner.engine.columns import Floats, Table, soft_maximum
from planner.engine.performance.operators.expert_kernels import added_bytes, added_rows, expert_kernels, filled_rows
from planner.engine.performance.operators.experts import distinct_experts, imbalance, routed_traffic_bytes

CONVERSION_BYTES = 6
"""Bytes of converting an input of a product from FP32 to 16 bit (read and written), or an output back."""
SIXTEEN_BITS = 2.0
"""Bytes of a weight from which it is read at the device's own rate."""
ROUNDING_BYTES = 2.5
"""Bytes of rounding an input of a product to INT8 (read in FP32, written in 8 bit) and of outputs made in FP32, each element of either."""
FUSED_UNPACK_ROWS = 50
"""Rows above which kernels that read packed weights are slower (ExLlama's threshold). At twice as many, 16-bit weights are written and
read; in between a share of them, because both ways then take about the same time."""
ALIGNED = 8
"""Multiple of 16-bit elements that rows of a matrix have to be for the kernels of Ampere and later."""
UNALIGNED_FLOP_PER_CYCLE = 500.0
"""FLOP per multiprocessor and cycle in the kernels for other rows (cutlass_75 … align1): the three products of GPT-2's head of 50,257
entries at 95 to 147 TFLOP/s on an H200 (torch 2.11, 8,192 tokens, 2026-11-26)."""
FUSED_ROWS = 8.0
"""Rows of a block of ExLlama's kernels for GPTQ (BLOCK_M_SIZE_MAX in q_gemm.cu): each block reads and unpacks the packed weights again."""


class ProductGroup(msgspec.Struct, frozen=True):
    """Matrix products that are timed as one, shape [rows]."""

    weights: Floats
    """Elements of the weights on one GPU."""
    rows: Floats
    moved: Floats
    """Elements of activations read and written."""
    stored: Floats
    """Bytes per stored weight."""
    apart_bytes: Floats | float = 0.0
    """Bytes that are moved before and after the products."""
    rate: Floats | float = 1.0
    """Rate ÷ that of single products of the device."""
    wider: Floats | float = 1.0
    """Time of its FLOPs ÷ that in the job's compute dtype, for weights that are stored wider than the narrowest."""
    read: Floats | float = 1.0
    """Rate of reading its weights ÷ that of single products."""


def layer_products(t: Table, rows: Floats) -> dict[str, ProductGroup]:
    """Products of one layer for `rows` tokens: its attention, and its MLP (dense or with experts), each where any row has such layers."""
    m, j, s = t.model, t.job, t.layout
    narrowest = np.minimum(np.minimum(j.mixing_bytes, j.mlp_bytes), j.expert_bytes)
    mixing, mlps, routed = (
        np.where(j.narrow_bytes > 0, stored / narrowest, 1.0) for stored in (j.mixing_bytes, j.mlp_bytes, j.expert_bytes)
    )
    attention_moved, mlp_moved = rows * 2 * (m.width + (m.query + m.key) / s.tp), rows * (2 * m.width + 3 * m.ffn / s.tp)
    attention = ProductGroup(m.mixing_matrix / s.tp, rows, attention_moved, j.mixing_bytes, wider=mixing)
    mlp = ProductGroup(m.mlp_matrix / s.tp, rows, mlp_moved, j.mlp_bytes, wider=mlps)
    if not m.moe_layers.any():
        return {"attention": attention, "mlp": mlp}
    touched = distinct_experts(t, rows)
    per_expert = rows * s.expert_streams * m.experts_per_token / np.maximum(touched, 1e-9) * imbalance(t)
    per_expert = filled_rows(t, rows * s.expert_streams, per_expert) + added_rows(t) / np.maximum(touched, 1e-9)
    kernels = expert_kernels(t)
    grouped = np.where(t.engine.torch_experts > 0, t.chip.grouped_rate, 1.0)
    packed = (j.train <= 0) & (j.expert_bytes < SIXTEEN_BITS) & (t.chip.is_cdna3 > 0)
    grouped = grouped * np.where(packed, t.engine.cdna3_experts_rate, 1.0)
    weights, apart = touched * m.expert_matrix / s.expert_gpus, routed_traffic_bytes(t, rows, kernels) + added_bytes(t)
    slower = routed / kernels.rate
    return {
        "attention": attention,
        **({"mlp": mlp} if (m.moe_layers < m.layers).any() else {}),
        "experts": ProductGroup(weights, per_expert, np.zeros(1), j.expert_bytes, apart, grouped, slower, kernels.read),
        "shared": ProductGroup((m.shared_matrix + m.router_matrix) / s.tp, rows, rows * 2 * m.width, j.mlp_bytes, wider=mlps),
    }


def ends_s(t: Table, rows: Floats, head_rows: Floats) -> tuple[Floats, Floats]:
    """Seconds of the products outside the layers for each pipeline stage, and the part of them whose FLOPs take longer than their bytes.

    The output head for `head_rows` tokens with the projection before it, and for all `rows` the one behind a token embedding of another
    width. Training below 16 bit computes them in 16 bit (arXiv:2412.19437 §3.3.1, torchao's float8).
    """
    m, j, s = t.model, t.job, t.layout
    rate = np.where((j.train > 0) & (j.narrow_bytes > 0), j.narrow_bytes / SIXTEEN_BITS, 1.0)
    head = (m.token_matrix + m.output_matrix) / s.tp
    moved, slower = head_rows * m.vocabulary / s.tp, _time_of_uneven_head(t)
    ends = [(ProductGroup(head, head_rows, moved, j.other_bytes, rate=rate, wider=slower), head_share(t, head_rows))]
    if np.any(m.input_matrix):
        moved = rows * (m.input_matrix / m.width + m.width / s.tp) * (m.input_matrix > 0)
        ends.append((ProductGroup(m.input_matrix / s.tp, rows, moved, j.other_bytes, rate=rate), 1 / s.pp))
    took, bound = np.zeros(1), np.zeros(1)
    for product, share in ends:
        time = product_time(t, product)
        took, bound = took + time.seconds * share, bound + time.compute_bound_s * share
    return took, bound


def _time_of_uneven_head(t: Table) -> Floats:
    """Time of the head's FLOPs ÷ that of others where its vocabulary is not padded to whole blocks in 16 bit; its weights are read as fast."""
    j, c = t.job, t.chip
    in_16_bit = ((j.activation_bytes == SIXTEEN_BITS) | (j.autocast > 0)) & (j.narrow_bytes == 0)
    uneven = (t.engine.pads_vocabulary == 0) & in_16_bit & (t.model.vocabulary / t.layout.tp % ALIGNED > 0) & (c.cycles_per_s > 0)
    slower = c.flop_per_s / (UNALIGNED_FLOP_PER_CYCLE * np.where(uneven, c.cycles_per_s, 1.0))
    return np.where(uneven, np.maximum(1.0, slower), 1.0)


def head_share(t: Table, head_rows: Floats) -> Floats:
    """Share of the output head's time for each pipeline stage; 0 if it is applied to no rows."""
    return np.where(t.layout.pp > 1, 1 / t.layout.pp, 1.0) * (head_rows > 0)


class ProductTime(NamedTuple):
    """Seconds of one group of products, shape [rows]."""

    seconds: Floats
    flop_s: Floats
    """Time of the FLOPs alone."""
    bytes_s: Floats
    """Time of the reads and writes alone."""

    @property
    def compute_bound_s(self) -> Floats:
        """Time of the product where its FLOPs take longer than its bytes, else 0."""
        return np.where(self.flop_s > self.bytes_s, self.seconds, 0.0)


def product_time(t: Table, group: ProductGroup) -> ProductTime:
    """Time of one group of products."""
    j, c = t.job, t.chip
    int8_flop_per_s = t.engine.int8_per_cycle * c.cycles_per_s
    in_int8 = (j.weight_bits_packed > 0) & (int8_flop_per_s > 0)
    reached = c.flop_per_s * np.where(t.engine.fp16_accumulate > 0, c.fp16_accumulate_gain, 1.0)
    reached = np.where(in_int8, int8_flop_per_s, reached)
    flop_s = 2 * group.rows * group.weights / (reached * group.rate) * group.wider
    read = read_bytes_per_s(t, group.stored)
    weights_bytes = group.weights * group.stored
    around = group.moved * np.where(in_int8, ROUNDING_BYTES, CONVERSION_BYTES) * t.engine.fp32_between + group.apart_bytes
    unpacks = np.maximum(t.engine.unpacks, j.bitsandbytes) * ~in_int8 * (group.stored < SIXTEEN_BITS)
    if (unpacks * (j.weight_bits_packed + j.gptq)).any():
        plain = np.where(j.bitsandbytes > 0, group.rows > 1, np.clip(group.rows / FUSED_UNPACK_ROWS - 1, 0.0, 1.0))
        blocks = np.ceil(np.clip(group.rows, 1.0, FUSED_UNPACK_ROWS) / FUSED_ROWS) - 1
        weights_bytes = weights_bytes * (1 + blocks * (1 - plain) * unpacks * j.gptq * (j.train <= 0))
        around = around + group.weights * (unpacks * (group.stored + j.unpacked_bytes) * j.weight_bits_packed) * plain
    bytes_s = weights_bytes / (read * group.rate * group.read) + group.moved * j.activation_bytes / c.bandwidth_bytes_per_s
    # in 8 bit a single kernel reads, unpacks and multiplies
    together = np.where(in_int8, flop_s + bytes_s, soft_maximum(flop_s, bytes_s, c.knee))
    return ProductTime(together + around / c.bandwidth_bytes_per_s, flop_s, bytes_s)


def read_bytes_per_s(t: Table, stored: Floats) -> Floats:
    """Rate at which weights of `stored` bytes are read: as measured, or the limit of an engine's own kernels."""
    c = t.chip
    own = t.engine.read_per_cycle * c.cycles_per_s
    measured = np.where(stored >= SIXTEEN_BITS, c.bandwidth_bytes_per_s, c.weight_bandwidth_bytes_per_s)
    measured = measured * np.where(c.is_hbm > 0, t.engine.hbm_share, 1.0)
    return np.where(own > 0, np.minimum(c.bandwidth_bytes_per_s, own), measured)
