"""Seconds in which ranks of data parallelism exchange gradients and weights, in parallel with the computation that hides most of it.

Symbols: n ranks that share one copy of the parameters.
"""

from __future__ import annotations

import numpy as np

from planner.engine.columns import Floats, Table
from planner.engine.memory.stages import Stage, exchanged_once, expert_adapters_held, experts_held, whole_stage
from planner.engine.performance.operators.communication import collective_s

OVERLAP = 0.7
"""Share of the computation that can hide gradient and parameter traffic: in DDP and FSDP the first and the last bucket stay exposed."""
CONTENTION = 0.3
"""Share of hidden traffic that slows computation all the same, because collectives use multiprocessors and bandwidth: products in parallel
with NCCL take 30 to 40 % longer (8 H100, pytorch/pytorch#179937), all kernels 19 % on average (A100, H100, MI250, arXiv:2507.03114)."""


def exchange_s(t: Table, stage: Stage, trained: Floats, count: Floats, compute_s: Floats) -> Floats:
    """Exposed seconds of exchanging gradients and weights over n ranks in parallel with `compute_s` of `count` micro batches.

    Without sharding it is an all-reduce of the gradients, 2(n-1)/n of their bytes. ZeRO 1 scatters the gradients and gathers the updated
    weights once, in parallel with the last backward and the next forward pass. ZeRO 2 keeps no whole gradients, so it scatters them in
    every micro batch. ZeRO 3 also gathers the weights twice in each micro batch, except where a stage stays whole, which gathers them in
    the first one; programs that exchange gradients once scatter them in the last one. Hybrid sharding does so over the n ranks that share
    one copy of the weights, and adds up the gradients of each share over all copies: in parallel with the former where that stays inside a
    node (FSDP2's all_reduce_stream).
    """
    j, s = t.job, t.layout
    ranks, copies = s.shard, s.dp * s.cp / s.shard
    in_node = s.gpus_per_node / np.maximum(s.tp, 1)
    ring = (ranks - 1) / np.maximum(ranks, 1)
    sent = np.where(s.zero >= 3, j.activation_bytes, np.inf)  # weights in FP32 are cast before they are gathered
    weights = stage.linear * np.minimum(j.linear_bytes, sent) + stage.other * np.minimum(j.other_bytes, sent)
    gradients = trained * np.minimum(j.gradient_bytes, 4.0)
    updated = np.where(j.adapters > 0, gradients, weights) * (j.gradient_bytes > 0)
    once = gradients + np.where(s.zero >= 1, updated, gradients)
    scattered, gathered = np.where(exchanged_once(t) > 0, 1.0, count), np.where(whole_stage(t) > 0, 1.0, 2 * count)
    of_weights = ring * np.where(s.zero >= 3, gathered * weights, 0.0)
    of_trained = ring * np.where(s.zero >= 3, scattered * gradients, once + np.where(s.zero == 2, (scattered - 1) * gradients, 0.0))
    several = s.expert_streams > 1
    held = experts_held(t) / np.maximum(stage.linear + stage.other, 1.0) * several
    routed = np.where(j.adapters > 0, expert_adapters_held(t) / np.maximum(trained, 1.0) * several, held)
    of_shared = of_weights * (1 - held) + of_trained * (1 - routed)
    alike = np.maximum(1.0, ranks / s.expert_streams)
    of_experts = (alike - 1) / alike / np.where(ring > 0, ring, 1.0) * (of_weights * held + of_trained * routed)
    summed = 2 * (copies - 1) / copies * scattered * gradients * ((1 - routed) / ranks + routed / alike)
    per_node = np.clip(in_node, 1, np.maximum(ranks, 1))
    shared_s = collective_s(t, ranks, of_shared, per_node=per_node) + collective_s(
        t, alike, of_experts, per_node=np.clip(s.gpus_per_node / s.expert_gpus, 1, alike)
    )
    summed_s = collective_s(t, copies, summed, per_node=np.clip(in_node / ranks, 1, copies))
    seconds = np.where(ranks > per_node, shared_s + summed_s, np.maximum(shared_s, summed_s))
    beside = np.where((s.zero >= 2) & (whole_stage(t) == 0), compute_s, compute_s / np.maximum(count, 1))
    left: Floats = np.maximum(0.1 * seconds, seconds - OVERLAP * beside)
    return left + CONTENTION * (seconds - left)
