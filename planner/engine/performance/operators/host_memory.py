"""Weights and prefixes in the host's memory: seconds that they add to a pass, and to the wait of a request."""

from __future__ import annotations

import numpy as np

from planner.engine.columns import Floats, Table
from planner.engine.memory.inference import cached_prefix_bytes
from planner.engine.memory.stages import experts_held
from planner.engine.memory.total import weights_on_host
from planner.engine.performance.operators.experts import distinct_experts
from planner.engine.records.chip import HOST_LINK_BYTES_PER_S, HOST_READ_BYTES_PER_S, PCIE_SHARE

MOST_ROWS_ON_PROCESSOR = 31.0
"""Tokens of a pass up to which the processor multiplies; for more, weights are moved to the GPU (GGML_OP_OFFLOAD_MIN_BATCH = 32 in
llama.cpp's ggml-cuda.cu, 2025)."""


def host_weights_s(t: Table, rows: Floats) -> Floats:
    """Seconds of a pass of `rows` tokens for weights of its stage that are in the host's memory; 0 if none are.

    All of them cross the link in every pass. Engines that compute on both processors multiply few tokens where the weights are; of the
    experts they read only those that receive a token, and they put experts into host memory first.
    """
    away = weights_on_host(t)
    if not np.any(away):
        return away
    experts = np.minimum(away, experts_held(t) * t.job.expert_bytes)
    touched = distinct_experts(t, rows) / np.maximum(t.model.experts, 1.0)
    read_s = (away - experts + experts * touched) / HOST_READ_BYTES_PER_S
    there = (t.engine.computes_on_host > 0) & (rows <= MOST_ROWS_ON_PROCESSOR)
    return np.where(there, read_s, away / HOST_LINK_BYTES_PER_S)


def prefix_load_s(t: Table) -> Floats:
    """Seconds until the prefix of a request has arrived from the host's memory, each GPU's part over its own PCIe; 0 if it is on the GPU.

    Copies run in parallel with the model's passes, so no other request waits (vLLM's guide to KV offloading: DMA, asynchronous).
    """
    return t.job.kv_offload * cached_prefix_bytes(t) / (PCIE_SHARE * t.chip.pcie_bytes_per_s)
