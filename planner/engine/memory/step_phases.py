"""Phases of a training step in which memory may peak, on the first and on the last stage of a pipeline."""

from __future__ import annotations

import msgspec
import numpy as np
from msgspec.structs import replace

from planner.engine.columns import Floats, Table
from planner.engine.memory.stages import (
    encoder_parameters,
    layers_of_gpu,
    logit_entries,
    micro_batches,
    stage_adapters,
    trained_ranks,
)
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
    """Layers, over all micro batches in flight, that will be recomputed."""
    boundary: Floats
    """Bytes per token that each of them keeps."""
    attention: Floats
    """Bytes per token of attention."""
    scores: Floats
    """1: attention scores are kept."""
    rescored: Floats
    """1: the scores of one layer have been recomputed."""
    backward: Floats
    """1: inside a layer's backward."""
    read: Floats
    """Bytes that each token an encoder reads keeps."""
    reading: Floats
    """1: inside a layer's backward of the encoder."""
    head: Floats
    """1: the tensors that the head keeps are still alive."""
    logits: Floats
    """Bytes per token and vocabulary entry."""
    cast: Floats
    """Parameters that autocast has copied."""
    computing: Floats
    """1: forward or backward is running."""
    stepping: Floats
    """1: the optimizer steps."""


class _EndStage(msgspec.Struct, frozen=True):
    """First or the last stage of a pipeline; without a pipeline it is both."""

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
    """Parameters of the layers of an encoder, included in `linear`; 0: there is none."""
    encoder_layers: Floats
    in_flight: Floats
    """Micro batches whose activations the stage keeps at once."""


def phases_of(t: Table) -> list[Phase]:
    """Phases of a stage: of the first one, and also of the last one where any candidate is a pipeline."""
    stages = [_end_stage(t, first=True)]
    if np.any(t.layout.pp > 1):
        stages.append(_end_stage(t, first=False))
    return [phase for stage in stages for phase in _Step(t, stage).phases()]


def _end_stage(t: Table, *, first: bool) -> _EndStage:
    """First or last stage of the 1F1B schedule: pp micro batches in flight in the first stage, one in the last, more with interleaving."""
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


class _Step:
    """Phases of a step on one stage, in order, and the amounts that they share."""

    def __init__(self, t: Table, stage: _EndStage) -> None:
        j, s, f = t.job, t.layout, t.footprint
        self.table, self.stage = t, stage
        self.trains_all = (f.head_gradient > 0) & (j.adapters == 0)
        self.apart = (j.in_backward == 0) * 1.0
        """1: the optimizer steps after backward."""
        self.by_operators = s.checkpointing == CHECKPOINTING["selective-op"]
        self.full, self.selective = (s.checkpointing > 1) * 1.0, (s.checkpointing == 1) * 1.0
        """1: backward computes a layer again, all of it or the operators whose outputs are not kept; 1: it computes scores again."""
        self.all_gradients = (stage.linear + stage.other) * self.apart
        several = micro_batches(t) > 1
        self.kept_between = (((several | (j.master_bytes > 0)) & (j.adapters == 0)) | several) * self.apart
        """1: gradients of earlier micro batches are kept."""
        self.earlier_gradients = self.all_gradients * self.kept_between
        all_layers, offloaded = stage.layers * stage.in_flight, j.offload_activations > 0
        self.layers = np.where(offloaded, np.minimum(OFFLOADED_LAYERS, all_layers), all_layers)
        self.other_layers = np.where(offloaded, 0.0, stage.layers * (stage.in_flight - 1))
        """Layers of the other micro batches."""
        self.one_layer = np.minimum(1.0, stage.layers)
        self.taken_back = self.one_layer * self.by_operators * (1 - f.not_taken_back / np.maximum(f.by_operators, 1.0))
        self.outputs = t.engine.keeps_stage_outputs * stage.in_flight * (s.pp > 1)
        """Outputs of the stage, as large as inputs of layers, one for each micro batch in flight."""
        self.tied_gradient = f.arriving_gradient * self.trains_all * stage.tied * stage.head
        self.logits = f.logits_alive * stage.has_head
        self.held = self.logits * (1 - t.engine.frees_logits)
        self.read = np.where(self.full > 0, f.source_boundary, np.where(self.selective > 0, f.source_recomputed, f.source))
        self.decoder = stage.linear - stage.encoder
        self.layer_cast = self.decoder / stage.layers

    def phases(self) -> list[Phase]:
        """All phases; those of an encoder last, if any row has one."""
        first_layer = self._first_layer()
        found = [self._forward_done(), self._backward_starts(), self._head_gradient_made(), self._last_layer(), first_layer]
        found += [self._backward_done(), self._optimizer_step()]
        return found if self.table.source is None else [*found, *_encoder_phases(self.table, self.stage, first_layer)]

    def _phase(self, **amounts: Floats) -> Phase:
        """A phase of forward or backward in which only `amounts` are unusual."""
        f, stage, full, nothing = self.table.footprint, self.stage, self.full, np.zeros(1)
        usual = {
            "linear": stage.linear,
            "other": stage.other,
            "gradients": self.earlier_gradients,
            "adapter_gradients": self.kept_between,
            "arriving": nothing,
            "layers": self.layers * (1 - full),
            "boundaries": self.layers * full + self.outputs,
            "boundary": np.where(self.by_operators, f.by_operators, f.boundary),
            "attention": np.where(
                self.selective > 0,
                np.minimum(f.attention_recomputed, f.attention + f.scores * self.table.model.scored_share),
                f.attention,
            ),
            "scores": 1 - self.selective,
            "rescored": nothing,
            "backward": nothing,
            "read": self.read,
            "reading": nothing,
            "head": stage.has_head,
            "logits": self.held,
            "cast": stage.linear * (1 - full) + stage.head,
            "computing": np.ones(1),
            "stepping": nothing,
        }
        return Phase(**(usual | amounts))

    def _forward_done(self) -> Phase:
        f, stage = self.table.footprint, self.stage
        return self._phase(logits=self.logits + f.logits_forward * stage.has_head, cast=stage.linear + stage.head)

    def _backward_starts(self) -> Phase:
        f, stage = self.table.footprint, self.stage
        arriving = f.early_gradient * stage.head * self.trains_all
        return self._phase(logits=self.held + f.logits_backward * stage.has_head, arriving=arriving)

    def _head_gradient_made(self) -> Phase:
        """Head's gradient is made; the logits' gradient is freed before it is cast."""
        f, stage = self.table.footprint, self.stage
        freed = f.logits_gradient * logit_entries(self.table) * stage.has_head
        head_gradient = np.maximum(f.head_product * stage.head, f.head_gradient * stage.head - freed) * self.trains_all
        return self._phase(logits=self.held + f.logits_gradient * stage.has_head, arriving=head_gradient)

    def _in_layer(self, **amounts: Floats) -> Phase:
        """A phase inside the backward of a layer."""
        arriving = self.tied_gradient * self.kept_between
        return self._phase(arriving=arriving, rescored=self.selective, backward=np.ones(1), head=np.zeros(1), **amounts)

    def _last_layer(self) -> Phase:
        stage, full, earlier = self.stage, self.full, self.earlier_gradients
        return self._in_layer(
            gradients=np.where(self.apart > 0, np.maximum(earlier, stage.head), earlier),
            layers=self.layers * (1 - full) + self.one_layer * full,
            boundaries=self.layers * full + self.outputs - self.taken_back,
            cast=np.where(full > 0, self.layer_cast, stage.linear),
            read=self.read + self.table.footprint.source_crossing * full,
        )

    def _first_layer(self) -> Phase:
        stage, full, one_layer = self.stage, self.full, self.one_layer
        gradients = (self.decoder * (1 - 1 / stage.layers) + stage.head) * self.apart
        return self._in_layer(
            gradients=np.maximum(self.earlier_gradients, gradients),
            adapter_gradients=self.apart,
            layers=(self.other_layers + one_layer) * (1 - full) + one_layer * full,
            boundaries=(self.other_layers + one_layer) * full + self.outputs - self.taken_back,
            cast=self.layer_cast + stage.encoder * (1 - full),
            read=self.read + self.table.footprint.source_crossing * (full - (1 - full) * (stage.layers - one_layer)),
        )

    def _backward_done(self) -> Phase:
        """Backward has ended; where the optimizer steps inside it, the largest gradient is stepped last."""
        t, f, stage, nothing = self.table, self.table.footprint, self.stage, np.zeros(1)
        frozen = t.job.adapters > 0
        largest = np.where(frozen, stage_adapters(t) / stage.layers, np.maximum(stage.embedding, stage.head))
        embedding_gradient = f.arriving_gradient * self.trains_all * (stage.tied * stage.head + self.kept_between * stage.embedding)
        step = (1 - self.apart) * (largest * f.step + f.step_matrix / t.layout.tp) / trained_ranks(t, 1)
        return self._phase(
            read=nothing,
            gradients=np.maximum(self.all_gradients, (1 - self.apart) * largest * ~frozen),
            adapter_gradients=self.apart,
            arriving=embedding_gradient + step,
            layers=self.other_layers * (1 - self.full),
            boundaries=self.other_layers * self.full,
            head=nothing,
            cast=nothing,
        )

    def _optimizer_step(self) -> Phase:
        gone = dict.fromkeys(("logits", "layers", "boundaries", "read", "head", "cast", "computing"), np.zeros(1))
        return self._phase(gradients=self.all_gradients, adapter_gradients=self.apart, stepping=self.apart, **gone)


def _encoder_phases(t: Table, stage: _EndStage, reached: Phase) -> list[Phase]:
    """Backward of an encoder's last layer and of its first, after `reached`; `reached` again where there is no encoder."""
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
