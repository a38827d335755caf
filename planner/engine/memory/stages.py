"""Share of a model that one GPU holds: the fullest pipeline stage, split over tensor-parallel ranks."""

from __future__ import annotations

import msgspec
import numpy as np

from planner.engine.columns import Floats, Table

MICRO_BATCHES_OF_A_STAGE = 4
"""Micro batches per step for each stage of a pipeline where no global batch is given, which keep its bubble at a fifth."""


class Stage(msgspec.Struct, frozen=True):
    """Parameters of the fullest pipeline stage on one GPU before ZeRO."""

    linear: Floats
    """Parameters of its layers: matrices, and the norms and biases beside them (below 0.1 %)."""
    other: Floats
    """Parameters of embedding, head and final norm."""
    layers: Floats


def stage_parameters(t: Table) -> Stage:
    """Parameters that one GPU holds: the stage's layers ÷ tp, its experts ÷ the GPUs that share them, and the larger of embedding and head."""
    m, s = t.model, t.layout
    layers = np.ceil(m.layers / s.pp)
    share = layers / m.layers
    linear = share * layers_of_gpu(t)
    head_alone = m.head + m.token_matrix * m.tied * (s.pp > 1)
    other = np.where(s.pp > 1, np.maximum(m.embedding, head_alone), m.embedding + m.head) / s.tp
    towers_elsewhere = m.towers * (1 - 1 / s.tp) * t.engine.divides_towers
    return Stage(linear=linear, other=other + m.final_vector - towers_elsewhere, layers=layers)


def layers_of_gpu(t: Table) -> Floats:
    """Parameters of all layers, as one GPU of each stage holds them."""
    return t.model.layers_shared / t.layout.tp + t.model.experts_total / t.layout.expert_gpus


def linear_weights_bytes(t: Table) -> Floats:
    """Bytes of the layers' weights on one GPU of the fullest stage before ZeRO; routed experts have their own format."""
    experts = experts_held(t)
    return (stage_parameters(t).linear - experts) * t.job.dense_bytes + experts * t.job.expert_bytes


def encoder_parameters(t: Table) -> Floats:
    """Parameters of the layers of an encoder of prompts, which are included in the layers; 0 if there is none."""
    return np.zeros(1) if t.source is None else t.source.layers_shared * t.model.reads_source


def logit_entries(t: Table) -> Floats:
    """Logits of a micro batch on one GPU: its tokens · vocabulary ÷ tp."""
    s = t.layout
    return s.micro_batch * t.job.sequence / s.cp * t.model.vocabulary / s.tp


def all_layers(t: Table) -> Floats:
    """Layers of the model, including those of an encoder of prompts."""
    return t.model.layers if t.source is None else t.model.layers + t.source.layers * t.model.reads_source


def experts_held(t: Table) -> Floats:
    """Parameters of experts that one GPU of the fullest stage holds."""
    return np.ceil(t.model.layers / t.layout.pp) / t.model.layers * t.model.experts_total / t.layout.expert_gpus


def copied_experts(t: Table, sequences: Floats) -> Floats:
    """Elements of weights that one GPU copies in a layer of a decoding step, for each expert of each sequence; 0 where engines do not copy."""
    copies = (t.engine.copies_experts > 0) & (t.job.train <= 0)
    return np.where(copies, sequences * t.model.experts_per_token * t.model.expert_matrix * t.layout.ep / t.layout.expert_gpus, 0.0)


def stage_adapters(t: Table) -> Floats:
    """Parameters of the adapters on one GPU of the fullest stage; those of an expert are where the expert is."""
    j, s = t.job, t.layout
    shared = (j.adapters - j.expert_adapters) / t.model.layers * np.ceil(t.model.layers / s.pp) / s.tp
    return shared + expert_adapters_held(t)


def expert_adapters_held(t: Table) -> Floats:
    """Parameters of the adapters of experts on one GPU of the fullest stage."""
    return np.ceil(t.model.layers / t.layout.pp) / t.model.layers * t.job.expert_adapters / t.layout.expert_gpus


def zero_ranks(t: Table, stage: int) -> Floats:
    """Ranks that share what ZeRO divides from `stage` on (1 optimizer states, 2 gradients, 3 weights); 1 below that stage. 0: those that could.

    Only ranks with the same experts share those: dp·cp ÷ the streams of tokens that one copy of the experts serves. The mean
    over all parameters of the fullest stage.
    """
    held = stage_parameters(t)
    return _ranks(t, stage, held.linear + held.other, experts_held(t))


def trained_ranks(t: Table, stage: int) -> Floats:
    """Ranks that share states or gradients of what is trained, as `zero_ranks`: the mean over the adapters where only they are trained."""
    held, frozen = stage_parameters(t), t.job.adapters > 0
    everything = np.where(frozen, stage_adapters(t), held.linear + held.other)
    return _ranks(t, stage, everything, np.where(frozen, expert_adapters_held(t), experts_held(t)))


def _ranks(t: Table, stage: int, everything: Floats, experts: Floats) -> Floats:
    s = t.layout
    kept = (everything - experts) / s.shard + experts / np.maximum(1.0, s.shard / s.expert_streams)
    ranks = np.where(s.expert_streams > 1, everything / kept, s.shard)
    return np.where(s.zero >= stage, ranks, 1.0)


def micro_batches(t: Table) -> Floats:
    """Micro batches of a step: from the global batch, or as many as keep a pipeline's bubble at a fifth."""
    s = t.layout
    given = t.job.global_batch / np.maximum(1.0, s.micro_batch * s.dp)
    return np.where(
        t.job.global_batch > 0, np.maximum(1.0, np.ceil(given.round(9))), np.where(s.pp > 1, MICRO_BATCHES_OF_A_STAGE * s.pp, 1.0)
    )


def exchanged_once(t: Table) -> Floats:
    """1 where sharded gradients are exchanged only in the last micro batch, so that each GPU has them whole until then (FSDP's no_sync)."""
    s, e = t.layout, t.engine
    weights = (s.zero >= 3) & (s.shard > 1) & ((e.flat_gradients > 0) | (e.accelerates > 0))
    return np.where((weights | (whole_stage(t) > 0)) & (micro_batches(t) > 1), 1.0, 0.0)


def whole_stage(t: Table) -> Floats:
    """1 where a sharded pipeline stage has its weights and gradients whole until the last micro batch, gathered and exchanged once per step.

    ZeRO 2 is FSDP2 with `reshard_after_forward=False`, which the schedule of a stage turns off for ZeRO 3, too.
    """
    s = t.layout
    return np.where((t.engine.torch_pipelines > 0) & (s.pp > 1) & (s.zero >= 2) & (s.shard > 1), 1.0, 0.0)


def tensor_share(t: Table, heads: Floats) -> Floats:
    """Share of `heads` key and value heads on one tensor-parallel rank, which holds at least one."""
    return np.ceil(np.maximum(heads, 1) / t.layout.tp) / np.maximum(heads, 1)


def state_bytes(t: Table) -> Floats:
    """Bytes that a sequence of any length keeps, over all layers: inputs of convolutions, and states of recurrences in FP32."""
    return (t.model.state * np.maximum(t.job.activation_bytes, 2) + t.model.wide_state * 4) / t.layout.tp
