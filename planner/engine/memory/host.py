"""What an offloaded job keeps in the memory of the host, for each GPU.

ZeRO-Offload (arXiv:2101.06840 §4): FP32 states and master weights and the 16-bit gradients they are updated with.
"""

from __future__ import annotations

import numpy as np

from planner.engine.columns import Floats, Table
from planner.engine.memory.peak_moments import OFFLOADED_LAYERS
from planner.engine.memory.stages import adapters_held, micro_batches, stage_parameters

MOVED_GRADIENT_BYTES = 2.0
"""A gradient on the host, in 16 bit."""


def host_bytes(t: Table) -> Floats:
    """Bytes of host memory a GPU's share takes, shape [rows]; 0 where nothing is offloaded."""
    j, s, k, m = t.job, t.layout, t.footprint, t.model
    stage = stage_parameters(t)
    held = stage.linear + stage.other
    states_over, weights_over = (np.where(s.zero >= level, s.shard, 1.0) for level in (1, 3))
    trained = np.where(j.adapters > 0, adapters_held(t), held) / states_over
    states = trained * (j.state_bytes + j.master_bytes + MOVED_GRADIENT_BYTES) * j.offload_optimizer
    weights = (stage.linear * j.linear_bytes + stage.other * j.other_bytes) / weights_over * j.offload_parameters
    tokens = s.micro_batch * j.sequence / s.cp / s.tp
    kept = np.where(s.checkpointing > 1, k.boundary, k.norms + k.attention + k.scores * (s.checkpointing == 0) + k.mlp + k.dropout)
    in_flight = np.where(s.pp > 1, np.minimum(s.pp, micro_batches(t)), 1.0)
    away = np.maximum(0.0, np.ceil(m.layers / s.pp) * in_flight - OFFLOADED_LAYERS)
    activations = away * tokens * kept * j.offload_activations
    return np.broadcast_to(states + weights + activations, (t.rows,))
