"""Bytes on the fullest GPU of each candidate, one column a component.

Symbols: L layers · h width · q, k query and key elements of a token · f feed-forward width · V vocabulary ·
T tokens of one micro batch on one rank · N parameters. Training follows what PyTorch keeps: the peak is the largest of
the start of backward (all saved activations and the logits), its end (all gradients) and the optimizer step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.engine.columns import Flags, Floats, Table, added
from planner.units import GIB

BUCKET_ELEMENTS = 5e8
"""Gradients gathered before they are reduced: DeepSpeed's default reduce_bucket_size."""
OFFLOADED_SHARE = 0.9
"""Of the saved activations that offloading keeps on the host at the peak: an assumption (the last layers are still on the GPU)."""
FP32_GROWTH = 1.8
"""Saved bytes in FP32 over 16 bit: what is 16-bit doubles, statistics and masks stay. An assumption."""
TRAINING_SPREAD, INFERENCE_SPREAD = 0.40, 0.60
"""Half widths (90 %) that remain on the whole peak: what engines and their versions do differently (published peaks)."""
TRANSIENT_SPREAD, FIXED_SPREAD, OVERHEAD_SPREAD = 0.30, 0.01, 0.60
"""Half widths of the logarithm (90 %) of activations and temporaries, of weights and states, and of overheads; the spread
of public training peaks around the formulas below."""


@dataclass(frozen=True)
class MemoryColumns:
    """Bytes per candidate, shape [rows]; the components add up to `total`."""

    weights: Floats
    gradients: Floats
    optimizer: Floats
    activations: Floats
    logits: Floats
    kv_cache: Floats
    buffers: Floats
    overhead: Floats
    total: Floats
    spread: Floats
    usable: Floats
    """What the job may take: capacity · engine fraction · (1 - headroom)."""
    fits: Flags
    kv_per_sequence: Floats
    max_sequences: Floats
    """Whole sequences whose cache fits beside everything else (inference); NaN while training."""


@dataclass(frozen=True)
class _Stage:
    """Parameters of the fullest pipeline stage on one GPU before ZeRO."""

    linear: Floats
    other: Floats
    layers: Floats


def stage_parameters(t: Table) -> _Stage:
    """Parameters one GPU holds: the stage's layers ÷ tp (experts ÷ ep too), and the larger of embedding and head.

    Norms and biases are counted with the linear layers: they are below 0.1 %.
    """
    m, s = t.model, t.layout
    layers = np.ceil(m.layers / s.pp)
    share = layers / m.layers
    linear = share * (m.layers_shared + m.experts_total / s.ep) / s.tp
    head_alone = np.maximum(m.head, m.vocabulary * m.width * (s.pp > 1))
    other = np.where(s.pp > 1, np.maximum(m.embedding, head_alone), m.embedding + m.head) / s.tp
    return _Stage(linear=linear, other=other + m.final_vector, layers=layers)


def micro_batches(t: Table) -> Floats:
    """Micro batches a step: from the global batch, or as many as keep a pipeline's bubble at a fifth (4·pp)."""
    s = t.layout
    given = t.job.global_batch / np.maximum(1.0, s.micro_batch * s.dp)
    return np.where(t.job.global_batch > 0, np.maximum(1.0, np.ceil(given)), np.where(s.pp > 1, 4 * s.pp, 1.0))


def kv_bytes_per_sequence(t: Table, tokens: Floats) -> Floats:
    """Cache of one sequence of `tokens` on one GPU; key/value heads are split over tp and repeated beyond their number."""
    m, s = t.model, t.layout
    whole = np.ceil(m.layers / s.pp) / m.layers
    full = (m.layers - m.windowed_layers) * tokens
    windowed = m.windowed_layers * np.minimum(tokens, np.where(m.window > 0, m.window, tokens))
    latent = m.cached_per_token < 2 * m.key
    split = np.where(latent, 1.0, np.ceil(m.kv_heads / s.tp) / np.maximum(m.kv_heads, 1))
    return whole * (full + windowed) * m.cached_per_token * split * t.job.kv_bytes / s.cp


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
    attention = 6 * m.heads * j.sequence * j.eager_attention
    return (block + attention) * np.where(j.activation_bytes > 2, FP32_GROWTH, 1.0)


def memory_of(t: Table) -> MemoryColumns:
    """Memory of every candidate."""
    train = np.broadcast_to(t.job.train > 0, (t.rows,))
    parts = {name: np.where(train, a, b) for (name, a), b in zip(_training(t).items(), _inference(t).values(), strict=True)}
    dynamic = parts["activations"] + parts["logits"] + parts["gradients"]
    s = t.layout
    together = np.where(train, s.gpus, s.tp * s.pp * s.cp * s.ep)
    slack = t.engine.slack * np.where(t.layout.checkpointing > 1, 1.5, 1.0)
    context = np.where(t.chip.is_cpu > 0, 0.4 * GIB, t.engine.context_bytes)
    parts["overhead"] = context + t.engine.communicator_bytes * (together > 1) + slack * dynamic
    total = added(parts.values())
    fixed = parts["weights"] + parts["optimizer"] + parts["kv_cache"] + parts["gradients"]
    moving = parts["activations"] + parts["logits"] + parts["buffers"]
    parts_spread = (
        np.sqrt((FIXED_SPREAD * fixed) ** 2 + (TRANSIENT_SPREAD * moving) ** 2 + (OVERHEAD_SPREAD * parts["overhead"]) ** 2) / total
    )
    spread = np.hypot(parts_spread, np.where(train, TRAINING_SPREAD, INFERENCE_SPREAD))
    usable = t.chip.capacity_bytes * t.job.memory_fraction * (1 - t.job.headroom)
    per_sequence = np.broadcast_to(kv_bytes_per_sequence(t, t.job.input_tokens + t.job.output_tokens), (t.rows,))
    free = usable - (total - parts["kv_cache"])
    most = np.where(
        train | (per_sequence <= 0), np.nan, np.maximum(0, np.floor(free / np.where(per_sequence > 0, per_sequence, 1)))
    )
    return MemoryColumns(
        **parts, total=total, spread=spread, usable=usable, fits=total <= usable, kv_per_sequence=per_sequence, max_sequences=most
    )


def _training(t: Table) -> dict[str, Floats]:
    j, s, m = t.job, t.layout, t.model
    stage = stage_parameters(t)
    held = stage.linear * j.linear_bytes + stage.other * j.other_bytes
    adapters = j.adapters / m.layers * stage.layers / s.tp
    trained = np.where(j.adapters > 0, adapters, stage.linear + stage.other)
    by_stage = [np.where(s.zero >= level, s.shard, 1.0) for level in (1, 2, 3)]
    resident = np.where(j.offload_parameters > 0, np.minimum(1.0, 2 / stage.layers), 1.0)
    weights = held / by_stage[2] * resident
    cast = j.cast_bytes * stage.linear
    states = trained * (j.state_bytes + j.master_bytes) / by_stage[0] * (1 - j.offload_optimizer)
    gradients = trained * j.gradient_bytes / by_stage[1]
    tokens = s.micro_batch * j.sequence / s.cp
    activations, one_layer = _activations(t, tokens, stage.layers)
    logits = tokens * m.vocabulary / s.tp * j.logits_saved
    kept = (micro_batches(t) > 1) | (j.gradient_bytes * j.master_bytes > 0) & (j.adapters == 0)
    early = gradients * kept * (1 - j.in_backward)
    late = gradients * (1 - j.in_backward)
    unsharded = 2 * (stage.linear / stage.layers) * j.linear_bytes * (s.zero >= 3)
    bucket = np.where((s.zero >= 2) & (s.shard > 1), np.minimum(2 * BUCKET_ELEMENTS, trained * 2), 0.0)
    unpacked = j.weight_bits_packed * 2 * stage.linear / stage.layers
    around = unsharded + bucket + unpacked
    foreach = np.where(j.state_bytes > 2.5, trained * j.gradient_bytes / np.maximum(by_stage[0], by_stage[1]), 0.0) * (
        1 - j.in_backward
    )
    zero = np.zeros(t.rows)
    phases = [
        {"gradients": early, "activations": activations, "logits": logits, "buffers": around + cast},
        {"gradients": late, "activations": one_layer, "logits": zero, "buffers": around},
        {"gradients": late, "activations": zero, "logits": zero, "buffers": foreach},
    ]
    peak = np.argmax([np.broadcast_to(added(phase.values()), (t.rows,)) for phase in phases], axis=0)
    at_peak = {name: np.choose(peak, [np.broadcast_to(phase[name], (t.rows,)) for phase in phases]) for name in phases[0]}
    return {
        "weights": np.broadcast_to(weights, (t.rows,)),
        "gradients": at_peak["gradients"],
        "optimizer": np.broadcast_to(states, (t.rows,)),
        "activations": at_peak["activations"],
        "logits": at_peak["logits"],
        "kv_cache": zero,
        "buffers": at_peak["buffers"],
    }


def _activations(t: Table, tokens: Floats, layers: Floats) -> tuple[Floats, Floats]:
    """(saved by the whole stage, by one layer): 1F1B keeps up to pp micro batches in flight on the first stage."""
    j, s, m = t.job, t.layout, t.model
    one = tokens * saved_per_token(t) / s.tp
    boundary = tokens * m.width * np.where(j.autocast > 0, 4.0, 2.0) / s.tp
    in_flight = np.minimum(s.pp, micro_batches(t)) * np.where(s.virtual_stages > 1, 1 + (s.pp - 1) / (s.pp * s.virtual_stages), 1.0)
    selective = one - tokens * 6 * m.heads * j.sequence * j.eager_attention / s.tp
    kept = np.choose(s.checkpointing.astype(np.int64), [one, selective, boundary]) * layers * in_flight
    recompute = np.where(s.checkpointing > 1, one, 0.0)
    return kept * (1 - OFFLOADED_SHARE * j.offload_activations) + recompute, one


def _inference(t: Table) -> dict[str, Floats]:
    j, s, m, e = t.job, t.layout, t.model, t.engine
    stage = stage_parameters(t)
    weights = stage.linear * j.linear_bytes + stage.other * j.other_bytes
    cache = kv_bytes_per_sequence(t, j.input_tokens + j.output_tokens) * s.sequences
    whole = s.sequences * j.input_tokens
    chunk = np.where(e.prefill_chunk > 0, np.minimum(whole, e.prefill_chunk), whole) / s.cp
    moe = m.moe_layers / m.layers
    ffn = m.ffn * (1 - moe) + (m.experts_per_token * m.expert_ffn + m.shared_ffn) * moe
    activations = chunk * (6 * ffn + 8 * m.width) / s.tp * np.where(j.activation_bytes > 2, 2.0, 1.0)
    logits = s.sequences * m.vocabulary * 6 / s.tp
    zero = np.zeros(t.rows)
    full = [np.broadcast_to(item, (t.rows,)) for item in (weights, zero, zero, activations, logits, cache, zero)]
    return dict(zip(("weights", "gradients", "optimizer", "activations", "logits", "kv_cache", "buffers"), full, strict=True))
