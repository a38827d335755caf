"""Families that mix attention with layers of constant state."""

from __future__ import annotations

from typing import Any

from planner.workload.block import Block
from planner.workload.huggingface.family import family
from planner.workload.huggingface.keys import ConfigKeys
from planner.workload.huggingface.linear import gated_delta
from planner.workload.huggingface.llama import qwen_experts
from planner.workload.huggingface.sizes import further_tokens, head_normed, line_sizes


def _gated_hybrid(keys: ConfigKeys, *, joined: bool, ffn: int | None = None) -> dict[str, Any]:
    """Attention whose output is gated, in every fourth layer or as `layer_types` says; gated DeltaNet in the others."""
    sizes = head_normed(line_sizes(keys, kv_heads=2, head_dim=256, biased=True, ffn=ffn))
    query, layers, kinds = sizes["heads"] * sizes["head_dim"], sizes["layers"], keys.items("layer_types")
    full = kinds.count("full_attention") if kinds else layers // keys.size("full_attention_interval", default=4)
    biases = sizes["attention_bias"] + query * keys.flag("attention_bias", default=False)
    linear = (gated_delta(keys, sizes["width"], layers - full, joined=joined),) if layers > full else ()
    further = further_tokens(keys, "mtp_num_hidden_layers", "num_nextn_predict_layers")
    return sizes | {"query_gate": query, "attention_bias": biases, "instead": linear} | further


def _shared(keys: ConfigKeys, sizes: dict[str, Any]) -> dict[str, Any]:
    return {"shared_ffn": keys.size("shared_expert_intermediate_size", default=512), "shared_gate": sizes["width"]}


@family("qwen3_next", Block(wide_norms=True))
def qwen3_next(keys: ConfigKeys) -> dict[str, Any]:
    """Experts in every `decoder_sparse_step`-th layer, a gated one that all tokens pass."""
    sizes = _gated_hybrid(keys, joined=True)
    return sizes | qwen_experts(keys) | _shared(keys, sizes)


@family("qwen3_5_text", Block(wide_norms=True))
def qwen3_5(keys: ConfigKeys) -> dict[str, Any]:
    """A dense MLP in every layer."""
    return _gated_hybrid(keys, joined=False)


@family("qwen3_5_moe_text", Block(wide_norms=True))
def qwen3_5_moe(keys: ConfigKeys) -> dict[str, Any]:
    """As qwen3_next, experts in every layer."""
    sizes = _gated_hybrid(keys, joined=False, ffn=keys.size("moe_intermediate_size"))
    return sizes | qwen_experts(keys) | _shared(keys, sizes)
