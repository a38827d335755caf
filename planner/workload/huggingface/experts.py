"""Families of 2025 and 2026 with experts in most layers: MiniMax M2, GLM 4.5 to 5, Kimi K2, DeepSeek V3.2, Llama 4."""

from __future__ import annotations

from typing import Any

from planner.workload.block import Block
from planner.workload.huggingface.family import family
from planner.workload.huggingface.keys import ConfigKeys
from planner.workload.huggingface.sizes import further_tokens, head_normed, latent, line_sizes, projected, routed, windowed
from planner.workload.sublayers import Attending, Sublayer


@family("minimax_m2")
def minimax_m2(keys: ConfigKeys) -> dict[str, Any]:
    """q/k norms over the whole projection; experts in every layer, with corrections of the router."""
    sizes = line_sizes(keys)
    norm = (sizes["heads"] + sizes["kv_heads"]) * sizes["head_dim"]
    experts = routed(keys, experts="num_local_experts", inner="intermediate_size", corrected=True)
    return sizes | experts | {"attention_norm": norm} | further_tokens(keys, "num_mtp_modules")


@family("glm4_moe", Block(wide_router=True))
def glm4_moe(keys: ConfigKeys) -> dict[str, Any]:
    """GLM 4.5 to 4.7: biases of query, key and value, and q/k norms over the head, where asked for."""
    sizes = line_sizes(keys, whole=False)
    if keys.flag("use_qk_norm", default=False):
        sizes = head_normed(sizes)
    experts = routed(keys, shared="n_shared_experts", dense=1, corrected=True)
    biases = projected(sizes) * keys.flag("attention_bias", default=False)
    return sizes | experts | {"attention_bias": biases} | further_tokens(keys, "num_nextn_predict_layers")


@family("deepseek_v32", Block(wide_router=True))
@family("glm_moe_dsa", Block(wide_router=True))
def sparse_latent(keys: ConfigKeys) -> dict[str, Any]:
    """DeepSeek V3.2 and GLM 5: latent attention to the tokens that an index of every token chooses.

    GLM 5 lets a layer use the choice of an earlier one (`indexer_types`).
    """
    sizes = latent(keys, first_dense=3, shared=1)
    heads, dim, width = keys.size("index_n_heads", default=64), keys.size("index_head_dim", default=128), sizes["width"]
    kinds = keys.items("indexer_types")
    layers = sum(kind == "full" for kind in kinds) if kinds else sizes["layers"]
    index = Sublayer(
        part="attention",
        layers=layers,
        matrices=(("index", sizes["query_rank"], heads * dim), ("index_key", width, dim), ("index_weights", width, heads)),
        norm=2 * dim,
        attending=(Attending(layers=layers, heads=heads, score_dim=dim, value_dim=1, cached=dim, read=dim),),
    )
    further = {"router_vector": sizes["experts"], "chosen": keys.size("index_topk", default=2048), "beside": (index,)}
    return sizes | further | further_tokens(keys, "num_nextn_predict_layers")


@family("llama4_text")
def llama4(keys: ConfigKeys) -> dict[str, Any]:
    """Chunked attention but in every fourth layer; experts in every `interleave_moe_layer_step`-th, and one that all tokens pass."""
    sizes = line_sizes(keys, kv_heads=8, head_dim=128, biased=True)
    layers, step = sizes["layers"], keys.size("interleave_moe_layer_step", default=1)
    listed = keys.items("moe_layers")
    sparse = len(listed) if listed else layers // step
    dense, rope = keys.size("intermediate_size_mlp", default=16384), keys.items("no_rope_layers")
    chunked = sum(map(bool, rope)) if rope else layers - layers // keys.size("no_rope_layer_interval", default=4)
    experts = routed(keys, experts="num_local_experts", inner="intermediate_size")
    sizes = windowed(keys, sizes, keys.count("attention_chunk_size", absent=8192), chunked)
    return sizes | experts | {"ffn": dense, "dense_layers": layers - sparse, "shared_ffn": experts["expert_ffn"]}
