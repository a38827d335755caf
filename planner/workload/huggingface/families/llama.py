"""Families of the Llama line: RMSNorm, rotary positions, a gated MLP, grouped key/value heads."""

from __future__ import annotations

from typing import Any

from planner.workload.block import Block
from planner.workload.huggingface.keys import ConfigKeys, family
from planner.workload.huggingface.sizes import head_normed, latent, line_sizes, projected, qwen_windowed, windowed
from planner.workload.sublayers import Sublayer, gated_mlp


@family("llama")
def llama(keys: ConfigKeys) -> dict[str, Any]:
    """Llama 1 to 3 and models built like them."""
    sizes = line_sizes(keys, biased=True)
    biases = keys.flag("mlp_bias", default=False)
    return sizes | {"mlp_vector": (2 * sizes["ffn"] + sizes["width"]) * biases}


@family("mixtral")
def mixtral(keys: ConfigKeys) -> dict[str, Any]:
    """Experts in every layer."""
    sizes = line_sizes(keys, kv_heads=8)
    sizes = windowed(keys, sizes, keys.count("sliding_window"), sizes["layers"])
    return sizes | {
        "dense_layers": 0,
        "experts": keys.size("num_local_experts", default=8),
        "experts_per_token": keys.size("num_experts_per_tok", default=2),
        "expert_ffn": sizes["ffn"],
    }


@family("qwen")
def qwen(keys: ConfigKeys) -> dict[str, Any]:
    """Qwen 1, whose code comes with its checkpoint: one matrix for query, key and value, always with a bias.

    `intermediate_size` covers gate and up together; `no_bias` concerns the other projections.
    """
    sizes = line_sizes(keys)
    channels, both = keys.size("kv_channels", default=128), keys.size("intermediate_size")
    width, ffn = sizes["width"], both // 2
    if both % 2:
        keys.reject("intermediate_size", f"{both} is odd; it is the width of gate and up together.")
    query = sizes["heads"] * channels
    if query != width:
        keys.reject("kv_channels", f"{channels} times num_attention_heads = {sizes['heads']} is not hidden_size = {width}.")
    biases = not keys.flag("no_bias", default=True)
    return sizes | {
        "kv_heads": sizes["heads"],
        "head_dim": channels,
        "ffn": ffn,
        "max_context": keys.count("max_position_embeddings") or keys.count("seq_length") or None,
        "fused_qkv": True,
        "attention_bias": 3 * query + width * biases,
        "mlp_vector": (2 * ffn + width) * biases,
    }


@family("qwen2")
def qwen2(keys: ConfigKeys) -> dict[str, Any]:
    """Biases of query, key and value."""
    sizes = qwen_windowed(keys, line_sizes(keys, kv_heads=32))
    return sizes | {"attention_bias": projected(sizes)}


@family("qwen2_moe")
def qwen2_moe(keys: ConfigKeys) -> dict[str, Any]:
    """Same as qwen2, with experts, one of them shared and gated."""
    sizes = qwen_windowed(keys, line_sizes(keys, kv_heads=16))
    return {
        **sizes,
        **qwen_experts(keys),
        "attention_bias": projected(sizes) * keys.flag("qkv_bias", default=True),
        "shared_ffn": keys.size("shared_expert_intermediate_size", default=5632),
        "shared_gate": sizes["width"],
    }


@family("qwen3")
def qwen3(keys: ConfigKeys) -> dict[str, Any]:
    """q/k norms over the head."""
    return qwen_windowed(keys, head_normed(line_sizes(keys, kv_heads=32, head_dim=128, biased=True)))


@family("qwen3_moe")
def qwen3_moe(keys: ConfigKeys) -> dict[str, Any]:
    """Same as qwen3, with experts."""
    sizes = head_normed(line_sizes(keys, kv_heads=4, biased=True))
    window = keys.count("sliding_window", absent=4096) if keys.flag("use_sliding_window", default=False) else 0
    return windowed(keys, sizes, window, sizes["layers"]) | qwen_experts(keys)


def qwen_experts(keys: ConfigKeys) -> dict[str, Any]:
    """Every `decoder_sparse_step`-th layer has experts, except those of `mlp_only_layers`."""
    layers, step = keys.size("num_hidden_layers"), keys.size("decoder_sparse_step", default=1)
    plain = keys.items("mlp_only_layers")
    sparse = sum(1 for layer in range(layers) if layer not in plain and (layer + 1) % step == 0)
    return {
        "dense_layers": layers - sparse,
        "experts": keys.size("num_experts", "num_local_experts"),
        "experts_per_token": keys.size("num_experts_per_tok"),
        "expert_ffn": keys.size("moe_intermediate_size"),
    }


@family("phi3", Block(joined_rotary=True, fused_gate=True))
def phi3(keys: ConfigKeys) -> dict[str, Any]:
    """Phi 3 and 4."""
    sizes = line_sizes(keys) | {"fused_qkv": True, "fused_gate_up": True}
    return windowed(keys, sizes, keys.count("sliding_window"), sizes["layers"])


@family("gemma2", Block(wide_norms=True, branch_norms=True, capped_scores=True, capped_logits=True), eager_attention=True)
def gemma2(keys: ConfigKeys) -> dict[str, Any]:
    """Four norms a layer; every other layer is windowed, the first of them too."""
    sizes = _gemma(keys)
    return windowed(keys, sizes, keys.count("sliding_window", absent=4096), (sizes["layers"] + 1) // 2)


@family("gemma3_text", Block(wide_norms=True, branch_norms=True))
def gemma3(keys: ConfigKeys) -> dict[str, Any]:
    """Same as gemma2, with q/k norms over the head; one layer in `sliding_window_pattern` attends to everything.

    A published `gemma3` wrapper names few sizes: the library's defaults are those of 4B.
    """
    sizes = head_normed(_gemma(keys, heads=8, vocabulary=262208))
    pattern = keys.size("sliding_window_pattern", "_sliding_window_pattern", default=6)
    return windowed(keys, sizes, keys.count("sliding_window", absent=4096), sizes["layers"] - sizes["layers"] // pattern)


def _gemma(keys: ConfigKeys, *, heads: int | None = None, vocabulary: int | None = None) -> dict[str, Any]:
    sizes = line_sizes(keys, tied=True, heads=heads, kv_heads=4, head_dim=256, vocabulary=vocabulary, biased=True)
    return sizes | {"norms": 4}


@family(
    "gpt_oss", Block(wide_norms=True, joined_rotary=True, narrow_softmax=True, sinks=True, clamped_gate=True), eager_attention=True
)
def gpt_oss(keys: ConfigKeys) -> dict[str, Any]:
    """Biases of projections, router and experts, a learned sink per head; every other layer is windowed."""
    sizes = line_sizes(keys, kv_heads=8, head_dim=64)
    width, experts = sizes["width"], keys.size("num_local_experts")
    biases = projected(sizes) + width
    return windowed(keys, sizes, keys.count("sliding_window", absent=128), (sizes["layers"] + 1) // 2) | {
        "attention_bias": biases * keys.flag("attention_bias", default=True),
        "sinks": sizes["heads"],
        "dense_layers": 0,
        "experts": experts,
        "experts_per_token": keys.size("num_experts_per_tok", "experts_per_token"),
        "expert_ffn": sizes["ffn"],
        "expert_vector": 2 * sizes["ffn"] + width,
        "router_vector": experts,
    }


@family("deepseek_v2", Block(wide_router=True))
def deepseek_v2(keys: ConfigKeys) -> dict[str, Any]:
    """DeepSeek V2 and V2 Lite (whose query is not compressed)."""
    return latent(keys, first_dense=0, shared=2)


@family("deepseek_v3", Block(wide_router=True))
@family("kimi_k2", Block(wide_router=True))
def deepseek_v3(keys: ConfigKeys) -> dict[str, Any]:
    """DeepSeek V3 and R1: a correction in the checkpoint for each expert; layers that predict further tokens are separate."""
    return latent(keys, first_dense=3, shared=1, corrected=True)


@family("mllama_text_model")
def mllama(keys: ConfigKeys) -> dict[str, Any]:
    """Llama 3.2 Vision: layers that attend to pictures between Llama's, skipped by text; eight additional rows of embedding."""
    named = keys.items("cross_attention_layers")
    crossing = len({one for one in named if isinstance(one, int)})
    sizes = line_sizes(keys)
    layers = sizes["layers"] - crossing
    if layers < 1:
        keys.reject("cross_attention_layers", f"names {crossing} layers; num_hidden_layers is {sizes['layers']}.")
    width, dim = sizes["width"], sizes["head_dim"]
    query, key = sizes["heads"] * dim, sizes["kv_heads"] * dim
    between = Sublayer(
        part="attention",
        layers=0,
        stored=crossing,
        matrices=(("q", width, query), ("k", width, key), ("v", width, key), ("o", query, width)),
        other=2,
        norm=2 * dim + 2 * width,
    )
    mlp = Sublayer(part="mlp", layers=0, stored=crossing, matrices=gated_mlp(width, sizes["ffn"]))
    usable = max(1, layers)
    return sizes | {"layers": usable, "dense_layers": usable, "per_layer_embedding": 8 * width, "beside": (between, mlp)}
