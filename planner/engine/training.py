"""Seconds of one optimizer step: micro batches through the pipeline, gradients over the ranks, the update.

Symbols: M micro batches a step · v virtual stages · n ranks that hold the same parameters.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.engine.columns import Floats, Table, added
from planner.engine.memory.stages import micro_batches, stage_parameters
from planner.engine.operators import collective_s, forward

BACKWARD_LAUNCHES = 113 / 64
"""ATen operators of a Qwen3 layer, backward over forward, counted with PyTorch 2.13."""
ATTENTION_BACKWARD = 2.5 / 0.8
"""Backward over forward of fused attention: five products for two, at four fifths of the rate (FlashAttention-2,
arXiv:2307.08691: up to 63 % of the A100's peak backward, 73 % forward; FlashAttention-3, arXiv:2407.08608: 550 to 740 TFLOP/s)."""
HOST_LINK_BYTES_PER_S = 20e9
"""Between GPU and host memory over PCIe 4 x16: 26 GB/s with pinned memory (nvbandwidth), less for pageable copies."""
LOSS_TRAFFIC_BYTES = 24
"""Per token and vocabulary entry: 16-bit logits read, FP32 copy and log-softmax written forward; both read, two FP32 gradients and
a 16-bit one written backward."""
OVERLAP = 0.7
"""Share of the computation beside it that hides gradient and parameter traffic; DDP's and FSDP's buckets leave the first
and last exposed."""


@dataclass(frozen=True)
class StepColumns:
    """Shape [rows], seconds of a step by class; they add up to `step_s`."""

    step_s: Floats
    tokens: Floats
    """Tokens of the whole job in a step."""
    by_class: dict[str, Floats]
    compute_bound: Floats
    model_flop: Floats
    """6·N·tokens + causal attention."""


def step_of(t: Table) -> StepColumns:
    """Time of one optimizer step of every candidate."""
    m, j, s, c = t.model, t.job, t.layout, t.chip
    tokens = s.micro_batch * j.sequence / s.cp
    half = j.sequence / 2
    one = forward(t, tokens, half, j.sequence, head_rows=tokens)
    adapter = j.adapters > 0
    recompute = (s.checkpointing > 1) * 1.0
    products = 1 + np.where(adapter, 1.0, 2.0) + recompute
    head_products = np.where(adapter, 2.0, 3.0)
    losses = tokens * m.vocabulary / s.tp * LOSS_TRAFFIC_BYTES / c.bandwidth_bytes_per_s / s.pp
    device = {
        "matmul": one.matmul * products,
        "attention": one.attention * (1 + ATTENTION_BACKWARD + recompute + 0.5 * (s.checkpointing == 1)),
        "elementwise": one.elementwise * (3 + recompute) + losses,
        "head": one.head * head_products,
        "communication": one.communication * (2 + recompute),
        "latency": one.latency * (1 + BACKWARD_LAUNCHES + recompute),
    }
    device = {name: np.broadcast_to(value * c.train_factor, (t.rows,)) for name, value in device.items()}
    busy = added(device.values())
    host = one.host * (1 + BACKWARD_LAUNCHES + recompute)
    exposed_host = np.maximum(0.0, host - busy)
    count = micro_batches(t)
    per_micro = busy + exposed_host
    bubble = (s.pp - 1) / np.maximum(s.virtual_stages, 1) * per_micro
    update, gradients = _update(t), _gradient_traffic(t, per_micro * count)
    by_class = {name: value * count for name, value in device.items()}
    stage = stage_parameters(t)
    fetched = (stage.linear * j.linear_bytes + stage.other * j.other_bytes) * 2 / HOST_LINK_BYTES_PER_S * j.offload_parameters
    by_class["communication"] = by_class["communication"] + fetched * count + gradients + _stage_traffic(t, tokens) * count
    by_class |= {"launch": exposed_host * count, "optimizer": update, "bubble": bubble}
    by_class = {name: np.broadcast_to(value, (t.rows,)) for name, value in by_class.items()}
    step = added(by_class.values())
    total = tokens * s.cp * s.dp * count
    per_token = 6 * (m.active - m.embedding * (m.tied == 0)) + 6 * m.layers * m.query * j.sequence
    bound = one.compute_bound * np.broadcast_to(products, (t.rows,)) * count
    return StepColumns(
        step_s=step, tokens=np.broadcast_to(total, (t.rows,)), by_class=by_class, compute_bound=bound, model_flop=total * per_token
    )


def _trained(t: Table) -> Floats:
    stage = stage_parameters(t)
    adapters = t.job.adapters / t.model.layers * stage.layers / t.layout.tp
    return np.where(t.job.adapters > 0, adapters, stage.linear + stage.other)


def _update(t: Table) -> Floats:
    """The optimizer moves its states, the gradients and the weights once; sharded states divide the work."""
    j, s, c = t.job, t.layout, t.chip
    parameters = _trained(t) / np.where(s.zero >= 1, s.shard, 1.0)
    moved = parameters * (j.state_traffic + j.cast_bytes)
    host_link = np.where(j.offload_optimizer > 0, parameters * 8 / HOST_LINK_BYTES_PER_S, 0.0)
    tensors = 11 * t.model.layers / s.pp * (j.adapters == 0) + 14 * t.model.layers / s.pp * (j.adapters > 0)
    seconds: Floats = moved / c.bandwidth_bytes_per_s + host_link + tensors * 2 * c.launch_s * (j.state_traffic > 0)
    return seconds


def _gradient_traffic(t: Table, compute_s: Floats) -> Floats:
    """Exposed seconds of data-parallel traffic.

    Without sharding an all-reduce of the gradients (2(n-1)/n of their bytes); ZeRO 1 and 2 a reduce-scatter and an
    all-gather (the same volume), which waits for the update and hides behind nothing; ZeRO 3 gathers the 16-bit weights twice and scatters the gradients once, every micro batch.
    """
    j, s = t.job, t.layout
    ranks = s.dp * s.cp
    per_node = np.clip(s.gpus_per_node / np.maximum(s.tp, 1), 1, np.maximum(ranks, 1))
    ring = (ranks - 1) / np.maximum(ranks, 1)
    stage = stage_parameters(t)
    once = 2 * ring * _trained(t) * np.where(j.gradient_bytes > 0, np.minimum(j.gradient_bytes, 4.0), 0.0)
    gathered = micro_batches(t) * ring * (2 * (stage.linear * j.linear_bytes + stage.other * j.other_bytes) + 2 * _trained(t))
    volume = np.where(s.zero >= 3, gathered, once)
    seconds = collective_s(t, ranks, volume, per_node=per_node)
    beside = np.where(s.zero >= 3, compute_s, compute_s / np.maximum(micro_batches(t), 1) * 2 / 3)
    after = np.where((s.zero == 1) | (s.zero == 2), 0.5, 0.0)
    during = seconds * (1 - after)
    return np.maximum(0.1 * during, during - OVERLAP * beside) + seconds * after


def _stage_traffic(t: Table, tokens: Floats) -> Floats:
    """Activations handed to the next pipeline stage and gradients handed back, a micro batch."""
    s = t.layout
    size = 2 * tokens * t.model.width * 2 / s.tp
    bandwidth = np.where(s.tp * s.pp > s.gpus_per_node, s.fabric_bytes_per_s, s.link_bytes_per_s)
    return np.where(s.pp > 1, size / np.where(bandwidth > 0, bandwidth, np.inf), 0.0)
