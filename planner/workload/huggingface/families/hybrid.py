"""Families that mix attention with layers of constant state."""

from __future__ import annotations

from collections import Counter
from typing import Any

from msgspec.structs import replace

from planner.workload.block import Block
from planner.workload.huggingface.families.linear import MambaKeys, gated_delta, mamba2
from planner.workload.huggingface.families.llama import qwen_experts
from planner.workload.huggingface.keys import ConfigKeys, family
from planner.workload.huggingface.sizes import head_normed, line_sizes, narrowed, routed
from planner.workload.sublayers import AttendsTo, AttentionGroup, Sublayer


def _gated_hybrid(keys: ConfigKeys, *, joined: bool, ffn: int | None = None) -> dict[str, Any]:
    """Attention whose output is gated, in every fourth layer or by `layer_types`; gated DeltaNet in the others."""
    sizes = head_normed(line_sizes(keys, kv_heads=2, head_dim=256, biased=True, ffn=ffn))
    query, layers, kinds = sizes["heads"] * sizes["head_dim"], sizes["layers"], keys.items("layer_types")
    full = kinds.count("full_attention") if kinds else layers // keys.size("full_attention_interval", default=4)
    biases = sizes["attention_bias"] + query * keys.flag("attention_bias", default=False)
    linear = (gated_delta(keys, sizes["width"], layers - full, joined=joined),) if layers > full else ()
    return sizes | {"query_gate": query, "attention_bias": biases, "instead": linear, "mtp_copies": False}


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
    """Same as qwen3_next, with experts in every layer."""
    sizes = _gated_hybrid(keys, joined=False, ffn=keys.size("moe_intermediate_size"))
    return sizes | qwen_experts(keys) | _shared(keys, sizes)


_NEMOTRON = MambaKeys(
    "mamba_num_heads",
    "mamba_head_dim",
    "ssm_state_size",
    "n_groups",
    "conv_kernel",
    "use_conv_bias",
    "mamba_proj_bias",
    "chunk_size",
)


@family("falcon_h1")
def falcon_h1(keys: ConfigKeys) -> dict[str, Any]:
    """Attention and a recurrence side by side in every layer."""
    sizes = line_sizes(keys, biased=True)
    inner = keys.size("mamba_d_ssm", default=keys.size("mamba_expand", default=2) * sizes["width"])
    normed = keys.flag("mamba_rms_norm", default=False)
    biases = (2 * sizes["ffn"] + sizes["width"]) * keys.flag("mlp_bias", default=False)
    beside = mamba2(keys, sizes["width"], sizes["layers"], named=MambaKeys(), inner=inner, normed=normed)
    return sizes | {"mlp_vector": biases, "beside": (beside,)}


@family("bamba", Block())
def bamba(keys: ConfigKeys) -> dict[str, Any]:
    """Attention in the layers of `attn_layer_indices`, Mamba-2 in the others."""
    sizes = line_sizes(keys, kv_heads=8, biased=True)
    linear = sizes["layers"] - len(keys.items("attn_layer_indices"))
    biases = (2 * sizes["ffn"] + sizes["width"]) * keys.flag("mlp_bias", default=False)
    return sizes | {"mlp_vector": biases, "instead": (mamba2(keys, sizes["width"], linear, named=MambaKeys()),) * (linear > 0)}


@family("granitemoehybrid", Block())
def granite_hybrid(keys: ConfigKeys) -> dict[str, Any]:
    """Granite 4: attention in few layers, Mamba-2 in the others; a shared MLP, with or without experts."""
    sizes, kinds = line_sizes(keys, biased=True), keys.items("layer_types")
    linear = sum(kind in ("mamba", "linear_attention") for kind in kinds) if kinds else sizes["layers"]
    shared = keys.count("shared_intermediate_size", absent=1024)
    instead = (mamba2(keys, sizes["width"], linear, named=MambaKeys()),) * (linear > 0)
    if not keys.count("num_local_experts"):
        return sizes | {"ffn": shared, "fused_gate_up": True, "instead": instead}
    experts = routed(keys, experts="num_local_experts", inner="intermediate_size")
    return sizes | experts | {"shared_ffn": shared, "fused_gate_up": True, "instead": instead}


_LETTERS = {"M": "linear_attention", "*": "full_attention", "-": "mlp", "E": "moe"}


@family("nemotron_h", Block(activation="relu2"))
def nemotron_h(keys: ConfigKeys) -> dict[str, Any]:
    """Each layer is Mamba-2, attention, an MLP or experts, by `hybrid_override_pattern` or `layers_block_type`."""
    pattern = keys.value("hybrid_override_pattern")
    kinds = [_LETTERS.get(letter, letter) for letter in pattern] if isinstance(pattern, str) else keys.items("layers_block_type")
    renamed = {"mamba": "linear_attention", "attention": "full_attention"}
    count = Counter(renamed.get(str(kind), str(kind)) for kind in kinds)
    named = keys.also(head_dim=keys.size("attention_head_dim", default=128))
    sizes = line_sizes(named, kv_heads=8, biased=True, layers=len(kinds) or None)
    mixing, others = count["linear_attention"] + count["full_attention"], count["mlp"] + count["moe"]
    recurrent = mamba2(keys, sizes["width"], count["linear_attention"], named=_NEMOTRON)
    bare = (Sublayer(part="attention", layers=others), Sublayer(part="mlp", layers=mixing))
    sizes |= {"norms": 1, "gated": False, "instead": tuple(one for one in (recurrent, *bare) if one.layers)}
    sizes |= {"mlp_vector": (sizes["ffn"] + sizes["width"]) * keys.flag("mlp_bias", default=False)}
    experts: dict[str, Any] = {}
    if count["moe"]:
        shared = keys.count("moe_shared_expert_intermediate_size") * keys.count("n_shared_experts", absent=1)
        experts = routed(keys, corrected=True) | {"shared_ffn": shared}
        sizes |= narrowed(sizes["width"], keys.count("moe_latent_size"), count["moe"], keys.flag("mlp_bias", default=False))
    return sizes | experts | {"dense_layers": count["mlp"]}


@family("zaya")
def zaya(keys: ConfigKeys) -> dict[str, Any]:
    """ZAYA 1: two convolutions of queries and keys, half of the values from the previous token; routers of several products."""
    inner = keys.size("moe_intermediate_size", default=2048)
    sizes = line_sizes(keys, tied=True, heads=8, kv_heads=2, head_dim=128, ffn=inner)
    layers, width, heads, groups, dim = (sizes[name] for name in ("layers", "width", "heads", "kv_heads", "head_dim"))
    first, second = keys.size("cca_time0", default=2), keys.size("cca_time1", default=2)
    channels, half = (heads + groups) * dim, groups * dim // 2
    near = keys.items("layer_types").count("hybrid_sliding")
    biased = (heads * dim + 2 * groups * dim + width) * keys.flag("attention_bias", default=False)

    def attention(count: int, attends_to: AttendsTo) -> Sublayer:
        seen = AttentionGroup.scored(count, heads, groups, dim, attends_to=attends_to)
        return Sublayer(
            part="attention",
            layers=count,
            matrices=(
                ("q", width, heads * dim),
                ("k", width, groups * dim),
                ("v", width, half),
                ("v", width, half),
                ("o", heads * dim, width),
            ),
            convolution=channels * (first + dim * second),
            bias=2 * channels + biased,
            norm=groups,
            other=4 * width,
            attending=(replace(seen, state=channels * (first + second - 2) + half),),
        )

    experts = routed(keys, experts="num_experts", inner="moe_intermediate_size")
    narrow = keys.size("router_hidden_size", default=256)
    products = narrow * (width + 2 * narrow + experts["experts"] + 1)
    beside = (
        Sublayer(part="router", layers=layers, convolution=products - width * experts["experts"], other=3 * narrow, norm=narrow),
        Sublayer(part="router", layers=layers - 1, other=narrow),
        Sublayer(part="mlp", layers=layers, other=4 * width),
        Sublayer(part="mlp", layers=1, other=2 * width),
    )
    both = (attention(layers - near, "all"), attention(near, "window"))
    window = {"window": keys.size("sliding_window", default=4096)} if near else {}
    own = {"attention_bias": 0, "final_bias": sizes["vocabulary"] * keys.flag("lm_head_bias", default=False)}
    return sizes | experts | window | own | {"instead": tuple(one for one in both if one.layers), "beside": beside}
