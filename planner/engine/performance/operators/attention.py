"""Attention of the mean layer: scores and values over the preceding tokens, and the reading of the KV cache.

Symbols: q query elements of a token · r tokens of the pass on this GPU.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from planner.engine.columns import Floats, Table, soft_maximum
from planner.engine.memory.stages import state_bytes, tensor_share
from planner.engine.performance.operators.matrix_products import FUSED_ATTENTION_BACKWARD

SCORE_BYTES = 28
"""Bytes of one attention score that goes through memory: written, scaled, masked, in FP32 for the softmax, back, read. Scores that a mask hides are
computed, and moved, like all others."""
FUSED_SCORE_BYTES = 13
"""Bytes of a score where one kernel scales, masks and normalises scores in 16 bit: written by a product, read and written by the kernel, read and written by a
dropout with a mask of one byte, read by a product (Megatron's scaled_masked_softmax)."""
FUSED_WIDE_SCORE_BYTES = 22
"""Bytes of a score in ggml: FP32 from product to product, read and written by one kernel, rounded to 16 bit before the second product (soft_max_ext, mul_mat)."""
MOST_ABSORBED = 8.0
"""New tokens of a sequence up to which latent attention works on the latent itself: one, or those that a draft proposed."""
EAGER_READS = 3.0
"""Passes over the cache of a decoding step with eager attention: keys and values are brought into another order before they are
multiplied. From the published decline of llama.cpp without flash attention with growing contexts."""


ABSORBED_PASSES, EXPANDED_PASSES = 4.0, 4.6
"""Times that latent attention moves the elements of `latent_elements` beside its scores, while decoding and in a prompt: products of each head on its own,
rotary parts put beside them, copies in the order that the kernels want. scripts/calibration/fit_latent.py on 10,092 timings of whole layers of DeepSeek V3
(TensorRT-LLM 1.3, vLLM 0.24; H100, H200, B200; aiconfigurator-core 0.12.0, 2026-11-26): median error 12 %; 2.8 to 6.1 and 2.6 to 8.2 without one engine
or one GPU, which are then met with a median error of 6 to 18 %."""
AMPERE_FLOP_PER_CYCLE = 1200.0
"""FLOP that FlashAttention 2 does on a multiprocessor in a cycle of the boost clock on parts newer than the instructions it uses, forward and backward
alike. H100: 284 TFLOP/s forward and 287 backward (causal, 8,192 tokens, heads of 128; Dao-AILab/flash-attention#1791), 333 and, without a mask, 318
(arXiv:2407.08608, figures 5 and 6), 1,180 to 1,380; B200: 333 and 346 for both (8,192 and 16,384 tokens, #1589), 362 forward (meta-pytorch/tritonbench#171),
1,150 to 1,240."""
WIDE_FLOP_PER_CYCLE = 260.0
"""FLOP of a multiprocessor and cycle in PyTorch's memory-efficient kernel with heads wider than 128, which keeps its outputs in global memory. Forward, heads of
320 to 1,024 at 8,192 tokens ("SDPA EA", Dao-AILab/flash-attention#1483 and xlite-dev/ffpa-attn): L20 54 to 63 TFLOP/s, A30 22 to 25, RTX 4090 78 to 94 and
RTX 3080 Laptop 13 to 16, 180 to 300 of the boost clock. Forward and backward of Gemma 4 26B on B300 take as if it were 180 to 215 (docs/decisions/187-wide-heads.md)."""
HOPPER = 9.0
"""Compute capability of the parts whose cuDNN takes heads of 256 with a mask (check_cudnn_tensor_shapes in PyTorch's sdp_utils.cpp). Gemma 3 4B reads
8 prompts of 4,096 tokens in 0.77 s on an H100 (torch 2.11, 2026-11-27), where the memory-efficient kernel's rate makes 1.24. Backward is not measured."""
TRITON_FORWARD, TRITON_BACKWARD = 0.30, 0.10
"""Share of a CDNA part's 16-bit peak that attention compiled by Triton reaches, forward and backward. MI350X and MI355X, heads of 128, 4,096 to 16,384 tokens:
forward 0.24 to 0.34 (causal) and 0.40 (without a mask), backward of PyTorch's own 0.06 to 0.10 and 0.12 (baselines of HipKittens, 2025-10, arXiv:2511.08083:
analysis/attn/fwd/plot.py and bkwd/plot.py), where assembly reaches 0.41 to 0.53 and 0.28 to 0.31 (ROCm/aiter, op_tests/cpp/mha/README.md). Forward on MI300X
assembly is 1.2 to 1.6 times as fast, which makes 0.26 to 0.35 of Triton's (midiareshadi.github.io/blog/attn-dsl-bench); backward nobody published since 2024."""
NEWER_INSTRUCTIONS = (9.0, 12.0)
"""Compute capabilities from which, and below which, tensor cores reach their rate with other instructions than Ampere's (wgmma, tcgen05)."""
BACKWARD_RATE = 0.8
"""Backward over forward rate of attention in FLOP a second where neither meets `AMPERE_FLOP_PER_CYCLE` (FlashAttention-2, arXiv:2307.08691: up to 63 % of
the A100's peak backward, 73 % forward; FlashAttention-3, arXiv:2407.08608: 550 to 740 TFLOP/s)."""
STATE_READS = 2.0
"""Number of times that a pass moves the states of its sequences: it reads and writes them."""


def own_context(t: Table, context: Floats) -> Floats:
    """Tokens of a sequence in the decoder's own cache: all of `context`, without the prompt where an encoder reads it."""
    return np.where(t.model.reads_source > 0, np.maximum(context - t.job.input_tokens, 1.0), context)


def _reached(t: Table, context: Floats) -> tuple[Floats, Floats, Floats]:
    """Numbers of tokens attended to where `context` precede a token on average: all, those inside a window, and those chosen.

    An encoder also attends to as many that follow. All where there is neither window nor choice (`workload.sublayers.AttendsTo`).
    """
    every = own_context(t, context) * (1 + t.model.encoder)
    window, chosen = (np.where(most > 0, np.minimum(every, most), every) for most in (t.model.window, t.model.chosen))
    return every, window, chosen


def attention_flop(t: Table, context: Floats) -> Floats:
    """FLOP of one token's attention over `context` tokens, in all layers: two for each element attended to, and recurrences."""
    m, (every, window, chosen) = t.model, _reached(t, context)
    elements = m.attended_all * every + m.attended_window * window + m.attended_chosen * chosen
    return 2 * (elements + m.attended_source * t.job.input_tokens) + m.scan_flop


def attended_tokens(t: Table, context: Floats) -> Floats:
    """Tokens that one token attends to, the mean over the layers: windows shorten the context, and a layer without attention sees none."""
    m, (every, window, chosen) = t.model, _reached(t, context)
    elements = m.attended_all * every + m.attended_window * window + m.attended_chosen * chosen
    return (elements + m.attended_source * t.job.input_tokens) / (m.layers * m.attended)


def scored_columns(t: Table, context: Floats, new: Floats) -> Floats:
    """Tokens for which a token's scores are computed: where scores go through memory, all up to the last of its pass, half of them masked."""
    hidden: Floats = np.where((new > 1) & (t.model.encoder <= 0), new / 2, 0.0) * t.job.eager_attention
    return context + hidden


def window_tokens(t: Table, context: Floats, new: Floats) -> Floats:
    """Tokens for which a layer with a window computes scores; 0: those in the window.

    Where the window is a mask for the kernel (`JobNumbers.masks_windows`), all up to the last token of the pass, once that token sees fewer.
    """
    whole = own_context(t, context) + new / 2
    masked = (t.job.masks_windows > 0) & (new > 1) & (t.model.window > 0) & (whole > t.model.window)
    return np.where(masked, whole, 0.0)


def hidden_elements(t: Table, context: Floats, new: Floats) -> Floats:
    """Elements of one token's attention in all layers that are computed although its window hides them, in addition to `scored_columns`."""
    _, window, _ = _reached(t, scored_columns(t, context, new))
    return t.model.attended_window * np.maximum(0.0, window_tokens(t, context, new) - window)


def score_bytes(t: Table) -> Floats:
    """Bytes that one score moves where scores go through memory."""
    fused = np.where(t.engine.fp32_between > 0, FUSED_WIDE_SCORE_BYTES, FUSED_SCORE_BYTES)
    return np.where(t.engine.fused_elementwise > 0, fused, SCORE_BYTES)


def cache_bytes(t: Table, rows: Floats, context: Floats, new: Floats) -> Floats:
    """Bytes of keys, values and states that attention reads in the mean layer: those of every sequence, once per pass."""
    m, (_, window, chosen) = t.model, _reached(t, context)
    element = np.where(t.job.kv_bytes > 0, t.job.kv_bytes, 2.0)
    every = m.read_all * own_context(t, context) + m.read_chosen * chosen + m.read_source * t.job.input_tokens
    every = every * tensor_share(t, m.cached_heads)
    read = (every + m.read_window * window * tensor_share(t, m.window_heads)) * element
    return rows / np.maximum(new, 1.0) * (read + STATE_READS * state_bytes(t)) / m.layers


def latent_elements(t: Table, new: Floats) -> Floats:
    """Elements of a token that latent attention makes apart from its scores, on one rank; 0 for other kinds of attention.

    While decoding each head converts its query to the latent and its output back; in a prompt keys and values of every head are made from the latent.
    """
    m = t.model
    made = np.where(new <= MOST_ABSORBED, _absorbed(t), m.attended)
    return np.where(m.latent_rank > 0, made, 0.0) / t.layout.tp


def _absorbed(t: Table) -> Floats:
    """Elements of the queries and outputs of all heads in the latent: of a cached token, and of the latent alone."""
    m = t.model
    return m.heads * ((m.read_all + m.read_window + m.read_chosen) / m.layers + m.latent_rank)


def _latent_decoding(t: Table, new: Floats) -> Floats:
    """FLOPs of latent attention while decoding ÷ those of its heads: every head multiplies with the whole latent, which is not unpacked.

    With a cache of 8 bit they are done in 8 bit where kernels exist.
    """
    m, gain = t.model, np.where(t.job.kv_bytes == 1, t.chip.narrow_attention_gain, 1.0)
    return np.where((m.latent_rank > 0) & (new <= MOST_ABSORBED), _absorbed(t) / np.maximum(m.attended, 1) / gain, 1.0)


def _step_reads(t: Table) -> Floats:
    """Number of times that attention of a decoding step moves the cache: more where keys and values are reordered or copied for each head."""
    shared = np.where(t.model.latent_rank > 0, 1.0, t.model.heads / np.maximum(t.model.kv_heads, 1.0))
    copied = np.where((t.engine.repeats_heads > 0) & (shared > 1), 1 + 2 * shared, 1.0)
    return np.maximum(np.where(t.job.eager_attention > 0, EAGER_READS, 1.0), copied)


def _most_flop_per_s(t: Table, triton: float) -> Floats:
    """Highest rate of kernels written for Ampere on newer GPUs, and of Triton's (`triton` of the peak) on AMD's; infinite for others."""
    c, (first, beyond) = t.chip, NEWER_INSTRUCTIONS
    newer = (c.compute_capability >= first) & (c.compute_capability < beyond) & (c.cycles_per_s > 0)
    most = np.where(newer & (t.job.ampere_attention > 0), AMPERE_FLOP_PER_CYCLE * c.cycles_per_s, np.inf)
    return np.where((c.cdna_flop_per_s > 0) & (t.job.triton_attention > 0), triton * c.cdna_flop_per_s, most)


def forward_flop_per_s(t: Table) -> Floats:
    """Rate of attention in prompts and forward passes."""
    return np.minimum(t.chip.attention_flop_per_s, _most_flop_per_s(t, TRITON_FORWARD))


def backward_factor(t: Table) -> Floats:
    """Time of fused attention's backward pass ÷ its forward pass: five products for two."""
    backward = np.minimum(BACKWARD_RATE * t.chip.attention_flop_per_s, _most_flop_per_s(t, TRITON_BACKWARD))
    return FUSED_ATTENTION_BACKWARD * forward_flop_per_s(t) / backward


def wide_heads_s(t: Table, context: Floats, new: Floats) -> Floats:
    """Additional seconds of one token's attention in all layers because heads are wider than PyTorch's fast kernels support.

    2 · elements attended to · (1 / wide rate - 1 / usual rate), for layers that see all tokens, and for windows that are masks.
    On Hopper cuDNN supports masks over heads of up to 256 in forward passes, where PyTorch prefers it.
    """
    m, rate = t.model, forward_flop_per_s(t)
    on = (t.job.torch_attention > 0) & (new > 1) & (t.chip.compute_capability > 0) & (t.chip.cycles_per_s > 0)
    if not (on & (m.wide_all + m.wide_window > 0)).any():
        return np.zeros(1)
    by_cudnn = (t.chip.compute_capability == HOPPER) & (t.job.ampere_attention <= 0) & (t.job.train <= 0)
    masked = np.where(by_cudnn, 0.0, m.wide_window) * window_tokens(t, context, new)
    elements = m.wide_all * own_context(t, context) * (1 + m.encoder) + masked
    slow = np.minimum(rate, np.where(on, WIDE_FLOP_PER_CYCLE * t.chip.cycles_per_s, np.inf))
    return 2 * elements * (1 / slow - 1 / rate)


class AttentionTime(NamedTuple):
    """Seconds of attention in one layer, shape [rows]."""

    fused_s: Floats
    """Time of FLOPs and reads, which overlap."""
    eager_s: Floats
    """Additional time of scores that go through memory."""
    flop_s: Floats
    """Time of the FLOPs alone."""
    read_s: Floats
    """Time of the reads of the cache alone."""


def attention_time(t: Table, rows: Floats, context: Floats, new: Floats) -> AttentionTime:
    """Attention of one layer.

    The mean over the layers. A token takes 2·(queries + values) FLOP for each token it attends to, 4·q where all heads are equal; the
    cache is read once per pass. Scores that a window masks are computed all the same. Arguments as in `forward_pass.forward`.
    """
    m, j, s, c = t.model, t.job, t.layout, t.chip
    columns = scored_columns(t, context, new)
    hidden = hidden_elements(t, context, new) if j.masks_windows.any() else np.zeros(1)
    flop = (attention_flop(t, columns) + 2 * hidden) / m.layers
    flop_s = flop / s.tp * rows / forward_flop_per_s(t) * _latent_decoding(t, new)
    flop_s = flop_s + wide_heads_s(t, context, new) / m.layers / s.tp * rows
    heads = np.where(t.model.latent_rank > 0, 1.0, np.maximum(t.model.kv_heads, 1))
    heads_s = rows * heads * tensor_share(t, heads) * c.decode_head_s * (new <= 1)
    read_s = cache_bytes(t, rows, context, new) / c.decode_bandwidth_bytes_per_s + heads_s
    read_s = read_s * np.where(new <= 1, _step_reads(t), 1.0)
    eager_s = np.zeros(1)
    if j.eager_attention.any():
        seen = attended_tokens(t, columns) + hidden / (m.layers * m.attended)
        eager_s = j.eager_attention * rows * seen * m.heads / s.tp * score_bytes(t) / c.bandwidth_bytes_per_s
    return AttentionTime(soft_maximum(flop_s, read_s, c.knee), eager_s, flop_s, read_s)


def latent_s(t: Table, rows: Floats, new: Floats) -> Floats:
    """Seconds in which fused engines convert one layer's tokens to the latent and back, or make keys and values of it, apart from the products."""
    passes = np.where(new <= MOST_ABSORBED, ABSORBED_PASSES, EXPANDED_PASSES)
    fused = (t.engine.fused_elementwise > 0) & (t.job.train <= 0)
    return passes * rows * latent_elements(t, new) * t.job.activation_bytes / t.chip.bandwidth_bytes_per_s * fused


def append_s(t: Table, rows: Floats, context: Floats, new: Floats) -> Floats:
    """Seconds of one layer in which a decoding step copies keys and values to append a token; compiled caches have room, states stay in place."""
    if not t.engine.append_passes.any():
        return np.zeros(1)
    grows = (new <= 1) & (t.job.compiled <= 0)
    copied = cache_bytes(t, rows, context, new) - rows * STATE_READS * state_bytes(t) / t.model.layers
    return t.engine.append_passes * grows * copied / t.chip.bandwidth_bytes_per_s
