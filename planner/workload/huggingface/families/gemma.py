"""Gemma 3n and 4: layers of two kinds of attention, layers that use an earlier one's cache, and an embedding for every layer."""

from __future__ import annotations

from collections import Counter
from typing import Any

from msgspec.structs import replace

from planner.workload.block import Block
from planner.workload.huggingface.keys import MOST_SIZE, ConfigKeys, family
from planner.workload.huggingface.sizes import line_sizes
from planner.workload.sublayers import AttentionGroup, Matrices, Role, Sublayer, gated_mlp

_PATTERN = 6
"""Period of the layers that attend to everything, where `layer_types` does not state it."""


def _attention(
    sizes: dict[str, Any], *, layers: int, windowed: bool, head_dim: int, kv_heads: int, reuses: bool, joined: bool, biased: bool
) -> Sublayer:
    """Attention of `layers` layers; `reuses`: keys and values are those of an earlier layer; `joined`: keys are also the values."""
    width, query, key = sizes["width"], sizes["heads"] * head_dim, kv_heads * head_dim
    keys: tuple[Role, ...] = () if reuses else ("k",) if joined else ("k", "v")
    seen = AttentionGroup.scored(layers, sizes["heads"], kv_heads, head_dim, attends_to="window" if windowed else "all")
    return Sublayer(
        part="attention",
        layers=layers,
        matrices=(("q", width, query), *((role, width, key) for role in keys), ("o", query, width)),
        bias=(query + len(keys) * key + width) * biased,
        norm=head_dim * (1 if reuses else 2),
        attending=(replace(seen, cached=0) if reuses else seen,),
    )


def _attentions(keys: ConfigKeys, sizes: dict[str, Any], *, full_dim: int, full_heads: int, joined: bool) -> dict[str, Any]:
    """Attention of every layer, by its kind and by whether it follows those that fill the cache."""
    layers, kinds = sizes["layers"], keys.items("layer_types")
    kinds = kinds or ["sliding_attention" if (layer + 1) % _PATTERN else "full_attention" for layer in range(layers)]
    filling = layers - keys.count("num_kv_shared_layers")
    groups = Counter((kind == "sliding_attention", layer >= filling) for layer, kind in enumerate(kinds))
    biased = keys.flag("attention_bias", default=False)
    return {
        "window": keys.size("sliding_window", default=512),
        "attention_bias": 0,
        "instead": tuple(
            _attention(
                sizes,
                layers=number,
                windowed=windowed,
                head_dim=sizes["head_dim"] if windowed else full_dim,
                kv_heads=sizes["kv_heads"] if windowed else full_heads,
                reuses=reuses,
                joined=joined and not windowed,
                biased=biased,
            )
            for (windowed, reuses), number in groups.items()
        ),
    }


def _layer_inputs(keys: ConfigKeys, sizes: dict[str, Any], *, absent: int) -> tuple[int, tuple[Sublayer, ...]]:
    """Embedding that gives each layer its own vector of a token, and the projections of these vectors."""
    width, layers, own = sizes["width"], sizes["layers"], keys.count("hidden_size_per_layer_input", absent=absent)
    if not own:
        return 0, ()
    matrices: Matrices = (("other", width, own), ("other", own, width))
    rows = keys.size("vocab_size_per_layer_input", default=sizes["vocabulary"])
    once = Sublayer(part="mlp", layers=1, matrices=(("other", width, layers * own),), norm=own)
    return rows * layers * own, (Sublayer(part="mlp", layers=layers, matrices=matrices, norm=width), once)


@family("gemma4_unified_text", Block(wide_norms=True, branch_norms=True))
def gemma4_unified(keys: ConfigKeys) -> dict[str, Any]:
    """Same as gemma4, without the embedding for every layer."""
    return _gemma4(keys, layer_input=0)


@family("gemma4_text", Block(wide_norms=True, branch_norms=True))
def gemma4(keys: ConfigKeys) -> dict[str, Any]:
    """An embedding for every layer, unless the config has 0."""
    return _gemma4(keys, layer_input=256)


def _gemma4(keys: ConfigKeys, *, layer_input: int) -> dict[str, Any]:
    """Full attention has larger heads, whose keys may be the values; experts are in parallel with an MLP for all tokens."""
    sizes = line_sizes(keys, tied=True, heads=8, kv_heads=4, head_dim=256)
    same = keys.flag("attention_k_eq_v", default=False)
    full_heads = keys.size("num_global_key_value_heads", default=sizes["kv_heads"]) if same else sizes["kv_heads"]
    sizes |= _attentions(keys, sizes, full_dim=keys.size("global_head_dim", default=512), full_heads=full_heads, joined=same)
    embedding, beside = _layer_inputs(keys, sizes, absent=layer_input)
    sizes |= {"norms": 4, "per_layer_embedding": embedding, "beside": beside}
    reusing, width, ffn = keys.count("num_kv_shared_layers"), sizes["width"], sizes["ffn"]
    if reusing and keys.flag("use_double_wide_mlp", default=False):
        wide = gated_mlp(width, 2 * ffn)
        sizes["instead"] += (Sublayer(part="mlp", layers=reusing, first=sizes["layers"] - reusing, matrices=wide),)
        sizes["dense_layers"] -= reusing
    if not keys.flag("enable_moe_block", default=False):
        return sizes
    experts = keys.size("num_experts")
    return sizes | {
        "norms": 7,
        "dense_layers": 0,
        "experts": experts,
        "experts_per_token": keys.size("top_k_experts"),
        "expert_ffn": keys.size("moe_intermediate_size"),
        "shared_ffn": ffn,
        "router_vector": width + experts,
    }


@family("gemma3n_text", Block(wide_norms=True, branch_norms=True))
def gemma3n(keys: ConfigKeys) -> dict[str, Any]:
    """Four copies of the residual stream (AltUp), one of which passes the layer; a narrow path in parallel with attention (Laurel)."""
    given = keys.value("intermediate_size")
    listed = [one for one in given if isinstance(one, int) and 0 < one <= MOST_SIZE] if isinstance(given, list) else []
    sizes = line_sizes(keys, tied=True, heads=8, kv_heads=2, head_dim=256, ffn=max(listed, default=0))
    width, layers, copies, rank = (
        sizes["width"],
        sizes["layers"],
        keys.size("altup_num_inputs", default=4),
        keys.size("laurel_rank", default=64),
    )
    sizes |= _attentions(keys, sizes, full_dim=sizes["head_dim"], full_heads=sizes["kv_heads"], joined=False)
    embedding, beside = _layer_inputs(keys, sizes, absent=256)
    narrow: Matrices = (("other", width, rank), ("other", rank, width))
    mixed: Matrices = (("other", width, copies), ("other", copies, copies), ("other", copies, copies**2))
    outside: Matrices = (("other", width, width),) * (2 * (copies - 1))
    return sizes | {
        "norms": 4,
        "per_layer_embedding": embedding,
        "beside": (
            *beside,
            Sublayer(part="mlp", layers=layers, matrices=(*narrow, *mixed), norm=2 * width, other=width),
            Sublayer(part="mlp", layers=1, matrices=outside),
        ),
    }
