"""Phases of a training step in which memory may peak, on the first and on the last stage of a pipeline."""

from __future__ import annotations

import msgspec
import numpy as np
from msgspec.structs import replace

from planner.engine.columns import Floats, Table
from planner.engine.memory.stages import encoder_parameters, layers_of_gpu, micro_batches, stage_adapters, zero_ranks
from planner.engine.records.layout import CHECKPOINTING

OFFLOADED_LAYERS = 2.0
"""Layers whose activations are on the GPU where they are offloaded: the one being computed and the one being moved."""


class Phase(msgspec.Struct, frozen=True, kw_only=True):
    """Amounts on one GPU in one phase, each broadcasting to [rows]; counts, or bytes where stated."""

    linear: Floats
    """Parameters of the stage's layers."""
    other: Floats
    """Parameters outside the layers."""
    gradients: Floats
    """Parameters whose gradients are kept, before ZeRO."""
    adapter_gradients: Floats
    """1: the adapters' gradients are kept."""
    arriving: Floats
    """Bytes of gradients that are being made."""
    layers: Floats
    """Layers, over all micro batches in flight, whose activations are all kept."""
    boundaries: Floats
    """Layers, over all micro batches in flight, that will be computed again."""
    boundary: Floats
    """Bytes per token that each of them keeps."""
    attention: Floats
    """Bytes per token of attention."""
    scores: Floats
    """1: attention scores are kept."""
    rescored: Floats
    """1: the scores of one layer have been computed again."""
    backward: Floats
    """1: inside a layer's backward."""
    read: Floats
    """Bytes that each token an encoder reads has left."""
    reading: Floats
    """1: inside a layer's backward of the encoder."""
    head: Floats
    """1: what the head keeps is still there."""
    logits: Floats
    """Bytes per token and vocabulary entry."""
    cast: Floats
    """Parameters that autocast has copied."""
    computing: Floats
    """1: forward or backward is running."""
    stepping: Floats
    """1: the optimizer steps."""


class _EndStage(msgspec.Struct, frozen=True):
    """The first or the last stage of a pipeline; without a pipeline it is both."""

    linear: Floats
    embedding: Floats
    head: Floats
    """Parameters of a head of its own, or the embedding's where it is tied and there is no pipeline."""
    other: Floats
    has_head: Floats
    tied: Floats
    """1: embedding and head on this stage are one matrix."""
    layers: Floats
    encoder: Floats
    """Parameters of the layers of an encoder, which are among `linear`; 0: there is none."""
    encoder_layers: Floats
    in_flight: Floats
    """Micro batches whose activations the stage keeps at once."""


def phases_of(t: Table) -> list[Phase]:
    """The phases of a stage: of the first one, and of the last one too where any candidate is a pipeline."""
    stages = [_end_stage(t, first=True)]
    if np.any(t.layout.pp > 1):
        stages.append(_end_stage(t, first=False))
    return [phase for stage in stages for phase in _phases(t, stage)]


def _end_stage(t: Table, *, first: bool) -> _EndStage:
    """The first or last stage of the 1F1B schedule: pp micro batches in flight in the first of pp stages, one in the last; interleaving adds to both."""
    m, s = t.model, t.layout
    alone = (s.pp == 1) * 1.0
    layers = np.ceil(m.layers / s.pp)
    linear = layers / m.layers * layers_of_gpu(t)
    has_embedding, has_head = (np.ones(1), alone) if first else (alone, np.ones(1))
    matrix = m.token_matrix / s.tp
    own_head = m.head / s.tp + matrix * m.tied * (alone == 0)
    virtual = np.maximum(1.0, s.virtual_stages)
    chunks = (2 * (s.pp - 1) if first else 0.0) + (virtual - 1) * s.pp + 1
    in_flight = np.where(virtual > 1, chunks / virtual, s.pp if first else 1.0)
    return _EndStage(
        linear=linear,
        embedding=m.embedding / s.tp * has_embedding,
        head=matrix * has_head,
        other=m.embedding / s.tp * has_embedding + own_head * has_head + m.final_vector,
        has_head=has_head,
        tied=m.tied * alone,
        layers=layers,
        encoder=encoder_parameters(t) / s.tp,
        encoder_layers=np.ones(1) if t.source is None else t.source.layers,
        in_flight=np.where(s.pp > 1, np.minimum(in_flight, micro_batches(t)), 1.0),
    )


def _phases(t: Table, stage: _EndStage) -> list[Phase]:
    """The phases of one stage in their order."""
    j, s, f = t.job, t.layout, t.footprint
    trains_all = (f.head_gradient > 0) & (j.adapters == 0)
    apart = (j.in_backward == 0) * 1.0  # the optimizer steps after backward
    # full: a layer is computed again in backward, all of it or the operators whose outputs are not kept
    by_operators = s.checkpointing == CHECKPOINTING["selective-op"]
    full, selective = (s.checkpointing > 1) * 1.0, (s.checkpointing == 1) * 1.0
    attention = np.where(selective > 0, np.minimum(f.attention_recomputed, f.attention + f.scores), f.attention)
    all_gradients = (stage.linear + stage.other) * apart
    several = micro_batches(t) > 1
    kept_between = (((several | (j.master_bytes > 0)) & (j.adapters == 0)) | several) * apart  # gradients of earlier micro batches
    earlier_gradients = all_gradients * kept_between
    all_layers = stage.layers * stage.in_flight
    offloaded = j.offload_activations > 0
    layers = np.where(offloaded, np.minimum(OFFLOADED_LAYERS, all_layers), all_layers)
    other_layers = np.where(offloaded, 0.0, stage.layers * (stage.in_flight - 1))  # those of the other micro batches
    entries = s.micro_batch * j.sequence / s.cp * t.model.vocabulary / s.tp
    freed = f.logits_gradient * entries * stage.has_head  # the logits' gradient, once the head's is made and before it is cast
    head_gradient = np.maximum(f.head_product * stage.head, f.head_gradient * stage.head - freed) * trains_all
    tied_gradient = f.arriving_gradient * trains_all * stage.tied * stage.head
    nothing, one = np.zeros(1), np.ones(1)
    outputs = (
        t.engine.keeps_stage_outputs * stage.in_flight * (s.pp > 1)
    )  # as large as inputs of layers, one for each micro batch in flight
    logits = f.logits_alive * stage.has_head
    held = logits * (1 - t.engine.frees_logits)
    read = np.where(full > 0, f.source_boundary, np.where(selective > 0, f.source_recomputed, f.source))

    def phase(**amounts: Floats) -> Phase:
        usual = {
            "linear": stage.linear,
            "other": stage.other,
            "gradients": earlier_gradients,
            "adapter_gradients": kept_between,
            "arriving": nothing,
            "layers": layers * (1 - full),
            "boundaries": layers * full + outputs,
            "boundary": np.where(by_operators, f.by_operators, f.boundary),
            "attention": attention,
            "scores": 1 - selective,
            "rescored": nothing,
            "backward": nothing,
            "read": read,
            "reading": nothing,
            "head": stage.has_head,
            "logits": held,
            "cast": stage.linear * (1 - full) + stage.head,
            "computing": one,
            "stepping": nothing,
        }
        return Phase(**(usual | amounts))

    one_layer = np.minimum(1.0, stage.layers)
    taken_back = one_layer * by_operators * (1 - f.not_taken_back / np.maximum(f.by_operators, 1.0))
    frozen = j.adapters > 0
    larger_end = np.where(
        frozen, stage_adapters(t) / stage.layers, np.maximum(stage.embedding, stage.head)
    )  # the largest gradient at once
    own = stage.linear - stage.encoder
    layer_cast = own / stage.layers
    embedding_gradient = f.arriving_gradient * trains_all * (stage.tied * stage.head + kept_between * stage.embedding)
    step_in_backward = (1 - apart) * (larger_end * f.step + f.step_matrix / s.tp) / zero_ranks(t, 1)
    inside_backward = {"arriving": tied_gradient * kept_between, "rescored": selective, "backward": one, "head": nothing}
    forward_done = phase(logits=logits + f.logits_forward * stage.has_head, cast=stage.linear + stage.head)
    backward_starts = phase(logits=held + f.logits_backward * stage.has_head, arriving=f.early_gradient * stage.head * trains_all)
    head_gradient_made = phase(logits=held + f.logits_gradient * stage.has_head, arriving=head_gradient)
    last_layer = phase(
        **inside_backward,
        gradients=np.where(apart > 0, np.maximum(earlier_gradients, stage.head), earlier_gradients),
        layers=layers * (1 - full) + one_layer * full,
        boundaries=layers * full + outputs - taken_back,
        cast=np.where(full > 0, layer_cast, stage.linear),
        read=read + f.source_crossing * full,
    )
    first_layer = phase(
        **inside_backward,
        gradients=np.maximum(earlier_gradients, (own * (1 - 1 / stage.layers) + stage.head) * apart),
        adapter_gradients=apart,
        layers=(other_layers + one_layer) * (1 - full) + one_layer * full,
        boundaries=(other_layers + one_layer) * full + outputs - taken_back,
        cast=layer_cast + stage.encoder * (1 - full),
        read=read + f.source_crossing * (full - (1 - full) * (stage.layers - one_layer)),
    )
    backward_done = phase(
        read=nothing,
        gradients=np.maximum(all_gradients, (1 - apart) * larger_end * ~frozen),
        adapter_gradients=apart,
        arriving=embedding_gradient + step_in_backward,
        layers=other_layers * (1 - full),
        boundaries=other_layers * full,
        head=nothing,
        cast=nothing,
    )
    optimizer_step = phase(
        logits=nothing,
        gradients=all_gradients,
        adapter_gradients=apart,
        layers=nothing,
        boundaries=nothing,
        read=nothing,
        head=nothing,
        cast=nothing,
        computing=nothing,
        stepping=apart,
    )
    phases = [forward_done, backward_starts, head_gradient_made, last_layer, first_layer, backward_done, optimizer_step]
    return phases if t.source is None else [*phases, *_encoder_phases(t, stage, phases[4])]


def _encoder_phases(t: Table, stage: _EndStage, reached: Phase) -> list[Phase]:
    """Backward of an encoder's last layer and of its first, after `reached`; that again where there is none."""
    f, encodes, nothing = t.footprint, t.model.reads_source > 0, np.zeros(1)
    full, apart = t.layout.checkpointing > 1, t.job.in_backward == 0
    layers, one_layer = stage.encoder_layers, stage.encoder / stage.encoder_layers
    all_but = stage.linear - stage.encoder + stage.head
    kept = np.where(t.layout.checkpointing == CHECKPOINTING["selective"], f.source_recomputed, f.source)
    kept = np.where(full, f.source_boundary + f.source_layer, kept - f.source_crossing * stage.layers)
    usual = {
        "layers": nothing,
        "boundaries": nothing,
        "head": nothing,
        "backward": nothing,
        "rescored": nothing,
        "reading": np.ones(1),
    }
    changes = (
        {"read": kept, "gradients": all_but, "cast": np.where(full, one_layer, stage.encoder)},
        {"read": f.source_layer * np.ones(1), "gradients": all_but + one_layer * (layers - 1), "cast": one_layer},
    )
    found = []
    for change in changes:
        change["gradients"] = np.maximum(reached.gradients, change["gradients"] * apart)
        amounts = {name: np.where(encodes, value, getattr(reached, name)) for name, value in (usual | change).items()}
        found.append(replace(reached, **amounts))
    return found
