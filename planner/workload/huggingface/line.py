"""Families that differ from Llama in few facts: norms, biases, windows, experts; each is a row of one table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from planner.workload.block import Block
from planner.workload.huggingface.family import family
from planner.workload.huggingface.keys import ConfigKeys
from planner.workload.huggingface.sizes import latent_sizes, line_sizes, routed, windowed

_LLAMA = Block()


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a family has that Llama does not, or has not."""

    block: Block = _LLAMA
    tied: bool = False
    head_dim: int | None = None
    kv_heads: int | None = None
    norms: int = 2
    norm_vectors: int = 1
    """Vectors of a norm: 0 without weights, 2 with a bias."""
    centred: bool = False
    bias: str = ""
    """The flag that gives query, key and value a bias."""
    out_bias: str = ""
    """The same of the projection of attention's output."""
    mlp_bias: str = ""
    biased: bool = False
    """What these flags are where the config has none."""
    query_key_norm: Literal["", "head", "whole"] = ""
    """Norms of query and key over a head, or over the whole projection."""
    normed_by: str = ""
    """The flag that asks for these norms; without one they are always there."""
    gated: bool = True
    joined_gate: bool = False
    window: int = 0
    """The window where the config has none, of layers that `layer_types` names."""
    experts: str = ""
    """The key of the number of experts, which are in every layer that `mlp_layer_types` does not call dense."""
    inner: str = "intermediate_size"
    """The key of the inner width of an expert."""
    shared: str = ""
    """The key of the number of shared experts."""
    shared_ffn: str = ""
    """The key of their summed width."""
    corrected: bool = False
    latent: bool = False
    """Multi-head latent attention."""


_WIDE, _BRANCHES = Block(wide_norms=True), Block(wide_norms=True, branch_norms=True, plain_input=True)
_ALL = Facts(bias="attention_bias", out_bias="attention_bias")
_MLP = Facts(mlp_bias="mlp_bias")
_BOTH = replace(_ALL, mlp_bias="mlp_bias")

FACTS: dict[str, Facts] = {
    "arcee": replace(_BOTH, gated=False, block=Block(activation="relu")),
    "cohere": replace(
        _ALL, tied=True, norms=1, centred=True, query_key_norm="whole", normed_by="use_qk_norm", block=Block(parallel=True)
    ),
    "cohere2": replace(_ALL, tied=True, norms=1, centred=True, window=4096, block=Block(parallel=True)),
    "cwm": replace(_MLP, head_dim=128, window=8192),
    "ernie4_5": Facts(bias="use_bias", out_bias="use_bias", mlp_bias="use_bias", tied=True, head_dim=128),
    "exaone4": Facts(query_key_norm="head", window=4096, block=_BRANCHES),
    "exaone_moe": Facts(
        query_key_norm="head",
        window=4096,
        experts="num_experts",
        inner="moe_intermediate_size",
        shared="num_shared_experts",
        corrected=True,
    ),
    "flex_olmo": replace(_ALL, query_key_norm="whole", experts="num_experts", block=_BRANCHES),
    "gemma": replace(_ALL, tied=True, head_dim=256, block=_WIDE),
    "glm": Facts(bias="attention_bias", biased=True, head_dim=128, joined_gate=True),
    "glm4": Facts(bias="attention_bias", biased=True, head_dim=128, joined_gate=True, norms=4, block=Block(branch_norms=True)),
    "glm4_moe_lite": Facts(
        latent=True, experts="n_routed_experts", inner="moe_intermediate_size", shared="n_shared_experts", corrected=True
    ),
    "granite": _BOTH,
    "granitemoe": replace(_ALL, experts="num_local_experts"),
    "granitemoeshared": replace(_ALL, experts="num_local_experts", shared_ffn="shared_intermediate_size"),
    "helium": Facts(head_dim=128),
    "hyperclovax": replace(_BOTH, norms=4, block=Block(branch_norms=True)),
    "internlm3": replace(_BOTH, head_dim=128),
    "mellum": replace(
        _ALL, experts="num_local_experts", query_key_norm="head", head_dim=128, window=1024, inner="moe_intermediate_size"
    ),
    "minicpm3": Facts(latent=True, tied=True),
    "ministral3": Facts(head_dim=128),
    "olmo": replace(_ALL, norm_vectors=0, centred=True),
    "olmo3": replace(_ALL, query_key_norm="whole", window=4096, block=_BRANCHES),
    "olmoe": replace(_ALL, query_key_norm="whole", experts="num_experts"),
    "phimoe": replace(_ALL, experts="num_local_experts", norm_vectors=2, centred=True),
    "seed_oss": Facts(bias="attention_bias", out_bias="attention_out_bias", mlp_bias="mlp_bias", biased=True, head_dim=128),
    "smollm3": replace(_BOTH, tied=True, kv_heads=4),
    "solar_open": Facts(
        head_dim=128, experts="n_routed_experts", inner="moe_intermediate_size", shared="n_shared_experts", corrected=True
    ),
    "stablelm": Facts(bias="use_qkv_bias", norm_vectors=2, centred=True, query_key_norm="whole", normed_by="qk_layernorm"),
    "vaultgemma": replace(_ALL, tied=True, head_dim=256, window=4096, block=_WIDE),
    "youtu": Facts(latent=True, tied=True),
}
"""`model_type` -> its facts, as transformers 5.23 builds it."""


def _reader(facts: Facts) -> Callable[[ConfigKeys], dict[str, Any]]:
    def read(keys: ConfigKeys) -> dict[str, Any]:
        own = facts.inner if facts.experts and keys.value("intermediate_size") is None else ""
        ffn = keys.size(own) if own else None
        sizes = (
            latent_sizes(keys, tied=facts.tied)
            if facts.latent
            else line_sizes(keys, head_dim=facts.head_dim, ffn=ffn, tied=facts.tied, kv_heads=facts.kv_heads, whole=False)
        )
        sizes |= {
            "norms": facts.norms,
            "norm_parameters": facts.norm_vectors * sizes["width"],
            "centred": facts.centred,
            "gated": facts.gated,
            "fused_gate_up": facts.joined_gate,
        }
        if not facts.latent:
            sizes |= _vectors(keys, facts, sizes)
        sizes |= {"mlp_vector": ((1 + facts.gated) * sizes["ffn"] + sizes["width"]) * _asked(keys, facts, facts.mlp_bias)}
        if facts.window:
            sizes = windowed(keys, sizes, keys.count("sliding_window", absent=facts.window), 0)
        return sizes | _experts(keys, facts) if facts.experts else sizes

    return read


def _asked(keys: ConfigKeys, facts: Facts, flag: str) -> bool:
    return bool(flag) and keys.flag(flag, default=facts.biased)


def _vectors(keys: ConfigKeys, facts: Facts, sizes: dict[str, Any]) -> dict[str, int]:
    """Biases and norms of attention."""
    query, key = sizes["heads"] * sizes["head_dim"], sizes["kv_heads"] * sizes["head_dim"]
    biases = (query + 2 * key) * _asked(keys, facts, facts.bias) + sizes["width"] * _asked(keys, facts, facts.out_bias)
    normed = not facts.normed_by or keys.flag(facts.normed_by, default=False)
    norm = {"": 0, "head": 2 * sizes["head_dim"], "whole": query + key}[facts.query_key_norm]
    return {"attention_bias": biases, "attention_norm": norm * normed}


def _experts(keys: ConfigKeys, facts: Facts) -> dict[str, Any]:
    sizes = routed(keys, experts=facts.experts, inner=facts.inner, shared=facts.shared, corrected=facts.corrected)
    kinds = keys.items("mlp_layer_types")
    dense = kinds.count("dense") if kinds else keys.count("first_k_dense_replace")
    return sizes | {"dense_layers": dense} | ({"shared_ffn": keys.count(facts.shared_ffn)} if facts.shared_ffn else {})


for _name, _facts in FACTS.items():
    family(_name, _facts.block)(_reader(_facts))
