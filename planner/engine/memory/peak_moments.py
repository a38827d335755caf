"""The moments of a training step at which memory may peak, on the first and on the last stage of a pipeline."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.engine.columns import Floats, Table
from planner.engine.memory.stages import micro_batches

OFFLOADED_LAYERS = 2.0
"""Layers whose activations are on the GPU where they are offloaded: the one at work and the one being moved."""


@dataclass(frozen=True, kw_only=True)
class Moment:
    """Amounts of one moment, each broadcasting to [rows]; bytes where it says so, else counts."""

    linear: Floats
    """Parameters of the stage's layers on one GPU."""
    other: Floats
    """Parameters outside its layers."""
    gradients: Floats
    """Parameters whose gradients are there, before ZeRO."""
    gradients_held: Floats
    """1: the adapters' gradients are there."""
    arriving: Floats
    """Bytes of gradients that are being made."""
    layers: Floats
    """Layers, over all micro batches in flight, whose activations are all there."""
    boundaries: Floats
    """Layers whose input alone is there."""
    attention: Floats
    """Bytes a token of attention."""
    scores: Floats
    """1: scores are among what is kept."""
    rescored: Floats
    """1: the scores of one layer have been computed again."""
    backward: Floats
    """1: inside a layer's backward."""
    head: Floats
    """1: what the head keeps is there."""
    logits: Floats
    """Bytes a token and vocabulary entry."""
    cast: Floats
    """Parameters of which autocast's copy is there."""
    computing: Floats
    """1: forward or backward is running."""
    stepping: Floats
    """1: the optimizer steps."""


@dataclass(frozen=True)
class _End:
    """The first or last stage; where there is no pipeline, both."""

    linear: Floats
    embedding: Floats
    head: Floats
    """Parameters of a head of its own, or the embedding's where it is tied and there is no pipeline."""
    other: Floats
    has_head: Floats
    has_embedding: Floats
    tied: Floats
    """1: embedding and head on this stage are one matrix."""
    layers: Floats
    flying: Floats
    """Micro batches whose activations it holds at once."""


def moments_of(t: Table) -> list[Moment]:
    """Seven moments of a stage; of both ends where any candidate is a pipeline."""
    ends = [_end(t, first=True)]
    if np.any(t.layout.pp > 1):
        ends.append(_end(t, first=False))
    return [moment for end in ends for moment in _moments(t, end)]


def _end(t: Table, *, first: bool) -> _End:
    """1F1B: the first stage has as many micro batches in flight as there are stages, the last one; interleaving adds to both."""
    m, s = t.model, t.layout
    alone = (s.pp == 1) * 1.0
    layers = np.ceil(m.layers / s.pp)
    linear = layers / m.layers * (m.layers_shared + m.experts_total / s.ep) / s.tp
    has_embedding, has_head = (np.ones(1), alone) if first else (alone, np.ones(1))
    matrix = m.vocabulary * m.width / s.tp
    own = np.where(m.head > 0, m.head / s.tp, matrix * (alone == 0))
    virtual = np.maximum(1.0, s.virtual_stages)
    before = (2 * (s.pp - 1) if first else 0.0) + (virtual - 1) * s.pp + 1
    flying = np.where(virtual > 1, before / virtual, s.pp if first else 1.0)
    return _End(
        linear=linear,
        embedding=m.embedding / s.tp * has_embedding,
        head=matrix * has_head,
        other=m.embedding / s.tp * has_embedding + own * has_head + m.final_vector,
        has_head=has_head,
        has_embedding=has_embedding,
        tied=(m.head == 0) * alone,
        layers=layers,
        flying=np.where(s.pp > 1, np.minimum(flying, micro_batches(t)), 1.0),
    )


def _moments(t: Table, end: _End) -> list[Moment]:
    """Forward done · backward starts · the head's gradient · the last layer's backward · the first layer's · its end · the step."""
    j, s, k = t.job, t.layout, t.footprint
    trains = (k.head_gradient > 0) & (j.adapters == 0)
    alone = (j.in_backward == 0) * 1.0
    whole, selective = (s.checkpointing > 1) * 1.0, (s.checkpointing == 1) * 1.0
    in_full = 1 - whole
    attention = np.where(selective > 0, np.minimum(k.attention_recomputed, k.attention + k.scores), k.attention)
    everything = (end.linear + end.other) * alone
    waiting = (((micro_batches(t) > 1) | (j.master_bytes > 0)) & (j.adapters == 0) | (micro_batches(t) > 1)) * alone
    standing = everything * waiting
    all_layers = end.layers * end.flying
    kept = np.where(j.offload_activations > 0, np.minimum(OFFLOADED_LAYERS, all_layers), all_layers)
    others = np.where(j.offload_activations > 0, 0.0, end.layers * (end.flying - 1))
    cast_layers, cast_head = end.linear, end.head
    entries = s.micro_batch * j.sequence / s.cp * t.model.vocabulary / s.tp
    freed = k.logits_gradient * entries * end.has_head  # the logits' gradient, once the head's is made and before it is cast
    made = np.maximum(k.head_product * end.head, k.head_gradient * end.head - freed) * trains
    early = k.early_gradient * end.head * trains
    arriving = k.arriving_gradient * trains
    nothing = np.zeros(1)

    def moment(**amounts: Floats) -> Moment:
        base = {
            "linear": end.linear,
            "other": end.other,
            "gradients": standing,
            "gradients_held": waiting,
            "arriving": nothing,
            "layers": kept * in_full,
            "boundaries": kept * whole,
            "attention": attention,
            "scores": 1 - selective,
            "rescored": nothing,
            "backward": nothing,
            "head": end.has_head,
            "logits": nothing,
            "cast": (cast_layers * in_full + cast_head),
            "computing": np.ones(1),
            "stepping": nothing,
        }
        return Moment(**(base | amounts))

    alive = k.logits_alive * end.has_head
    head_there = np.where(alone > 0, np.maximum(standing, end.head), standing)
    later = np.maximum(standing, (end.linear * (1 - 1 / end.layers) + end.head) * alone)
    one = np.minimum(1.0, end.layers)
    second = arriving * (end.tied * end.head + waiting * end.embedding)
    untied_yet = arriving * end.tied * end.head * waiting
    alone_stepped = (1 - alone) * (np.maximum(end.embedding, end.head) * k.step + k.step_matrix)
    return [
        moment(logits=alive + k.logits_forward * end.has_head, cast=cast_layers + cast_head),
        moment(logits=alive + k.logits_backward * end.has_head, arriving=early),
        moment(logits=alive + k.logits_gradient * end.has_head, arriving=made),
        moment(
            logits=alive,
            gradients=head_there,
            layers=kept * in_full + one * whole,
            arriving=untied_yet,
            rescored=selective,
            backward=np.ones(1),
            head=nothing,
            cast=np.where(whole > 0, cast_layers / end.layers, cast_layers),
        ),
        moment(
            logits=alive,
            gradients=later,
            gradients_held=alone,
            layers=(others + one) * in_full + one * whole,
            boundaries=(others + one) * whole,
            arriving=untied_yet,
            rescored=selective,
            backward=np.ones(1),
            head=nothing,
            cast=cast_layers / end.layers,
        ),
        moment(
            logits=alive,
            gradients=np.maximum(everything, (1 - alone) * np.maximum(end.embedding, end.head)),
            gradients_held=alone,
            arriving=second + alone_stepped,
            layers=others * in_full,
            boundaries=others * whole,
            head=nothing,
            cast=nothing,
        ),
        moment(
            gradients=everything,
            gradients_held=alone,
            layers=nothing,
            boundaries=nothing,
            head=nothing,
            cast=nothing,
            computing=nothing,
            stepping=alone,
        ),
    ]
