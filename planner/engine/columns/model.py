"""Sizes of models as columns."""

from __future__ import annotations

from dataclasses import dataclass

from planner.engine.columns.arrays import Columns, Floats


@dataclass(frozen=True)
class ModelColumns(Columns):
    """Attributes of `Architecture` that the formulas read, under the same names; see there."""

    layers: Floats
    width: Floats
    heads: Floats
    kv_heads: Floats
    query: Floats
    key: Floats
    attended: Floats
    ffn: Floats
    gated: Floats
    vocabulary: Floats
    tied: Floats
    embedding: Floats
    head: Floats
    attention_matrix: Floats
    dense_mlp_matrix: Floats
    expert_matrix: Floats
    shared_matrix: Floats
    router_matrix: Floats
    cached_per_token: Floats
    latent_rank: Floats
    qk_norm: Floats
    norms: Floats
    centred: Floats
    rotary: Floats
    dropout: Floats
    window: Floats
    windowed_layers: Floats
    experts: Floats
    experts_per_token: Floats
    expert_ffn: Floats
    shared_ffn: Floats
    moe_layers: Floats
    layers_shared: Floats
    experts_total: Floats
    total: Floats
    active: Floats
    active_matrix: Floats
    final_vector: Floats
