"""What inference keeps on the fullest GPU: weights, cache, and the activations of the largest forward pass."""

from __future__ import annotations

import numpy as np

from planner.engine.columns import Floats, Table
from planner.engine.memory.stages import stage_parameters
from planner.engine.memory.terms import Term


def kv_bytes_per_sequence(t: Table, tokens: Floats) -> Floats:
    """Cache of one sequence of `tokens` on one GPU; key/value heads are split over tp and repeated beyond their number."""
    m, s = t.model, t.layout
    whole = np.ceil(m.layers / s.pp) / m.layers
    full = (m.layers - m.windowed_layers) * tokens
    windowed = m.windowed_layers * np.minimum(tokens, np.where(m.window > 0, m.window, tokens))
    latent = m.cached_per_token < 2 * m.key
    split = np.where(latent, 1.0, np.ceil(m.kv_heads / s.tp) / np.maximum(m.kv_heads, 1))
    return whole * (full + windowed) * m.cached_per_token * split * t.job.kv_bytes / s.cp


def inference_terms(t: Table) -> list[Term]:
    """Terms at the peak of serving or generating."""
    j, s, m, e = t.job, t.layout, t.model, t.engine
    stage = stage_parameters(t)
    whole = s.sequences * j.input_tokens
    chunk = np.where(e.prefill_chunk > 0, np.minimum(whole, e.prefill_chunk), whole) / s.cp
    moe = m.moe_layers / m.layers
    ffn = m.ffn * (1 - moe) + (m.experts_per_token * m.expert_ffn + m.shared_ffn) * moe
    wide = np.where(j.activation_bytes > 2, 2.0, 1.0)
    per_sequence = kv_bytes_per_sequence(t, j.input_tokens + j.output_tokens)
    return [
        Term(
            "weights",
            "weights",
            stage.linear * j.linear_bytes + stage.other * j.other_bytes,
            "{linear} · {linear_bytes} + {other} · {other_bytes}",
            {"linear": stage.linear, "linear_bytes": j.linear_bytes, "other": stage.other, "other_bytes": j.other_bytes},
            "the storage format",
        ),
        Term(
            "kv_cache",
            "keys and values",
            per_sequence * s.sequences,
            "{sequences} · {per_sequence}",
            {"sequences": s.sequences, "per_sequence": per_sequence},
            "two tensors a layer, kv_heads · head_dim a token",
        ),
        Term(
            "activations",
            "the largest forward pass",
            chunk * (6 * ffn + 8 * m.width) / s.tp * wide,
            "{tokens} · (6 · {ffn} + 8 · {width}) ÷ {tp} · {wide}",
            {"tokens": chunk, "ffn": ffn, "width": m.width, "tp": s.tp, "wide": wide},
            "gate, up and product of the MLP beside the residual stream",
        ),
        Term(
            "logits",
            "logits of the next token",
            s.sequences * m.vocabulary * 6 / s.tp,
            "{sequences} · {vocabulary} · 6 ÷ {tp}",
            {"sequences": s.sequences, "vocabulary": m.vocabulary, "tp": s.tp},
            "16 bit and their FP32 copy for sampling",
        ),
    ]
