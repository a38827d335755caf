"""Routed experts of a layer: how many a pass uses, and the time of their products apart from arithmetic and the reading of weights.

Symbols: r tokens of one rank · E experts · e experts a token is routed to · h width · f inner width of an expert.
"""

from __future__ import annotations

import numpy as np

from planner.engine.columns import Floats, Table
from planner.engine.memory.stages import copied_experts
from planner.engine.performance.operators.expert_kernels import (
    ALIKE,
    ALIKE_OF_ANY,
    DATA_CENTRE_BLACKWELL,
    ExpertKernels,
    expert_kernels,
    moved_once,
)

BIAS_GRADIENT_S = 1e-10
"""Seconds for each value of a gathered bias whose gradient is added up with those of the other tokens of its expert: of gpt-oss 20B on eight B300, 8,640 values for
each of four experts in 24 layers, what stock TRL takes longer a token than a program that makes one product of it, 36 to 119 us in fourteen pairs of runs of 4,096
to 262,144 tokens, median 80 (0.4e-10 to 1.4e-10; whitecircle/halo, agent-docs/optimization/halo-vs-stock-trl.md and grouped-gemm.md, 2026-09). One source, and
texts that repeat: fewer tokens to an expert take less."""


def distinct_experts(t: Table, rows: Floats) -> Floats:
    """Experts of a layer used by `rows` tokens of each rank: E·(1 - (1 - e/E)^r) for uniform routing, r being those of all ranks that share them.

    In a service, tokens prefer the same experts: as many are used as by r^0.95 tokens (`ALIKE`).
    """
    experts, together = np.where(t.model.experts > 0, t.model.experts, 1.0), rows * t.layout.expert_streams
    alike = np.where(t.engine.permutes_tokens > 0, ALIKE, ALIKE_OF_ANY)
    together = np.where(t.job.train > 0, together, np.maximum(together, 1.0) ** alike)
    return experts * (1 - (1 - np.minimum(1.0, t.model.experts_per_token / experts)) ** np.minimum(together, 1e6))


COPY_MOVES = 3.0
"""Number of times that a copied weight is moved: read, written, and read by the product."""


def copied_experts_s(t: Table, rows: Floats, new: Floats) -> Floats:
    """Seconds for these copies in the mean layer, apart from reading each distinct expert once, which products include."""
    copied = copied_experts(t, rows) * (new <= 1)
    if not copied.any():
        return np.zeros(1)
    read_once = np.minimum(distinct_experts(t, rows) * t.model.expert_matrix / t.layout.expert_gpus, copied)
    return t.model.moe_share * (COPY_MOVES * copied - read_once) * t.job.activation_bytes / t.chip.bandwidth_bytes_per_s


def expert_split(t: Table) -> Floats:
    """Tensor-parallel ranks that share each expert."""
    return t.layout.expert_gpus / t.layout.ep


def bias_gradients_s(t: Table, rows: Floats) -> Floats:
    """Seconds in which the backward pass of one stage adds up gradients of gathered biases; 0 with adapters, which do not train them."""
    m = t.model
    values = rows * m.experts_per_token * m.expert_vector * m.moe_layers / t.layout.pp
    return values * BIAS_GRADIENT_S * t.engine.gathers_biases * (t.job.adapters <= 0)


def imbalance(t: Table) -> Floats:
    """Tokens of the busiest of the ranks among which the experts are divided ÷ their mean.

    Training balances experts by its loss. In a service, tokens choose them by a power law: 1.2, 1.4, 1.7, 2.0 on 2, 4, 8, 16 ranks are the
    times ÷ those of balanced experts at 16,384 tokens with an exponent of 1.01 (tables as above), without redundant experts.
    """
    usual = np.where(t.job.train > 0, 1.0, t.layout.ep**0.25)
    return np.where(t.layout.ep > 1, np.where(t.job.expert_imbalance > 0, t.job.expert_imbalance, usual), 1.0)


def experts_latency_s(t: Table) -> Floats:
    """Seconds of the experts of one layer that depend neither on rates nor on tokens."""
    k = expert_kernels(t)
    capability = t.chip.compute_capability
    served = (t.job.train <= 0) & ((capability < DATA_CENTRE_BLACKWELL[1]) | ~np.isfinite(capability))
    return k.latency_s + k.expert_s * t.model.experts / t.layout.ep + t.engine.expert_layer_s * served * t.model.whole_layers


def routed_traffic_bytes(t: Table, rows: Floats, kernels: ExpertKernels | None = None) -> Floats:
    """Bytes whose movement takes as long as the experts of a layer apart from their products, on one GPU.

    Ranks that have the same tokens, or gathered them (`gathers`), process all of these; ranks that were sent tokens process only those.
    """
    m, s, k = t.model, t.layout, kernels or expert_kernels(t)
    mean = rows * s.expert_streams * m.experts_per_token / s.ep
    routed = mean * imbalance(t)
    apart = (s.expert_streams > 1) & ((t.job.train > 0) | (s.ep > s.gpus_per_node))
    moved = np.where(moved_once(t) > 0, 1.0, k.own) * routed + k.every * np.where(apart, routed, mean * s.ep)
    return moved * (2 * m.expert_width + k.inner * m.expert_ffn / expert_split(t)) * t.job.activation_bytes
