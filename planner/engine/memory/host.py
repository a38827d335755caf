"""Memory of the host that an offloaded job needs for each GPU.

ZeRO-Offload (arXiv:2101.06840 §4): FP32 states and master weights and the 16-bit gradients they are updated with.
"""

from __future__ import annotations

import numpy as np

from planner.engine.columns import Floats, Table
from planner.engine.memory.stages import (
    linear_weights_bytes,
    micro_batches,
    stage_adapters,
    stage_parameters,
    trained_ranks,
    zero_ranks,
)
from planner.engine.memory.step_phases import OFFLOADED_LAYERS
from planner.engine.records.layout import CHECKPOINTING

MOVED_GRADIENT_BYTES = 2.0
"""Bytes of a gradient on the host: 16 bit."""


def host_bytes(t: Table) -> Floats:
    """Bytes of host memory for a GPU's share, shape [rows]; 0 if nothing is offloaded."""
    j = t.job
    stage = stage_parameters(t)
    parameters = stage.linear + stage.other
    trained = np.where(j.adapters > 0, stage_adapters(t), parameters) / trained_ranks(t, 1)
    states = trained * (j.state_bytes + j.master_bytes + MOVED_GRADIENT_BYTES) * j.offload_optimizer
    weights = (linear_weights_bytes(t) + stage.other * j.other_bytes) / zero_ranks(t, 3) * j.offload_parameters
    activations = offloaded_activations(t)
    return np.broadcast_to(states + weights + activations, (t.rows,))


def offloaded_activations(t: Table) -> Floats:
    """Bytes of activations of a GPU that are in the host's memory at once; 0 if they are not offloaded."""
    j, s, f, m = t.job, t.layout, t.footprint, t.model
    tokens = s.micro_batch * j.sequence / s.cp / s.tp
    recomputed = np.where(s.checkpointing == CHECKPOINTING["selective-op"], f.by_operators, f.boundary)
    scores = f.scores * m.scored_share * (s.checkpointing == 0)
    kept = np.where(s.checkpointing > 1, recomputed, f.norms + f.attention + scores + f.mlp + f.dropout)
    in_flight = np.where(s.pp > 1, np.minimum(s.pp, micro_batches(t)), 1.0)
    away = np.maximum(0.0, np.ceil(m.layers / s.pp) * in_flight - OFFLOADED_LAYERS)
    return away * tokens * kept * j.offload_activations
