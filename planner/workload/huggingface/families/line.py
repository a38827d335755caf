"""Families that differ from Llama in few facts: norms, biases, windows, experts; each is a row of one table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from planner.workload.block import Block
from planner.workload.huggingface.keys import MOST_SIZE, ConfigKeys, family
from planner.workload.huggingface.sizes import WINDOWED, latent_sizes, line_sizes, routed, windowed
from planner.workload.sublayers import Attending, Role, Sublayer, projected_attention

_LLAMA = Block()


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """Differences of a family from Llama."""

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
    """The flag that gives the projection of attention's output a bias."""
    mlp_bias: str = ""
    biased: bool = False
    """Values of these flags where the config has none."""
    query_key_norm: Literal["", "head", "whole"] = ""
    """Norms of query and key over a head, or over the whole projection."""
    normed_by: str = ""
    """The flag for these norms; without a flag they are always there."""
    gated: bool = True
    joined_gate: bool = False
    gate: Literal["", "head", "whole"] = ""
    """A projection gates attention's output: one value a head, or one an element."""
    gate_vector: bool = False
    """Whether that gate has a further number a head."""
    sinks: bool = False
    """A learned sink a head."""
    window: int = 0
    """The window where the config has none, of layers that `layer_types` names."""
    every_window: bool = False
    """All layers have the window that the config gives, if it has no `layer_types`."""
    ffn: str = "intermediate_size"
    """The key of the inner width of a dense MLP."""
    mlp_norm: bool = False
    """A norm before the last matrix of the MLP, and one before that of attention."""
    mlp_scales: int = 0
    """Learned numbers of the activation of a layer."""
    experts: str = ""
    """The key of the number of experts, which are in every layer that `mlp_layer_types` does not call dense."""
    top_k: str = "num_experts_per_tok"
    """The key of the number of experts of a token."""
    inner: str = "intermediate_size"
    """The key of the inner width of an expert."""
    dense: str = "first_k_dense_replace"
    """The key of the layers without experts where there is no `mlp_layer_types`: how many, or which."""
    shared: str = ""
    """The key of the number of shared experts."""
    shared_ffn: str = ""
    """The key of their summed width."""
    experts_norm: bool = False
    """A further norm in layers with experts."""
    corrected: bool = False
    latent: bool = False
    """Multi-head latent attention."""
    dropout: str = ""
    """The key of the dropout of what attention and MLP add; a tenth where it is absent."""


_RELU, _WIDE, _BRANCHES = (
    Block(activation="relu2"),
    Block(wide_norms=True),
    Block(wide_norms=True, branch_norms=True, plain_input=True),
)
_COHERE, _PARTS_ROTATED = Block(parallel=True, written_norms=True), Block(joined_rotary=True)
_WIDE_ROUTER = Block(wide_router=True)
_ALL = Facts(bias="attention_bias", out_bias="attention_bias")
_MLP = Facts(mlp_bias="mlp_bias")
_BOTH = replace(_ALL, mlp_bias="mlp_bias")

_DEEPSEEK: dict[str, Any] = {
    "experts": "n_routed_experts", "inner": "moe_intermediate_size", "shared": "n_shared_experts", "corrected": True
}  # fmt: skip
_ROUTED = Facts(query_key_norm="head", experts="num_experts", inner="moe_intermediate_size", corrected=True)
_PLAIN = Facts(gated=False, norm_vectors=2, centred=True)

FACTS: dict[str, Facts] = {
    "afmoe": replace(
        _ROUTED,
        gate="whole",
        norms=4,
        window=1024,
        dense="num_dense_layers",
        shared="num_shared_experts",
        block=Block(branch_norms=True),
    ),
    "apertus": replace(_ALL, gated=False, query_key_norm="head", mlp_scales=2, block=Block(activation="xielu")),
    "aria_text": replace(_BOTH, experts="moe_num_experts", top_k="moe_topk", shared="moe_num_shared_experts"),
    "arcee": replace(_BOTH, gated=False, block=_RELU),
    "axk1": Facts(latent=True, **_DEEPSEEK, experts_norm=True, block=_WIDE_ROUTER),
    "beam": replace(_ROUTED, gate="whole", gate_vector=True, norms=4, window=512, block=Block(branch_norms=True, wide_router=True)),
    "bitnet": replace(_ALL, mlp_norm=True),
    "cohere": replace(_ALL, tied=True, norms=1, centred=True, query_key_norm="whole", normed_by="use_qk_norm", block=_COHERE),
    "cohere2": replace(_ALL, tied=True, norms=1, centred=True, window=4096, block=_COHERE),
    "cohere2_moe": replace(
        _ALL, tied=True, norms=1, centred=True, window=4096, experts="num_experts", shared="num_shared_experts", block=_COHERE
    ),
    "cwm": replace(_MLP, head_dim=128, window=8192),
    "dots1": replace(_ALL, **_DEEPSEEK, query_key_norm="head", window=4096, block=_WIDE_ROUTER),
    "ernie4_5": Facts(bias="use_bias", out_bias="use_bias", mlp_bias="use_bias", tied=True, head_dim=128),
    "exaone4": Facts(query_key_norm="head", window=4096, block=Block(branch_norms=True, plain_input=True)),
    "exaone_moe": Facts(
        query_key_norm="head",
        window=4096,
        experts="num_experts",
        inner="moe_intermediate_size",
        shared="num_shared_experts",
        corrected=True,
        block=_WIDE_ROUTER,
    ),
    "flex_olmo": replace(_ALL, query_key_norm="whole", experts="num_experts", block=_BRANCHES),
    "flint": Facts(
        query_key_norm="head",
        sinks=True,
        window=513,
        experts="num_experts",
        inner="moe_intermediate_size",
        dense="mlp_only_layers",
        shared_ffn="shared_expert_intermediate_size",
        block=_WIDE_ROUTER,
    ),
    "gemma": replace(_ALL, tied=True, head_dim=256, block=_WIDE),
    "glm": Facts(bias="attention_bias", biased=True, head_dim=128, joined_gate=True, block=_PARTS_ROTATED),
    "glm4": Facts(
        bias="attention_bias",
        biased=True,
        head_dim=128,
        joined_gate=True,
        norms=4,
        block=Block(branch_norms=True, joined_rotary=True),
    ),
    "glm4_moe_lite": Facts(latent=True, **_DEEPSEEK, block=_WIDE_ROUTER),
    "granite": _BOTH,
    "granitemoe": replace(_ALL, experts="num_local_experts"),
    "granitemoeshared": replace(_ALL, experts="num_local_experts", shared_ffn="shared_intermediate_size"),
    "granite_swa": replace(_BOTH, sinks=True, window=128),
    "granitemoe_swa": replace(_ALL, sinks=True, window=128, experts="num_local_experts", shared_ffn="shared_intermediate_size"),
    "helium": Facts(head_dim=128, block=_WIDE),
    "hunyuan_v1_dense": replace(_ALL, query_key_norm="head"),
    "hunyuan_v1_moe": replace(
        _ALL, query_key_norm="head", experts="num_experts", top_k="moe_topk", shared_ffn="intermediate_size", block=_WIDE_ROUTER
    ),
    "hy_v3": replace(_ROUTED, shared="num_shared_experts", block=_WIDE_ROUTER),
    "hyperclovax": replace(_BOTH, norms=4, block=Block(branch_norms=True)),
    "internlm3": replace(_BOTH, head_dim=128),
    "iquestcoder": _BOTH,
    "jais2": replace(_PLAIN, bias="attention_bias", out_bias="attention_bias", mlp_bias="mlp_bias", biased=True, block=_RELU),
    "kolibri1": replace(
        _ROUTED,
        experts="num_local_experts",
        norms=4,
        window=513,
        shared_ffn="shared_expert_intermediate_size",
        block=Block(branch_norms=True, wide_router=True),
    ),
    "laguna": replace(_ROUTED, gate="head", window=512, shared_ffn="shared_expert_intermediate_size"),
    "mellum": replace(
        _ALL, experts="num_local_experts", query_key_norm="head", head_dim=128, window=1024, inner="moe_intermediate_size"
    ),
    "minicpm3": Facts(latent=True, tied=True),
    "ministral": Facts(window=4096, every_window=True),
    "ministral3": Facts(head_dim=128),
    "nanochat": replace(_ALL, gated=False, norm_vectors=0, block=_RELU),
    "nemotron": replace(
        _PLAIN,
        bias="attention_bias",
        out_bias="attention_bias",
        mlp_bias="mlp_bias",
        block=Block(activation="relu2", joined_rotary=True),
    ),
    "olmo": replace(_ALL, norm_vectors=0, centred=True, block=_WIDE),
    "olmo3": replace(_ALL, query_key_norm="whole", window=4096, block=_BRANCHES),
    "olmoe": replace(_ALL, query_key_norm="whole", experts="num_experts"),
    "phimoe": replace(_ALL, experts="num_local_experts", norm_vectors=2, centred=True),
    "seed_oss": Facts(
        bias="attention_bias",
        out_bias="attention_out_bias",
        mlp_bias="mlp_bias",
        biased=True,
        head_dim=128,
        dropout="residual_dropout",
    ),
    "smollm3": replace(_BOTH, tied=True, kv_heads=4),
    "solar_open": Facts(head_dim=128, **_DEEPSEEK, block=_WIDE_ROUTER),
    "stablelm": Facts(
        bias="use_qkv_bias", norm_vectors=2, centred=True, query_key_norm="whole", normed_by="qk_layernorm", block=_PARTS_ROTATED
    ),
    "starcoder2": replace(
        _PLAIN, bias="use_bias", out_bias="use_bias", mlp_bias="use_bias", biased=True, tied=True, every_window=True
    ),
    "vaultgemma": replace(
        _ALL, tied=True, head_dim=256, window=4096, block=Block(wide_norms=True, capped_scores=True, capped_logits=True)
    ),
    "youtu": Facts(latent=True, tied=True),
}
"""`model_type` -> its facts, as transformers 5.23 builds it."""


def _reader(facts: Facts) -> Callable[[ConfigKeys], dict[str, Any]]:
    def read(keys: ConfigKeys) -> dict[str, Any]:
        own = facts.inner if facts.experts and keys.value(facts.ffn) is None else facts.ffn
        sizes = (
            latent_sizes(keys, tied=facts.tied)
            if facts.latent
            else line_sizes(
                keys, head_dim=facts.head_dim, ffn=keys.size(own), tied=facts.tied, kv_heads=facts.kv_heads, whole=False
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
        seen = Attending.scored(count, number, groups, dim, reach="window" if near else "all")
        gate: Role = "other"
        further = ((gate, width, number * (dim if facts.gate == "whole" else 1)),) if facts.gate else ()
        found.append(projected_attention(width, seen, further=further, norm=sizes["attention_norm"], other=number * facts.sinks))
    without = {"attention_bias": 0, "attention_norm": 0, "sinks": 0, "windowed_layers": 0}
    return without | {"instead": tuple(found), "beside": tuple(_beside(replace(facts, gate=""), sizes))}


def _beside(facts: Facts, sizes: dict[str, Any]) -> Iterator[Sublayer]:
    """Parts of a layer beside its attention and its MLP."""
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


for _name, _facts in FACTS.items():
    family(_name, _facts.block)(_reader(_facts))
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
    """Step 3.5 and 3.7: windowed layers with more heads than the others, a gate of every head; published under names of its own."""
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
"""Names of the library -> published ones."""
