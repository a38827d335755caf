"""Families that differ from Llama in few facts (norms, biases, windows, experts), each a row of `presets/families/llama.toml`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from planner.paths import read_shipped_part
from planner.workload.block import Block
from planner.workload.huggingface.keys import MOST_SIZE, ConfigKeys, family
from planner.workload.huggingface.sizes import WINDOWED, latent_sizes, line_sizes, routed, windowed
from planner.workload.sublayers import AttentionGroup, Role, Sublayer, projected_attention

_LLAMA = Block()


class Facts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Differences of a family from Llama."""

    block: Block = _LLAMA
    tied: bool = False
    head_dim: int | None = None
    kv_heads: int | None = None
    whole: bool = False
    """True if the heads have to divide the width where the config has no `head_dim`."""
    norms: int = 2
    norm_vectors: int = 1
    """Vectors of a norm: 0 without weights, 2 with a bias."""
    centred: bool = False
    bias: str = ""
    """Flag that gives query, key and value a bias."""
    out_bias: str = ""
    """Flag that gives the projection of attention's output a bias."""
    mlp_bias: str = ""
    biased: bool = False
    """Default of these flags."""
    query_key_norm: Literal["", "head", "whole"] = ""
    """Norms of query and key over a head, or over the whole projection."""
    normed_by: str = ""
    """Flag for these norms; without a flag they are always present."""
    gated: bool = True
    joined_gate: bool = False
    gate: Literal["", "head", "whole"] = ""
    """A projection that gates attention's output: one value per head, or one per element."""
    gate_vector: bool = False
    """True if that gate has an additional number per head."""
    sinks: bool = False
    """True if there is a learned sink per head."""
    window: int = 0
    """Default window of the layers that `layer_types` names."""
    every_window: bool = False
    """True if all layers have the window of the config, if it has no `layer_types`."""
    ffn: str = "intermediate_size"
    """Key of the inner width of a dense MLP."""
    mlp_norm: bool = False
    """True if there is a norm before the last matrix of the MLP, and one before that of attention."""
    mlp_scales: int = 0
    """Learned numbers of a layer's activation."""
    experts: str = ""
    """Key of the number of experts, which are in every layer that `mlp_layer_types` does not call dense."""
    top_k: str = "num_experts_per_tok"
    """Key of the number of experts of a token."""
    inner: str = "intermediate_size"
    """Key of the inner width of an expert."""
    dense: str = "first_k_dense_replace"
    """Key of the layers without experts where there is no `mlp_layer_types`: their number, or a list."""
    shared: str = ""
    """Key of the number of shared experts."""
    shared_ffn: str = ""
    """Key of their summed width."""
    experts_norm: bool = False
    """True if layers with experts have a further norm."""
    corrected: bool = False
    latent: bool = False
    """True if attention is multi-head latent attention."""
    dropout: str = ""
    """Key of the dropout on the outputs of attention and MLP; a tenth where it is absent."""


def _reader(facts: Facts) -> Callable[[ConfigKeys], dict[str, Any]]:
    def read(keys: ConfigKeys) -> dict[str, Any]:
        own = facts.inner if facts.experts and keys.value(facts.ffn) is None else facts.ffn
        sizes = (
            latent_sizes(keys, tied=facts.tied)
            if facts.latent
            else line_sizes(
                keys, head_dim=facts.head_dim, ffn=keys.size(own), tied=facts.tied, kv_heads=facts.kv_heads, whole=facts.whole
            )
        )
        sizes |= {
            "norms": facts.norms,
            "norm_parameters": facts.norm_vectors * sizes["width"],
            "centred": facts.centred,
            "gated": facts.gated,
            "fused_gate_up": facts.joined_gate,
            "sinks": sizes["heads"] * facts.sinks,
            "dropout": bool(facts.dropout) and keys.share(facts.dropout, default=0.1) > 0,
        }
        if not facts.latent:
            sizes |= _vectors(keys, facts, sizes)
        sizes |= {"mlp_vector": ((1 + facts.gated) * sizes["ffn"] + sizes["width"]) * _asked(keys, facts, facts.mlp_bias)}
        if facts.window or facts.every_window:
            every = sizes["layers"] if facts.every_window else 0
            sizes = windowed(keys, sizes, keys.count("sliding_window", absent=facts.window), every)
        sizes |= _experts(keys, facts) if facts.experts else {}
        heads = keys.items("num_attention_heads_per_layer")
        if len(set(map(str, heads))) > 1:
            return sizes | _uneven(facts, sizes, keys.items("layer_types"), heads)
        return sizes | {"beside": tuple(_beside(facts, sizes))}

    return read


def _uneven(facts: Facts, sizes: dict[str, Any], kinds: list[Any], heads: list[Any]) -> dict[str, Any]:
    """Attention of layers with different numbers of heads."""
    layers, width, groups, dim = (sizes[name] for name in ("layers", "width", "kv_heads", "head_dim"))
    found = []
    usable = [given if isinstance(given, int) and 0 < given <= MOST_SIZE and given % groups == 0 else groups for given in heads]
    for (near, number), count in Counter(zip((kind in WINDOWED for kind in kinds[:layers]), usable, strict=False)).items():
        seen = AttentionGroup.scored(count, number, groups, dim, attends_to="window" if near else "all")
        gate: Role = "other"
        further = ((gate, width, number * (dim if facts.gate == "whole" else 1)),) if facts.gate else ()
        found.append(projected_attention(width, seen, further=further, norm=sizes["attention_norm"], other=number * facts.sinks))
    without = {"attention_bias": 0, "attention_norm": 0, "sinks": 0, "windowed_layers": 0}
    return without | {"instead": tuple(found), "beside": tuple(_beside(replace(facts, gate=""), sizes))}


def _beside(facts: Facts, sizes: dict[str, Any]) -> Iterator[Sublayer]:
    """Parts of a layer in addition to its attention and its MLP."""
    layers, width, heads, ffn = sizes["layers"], sizes["width"], sizes["heads"], sizes["ffn"]
    if facts.gate:
        gate = heads * (sizes["head_dim"] if facts.gate == "whole" else 1)
        yield Sublayer(part="attention", layers=layers, matrices=(("other", width, gate),), other=heads * facts.gate_vector)
    if facts.mlp_norm or facts.mlp_scales:
        yield Sublayer(part="mlp", layers=layers, norm=(width + ffn) * facts.mlp_norm, other=facts.mlp_scales)
    if facts.experts_norm:
        yield Sublayer(part="mlp", layers=layers - sizes["dense_layers"], norm=width)


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
    found = routed(
        keys,
        experts=facts.experts,
        top_k=facts.top_k,
        inner=facts.inner if keys.value(facts.inner) is not None else facts.ffn,
        shared=facts.shared,
        corrected=facts.corrected,
    )
    kinds = keys.items("mlp_layer_types")
    listed = keys.items(facts.dense) if isinstance(keys.value(facts.dense), list) else None
    dense = kinds.count("dense") if kinds else keys.count(facts.dense) if listed is None else len(set(map(str, listed)))
    return found | {"dense_layers": dense} | ({"shared_ffn": keys.count(facts.shared_ffn)} if facts.shared_ffn else {})


for _name, _facts in read_shipped_part(dict[str, Facts], "families", "families", "llama.toml").items():
    family(_name, _facts.block)(_reader(_facts))
_ROUTED = Facts(query_key_norm="head", experts="num_experts", inner="moe_intermediate_size", corrected=True)
_WIDE = Block(wide_norms=True)
_BAILING = replace(
    _ROUTED, bias="use_qkv_bias", out_bias="use_bias", mlp_bias="use_bias", normed_by="use_qk_norm", shared="num_shared_experts"
)


@family("bailing_moe")
def bailing_moe(keys: ConfigKeys) -> dict[str, Any]:
    """Ling and Ring 1 and 2, whose code is with their checkpoints."""
    return _reader(replace(_BAILING, corrected=keys.flag("moe_router_enable_expert_bias", default=False)))(keys)


_STEP = replace(
    _ROUTED, head_dim=128, gate="head", window=512, experts="n_routed_experts", shared_ffn="share_expert_dim", block=_WIDE
)


@family("step3p5", _WIDE)
def step3p5(keys: ConfigKeys) -> dict[str, Any]:
    """Step 3.5 and 3.7: windowed layers with more heads than the others, a gate of every head; published with its own names of keys."""
    named = {new: keys.value(old) for new, names in _STEP_NAMES.items() for old in names if keys.value(old) is not None}
    kinds, heads, layers = keys.items("layer_types"), keys.size("num_attention_heads", default=64), keys.size("num_hidden_layers")
    other = keys.value("attention_other_setting")
    wide = keys.value("num_sliding_attention_heads") or (other.get("num_attention_heads") if isinstance(other, dict) else None)
    listed = keys.value("moe_layers_enum")
    sparse = (
        {int(one) for one in listed.split(",") if one.strip().isdecimal() and len(one) < 6}
        if isinstance(listed, str)
        else set(range(3, layers))
    )
    sizes = {
        "num_attention_heads_per_layer": [wide if wide and kind in WINDOWED else heads for kind in kinds],
        "mlp_layer_types": ["sparse" if layer in sparse else "dense" for layer in range(layers)],
        "num_key_value_heads": 8,
        "share_expert_dim": 1280,
    }
    return _reader(_STEP)(keys.also(**sizes | named))


_STEP_NAMES = {
    "num_key_value_heads": ("num_attention_groups",),
    "n_routed_experts": ("moe_num_experts", "num_experts"),
    "num_experts_per_tok": ("moe_top_k",),
    "share_expert_dim": ("share_expert_dims",),
}
"""Names in the library -> published ones."""
