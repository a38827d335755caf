"""Families of 2025 and 2026 with experts in most layers: GLM 4.5 to 5, Kimi K2, DeepSeek V3.2, A.X K2, Llama 4."""

from __future__ import annotations

from typing import Any

from planner.workload.block import Block
from planner.workload.huggingface.families.compressed import hyper_connections
from planner.workload.huggingface.keys import ConfigKeys, family
from planner.workload.huggingface.sizes import head_normed, latent, latent_sizes, line_sizes, projected, routed, windowed
from planner.workload.sublayers import AttendsTo, AttentionGroup, Sublayer, gated_mlp, projected_attention


@family("glm4_moe", Block(wide_router=True, joined_rotary=True))
def glm4_moe(keys: ConfigKeys) -> dict[str, Any]:
    """GLM 4.5 to 4.7: biases of query, key and value, and q/k norms over the head, where asked for."""
    sizes = line_sizes(keys, whole=False)
    if keys.flag("use_qk_norm", default=False):
        sizes = head_normed(sizes)
    experts = routed(keys, shared="n_shared_experts", dense=1, corrected=True)
    biases = projected(sizes) * keys.flag("attention_bias", default=False)
    return sizes | experts | {"attention_bias": biases}


@family("deepseek_v32", Block(wide_router=True))
@family("glm_moe_dsa", Block(wide_router=True))
def sparse_latent(keys: ConfigKeys) -> dict[str, Any]:
    """DeepSeek V3.2 and GLM 5: latent attention to the tokens chosen by an index of every token.

    GLM 5 lets a layer use the choice of an earlier one (`indexer_types`).
    """
    sizes = latent(keys, first_dense=3, shared=1, corrected=True)
    heads, dim, width = keys.size("index_n_heads", default=64), keys.size("index_head_dim", default=128), sizes["width"]
    kinds = keys.items("indexer_types")
    layers = sum(kind == "full" for kind in kinds) if kinds else sizes["layers"]
    index = Sublayer(
        part="attention",
        layers=layers,
        matrices=(("index", sizes["query_rank"], heads * dim), ("index_key", width, dim), ("index_weights", width, heads)),
        norm=2 * dim,
        attending=(AttentionGroup(layers=layers, heads=heads, score_dim=dim, value_dim=1, cached=dim, read=dim),),
    )
    if dense := keys.items("mlp_layer_types"):
        sizes["dense_layers"] = dense.count("dense")
    return sizes | {"chosen": keys.size("index_topk", default=2048), "beside": (index,)}


@family("axk2", Block(wide_router=True))
def axk2(keys: ConfigKeys) -> dict[str, Any]:
    """A.X K2: as DeepSeek V3.2, with a gate of attention's output in the query's product, and norms with a gate from a narrow product."""
    sizes = sparse_latent(keys.also(index_n_heads=keys.size("index_n_heads", default=16)))
    layers, width, rank = sizes["layers"], sizes["width"], keys.size("gated_norm_rank", default=16)
    gates = Sublayer(
        part="mlp", layers=2 * layers - sizes["dense_layers"], matrices=(("other", width, rank), ("other", rank, width))
    )
    return sizes | {"query_gate": sizes["heads"] * sizes["value_dim"], "beside": (*sizes["beside"], gates)}


@family("hy_v4", Block(wide_router=True, sinks=True))
def hy_v4(keys: ConfigKeys) -> dict[str, Any]:
    """Same as GLM 5, with sinks, a gate of attention's output and a residual stream in copies."""
    sizes = sparse_latent(keys)
    layers, width, heads = sizes["layers"], sizes["width"], sizes["heads"]
    gate = Sublayer(part="attention", layers=layers, matrices=(("other", width, heads * sizes["value_dim"]),))
    copies = hyper_connections(width, layers, keys.size("hc_mult", default=4), mixed=False)
    return sizes | {"sinks": heads, "beside": (*sizes["beside"], gate, *copies)}


@family("llama4_text")
def llama4(keys: ConfigKeys) -> dict[str, Any]:
    """Chunked attention except in every fourth layer; experts, one of them shared, in every `interleave_moe_layer_step`-th."""
    sizes = line_sizes(keys, kv_heads=8, head_dim=128, biased=True)
    layers, step = sizes["layers"], keys.size("interleave_moe_layer_step", default=1)
    listed = keys.items("moe_layers")
    sparse = len(listed) if listed else layers // step
    dense, rope = keys.size("intermediate_size_mlp", default=16384), keys.items("no_rope_layers")
    chunked = sum(map(bool, rope)) if rope else layers - layers // keys.size("no_rope_layer_interval", default=4)
    experts = routed(keys, experts="num_local_experts", inner="intermediate_size")
    sizes = windowed(keys, sizes, keys.count("attention_chunk_size", absent=8192), chunked)
    return sizes | experts | {"ffn": dense, "dense_layers": layers - sparse, "shared_ffn": experts["expert_ffn"]}


@family("ernie4_5_moe", Block(wide_router=True))
def ernie4_5_moe(keys: ConfigKeys) -> dict[str, Any]:
    """ERNIE 4.5: experts in the layers from `moe_layer_start_index` to `moe_layer_end_index`, and some that all tokens pass."""
    sizes = line_sizes(keys, tied=True, kv_heads=4)
    layers, every = sizes["layers"], keys.size("moe_layer_interval", default=1)
    start, end = keys.count("moe_layer_start_index", absent=1), keys.value("moe_layer_end_index")
    last = end if isinstance(end, int) and 0 <= end < layers else layers - 1
    sparse = sum((layer + 1) % every == 0 for layer in range(start, last + 1))
    experts = routed(keys, experts="moe_num_experts", top_k="moe_k", shared="moe_num_shared_experts", corrected=True)
    biased = keys.flag("use_bias", default=False)
    return (
        sizes
        | experts
        | {
            "attention_bias": (projected(sizes) + sizes["width"]) * biased,
            "mlp_vector": (2 * sizes["ffn"] + sizes["width"]) * biased,
            "dense_layers": layers - sparse,
        }
    )


@family("minimax_m3_vl_text", Block(wide_norms=True, clamped_gate=True))
def minimax_m3(keys: ConfigKeys) -> dict[str, Any]:
    """q/k norms over the head; layers called sparse choose blocks of tokens by an index of few heads."""
    given = keys.value("sparse_attention_config")
    index = given if isinstance(given, dict) else {}
    sizes = head_normed(line_sizes(keys, kv_heads=4, head_dim=128, ffn=keys.size("dense_intermediate_size", default=12288)))
    width, dim, kinds, listed = sizes["width"], sizes["head_dim"], keys.items("layer_types"), index.get("sparse_attention_freq")
    choosing = kinds.count("minimax_m3_sparse") if kinds else sum(map(bool, listed)) if isinstance(listed, list) else 0
    named = keys.also(**{f"index_{name}": index[old] for name, old in _INDEX.items() if old in index})
    heads, inner = named.size("index_n_heads", default=4), named.size("index_head_dim", default=128)
    blocks = named.size("index_topk_blocks", default=16) + named.count("index_local_blocks", absent=1)
    sparse = projected_attention(
        width,
        AttentionGroup.scored(choosing, sizes["heads"], sizes["kv_heads"], dim, attends_to="chosen"),
        further=(("index", width, heads * inner), ("index_key", width, inner)),
        also=(AttentionGroup(layers=choosing, heads=heads, score_dim=inner, cached=inner, read=inner),),
        norm=2 * (dim + inner),
    )
    chosen = named.size("index_block_size", default=128) * blocks
    choice = {"chosen": chosen, "instead": (sparse,)} if choosing else {}
    frequency, listed = keys.items("moe_layer_freq"), keys.items("mlp_layer_types")
    experts = routed(keys, experts="num_local_experts", inner="intermediate_size", corrected=True)
    return (
        sizes
        | experts
        | choice
        | {
            "fused_gate_up": True,
            "dense_layers": listed.count("dense") if listed else frequency.count(0),
            "shared_ffn": keys.count("shared_intermediate_size", absent=3072),
        }
    )


_INDEX = {
    "n_heads": "sparse_num_index_heads",
    "head_dim": "sparse_index_dim",
    "block_size": "sparse_block_size",
    "topk_blocks": "sparse_topk_blocks",
    "local_blocks": "sparse_local_block",
}
"""Names of the index's sizes -> those of published configs."""


@family("longcat_flash", Block(wide_router=True))
def longcat_flash(keys: ConfigKeys) -> dict[str, Any]:
    """Two latent attentions and two MLPs per layer, in parallel with experts, some of which have no weights."""
    sizes = latent_sizes(keys, layers=keys.size("num_layers", "num_hidden_layers"), ffn=keys.size("ffn_hidden_size"))
    layers, width, ffn = sizes["layers"], sizes["width"], sizes["ffn"]
    experts = routed(keys, top_k="moe_topk", inner="expert_ffn_hidden_size")
    empty, number = keys.count("zero_expert_num", absent=256), experts["experts"]
    second = second_latent(sizes)
    return (
        sizes
        | experts
        | {
            "norms": 4,
            "experts_per_token": max(1, round(experts["experts_per_token"] * number / (number + empty))),
            "router_vector": number + empty + empty * width,
            "dense_layers": 0,
            "beside": (second, Sublayer(part="mlp", layers=layers, matrices=gated_mlp(width, ffn) * 2)),
        }
    )


def second_latent(sizes: dict[str, Any]) -> Sublayer:
    """Another latent attention of the same sizes in every layer."""
    layers, width, heads, rank = sizes["layers"], sizes["width"], sizes["heads"], sizes["latent_rank"]
    query, cached = sizes["query_rank"], rank + sizes["rotary_dim"]
    unpacked = heads * (sizes["head_dim"] - sizes["rotary_dim"] + sizes["value_dim"])
    attending = AttentionGroup(
        layers=layers, heads=heads, score_dim=sizes["head_dim"], value_dim=sizes["value_dim"], cached=cached, read=cached
    )
    return Sublayer(
        part="attention",
        layers=layers,
        matrices=(
            ("q_a", width, query), ("q_b", query, heads * sizes["head_dim"]), ("kv_a", width, cached), ("kv_b", rank, unpacked),
            ("o", heads * sizes["value_dim"], width),
        ),
        bias=sizes["attention_bias"],
        norm=sizes["attention_norm"],
        attending=(attending,),
    )  # fmt: skip


@family("mimo_v2_flash", Block(wide_router=True, sinks=True))
def mimo_v2_flash(keys: ConfigKeys) -> dict[str, Any]:
    """Windowed layers with twice the key heads and a sink per head; values narrower than keys."""
    sizes = line_sizes(keys, kv_heads=4, head_dim=192)
    layers, kinds, pattern = sizes["layers"], keys.items("layer_types"), keys.items("hybrid_layer_pattern")
    named = [kind == "sliding_attention" for kind in kinds] or [bool(one) for one in pattern]
    windowed = sum(named) if named else sum(layer > 0 and (layer + 1) % 6 != 0 for layer in range(layers))
    value = keys.size("v_head_dim", default=128)
    groups: tuple[tuple[int, int, AttendsTo], ...] = ((layers - windowed, 1, "all"), (windowed, 2, "window"))
    full, near = (
        AttentionGroup.scored(number, sizes["heads"], times * sizes["kv_heads"], sizes["head_dim"], value, reach)
        for number, times, reach in groups
    )
    both = (projected_attention(sizes["width"], full), projected_attention(sizes["width"], near, other=sizes["heads"]))
    frequency, listed = keys.items("moe_layer_freq"), keys.items("mlp_layer_types")
    return (
        sizes
        | routed(keys, corrected=True)
        | {
            "window": keys.size("sliding_window", default=129),
            "attention_bias": 0,
            "value_dim": value,
            "dense_layers": listed.count("dense") if listed else frequency.count(0) if frequency else 1,
            "instead": tuple(one for one in both if one.layers),
        }
    )
