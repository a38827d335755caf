"""Numbers of a resolved workload: bytes per parameter, lengths in tokens, and flags as 0 or 1 so that they can be columns."""

from __future__ import annotations

from typing import Generic

import msgspec

from planner.engine.records.fields import N, default

BYTES_BY_KIND = ("linear_bytes", "mixing_bytes", "mlp_bytes", "expert_bytes", "dense_bytes", "other_bytes")
"""Names of the bytes of a stored parameter."""
STORED = {"attention": "mixing_bytes", "mlp": "mlp_bytes", "shared": "mlp_bytes", "experts": "expert_bytes", "head": "other_bytes"}
"""Group of products -> the name of the bytes of its weights."""


class StoredWeights(msgspec.Struct, Generic[N], frozen=True, kw_only=True):
    """Storage format of a model's weights."""

    linear_bytes: N
    """Bytes per stored parameter of linear layers, the mean of the three that follow and of what is beside them."""
    mixing_bytes: N
    """Bytes per stored parameter of attention and what is beside it; the next two are those of MLPs with shared experts, and of routed experts."""
    mlp_bytes: N
    expert_bytes: N
    dense_bytes: N
    """Bytes per stored parameter of all linear layers but routed experts."""
    other_bytes: N
    """Bytes per stored parameter of embedding, norms and head."""
    weight_bits_packed: N
    """1: linear weights are unpacked on the fly to the compute dtype."""
    unpack_host_s: N
    """Host time one product of packed weights adds in eager mode."""
    gptq: N
    """1: linear weights are in GPTQ's format."""
    bitsandbytes: N = default(0.0)
    """1: linear weights are in NF4 of bitsandbytes, whose own kernel unpacks them in every engine."""
    mxfp4_experts: N = default(0.0)
    """1: routed experts are in MXFP4."""


class JobNumbers(StoredWeights[N], frozen=True, kw_only=True):
    """Numbers of one resolved workload (`Job`), or columns of many; 0 if its task has none."""

    train: N
    engine_open: N = default(0.0)
    """1: trains, and no engine is named."""
    program_open: N = default(0.0)
    """1: trains by a named engine whose memory was not compared with published peaks."""
    adapters: N = default(0.0)
    """Parameters of the LoRA adapters; 0: every parameter is trained."""
    expert_adapters: N = default(0.0)
    """Parameters of the LoRA adapters of routed experts, of all experts together; part of `adapters`."""
    adapter_traffic: N = default(0.0)
    """Bytes that adapters move per token and layer in a forward pass, beside their own thin products."""
    adapter_products: N = default(0.0)
    """Products of a layer that have an adapter, the mean."""
    unpacked_bytes: N
    """Bytes moved to unpack one packed weight, beside reading it."""
    keeps_unpacked: N = default(0.0)
    """1: what is unpacked in forward stays for backward."""
    frozen_bytes: N = default(0.0)
    """Weights of reference, reward and draft models beside the model."""
    trained_beside: N = default(0.0)
    """Parameters of critics, which are trained beside the model."""
    draft_cached: N = default(0.0)
    """Elements of keys and values per token in draft models, all their layers."""
    adapter_bytes: N = default(0.0)
    """Adapters loaded for serving."""
    served_adapters: N = default(0.0)
    """How many."""
    draft_tokens: N = default(0.0)
    """Tokens a draft model proposes for each pass of the model; 0: no draft is timed."""
    acceptance: N = default(0.0)
    """Probability that a proposed token is accepted where those before it were."""
    kv_bytes: N = default(0.0)
    """Bytes of an element of the KV cache."""
    expert_imbalance: N = default(0.0)
    """Most loaded rank over the mean, by the workload; 0: not stated."""
    activation_bytes: N
    narrow_bytes: N
    """Bytes of an element the products compute in when that is below 16 bit; else 0."""
    gradient_bytes: N = default(0.0)
    """Per trained parameter, as the three that follow; of linear weights only, `cast_bytes`."""
    master_bytes: N = default(0.0)
    cast_bytes: N = default(0.0)
    """Autocast's copies."""
    state_bytes: N = default(0.0)
    """States of the optimizer."""
    state_traffic: N = default(0.0)
    """Bytes an optimizer step moves per trained parameter."""
    state_flop: N = default(0.0)
    """FLOP of its products per trained parameter."""
    autocast: N = default(0.0)
    eager_attention: N
    ampere_attention: N = default(0.0)
    """Fused attention runs kernels written for Ampere's tensor cores (FlashAttention 2, memory-efficient) on every part."""
    triton_attention: N = default(0.0)
    """Fused attention runs Triton's kernels on parts of AMD."""
    masks_windows: N = default(0.0)
    """A window is a mask over scores that are computed all the same, as no kernel that leaves them out takes a mask."""
    torch_attention: N = default(0.0)
    """Fused attention is by PyTorch's own kernels; few of them support wide heads or masks."""
    in_backward: N = default(0.0)
    """1: the optimizer steps inside backward, layer by layer."""
    offload_optimizer: N = default(0.0)
    offload_parameters: N = default(0.0)
    offload_activations: N = default(0.0)
    compiled: N

    predicts_tokens: N = default(1.0)
    """1: training multiplies every token with the vocabulary; 0: an encoder is tuned for another task, whose head is small."""
    sequence: N = default(0.0)
    rolls: N = default(0.0)
    """1: each optimizer step begins with answers that the model generates, as the nine that follow say."""
    answer_log_mean: N = default(0.0)
    """Mean and standard deviation of the logarithm of an answer's tokens."""
    answer_log_spread: N = default(0.0)
    rollout_answers: N = default(0.0)
    """Answers to each prompt."""
    rollout_steps: N = default(0.0)
    """Optimizer steps on one rollout."""
    rollout_tp: N = default(0.0)
    """GPUs of a copy that generates; 0: as in training."""
    rollout_share: N = default(0.0)
    """Share of the memory that the generating engine keeps; 0: it sleeps during updates."""
    rollout_gpus: N = default(0.0)
    """GPUs that generate alone; 0: those that train."""
    scored: N = default(0.0)
    """Forward passes over the answers beside the update, in those of the model."""
    critic_steps: N = default(0.0)
    """Updates of critics, in those of the model."""
    document_tokens: N = default(0.0)
    """Mean tokens of a document, cut at the sequence; 0: documents fill their sequences."""
    document_context: N = default(0.0)
    """Tokens that come before one of them in its own document, the mean."""
    document_log_mean: N = default(0.0)
    """Mean and standard deviation of the logarithm of a document's tokens before they are cut."""
    document_log_spread: N = default(0.0)
    one_document: N = default(0.0)
    """1: a sequence holds one document and padding."""
    to_longest: N = default(0.0)
    """1: and is no longer than the longest of its micro batch."""
    separate_documents: N = default(0.0)
    """1: attention stays inside documents that share a sequence."""
    global_batch: N = default(0.0)
    """Sequences per optimizer step; 0: one micro batch a rank."""
    input_tokens: N = default(0.0)
    output_tokens: N = default(0.0)
    prefix_tokens: N = default(0.0)
    prefixes: N = default(0.0)
    """Distinct prefixes that sequences share in the cache; 0: each has its own."""
    pictures: N = default(0.0)
    """Pictures of a prompt, and patches of each."""
    picture_patches: N = default(0.0)
    kv_offload: N = default(0.0)
    """1: prefixes are kept in the host's memory and read from there."""
    host_prefixes: N = default(0.0)
    """Distinct prefixes there; 0: not given."""
    serves: N = default(0.0)
    max_num_seqs: N = default(0.0)
    """Maximum number of requests in flight on a replica, and most tokens of an iteration; 0: the engine's own."""
    max_num_batched_tokens: N = default(0.0)
    uniform_loop: N = default(0.0)
    """Share of the rounds of a closed loop in which requests start and end together; 1: all are of one length."""
    memory_fraction: N
    """Share of the GPU the engine may take; 1: all of it."""
    headroom: N
    """Share of that which is left free."""
