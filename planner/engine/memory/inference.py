"""Memory of inference on the fullest GPU: weights, cache, and temporaries in whichever of three phases needs most.

The prompt passes its largest layer; its logits are made; the last token is appended to a full cache. Engines that own a
pool of blocks allocate the cache of whole requests at once, so only the first two differ for them.

Symbols: h width · f feed-forward width of the MLP or the experts a token passes.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import numpy as np

from planner.engine.columns import Floats, Table, added
from planner.engine.columns.limits import chunk_tokens
from planner.engine.memory.stages import (
    copied_experts,
    experts_held,
    linear_weights_bytes,
    stage_parameters,
    state_bytes,
    tensor_share,
)
from planner.engine.memory.terms import STORAGE_FORMAT, Term, at_peak

MLP_COPIES, RESIDUAL_COPIES, SCORE_BYTES = 6, 8, 4
"""Bytes per f and per h that a token needs in a layer in 16 bit: gate, up and their product; the residual stream, its norm, and attention's
output before and after projection; and bytes of one eager attention score and its softmax."""
WEIGHTS = "weights"
LOGIT_BYTES = 6
"""Bytes of 16-bit logits and the FP32 copy from which tokens are sampled."""


STATES_SHARE = 0.9 / 1.9
"""Share of the memory for caches that a separate pool of states has (SGLang: mamba_full_memory_ratio 0.9, states over keys and values)."""


def pool_bytes_per_sequence(t: Table, tokens: Floats) -> Floats:
    """Bytes that one sequence of `tokens` needs of the memory for caches on one GPU: its cache, or the larger of its shares of two pools.

    Where states of recurrences have a pool of their own (`Engine.state_slots`), a request has several states in it, and neither pool can
    use the free memory of the other. Where layers with a window have one (`Engine.window_share`), it has room for that share of the
    tokens of the other layers, however short the window is.
    """
    cache, states, slots = *_cache_parts(t, tokens, pools=True), t.engine.state_slots
    apart = (slots > 0) & (states > 0)
    return np.where(apart, np.maximum(cache / (1 - STATES_SHARE), slots * states / STATES_SHARE), cache + states)


def kv_bytes_per_sequence(t: Table, tokens: Floats) -> Floats:
    """Bytes of the cache of one sequence of `tokens` on one GPU, in whole blocks, and of its states."""
    cache, states = _cache_parts(t, tokens)
    return cache + states


def _cache_parts(t: Table, tokens: Floats, *, pools: bool = False) -> tuple[Floats, Floats]:
    """(bytes of keys and values of one sequence of `tokens` on one GPU, bytes of its states); with `pools`, of its share of each pool.

    Key and value heads are split over tp ranks, and repeated where there are more ranks than heads. The latent of MLA is on every rank;
    engines that expand it cache keys and values of all heads. States of recurrences have the same size at any length. Where an encoder
    reads the prompt, layers keep keys and values of its output, and their own only for the answer.
    """
    m, s = t.model, t.layout
    block = np.maximum(t.engine.cache_block_tokens, 1)
    whole = np.ceil(m.layers / s.pp) / m.layers
    encoded = m.cached_source * np.ceil(t.job.input_tokens / block) * block * tensor_share(t, m.cached_heads)
    tokens = np.where(m.reads_source > 0, np.maximum(tokens - t.job.input_tokens, 1.0), tokens)
    near = np.minimum(tokens, np.where(m.window > 0, m.window, tokens))
    share = t.engine.window_share * (m.cached_all > 0) * (m.cached_window > 0)
    if pools and share.any():
        apart = np.maximum(tokens, near / np.where(share > 0, share, 1.0))
        tokens, near = np.where(share > 0, apart, tokens), np.where(share > 0, share * apart, near)
    expands = (t.engine.expands_latent > 0) & (m.expanded > 0)
    cached, heads = np.where(expands, m.expanded, m.cached_all), np.where(expands, m.heads, m.cached_heads)
    every = cached * np.ceil(tokens / block) * block * tensor_share(t, heads)
    windowed = m.cached_window * np.ceil(near / block) * block * tensor_share(t, m.window_heads)
    return whole * (every + windowed + encoded) * t.job.kv_bytes / s.cp, whole * state_bytes(t)


def prefix_bytes(t: Table) -> Floats:
    """Bytes on one GPU of one prefix that sequences share; 0 if each has its own."""
    return np.where(t.job.prefixes > 0, cached_prefix_bytes(t), 0.0)


def cached_prefix_bytes(t: Table) -> Floats:
    """Bytes of the cache of one prefix for one GPU: its whole blocks in layers that attend to everything.

    Windows and states of recurrences belong to a single sequence.
    """
    m, s, j = t.model, t.layout, t.job
    block = np.maximum(t.engine.cache_block_tokens, 1)
    tokens = np.floor(j.prefix_tokens / block) * block
    share = tensor_share(t, m.cached_heads) / s.cp
    return np.ceil(m.layers / s.pp) / m.layers * m.cached_all * tokens * share * j.kv_bytes


class PromptPass(msgspec.Struct, frozen=True):
    """Largest forward pass over a prompt on one GPU."""

    tokens: Floats
    per_token: Floats
    """Bytes of its temporaries in its largest layer: 6f + 8h, scores where attention is eager, twice that in FP32."""

    @property
    def bytes(self) -> Floats:
        """Bytes of all tokens."""
        return self.tokens * self.per_token


def prompt_pass(t: Table) -> PromptPass:
    """Largest pass of every candidate; tensor parallelism splits the temporaries."""
    j, s, m = t.job, t.layout, t.prompts.model
    prompt = j.input_tokens - j.prefix_tokens
    whole = s.sequences * prompt
    chunk = chunk_tokens(t)
    longest = np.where(t.model.reads_source > 0, np.maximum(chunk, prompt), chunk)
    tokens = np.where(chunk > 0, np.minimum(whole, longest), whole) / s.cp
    wide = np.where(j.activation_bytes > 2, 2.0, 1.0)
    scores = SCORE_BYTES * m.heads * j.input_tokens * j.eager_attention
    return PromptPass(tokens, (MLP_COPIES * m.mean_ffn + RESIDUAL_COPIES * m.width + scores) / s.tp * wide)


class UnusedBlocks(msgspec.Struct, frozen=True):
    """Blocks that the allocator keeps in addition to what is alive at one moment."""

    cache: Floats
    """Bytes of the cache; `cache_slack` is the share that is left behind while it grows."""
    kept: Floats
    """Share of `left`."""
    left: Floats
    """Bytes of the largest layer's temporaries that are not alive; all of them where an engine frees none."""
    bytes: Floats


def unused_blocks(t: Table, terms: Iterable[Term], largest: PromptPass) -> UnusedBlocks:
    """Unused blocks of the allocator in addition to `terms`; `largest`: the largest pass over a prompt."""
    e, alive = t.engine, list(terms)
    cache, activations = (
        added([np.zeros(1), *(term.bytes for term in alive if term.component == name)]) for name in ("kv_cache", "activations")
    )
    temporaries = largest.bytes
    left = np.where(e.kept_activations > 0, np.maximum(0.0, temporaries - activations), temporaries)
    kept = np.where(e.kept_activations > 0, e.kept_activations, e.slack)
    return UnusedBlocks(cache, kept, left, e.cache_slack * cache + kept * left)


def inference_terms(t: Table) -> list[Term]:
    """Terms at the peak of serving or generating."""
    j, s, m, e = t.job, t.layout, t.model, t.engine
    largest = prompt_pass(t)
    tokens = largest.tokens
    wide = np.where(j.activation_bytes > 2, 2.0, 1.0)
    every = np.where((e.prompt_logits > 0) & (m.reads_source == 0), tokens, s.sequences)
    before = _cache(t, "keys and values of the prompt", j.input_tokens)
    after = _cache(t, "keys and values", j.input_tokens + j.output_tokens)
    first = [before.times(e.cache_grows), after.times(1 - e.cache_grows)]
    passing = Term(
        "activations",
        "the prompt in its largest layer",
        largest.bytes,
        "{tokens} tokens · {per_token} B each",
        {"tokens": tokens, "per_token": largest.per_token},
        f"{MLP_COPIES} B · feed-forward width (gate, up and product) + {RESIDUAL_COPIES} B · width (residual stream and norm), and eager scores",
    )
    prompt_logits = Term(
        "logits",
        "logits of the prompt's pass",
        every * m.vocabulary * LOGIT_BYTES / s.tp * wide,
        "{tokens} tokens · {vocabulary} logits · {bytes} B ÷ {tp} ranks",
        {"tokens": every, "vocabulary": m.vocabulary, "bytes": LOGIT_BYTES * wide, "tp": s.tp},
        "16 bit and their FP32 copy",
    )
    hidden = Term(
        "activations",
        "the prompt after its last layer",
        2 * tokens * m.width * wide,
        "{tokens} tokens · {width} elements · {bytes} B",
        {"tokens": tokens, "width": m.width, "bytes": 2 * wide},
        "the residual stream",
    )
    next_logits = Term(
        "logits",
        "logits of the next token",
        s.sequences * m.vocabulary * LOGIT_BYTES / s.tp * wide,
        "{sequences} sequences · {vocabulary} logits · {bytes} B ÷ {tp} ranks",
        {"sequences": s.sequences, "vocabulary": m.vocabulary, "bytes": LOGIT_BYTES * wide, "tp": s.tp},
        "16 bit and their FP32 copy for sampling",
    )
    layers = np.ceil(m.layers / s.pp)
    copied = Term(
        "buffers",
        "caches that stand twice while a token is appended",
        after.bytes * np.minimum(e.copied_layers, layers) / layers,
        "{cache:bytes} · {copied} ÷ {layers} layers",
        {"cache": after.bytes, "copied": np.minimum(e.copied_layers, layers), "layers": layers},
        "torch.cat of the old cache and the new token",
    )
    phases = [[*first, passing], [*first, hidden, prompt_logits]]
    if np.any(j.output_tokens > 1):
        decoding = np.broadcast_to((j.output_tokens > 1) * 1.0, (t.rows,))
        phases.append([term.times(decoding) for term in (after, copied, next_logits, _copied_experts(t))])
    always = [
        _weights(t),
        _padded_experts(t),
        _gptq_scratch(t),
        _permuted_tokens(t, largest),
        _shared_prefixes(t),
        _encoder_output(t),
    ]
    beside = [unused_blocks(t, [*always, *phase], largest).bytes for phase in phases]
    return [*always, *at_peak(phases, beside, t.rows)]


def _padded_experts(t: Table) -> Term:
    """Padding of experts in MXFP4 whose widths are not multiples of what the kernels need: gpt-oss has 2,880 for both."""
    m, s, multiple = t.model, t.layout, np.maximum(t.engine.mxfp4_multiple, 1.0)
    inner, width = m.expert_ffn * s.ep / s.expert_gpus, m.expert_width
    padded = np.ceil(inner / multiple) * multiple * np.ceil(width / (2 * multiple)) * 2 * multiple
    share = (
        np.where((t.engine.mxfp4_multiple > 0) & (m.experts > 0), padded / np.maximum(inner * width, 1.0) - 1, 0.0)
        * t.job.mxfp4_experts
    )
    held = experts_held(t) * t.job.expert_bytes
    return Term(
        "weights",
        "experts padded for their kernels",
        held * share,
        "{held:bytes} of experts · {share:percent}",
        {"held": held, "share": share},
        "widths a multiple of 256, inner widths of 128 (Marlin's in vLLM: mxfp4.py, create_weights)",
    )


def _copied_experts(t: Table) -> Term:
    m, sequences = t.model, t.layout.sequences
    copied = copied_experts(t, sequences) * t.job.activation_bytes
    each = copied / np.maximum(sequences * m.experts_per_token, 1.0)
    return Term(
        "buffers",
        "copies of the experts of each token",
        copied,
        "{sequences} sequences · {experts} experts · {each} B",
        {"sequences": sequences, "experts": m.experts_per_token, "each": each},
        "decoding multiplies with copied weights (transformers, generation/utils.py: _optimize_model_for_decode, batched_mm)",
    )


def _gptq_scratch(t: Table) -> Term:
    m, tokens = t.model, t.engine.gptq_scratch_tokens
    widest = np.maximum(np.maximum(m.ffn, m.expert_ffn), m.width)
    return Term(
        "buffers",
        "scratch of the GPTQ kernels",
        4 * tokens * widest / t.layout.tp * t.job.gptq,
        "{tokens} tokens · {widest} outputs · 4 B ÷ {tp} ranks",
        {"tokens": tokens, "widest": widest, "tp": t.layout.tp},
        "AutoGPTQ's scratch_space: FP32 outputs of 2,048 tokens of 8 sequences",
    )


def _permuted_tokens(t: Table, largest: PromptPass) -> Term:
    """Buffers of kernels that gather the tokens of an expert: a copy of each token for every expert it may go to, as all may be on one rank."""
    m, j, s = t.model, t.job, t.layout
    permutes = t.engine.permutes_tokens * (m.experts > 0)
    read = np.where(j.narrow_bytes > 0, j.narrow_bytes, 2.0)
    each = (read + 2) * m.expert_width + (4 + read) * m.expert_ffn * s.ep / s.expert_gpus
    copies = largest.tokens * s.expert_streams * m.experts_per_token
    return Term(
        "buffers",
        "tokens brought together for their experts",
        copies * each * permutes,
        "{tokens} tokens · {ranks} ranks · {experts} experts · {each} B",
        {"tokens": largest.tokens, "ranks": s.expert_streams, "experts": m.experts_per_token, "each": each},
        "inputs and outputs of both products (TensorRT-LLM: getWorkspaceSize of its CUTLASS kernels, for max_num_tokens of all ranks)",
    )


def _encoder_output(t: Table) -> Term:
    m, tokens = t.model, t.layout.sequences * t.job.input_tokens
    wide = np.where(t.job.activation_bytes > 2, 4.0, 2.0)
    return Term(
        "buffers",
        "the encoder's output",
        tokens * m.width * wide * m.reads_source * t.engine.cache_grows,
        "{tokens} tokens · {width} elements · {bytes} B",
        {"tokens": tokens, "width": m.width, "bytes": wide},
        "transformers hands it to every decoding step (generate: encoder_outputs)",
    )


def _shared_prefixes(t: Table) -> Term:
    each = prefix_bytes(t)
    return Term(
        "kv_cache",
        "keys and values of shared prefixes",
        t.job.prefixes * each,
        "{prefixes} prefixes · {each} B each",
        {"prefixes": t.job.prefixes, "each": each},
        "whole blocks, which sequences with the same prefix share",
    )


def _weights(t: Table) -> Term:
    j, stage, held = t.job, stage_parameters(t), linear_weights_bytes(t)
    return Term(
        "weights",
        WEIGHTS,
        held + stage.other * j.other_bytes,
        "{linear} linear parameters · {linear_bytes} B + {other} others · {other_bytes} B",
        {"linear": stage.linear, "linear_bytes": held / stage.linear, "other": stage.other, "other_bytes": j.other_bytes},
        STORAGE_FORMAT,
    )


def _cache(t: Table, name: str, tokens: Floats) -> Term:
    per_sequence = pool_bytes_per_sequence(t, tokens) - prefix_bytes(t)
    return Term(
        "kv_cache",
        name,
        per_sequence * t.layout.sequences,
        "{sequences} sequences · {per_sequence} B each",
        {"sequences": t.layout.sequences, "per_sequence": per_sequence},
        "two tensors a layer, kv_heads · head_dim a token",
    )
