"""Families built by code on the hub: it comes with their checkpoints, or transformers 5.23 does not build them."""

from __future__ import annotations

from typing import Any

from planner.workload.block import Block
from planner.workload.huggingface.families.llama import llama, phi3, qwen2, qwen3
from planner.workload.huggingface.keys import ConfigKeys, family
from planner.workload.huggingface.sizes import line_sizes, routed
from planner.workload.sublayers import AttentionGroup, Sublayer

REMOTE_CODE = ("chatglm", "dbrx", "exaone", "minicpm", "minicpmv", "phi4mm", "step3_text")
"""Model types of all families here."""


@family("minicpm")
def minicpm(keys: ConfigKeys) -> dict[str, Any]:
    """MiniCPM 1, 2 and 4: Llama with factors, whose head is the embedding unless its config states otherwise."""
    return llama(keys.also(tie_word_embeddings=True))


@family("exaone")
def exaone(keys: ConfigKeys) -> dict[str, Any]:
    """EXAONE 3 and 3.5: Llama with one key renamed."""
    return llama(keys.also(num_hidden_layers=keys.value("num_layers")))


@family("chatglm", Block(joined_rotary=True, fused_gate=True))
def chatglm(keys: ConfigKeys) -> dict[str, Any]:
    """ChatGLM 2 and 3 and GLM-4-9B: one matrix for query, key and value, with a bias, and one for gate and up."""
    grouped = keys.flag("multi_query_attention", default=False)
    names = {
        "num_hidden_layers": keys.value("num_layers"),
        "intermediate_size": keys.value("ffn_hidden_size"),
        "num_key_value_heads": keys.value("multi_query_group_num") if grouped else None,
        "head_dim": keys.value("kv_channels"),
        "vocab_size": keys.value("padded_vocab_size"),
        "max_position_embeddings": keys.value("seq_length"),
    }
    sizes = line_sizes(keys.also(**{name: value for name, value in names.items() if value is not None}))
    query, key = sizes["heads"] * sizes["head_dim"], sizes["kv_heads"] * sizes["head_dim"]
    everywhere = keys.flag("add_bias_linear", default=False)
    biased = keys.flag("add_qkv_bias", default=False) or everywhere
    return sizes | {
        "tied": keys.flag("tie_word_embeddings", default=False),
        "fused_qkv": True,
        "fused_gate_up": True,
        "attention_bias": (query + 2 * key) * biased + sizes["width"] * everywhere,
        "mlp_vector": (2 * sizes["ffn"] + sizes["width"]) * everywhere,
    }


@family("phi4mm", Block(joined_rotary=True, fused_gate=True))
def phi4mm(keys: ConfigKeys) -> dict[str, Any]:
    """Text of Phi-4-multimodal: Phi 3, without its towers and the adapters for pictures and sound."""
    beside = tuple(name for name in ("embd_layer", "vision_lora", "speech_lora") if keys.value(name) is not None)
    return phi3(keys) | {"left_out": beside}


@family("minicpmv")
def minicpmv(keys: ConfigKeys) -> dict[str, Any]:
    """Text of MiniCPM-V, which depends on its version: Qwen 2 (2.6), Qwen 3 (4.5) or Llama."""
    version = str(keys.value("version"))
    return {"2.6": qwen2, "4.5": qwen3}.get(version, llama)(keys)


@family("dbrx", Block())
def dbrx(keys: ConfigKeys) -> dict[str, Any]:
    """Experts in every layer, LayerNorm without biases, one matrix for query, key and value."""
    attention, inner = keys.part("attn_config"), keys.part("ffn_config")
    named = keys.also(
        hidden_size=keys.size("d_model"),
        num_attention_heads=keys.size("n_heads"),
        num_hidden_layers=keys.size("n_layers"),
        num_key_value_heads=attention.size("kv_n_heads", default=1),
        intermediate_size=inner.size("ffn_hidden_size", default=3584),
        max_position_embeddings=keys.size("max_seq_len", default=2048),
    )
    sizes = line_sizes(named)
    return sizes | {
        "centred": True,
        "fused_qkv": True,
        "dense_layers": 0,
        "experts": inner.size("moe_num_experts", default=4),
        "experts_per_token": inner.size("moe_top_k", default=1),
        "expert_ffn": sizes["ffn"],
    }


@family("step3_text")
def step3(keys: ConfigKeys) -> dict[str, Any]:
    """Step 3: queries through a narrow, normed product, one key head; experts in listed layers."""
    named = keys.also(
        num_key_value_heads=keys.size("num_attention_groups", default=1),
        n_routed_experts=keys.size("moe_num_experts", default=48),
        num_experts_per_tok=keys.size("moe_top_k", default=3),
    )
    sizes = line_sizes(named, whole=False, head_dim=256)
    layers, width, heads, groups, dim = (sizes[name] for name in ("layers", "width", "heads", "kv_heads", "head_dim"))
    narrow, listed = keys.size("share_q_dim", default=2048), keys.value("moe_layers_enum")
    sparse = {one for one in listed.split(",") if one.strip().isdecimal()} if isinstance(listed, str) else set(range(1, layers))
    own = Sublayer(
        part="attention",
        layers=layers,
        matrices=(
            ("q_a", width, narrow),
            ("q_b", narrow, heads * dim),
            ("k", width, groups * dim),
            ("v", width, groups * dim),
            ("o", heads * dim, width),
        ),
        norm=narrow,
        attending=(AttentionGroup.scored(layers, heads, groups, dim),),
    )
    experts = routed(named, experts="n_routed_experts", inner="moe_intermediate_size")
    shared = keys.size("share_expert_dim", "share_expert_dims", default=experts["expert_ffn"])
    return sizes | experts | {"dense_layers": max(0, layers - len(sparse)), "shared_ffn": shared, "instead": (own,)}
