"""Memory of training on the fullest GPU, in the phase of a step that needs most.

Each candidate goes through the phases of a step (`step_phases`) on the first and on the last pipeline stage; the terms are
those of the phase with the largest sum, including what the allocator leaves unused.
"""

from __future__ import annotations

import numpy as np

from planner.engine.columns import Floats, Rows, Table, added
from planner.engine.memory.overhead import training_slack
from planner.engine.memory.stages import (
    all_layers,
    exchanged_once,
    experts_held,
    stage_adapters,
    trained_ranks,
    whole_stage,
    zero_ranks,
)
from planner.engine.memory.step_phases import Phase, phases_of
from planner.engine.memory.terms import Term

BUCKET_ELEMENTS = 5e8
"""Gradients gathered before they are reduced: DeepSpeed's default reduce_bucket_size."""

_STATES = "ZeRO (arXiv:1910.02054), section 3: bytes per parameter of the recipe and the optimizer"
_SAVED = "tensors autograd keeps, operator by operator (PyTorch 2.13, transformers 5.23)"
_SPLIT = "sequence parallelism (arXiv:2205.05198, section 4.2.2): all-gathered before a product, reduce-scattered after it"
_SHARDED = "PyTorch FSDP: the layer at work, the prefetched one, and the root's own parameters; all layers of a pipeline's stage"


def training_terms(t: Table) -> list[Term]:
    """Terms at the peak of one optimizer step."""
    return terms_at(t, peak_of(t))


def peak_of(t: Table) -> Phase:
    """The phase in which each candidate needs most, with the allocator's slack, because what comes and goes differs from phase to phase."""
    phases = phases_of(t)
    shape = (len(phases), t.rows)
    amounts = {}
    for name in Phase.__struct_fields__:
        column = amounts[name] = np.empty(shape)
        for number, phase in enumerate(phases):
            column[number] = getattr(phase, name)
    terms = terms_at(t, Phase(**amounts))
    totals = np.broadcast_to(added(term.bytes for term in [*terms, training_slack(t, terms)]), shape)
    fullest: Rows = np.argmax(totals, axis=0)
    return Phase(**{name: np.take_along_axis(column, fullest[None], axis=0)[0] for name, column in amounts.items()})


def terms_at(t: Table, at: Phase) -> list[Term]:
    """All terms of one phase."""
    return [*_weights(t, at), *_gradients(t, at), *_activations(t, at), _logits(t, at), *_buffers(t, at)]


def _trained(t: Table, at: Phase) -> Floats:
    """Parameters that one GPU trains, before ZeRO."""
    return np.where(t.job.adapters > 0, stage_adapters(t), at.linear + at.other)


def _weights(t: Table, at: Phase) -> list[Term]:
    j, s, m = t.job, t.layout, t.model
    states_over, weights_over = trained_ranks(t, 1), zero_ranks(t, 3)
    resident = np.where(j.offload_parameters > 0, np.minimum(1.0, 2 / np.ceil(m.layers / s.pp)), 1.0)
    trained = _trained(t, at)
    return [
        Term(
            "weights",
            "weights",
            (at.linear * j.linear_bytes + at.other * j.other_bytes) / weights_over * resident,
            "({linear} linear parameters · {linear_bytes} B + {other} others · {other_bytes} B) ÷ {ranks} ranks · {resident}",
            {
                "linear": at.linear,
                "linear_bytes": j.linear_bytes,
                "other": at.other,
                "other_bytes": j.other_bytes,
                "ranks": weights_over,
                "resident": resident,
            },
            _STATES,
        ),
        Term(
            "optimizer",
            "optimizer states and master weights",
            trained * (j.state_bytes + j.master_bytes) / states_over * (1 - j.offload_optimizer),
            "{trained} parameters · ({states} B + {master} B) ÷ {ranks} ranks",
            {"trained": trained, "states": j.state_bytes, "master": j.master_bytes, "ranks": states_over},
            _STATES,
        ),
    ]


def _gradients(t: Table, at: Phase) -> list[Term]:
    j = t.job
    flat = (t.engine.flat_gradients > 0) & (t.layout.zero >= 3) & (t.layout.shard > 1)
    once = exchanged_once(t)
    over = np.where(once > 0, 1.0, trained_ranks(t, 2))
    each = np.where((once > 0) & (t.engine.accelerates > 0), np.minimum(j.gradient_bytes, j.activation_bytes), j.gradient_bytes)
    trained = np.where(j.adapters > 0, stage_adapters(t) * at.adapter_gradients, at.gradients)
    kept = np.where(flat & (j.adapters > 0), (at.linear + at.other) * at.adapter_gradients, trained)
    return [
        Term(
            "gradients",
            "gradients",
            kept * each / over,
            "{kept} parameters · {gradient_bytes} B ÷ {ranks} ranks",
            {"kept": kept, "gradient_bytes": each, "ranks": over},
            _STATES,
        ),
        Term(
            "buffers",
            "gradients on their way",
            at.arriving,
            "{arriving:bytes}",
            {"arriving": at.arriving},
            "one matrix in the type its product makes, before it is cast or added",
        ),
    ]


def _activations(t: Table, at: Phase) -> list[Term]:
    """Activations, divided among tensor-parallel ranks: with sequence parallelism only the tensors of `keeps_gathered` are kept whole.

    Without it every rank holds the tensors between products, norms and dropout, and the inputs of attention and MLP:
    10 of the 34 bytes per width of arXiv:2205.05198 §4.1.
    """
    s, f = t.layout, t.footprint
    tokens = s.micro_batch * t.job.sequence / s.cp / s.tp
    ranks = np.where(t.engine.whole_between > 0, s.tp, 1.0)
    whole_inputs = np.where(t.engine.keeps_gathered > 0, s.tp, ranks)
    inputs = (whole_inputs - 1) * np.minimum(t.job.activation_bytes, 2.0) * t.model.width * (t.job.adapters == 0)
    residual = (ranks - 1) * f.boundary
    scored = np.maximum(at.layers * t.model.scored_share, np.minimum(at.layers, 1.0))
    return [
        _of_layers("norms", at.layers, tokens, f.norms * ranks),
        _of_layers("attention", at.layers, tokens, at.attention + inputs),
        _of_layers("attention scores", scored, tokens, f.scores * at.scores),
        _of_layers("MLP or experts", at.layers, tokens, f.mlp + inputs),
        _of_layers("dropout masks", at.layers, tokens, f.dropout * ranks),
        _of_tokens(
            "of the encoder, and keys and values of its output",
            s.micro_batch * t.job.input_tokens / s.tp,
            at.read + at.reading * f.source_backward,
        ),
        _of_layers("what recomputed layers keep", at.boundaries, tokens, at.boundary + residual),
        _of_tokens("stored scores being recomputed", tokens, at.rescored * f.scores),
        _of_tokens(
            "of the head, and gradients inside a layer",
            tokens,
            at.backward * f.backward + residual * at.backward + at.head * f.head * ranks,
        ),
        _of_tokens("gathered for tensor parallelism", tokens, _gathered_bytes(t, at), _SPLIT),
    ]


def _of_layers(name: str, layers: Floats, tokens: Floats, size: Floats) -> Term:
    """Activations of `size` bytes per token and layer."""
    values = {"layers": layers, "tokens": tokens, "bytes": size}
    return Term("activations", name, layers * tokens * size, "{layers} layers · {tokens} tokens · {bytes} B each", values, _SAVED)


def _of_tokens(name: str, tokens: Floats, size: Floats, source: str = _SAVED) -> Term:
    """Activations of `size` bytes a token."""
    values = {"tokens": tokens, "bytes": size}
    return Term("activations", name, tokens * size, "{tokens} tokens · {bytes} B each", values, source)


def _gathered_bytes(t: Table, at: Phase) -> Floats:
    """Bytes per token that sequence parallelism gathers for a product over ranks of tensor parallelism, beyond the share that is kept.

    A layer's backward holds the input, gathered again for the gradient of the weights, and the input's gradient before it is reduced and
    scattered; the head holds its input. Frozen weights need no input.
    """
    s = t.layout
    element = np.minimum(t.job.activation_bytes, 2.0)
    tensors = at.backward * (1.0 + (t.job.adapters == 0)) + at.head
    return (s.tp - 1) * tensors * element * t.model.width * (t.engine.whole_between == 0)


def _logits(t: Table, at: Phase) -> Term:
    s = t.layout
    tokens = s.micro_batch * t.job.sequence / s.cp
    return Term(
        "logits",
        "logits and their loss",
        tokens * t.model.vocabulary / s.tp * at.logits,
        "{tokens} tokens · {vocabulary} logits · {bytes} B ÷ {tp} ranks",
        {"tokens": tokens, "vocabulary": t.model.vocabulary, "tp": s.tp, "bytes": at.logits},
        _SAVED,
    )


def _buffers(t: Table, at: Phase) -> list[Term]:
    """Buffers of the computation: casts, gathered weights, reduction buckets, unpacked weights, the optimizer's temporaries."""
    j, s, f = t.job, t.layout, t.footprint
    layers = np.ceil(all_layers(t) / s.pp)
    alone = (s.expert_streams >= s.shard) & (j.linear_bytes <= 2)  # experts that no other rank has are neither divided nor cast
    layer, at_once = at.linear / layers, np.where(whole_stage(t) > 0, layers, 2.0)
    divided = layer - experts_held(t) / layers * alone
    trained = _trained(t, at)
    over = trained_ranks(t, 1)
    linear_bytes, other_bytes = np.minimum(j.linear_bytes, 2.0), np.minimum(j.other_bytes, 2.0)  # FP32 is cast first
    gathered = (at_once * divided * linear_bytes + at.other * other_bytes) * ((s.zero >= 3) & (s.shard > 1)) * at.computing
    made = np.where(j.adapters > 0, stage_adapters(t) * at.adapter_gradients, at.gradients) * j.gradient_bytes
    elsewhere = made * (1 - 1 / trained_ranks(t, 2))  # of other ranks: all that a bucket may hold
    held = np.minimum(np.minimum(2 * BUCKET_ELEMENTS, 2 * trained), elsewhere)
    bucket = held * ((s.zero >= 2) & (s.shard > 1)) * at.computing
    unpacked = j.weight_bits_packed * 2 * at.computing * np.where(j.keeps_unpacked > 0, layer * at.layers, f.layer_matrix / s.tp)
    step = at.stepping * (trained / over * f.step + f.step_matrix / s.tp / over) * (1 - j.offload_optimizer)
    return [
        Term(
            "buffers",
            "16-bit copies of the weights under autocast",
            j.cast_bytes * at.cast,
            "{cast} parameters · {cast_bytes} B",
            {"cast": at.cast, "cast_bytes": j.cast_bytes},
            "autocast's weight cache (torch.amp)",
        ),
        Term(
            "buffers",
            "gathered weights",
            gathered,
            "{layers} layers · {layer} parameters · {linear_bytes} B + {other} others · {other_bytes} B",
            {"layers": at_once, "layer": divided, "linear_bytes": linear_bytes, "other": at.other, "other_bytes": other_bytes},
            _SHARDED,
        ),
        Term(
            "buffers",
            "bucket of gradients to be reduced",
            bucket,
            "{gathered} gradients · 2 B",
            {"gathered": bucket / 2},
            "two of DeepSpeed's reduce_bucket_size (5e8), or all gradients that other ranks keep",
        ),
        Term(
            "buffers",
            "weights unpacked to 16 bit",
            unpacked,
            "{unpacked} parameters · 2 B",
            {"unpacked": unpacked / 2},
            "one matrix at a time (QLoRA, arXiv:2305.14314, section 3); all that backward needs where PyTorch's operators unpack them (GPTQ)",
        ),
        Term(
            "buffers",
            "temporaries of the optimizer step",
            step,
            "{trained} parameters ÷ {ranks} ranks · {bytes} B + {matrix:bytes}",
            {"trained": trained, "ranks": over, "bytes": f.step, "matrix": f.step_matrix / s.tp / over},
            "torch.optim: AdamW over all parameters at once (foreach), Adafactor matrix by matrix",
        ),
    ]
