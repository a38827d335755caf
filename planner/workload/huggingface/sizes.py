"""Sizes shared by many families of the Llama line: RMSNorm, rotary positions, a gated MLP, grouped key/value heads."""

from __future__ import annotations

from typing import Any

from planner.workload.huggingface.keys import ConfigKeys
from planner.workload.sublayers import Matrices, Sublayer

WINDOWED = ("sliding_attention", "chunked_attention")
"""Values of `layer_types` for layers that attend to a window or to chunks; the widest window counts."""


def line_sizes(
    keys: ConfigKeys,
    *,
    tied: bool = False,
    heads: int | None = None,
    kv_heads: int | None = None,
    head_dim: int | None = None,
    vocabulary: int | None = None,
    biased: bool = False,
    whole: bool = True,
    ffn: int | None = None,
    layers: int | None = None,
) -> dict[str, Any]:
    """Sizes that the line shares; a norm is one vector of the width, two per layer and one at the end.

    `heads`, `kv_heads`, `head_dim`, `vocabulary`: the library's defaults for missing keys; None: the config must have the key, or
    for the second and third: one key head per query head, and the width divided by the heads.
    `biased`: the config may set biases of all four projections. `whole`: the heads have to divide the width.
    `ffn`, `layers`: the inner width and the depth where the config has them under other names.
    """
    width, layers = keys.size("hidden_size"), layers or keys.size("num_hidden_layers")
    heads = keys.size("num_attention_heads", default=heads)
    groups = keys.size_or_none("num_key_value_heads", absent=kv_heads) or heads
    dim = keys.size_or_none("head_dim", absent=head_dim)
    if dim is None and width % heads and whole:
        keys.reject("num_attention_heads", f"{heads} does not divide hidden_size = {width}, and head_dim is not given.")
    dim = dim or max(1, width // heads)
    query, key = heads * dim, groups * dim
    biases = biased and keys.flag("attention_bias", default=False)
    return {
        "layers": layers,
        "width": width,
        "heads": heads,
        "kv_heads": groups,
        "head_dim": dim,
        "ffn": ffn or keys.size("intermediate_size"),
        "gated": True,
        "vocabulary": keys.size("vocab_size", default=vocabulary),
        "tied": keys.flag("tie_word_embeddings", default=tied),
        "rotary": True,
        "max_context": keys.count("max_position_embeddings") or None,
        "attention_bias": (query + 2 * key + width) * biases,
        "norm_parameters": width,
        "dense_layers": layers,
    }


def projected(sizes: dict[str, Any]) -> int:
    """Elements of the query, key and value of one token, which is the size of the biases of their projections."""
    projected: int = (sizes["heads"] + 2 * sizes["kv_heads"]) * sizes["head_dim"]
    return projected


def windowed(keys: ConfigKeys, sizes: dict[str, Any], window: int, otherwise: int) -> dict[str, Any]:
    """`sizes` where the layers named in `layer_types`, or `otherwise` many, attend to `window` tokens (0: none)."""
    kinds = keys.items("layer_types")
    layers = sum(kind in WINDOWED for kind in kinds) if kinds else max(0, otherwise)
    return sizes | {"window": window, "windowed_layers": layers} if window and layers else sizes


def qwen_windowed(keys: ConfigKeys, sizes: dict[str, Any]) -> dict[str, Any]:
    """Windows only where they are switched on, from layer `max_window_layers`."""
    window = keys.count("sliding_window", absent=4096) if keys.flag("use_sliding_window", default=False) else 0
    return windowed(keys, sizes, window, sizes["layers"] - keys.count("max_window_layers", absent=28))


def head_normed(sizes: dict[str, Any]) -> dict[str, Any]:
    """`sizes` with norms of query and key over the head."""
    return sizes | {"attention_norm": 2 * sizes["head_dim"]}


def latent_sizes(keys: ConfigKeys, *, tied: bool = False, query_rank: int = 1536, **further: Any) -> dict[str, Any]:
    """Multi-head latent attention: the cache holds one compressed vector and one rotary key per token.

    `query_rank`: width of the compressed query where the config has no such key. `further`: see `line_sizes`.
    """
    plain, rotary = keys.size("qk_nope_head_dim"), keys.size("qk_rope_head_dim")
    value, rank, query_rank = keys.size("v_head_dim"), keys.size("kv_lora_rank"), keys.count("q_lora_rank", absent=query_rank)
    sizes = line_sizes(keys, tied=tied, head_dim=plain + rotary, **further)
    biases = (query_rank + rank + rotary + sizes["width"]) * keys.flag("attention_bias", default=False)
    return sizes | {
        "kv_heads": sizes["heads"],
        "head_dim": plain + rotary,
        "attention_bias": biases,
        "attention_norm": query_rank + rank,
        "latent_rank": rank,
        "query_rank": query_rank,
        "rotary_dim": rotary,
        "value_dim": value,
    }


def latent(keys: ConfigKeys, *, first_dense: int, shared: int, corrected: bool = False) -> dict[str, Any]:
    """Latent attention and the experts of DeepSeek."""
    experts = routed(keys, shared="n_shared_experts", dense=first_dense, corrected=corrected)
    return latent_sizes(keys) | experts | {"shared_ffn": keys.count("n_shared_experts", absent=shared) * experts["expert_ffn"]}


def routed(
    keys: ConfigKeys,
    *,
    experts: str = "n_routed_experts",
    top_k: str = "num_experts_per_tok",
    inner: str = "moe_intermediate_size",
    shared: str = "",
    dense: int | None = None,
    corrected: bool = False,
) -> dict[str, Any]:
    """Sizes of routed experts, by the keys of their number, their number per token, their width, and the shared ones.

    `dense`: layers without experts where the config has no `first_k_dense_replace`; None: the family has no such key.
    `corrected`: the router has a correction for each expert.
    """
    number, width = keys.size(experts), keys.size(inner)
    return {
        "dense_layers": 0 if dense is None else keys.count("first_k_dense_replace", absent=dense),
        "experts": number,
        "experts_per_token": keys.size(top_k),
        "expert_ffn": width,
        "shared_ffn": keys.count(shared, absent=1) * width if shared else 0,
        "router_vector": number * corrected,
    }


def narrowed(width: int, inner: int, layers: int, biased: bool = False, norm: int = 0) -> dict[str, Any]:
    """Routed experts of `layers` layers that read and return `inner` elements of a token (0: all): two projections and a norm."""
    if not inner:
        return {}
    matrices: Matrices = (("other", width, inner), ("other", inner, width))
    projections = Sublayer(part="mlp", layers=layers, matrices=matrices, bias=(inner + width) * biased, norm=norm)
    return {"narrowed": inner, "beside": (projections,)}
