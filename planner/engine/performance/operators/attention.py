"""Attention of one layer: scores and values over the tokens before, and the reading of the KV cache.

Symbols: q query elements of a token · r tokens of the pass on this GPU.
"""

from __future__ import annotations

import numpy as np

from planner.engine.columns import Floats, Table
from planner.engine.performance.operators.soft_maximum import soft_maximum

SCORE_BYTES = 28
"""Bytes of one attention score that goes through memory: written, scaled, masked, in FP32 for the softmax, back, read."""
MOST_ABSORBED = 8.0
"""New tokens of a sequence up to which latent attention leaves the latent as it is: one, or those that a draft proposed."""
EAGER_READS = 3.0
"""Passes over the cache of a decoding step with eager attention: keys and values are brought into another order before they are
multiplied. From the published decline of llama.cpp without flash attention with growing contexts."""


def attended_tokens(t: Table, context: Floats) -> Floats:
    """Tokens one token attends to, the mean over the layers: windows cut the context."""
    m = t.model
    window = np.where(m.window > 0, np.minimum(context, m.window), context)
    seen: Floats = context + (window - context) * m.windowed_layers / m.layers
    return seen


def _kv_heads(t: Table) -> Floats:
    return np.where(t.model.latent_rank > 0, 1.0, np.maximum(t.model.kv_heads, 1))


def _kv_split(t: Table) -> Floats:
    """Share of the key and value heads on one tensor-parallel rank, which holds one head at least; a latent is one for all heads."""
    heads = _kv_heads(t)
    share: Floats = np.ceil(heads / t.layout.tp) / heads
    return share


def cache_bytes(t: Table, rows: Floats, context: Floats, new: Floats) -> Floats:
    """Bytes of keys and values that one layer's attention reads: those of every sequence, once a pass."""
    element = np.where(t.job.kv_bytes > 0, t.job.kv_bytes, 2.0)
    of_token: Floats = t.model.cached_per_token * _kv_split(t) * element
    return rows / np.maximum(new, 1.0) * attended_tokens(t, context) * of_token


def _latent_decoding(t: Table, new: Floats) -> Floats:
    """FLOPs of latent attention while decoding over those of its heads: every head multiplies with the whole latent, which is not unpacked.

    With a cache of 8 bit they are done in 8 bit where kernels exist.
    """
    m, gain = t.model, np.where(t.job.kv_bytes == 1, t.chip.narrow_attention_gain, 1.0)
    elements = m.heads * (m.cached_per_token + m.latent_rank)
    return np.where((m.latent_rank > 0) & (new <= MOST_ABSORBED), elements / np.maximum(m.attended, 1) / gain, 1.0)


def attention_s(t: Table, rows: Floats, context: Floats, new: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Seconds of one layer: (attention, scores that go through memory, its FLOPs alone, its reads alone).

    A token takes 2·(queries + values) FLOP for each token it attends to, 4·q where all heads are alike; the cache is read once a
    pass. Arguments as of `forward_pass.forward`.
    """
    m, j, s, c = t.model, t.job, t.layout, t.chip
    seen = attended_tokens(t, context)
    flop_s = 2 * m.attended / s.tp * seen * rows / c.attention_flop_per_s * _latent_decoding(t, new)
    heads_s = rows * (_kv_heads(t) * _kv_split(t)) * c.decode_head_s * (new <= 1)
    read_s = cache_bytes(t, rows, context, new) / c.decode_bandwidth_bytes_per_s + heads_s
    read_s = read_s * np.where((new <= 1) & (j.eager_attention > 0), EAGER_READS, 1.0)
    eager_s = j.eager_attention * rows * seen * m.heads / s.tp * SCORE_BYTES / c.bandwidth_bytes_per_s
    return soft_maximum(flop_s, read_s, c.knee), eager_s, flop_s, read_s
