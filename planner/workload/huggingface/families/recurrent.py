"""Families that mix attention with short convolutions, gated recurrences or linear attention."""

from __future__ import annotations

from typing import Any

from planner.workload.block import Block
from planner.workload.huggingface.families.linear import gated_delta, kimi_delta
from planner.workload.huggingface.families.selective import CHANNELS, without_attention
from planner.workload.huggingface.keys import ConfigKeys, family
from planner.workload.huggingface.sizes import WINDOWED, head_normed, latent_sizes, line_sizes, narrowed, routed
from planner.workload.sublayers import AttentionGroup, Sublayer


def _short(keys: ConfigKeys, width: int, layers: int) -> Sublayer:
    """A gated convolution over the last tokens, channel by channel."""
    kernel, biases = keys.size("conv_L_cache", default=3), 5 * width * keys.flag("conv_bias", default=False)
    attending = AttentionGroup(layers=layers, state=width * kernel)
    return Sublayer(
        part="attention",
        layers=layers,
        matrices=(("in", width, 3 * width), ("out", width, width)),
        convolution=width * kernel,
        bias=biases,
        attending=(attending,),
    )


def _convolutional(keys: ConfigKeys, *, ffn: int | None = None) -> dict[str, Any]:
    """Attention with q/k norms in the layers that `layer_types` or `full_attn_idxs` name, short convolutions in the others."""
    sizes = head_normed(line_sizes(keys, tied=True, kv_heads=8, ffn=ffn, biased=True))
    kinds, full = keys.items("layer_types"), keys.items("full_attn_idxs")
    convolved = kinds.count("conv") if kinds else sizes["layers"] - len(full) if full else 0
    windowed = sum(kind in WINDOWED for kind in kinds)
    if windowed:
        sizes |= {"window": keys.size("sliding_window", default=256), "windowed_layers": windowed}
    return sizes | {"instead": (_short(keys, sizes["width"], convolved),) * (convolved > 0)}


@family("lfm2")
def lfm2(keys: ConfigKeys) -> dict[str, Any]:
    """The MLP's width is two thirds of the key, rounded up."""
    ffn = keys.size("block_ff_dim", "intermediate_size", default=12288)
    if keys.flag("block_auto_adjust_ff_dim", default=True):
        multiple, factor = keys.size("block_multiple_of", default=256), keys.factor("block_ffn_dim_multiplier", default=1.0)
        ffn = int(factor * int(2 * ffn / 3))
        ffn = multiple * -(-ffn // multiple)
    return _convolutional(keys, ffn=ffn)


@family("lfm2_moe")
def lfm2_moe(keys: ConfigKeys) -> dict[str, Any]:
    """Experts after the first `num_dense_layers`."""
    sizes = _convolutional(keys) | routed(keys, experts="num_experts", corrected=keys.flag("use_expert_bias", default=True))
    return sizes | {"dense_layers": keys.count("num_dense_layers", absent=2)}


@family("lfm3")
def lfm3(keys: ConfigKeys) -> dict[str, Any]:
    """Four norms a layer, and a gate of every head of attention."""
    sizes = _convolutional(keys)
    attending = sizes["layers"] - sum(one.layers for one in sizes["instead"])
    gate = Sublayer(part="attention", layers=attending, matrices=(("other", sizes["width"], sizes["heads"]),))
    gated = keys.flag("use_attention_gate", default=True) and attending > 0
    return sizes | {"norms": 4 if keys.flag("use_sandwich_norm", default=True) else 2, "beside": (gate,) * gated}


@family("minimax")
def minimax(keys: ConfigKeys) -> dict[str, Any]:
    """MiniMax 01 and M1: lightning attention in blocks of tokens, full attention in the layers of `layer_types`; experts."""
    sizes, kinds = line_sizes(keys, kv_heads=8), keys.items("layer_types")
    listed = keys.items("attn_type_list")
    linear = kinds.count("linear_attention") if kinds else listed.count(0) if listed else sizes["layers"] // 2
    width, heads, dim, block = sizes["width"], sizes["heads"], sizes["head_dim"], keys.size("block_size", default=256)
    inner = heads * dim
    lightning = Sublayer(
        part="attention",
        layers=linear,
        matrices=(("qkv", width, 3 * inner), ("other", width, inner), ("out", inner, width)),
        norm=inner,
        attending=(AttentionGroup(layers=linear, state=inner * dim, scan_flop=heads * (4 * block * dim + 4 * dim * dim)),),
    )
    shared = {"shared_ffn": keys.count("shared_intermediate_size")}
    experts = routed(keys, experts="num_local_experts", inner="intermediate_size") | shared
    return sizes | experts | {"instead": (lightning,) * (linear > 0)}


@family("olmo_hybrid", Block(wide_norms=True))
def olmo_hybrid(keys: ConfigKeys) -> dict[str, Any]:
    """Gated DeltaNet in three of four layers, attention with norms over whole projections in the fourth."""
    sizes, kinds = line_sizes(keys, biased=True), keys.items("layer_types")
    linear = kinds.count("linear_attention") if kinds else sizes["layers"] - sizes["layers"] // 4
    instead = (gated_delta(keys, sizes["width"], linear, joined=None),) * (linear > 0)
    return sizes | {"attention_norm": (sizes["heads"] + sizes["kv_heads"]) * sizes["head_dim"], "instead": instead}


def _latent_delta(keys: ConfigKeys, *, low_rank: bool) -> dict[str, Any]:
    """Kimi Delta Attention in most layers, latent attention without positions in the others; experts after the dense layers.

    Kimi K3: narrowed experts, gated latent attention, and layers that attend to the outputs of earlier blocks of layers by two queries each.
    """
    sizes, kinds = latent_sizes(keys, query_rank=0), keys.items("layer_types")
    given = keys.value("linear_attn_config")
    listed = given.get("kda_layers") if isinstance(given, dict) else None
    linear = kinds.count("linear_attention") if kinds else len(listed) if isinstance(listed, list) else 0
    experts = routed(
        keys, experts="num_experts", top_k="num_experts_per_token", shared="num_shared_experts", dense=1, corrected=True
    )
    if kinds := keys.items("mlp_layer_types"):
        experts["dense_layers"] = kinds.count("dense")
    config = given if isinstance(given, dict) else {}
    layers, width = sizes["layers"], sizes["width"]
    gate = Sublayer(part="attention", layers=layers - linear, matrices=(("other", width, sizes["heads"] * sizes["value_dim"]),))
    depth = Sublayer(part="attention", layers=layers, other=2 * width, norm=2 * width)
    gated = keys.flag("mla_use_output_gate", default=False) and layers > linear
    inner = keys.count("routed_expert_hidden_size")
    narrow = narrowed(width, inner, layers - experts["dense_layers"], norm=inner * keys.flag("latent_moe_use_norm", default=False))
    beside = (*narrow.pop("beside", ()), *(gate,) * gated, *(depth,) * (keys.count("attn_res_block_size") > 0))
    delta = kimi_delta(
        sizes["width"],
        linear,
        heads=config.get("num_heads") or keys.size("linear_num_heads", default=32),
        dim=config.get("head_dim") or keys.size("linear_head_dim", default=128),
        kernel=config.get("short_conv_kernel_size") or keys.size("linear_conv_kernel_dim", "short_conv_kernel_size", default=4),
        low_rank=low_rank,
        gate_low_rank=low_rank and not config.get("use_full_rank_gate"),
    )
    return sizes | experts | narrow | {"instead": (delta,) * (linear > 0), "beside": beside}


@family("kimi_linear", Block(wide_router=True))
def kimi_linear(keys: ConfigKeys) -> dict[str, Any]:
    """Decay and gate through a vector of the head's width."""
    return _latent_delta(keys, low_rank=True)


@family("bailing_hybrid", Block(wide_router=True))
def bailing_hybrid(keys: ConfigKeys) -> dict[str, Any]:
    """Decay and gate in one product each; a gate of every head of attention."""
    sizes = _latent_delta(keys, low_rank=False)
    attending = sizes["layers"] - sum(one.layers for one in sizes["instead"])
    gate = Sublayer(part="attention", layers=attending, matrices=(("other", sizes["width"], sizes["heads"]),))
    return sizes | {"beside": (gate,) * (attending > 0)}


@family("recurrent_gemma", Block(wide_norms=True))
def recurrent_gemma(keys: ConfigKeys) -> dict[str, Any]:
    """A gated linear recurrence (RG-LRU) in two of three layers, attention to a window in the third."""
    both = keys.size("intermediate_size")
    sizes = line_sizes(keys, tied=True, head_dim=256, ffn=both // 2)
    layers, width, heads = sizes["layers"], sizes["width"], sizes["heads"]
    kinds = keys.items("block_types") or ["recurrent", "recurrent", "attention"]
    recurrent = sum(kinds[layer % len(kinds)] == "recurrent" for layer in range(layers))
    inner, kernel = keys.size("lru_width", default=width), keys.size("conv1d_width", default=4)
    gates = 2 * inner * max(1, inner // heads)
    lru = Sublayer(
        part="attention",
        layers=recurrent,
        matrices=(("in", width, inner), ("in", width, inner), ("out", inner, width)),
        convolution=inner * kernel + gates,
        other=3 * inner,
        bias=2 * inner + width + inner,
        attending=(AttentionGroup(layers=recurrent, state=inner * (kernel - 1), wide_state=inner),),
    )
    projections = (heads + 2 * sizes["kv_heads"]) * sizes["head_dim"] * keys.flag("attention_bias", default=False)
    return sizes | {
        "attention_bias": width + projections,
        "mlp_vector": 2 * sizes["ffn"] + width,
        "window": keys.size("attention_window_size", default=2048),
        "windowed_layers": layers - recurrent,
        "instead": (lru,) * (recurrent > 0),
    }


@family("rwkv")
def rwkv(keys: ConfigKeys) -> dict[str, Any]:
    """RWKV 4: a recurrence and a gated MLP, both of which mix a token with the one before; a state of five vectors a layer."""
    inner = keys.size("attention_hidden_size", default=keys.size("hidden_size"))
    sizes = without_attention(keys, heads=max(1, inner // CHANNELS), head_dim=CHANNELS, tied=False)
    width, layers = sizes["width"], sizes["layers"]
    ffn = keys.size("intermediate_size", default=4 * width)
    time = Sublayer(
        part="attention",
        layers=layers,
        matrices=(("k", width, inner), ("v", width, inner), ("other", width, inner), ("o", inner, width)),
        other=2 * inner + 3 * width,
        attending=(AttentionGroup(layers=layers, state=2 * width, wide_state=3 * inner),),
    )
    channel = Sublayer(
        part="mlp", layers=layers, matrices=(("up", width, ffn), ("other", width, width), ("down", ffn, width)), other=2 * width
    )
    return sizes | {
        "ffn": ffn,
        "norms": 2,
        "final_norms": 2,
        "norm_parameters": 2 * width,
        "centred": True,
        "max_context": keys.count("context_length") or None,
        "instead": (time, channel),
    }
