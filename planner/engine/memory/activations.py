"""Bytes a layer keeps for its backward pass.

Symbols: h width · q, k query and key elements of a token · f feed-forward width of the experts or MLP a token passes.
"""

from __future__ import annotations

import numpy as np

from planner.engine.columns import Floats, Table

FP32_GROWTH = 1.8
"""Saved bytes in FP32 over 16 bit: what is 16-bit doubles, statistics and masks stay. An assumption."""


def saved_per_token(t: Table) -> Floats:
    """Bytes one layer saves per token for backward.

    Gated blocks (RMSNorm, rotary, SwiGLU, flash attention): 16h + 8f + 4q + 4k in 16 bit, 26h + … under autocast, where the
    residual stream is FP32; q/k norms make it 10q + 10k. Plain blocks: 28h + 4f + 4q + 4k and 6h of dropout masks and
    outputs (58h for GPT-2; 86h under autocast). Eager attention adds 6·heads·sequence. Routed experts save their f.
    """
    m, j = t.model, t.job
    moe = m.moe_layers / m.layers
    routed = m.experts_per_token * m.expert_ffn + m.shared_ffn
    ffn = m.ffn * (1 - moe) + routed * moe
    heads = np.where(m.qk_norm > 0, 10.0, 4.0) * (m.query + m.key)
    gated = np.where(j.autocast > 0, 26.0, 16.0) * m.width + 8 * ffn
    plain = np.where(j.autocast > 0, 50.0, 28.0) * m.width + np.where(j.autocast > 0, 6.0, 4.0) * ffn + 6 * m.width * m.dropout
    block = np.where(m.gated > 0, gated, plain) + heads + 4 * moe * m.experts_per_token * m.width
    return (block + eager_scores_per_token(t)) * np.where(j.activation_bytes > 2, FP32_GROWTH, 1.0)


def eager_scores_per_token(t: Table) -> Floats:
    """Bytes of the attention scores that eager attention keeps per token: 6·heads·sequence; flash attention keeps none."""
    return 6 * t.model.heads * t.job.sequence * t.job.eager_attention


def boundary_per_token(t: Table) -> Floats:
    """Bytes of one layer's input, all that full checkpointing keeps: 2h, or 4h where autocast leaves the residual in FP32."""
    return t.model.width * np.where(t.job.autocast > 0, 4.0, 2.0)
