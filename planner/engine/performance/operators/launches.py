"""Fixed times of a layer: starting and ending kernels on the device, and launching them from the host."""

from __future__ import annotations

import numpy as np

from planner.engine.columns import Floats, Table
from planner.engine.performance.operators.experts import experts_latency_s

SMALL_KERNEL_S = 1.5e-6
"""A short kernel inside a CUDA graph; elementwise kernels take 1 to 8 us on A40, A100 and H100 alike (Vidur profiles, MIT)."""
TIMED_AT_HZ = 1.98e9
"""Boost clock of the H100 at which times of an engine's kernels are stated, where they follow the clock (`kernels_by_clock`)."""
ADAPTER_KERNELS = 8.0
"""Kernels of a layer that multiply with the adapters of each request: to the rank and back for q, k, v, for o, for gate and up, for down (Punica's
SGMV, arXiv:2310.18547, as in vLLM)."""
ADAPTER_LAUNCHES, FUSED_ADAPTER_LAUNCHES = 6.0, 2.0
"""Operators the host launches forward for one adapter in training beside the product it adapts: PEFT's LoRA casts its input, multiplies twice, scales, adds and
casts back (peft/tuners/lora/layer.py: Linear.forward with FP32 adapters; 9 backward less the weight's own product, counted with PyTorch 2.13); fused, the two
products. A layer of `OPERATORS_COUNTED` takes an engine's `launches_per_layer`, so that its Python lies around these, too."""
OPERATORS_COUNTED = 64.0
"""ATen operators of a Qwen3 layer forward outside views, counted with PyTorch 2.13."""
ROUNDED_INPUTS = 4.0
"""Short kernels of a layer that round the inputs of products below 16 bit, where they are not fused with those before them: 240 in the 60 layers of
Qwen3.5 397B (sgl-project/sglang issue 31504)."""
OF_NORM, OF_LAYER_NORM, OF_ROTARY, OF_GATED, OF_PLAIN, OF_OTHERS, OF_LLAMA = 8.0, 1.0, 10.0, 5.0, 3.0, 20.0, 51.0
"""ATen operators outside views of a decoding step: an RMSNorm, a LayerNorm, rotary embedding, an MLP with and without a gate, all others, and a layer of Llama.
Counted on the meta device (transformers 5.23 with scaled_dot_product_attention): Llama, Mistral and Qwen2 51, Qwen3 67, OLMo 2 67, Gemma 3 95, Phi-2 41, Falcon 36,
Pythia 33, GPT-2 28, OPT 24, of which the sum of these makes 51, 67, 67, 83, 35, 36, 35, 25 and 25."""
ROUTING_LAUNCHES = 620.0
"""Operators the host launches in training for the experts of one layer forward, where no kernel of all experts replaces them: choice, sorting,
counts that the host waits for, exchange, rounding expert by expert. From four published runs of Qwen3 30B A3B in Megatron-Bridge without
graphs, 9.1 to 9.7 ms a layer whether 8 or 16 experts are on the GPU (25.11 to 26.06, one sequence of 4,096 a micro batch, B200 and H100)."""
COMPILED_LAUNCHES = 0.15
"""Share of the launches that torch.compile leaves: fused kernels, guards, no graphs. An assumption."""


def kernel_latencies_s(t: Table, new: Floats) -> tuple[Floats, Floats, Floats]:
    """Seconds that one layer spends in starting and ending its products, its attention, and its small kernels."""
    m, c = t.model, t.chip
    by_clock = (t.engine.kernels_by_clock > 0) & (c.clock_hz > 0)
    on = np.where(c.is_cpu > 0, 0.0, np.where(by_clock, TIMED_AT_HZ / np.where(by_clock, c.clock_hz, 1.0), 1.0))
    attention = np.where(new > 1, c.attention_latency_s, c.decode_latency_s) * (m.mixer_share + m.reads_source)
    apart = np.maximum(t.engine.rounds_apart, t.engine.rounds_blocks_apart * (m.experts > 0))
    rounding = ROUNDED_INPUTS * apart * (t.job.narrow_bytes > 0)
    adapters = ADAPTER_KERNELS * (t.job.served_adapters > 0)
    small = (np.maximum(t.engine.kernels_per_layer - 5, 0) + rounding + adapters) * m.parts * SMALL_KERNEL_S
    products = c.latency_s * products_of_layer(t) + m.moe_share * experts_latency_s(t)
    return products * on, attention * on, small * on


def products_of_layer(t: Table) -> Floats:
    """Products of a layer outside its routed experts: two of each attention, two of a dense MLP or of shared experts, the router."""
    m = t.model
    dense = m.dense_share + m.moe_share * (m.shared_ffn > 0)
    return 2 * (m.mixer_share + m.reads_source + dense) + m.moe_share


def operators_of_layer(t: Table) -> Floats:
    """Operators of a layer without experts that run on the device, as transformers' code runs them one by one."""
    m = t.model
    norms = np.where(m.centred > 0, OF_LAYER_NORM, OF_NORM) * m.norms + OF_NORM * 2 * (m.qk_norm > 0)
    return OF_OTHERS + norms + OF_ROTARY * m.rotary + np.where(m.gated > 0, OF_GATED, OF_PLAIN)


def launches_of_layer(t: Table) -> Floats:
    """Operators that the host launches for one layer, in units of a bare launch, including those of experts."""
    m, e = t.model, t.engine
    one_by_one = e.launches_per_expert * m.experts / t.layout.ep
    chosen_apart = e.routing_launches * (t.job.expert_bytes >= 1)
    routing = np.where(one_by_one > 0, one_by_one, np.where(t.job.train > 0, ROUTING_LAUNCHES, chosen_apart))
    own = e.launches_per_layer * m.parts * np.where(e.by_operators > 0, operators_of_layer(t) / OF_LLAMA, 1.0)
    python = np.where(t.job.train > 0, e.python_training, e.python_launches) * np.where(
        t.chip.is_geforce > 0, e.geforce_launches, 1.0
    )
    each = np.where(e.fused_elementwise > 0, FUSED_ADAPTER_LAUNCHES, ADAPTER_LAUNCHES)
    adapters = each * t.job.adapter_products / OPERATORS_COUNTED * (t.job.train > 0)
    latent = e.latent_launches * (m.latent_rank > 0) * (t.job.train <= 0)
    return (own * python * (1 + adapters) + routing * m.moe_share + latent) * np.where(t.job.compiled > 0, COMPILED_LAUNCHES, 1.0)


def launch_s(t: Table, context: Floats | float, new: Floats | float) -> Floats:
    """Seconds that the host takes to launch one layer: its operators, and unpacking where no graph is replayed.

    `context`: tokens a sequence attends to. `new`: tokens of each sequence in this pass.
    """
    e, products = t.engine, np.where(t.model.gated > 0, 7.0, 6.0)
    unpacking = products * t.job.unpack_host_s * (e.launches_per_layer > 0) * np.where(t.job.compiled > 0, COMPILED_LAUNCHES, 1.0)
    seconds: Floats = launches_of_layer(t) * t.chip.launch_s + unpacking
    return np.where((new <= 1) & (context <= e.graph_context), 0.0, seconds)
