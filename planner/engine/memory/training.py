"""What training keeps on the fullest GPU, at the moment it keeps most.

What PyTorch holds peaks at the start of backward (all saved activations and the logits), at its end (all gradients), or
in the optimizer step.
"""

from __future__ import annotations

import numpy as np

from planner.engine.columns import Floats, Table
from planner.engine.memory.activations import boundary_per_token, eager_scores_per_token, saved_per_token
from planner.engine.memory.stages import micro_batches, stage_parameters
from planner.engine.memory.terms import Term, at_peak

BUCKET_ELEMENTS = 5e8
"""Gradients gathered before they are reduced: DeepSpeed's default reduce_bucket_size."""
OFFLOADED_SHARE = 0.9
"""Of the saved activations that offloading keeps on the host at the peak: an assumption (the last layers are still on the GPU)."""

_STATES = "ZeRO (arXiv:1910.02054) §3: bytes per parameter of the recipe and the optimizer"
_SAVED = "saved tensors of PyTorch 2.13's autograd, operator by operator"


def training_terms(t: Table) -> list[Term]:
    """Terms at the peak of one optimizer step."""
    fixed, phases = _states(t)
    return fixed + at_peak(phases, t.rows)


def _states(t: Table) -> tuple[list[Term], list[list[Term]]]:
    j, s, m = t.job, t.layout, t.model
    stage = stage_parameters(t)
    adapters = j.adapters / m.layers * stage.layers / s.tp
    trained = np.where(j.adapters > 0, adapters, stage.linear + stage.other)
    over_states, over_gradients, over_weights = (np.where(s.zero >= level, s.shard, 1.0) for level in (1, 2, 3))
    resident = np.where(j.offload_parameters > 0, np.minimum(1.0, 2 / stage.layers), 1.0)
    weights = Term(
        "weights",
        "weights",
        (stage.linear * j.linear_bytes + stage.other * j.other_bytes) / over_weights * resident,
        "({linear} · {linear_bytes} + {other} · {other_bytes}) ÷ {ranks} · {resident}",
        {
            "linear": stage.linear,
            "linear_bytes": j.linear_bytes,
            "other": stage.other,
            "other_bytes": j.other_bytes,
            "ranks": over_weights,
            "resident": resident,
        },
        _STATES,
    )
    states = Term(
        "optimizer",
        "optimizer states and master weights",
        trained * (j.state_bytes + j.master_bytes) / over_states * (1 - j.offload_optimizer),
        "{trained} · ({states} + {master}) ÷ {ranks}",
        {"trained": trained, "states": j.state_bytes, "master": j.master_bytes, "ranks": over_states},
        _STATES,
    )
    whole = trained * j.gradient_bytes / over_gradients * (1 - j.in_backward)
    kept = (micro_batches(t) > 1) | (j.gradient_bytes * j.master_bytes > 0) & (j.adapters == 0)
    gradients = _gradients(trained, j.gradient_bytes, over_gradients, whole)
    tokens = s.micro_batch * j.sequence / s.cp
    activations, one_layer = _activations(t, tokens, stage.layers)
    around = _around(t, stage.linear / stage.layers, trained)
    casts = Term(
        "buffers",
        "16-bit copies of the weights under autocast",
        j.cast_bytes * stage.linear,
        "{linear} · {cast_bytes}",
        {"linear": stage.linear, "cast_bytes": j.cast_bytes},
        "autocast's weight cache (torch.amp)",
    )
    logits = Term(
        "logits",
        "logits and their loss",
        tokens * m.vocabulary / s.tp * j.logits_saved,
        "{tokens} · {vocabulary} ÷ {tp} · {logit_bytes}",
        {"tokens": tokens, "vocabulary": m.vocabulary, "tp": s.tp, "logit_bytes": j.logits_saved},
        _SAVED,
    )
    foreach = np.where(j.state_bytes > 2.5, trained * j.gradient_bytes / np.maximum(over_states, over_gradients), 0.0)
    step = Term(
        "buffers",
        "temporaries of the optimizer step",
        foreach * (1 - j.in_backward),
        "{trained} · {gradient_bytes} ÷ {ranks}",
        {"trained": trained, "gradient_bytes": j.gradient_bytes, "ranks": np.maximum(over_states, over_gradients)},
        "torch.optim foreach implementation",
    )
    start = [gradients.times(kept * 1.0), activations, logits, *around, casts]
    end = [gradients, one_layer, *around]
    return [weights, states], [start, end, [gradients, step]]


def _gradients(trained: Floats, size: Floats, ranks: Floats, whole: Floats) -> Term:
    values = {"trained": trained, "gradient_bytes": size, "ranks": ranks}
    return Term("gradients", "gradients", whole, "{trained} · {gradient_bytes} ÷ {ranks}", values, _STATES)


def _around(t: Table, layer: Floats, trained: Floats) -> list[Term]:
    """Buffers beside the computation: gathered weights, reduction buckets, unpacked weights; `layer`: parameters of one."""
    j, s = t.job, t.layout
    gathered = Term(
        "buffers",
        "gathered weights of two layers",
        2 * layer * j.linear_bytes * (s.zero >= 3),
        "2 · {layer} · {linear_bytes}",
        {"layer": layer, "linear_bytes": j.linear_bytes},
        "the layer at work and the prefetched one",
    )
    bucket = Term(
        "buffers",
        "bucket of gradients to be reduced",
        np.where((s.zero >= 2) & (s.shard > 1), np.minimum(2 * BUCKET_ELEMENTS, trained * 2), 0.0),
        "min(2 · {bucket}, 2 · {trained})",
        {"bucket": np.array([BUCKET_ELEMENTS]), "trained": trained},
        "DeepSpeed's reduce_bucket_size",
    )
    unpacked = Term(
        "buffers",
        "weights of one layer unpacked",
        j.weight_bits_packed * 2 * layer,
        "2 · {layer}",
        {"layer": layer},
        "QLoRA (arXiv:2305.14314) §3",
    )
    return [gathered, bucket, unpacked]


def _activations(t: Table, tokens: Floats, layers: Floats) -> tuple[Term, Term]:
    """(saved by the whole stage, by one layer): 1F1B keeps up to pp micro batches in flight on the first stage."""
    j, s = t.job, t.layout
    one = tokens * saved_per_token(t) / s.tp
    boundary = tokens * boundary_per_token(t) / s.tp
    in_flight = np.minimum(s.pp, micro_batches(t)) * np.where(s.virtual_stages > 1, 1 + (s.pp - 1) / (s.pp * s.virtual_stages), 1.0)
    selective = one - tokens * eager_scores_per_token(t) / s.tp
    per_layer = np.choose(s.checkpointing.astype(np.int64), [one, selective, boundary])
    recompute = np.where(s.checkpointing > 1, one, 0.0)
    stage = Term(
        "activations",
        "saved for backward",
        per_layer * layers * in_flight * (1 - OFFLOADED_SHARE * j.offload_activations) + recompute,
        "{per_layer} · {layers} layers · {in_flight} in flight + {recompute}",
        {"per_layer": per_layer, "layers": layers, "in_flight": in_flight, "recompute": recompute},
        _SAVED,
    )
    return stage, Term("activations", "one layer in backward", one, "{one}", {"one": one}, _SAVED)
