"""Encoders with scores by distance (DeBERTa), grouped products (SqueezeBERT), or repeated layers (ALBERT)."""

from __future__ import annotations

from typing import Any

from planner.workload.block import Block
from planner.workload.huggingface.families.encoders.bert import Encoder, read_encoder
from planner.workload.huggingface.keys import ConfigKeys, family
from planner.workload.sublayers import AttentionGroup, Sublayer, projected_attention

_BLOCK = Block(attention_dropout=True)


def _terms(keys: ConfigKeys) -> list[str]:
    """Further terms of scores: `c2p`, a content and a distance, and `p2c`; published as a list or joined by bars."""
    given = keys.value("pos_att_type")
    listed = given.split("|") if isinstance(given, str) else given if isinstance(given, list) else []
    return [term for term in ("c2p", "p2c") if term in listed] if keys.flag("relative_attention", default=False) else []


def _plain(keys: ConfigKeys, vocabulary: int) -> dict[str, Any]:
    """Sizes without those of distances; no position is added where distances alone state the place of a token."""
    sizes = read_encoder(Encoder(vocabulary=vocabulary, token_types=0, pooler=False), keys)
    width = sizes["width"]
    if keys.size("embedding_size", default=width) != width:
        keys.reject("embedding_size", f"has to be hidden_size = {width}: embeddings of another width are not supported.")
    rows = sizes["learned_positions"] * keys.flag("position_biased_input", default=True) + keys.count("type_vocab_size")
    return sizes | {"learned_positions": rows, "token_types": 0}


def _longest(keys: ConfigKeys) -> int:
    """Distances that are distinguished, on either side."""
    given = keys.value("max_relative_positions")
    return given if isinstance(given, int) and 0 < given < 10**6 else keys.size("max_position_embeddings", default=512)


@family("deberta", _BLOCK)
def deberta(keys: ConfigKeys) -> dict[str, Any]:
    """One product for query, key and value, without key biases; distances up to the longest prompt have projections."""
    sizes, terms = _plain(keys, 50265), _terms(keys)
    layers, width, heads, dim = (sizes[name] for name in ("layers", "width", "heads", "head_dim"))
    apart = Sublayer(part="attention", layers=layers, other=2 * width)  # biases of query and value, beside the product
    sizes |= {"attention_bias": width, "fused_qkv": True, "beside": (apart,)}
    if not keys.flag("relative_attention", default=False):
        return sizes
    seen = AttentionGroup(
        layers=layers, heads=heads, score_dim=2 * dim * len(terms)
    )  # distances on both sides, as many as there are tokens
    projections = Sublayer(
        part="attention", layers=0, stored=layers, matrices=(("other", width, width),) * len(terms), bias=width * ("p2c" in terms)
    )
    return sizes | {"per_layer_embedding": 2 * _longest(keys) * width, "beside": (apart, _seeing(seen), projections)}


@family("deberta-v2", _BLOCK)
def deberta_v2(keys: ConfigKeys) -> dict[str, Any]:
    """DeBERTa 2 and 3: distances in buckets, with the projections of contents or their own; a convolution in parallel with the first layer.

    Projections of distances run once per batch, whatever its size, and are not included in the FLOPs of a token.
    """
    sizes, terms = _plain(keys, 128100), _terms(keys)
    layers, width, heads, dim = (sizes[name] for name in ("layers", "width", "heads", "head_dim"))
    beside = []
    if kernel := keys.count("conv_kernel_size"):
        convolution = kernel * width * (width // keys.size("conv_groups", default=1))
        beside.append(Sublayer(part="mlp", layers=1, convolution=convolution, bias=width, norm=2 * width))
    if keys.flag("relative_attention", default=False):
        buckets = keys.value("position_buckets")
        rows = 2 * (buckets if isinstance(buckets, int) and 0 < buckets < 10**6 else _longest(keys))
        normed = "layer_norm" in str(keys.value("norm_rel_ebd") or "")
        beside.append(_seeing(AttentionGroup(layers=layers, heads=heads, scan_flop=2 * heads * dim * rows * len(terms))))
        if not keys.flag("share_att_key", default=False):
            own = (("other", width, width),) * len(terms)
            beside.append(Sublayer(part="attention", layers=0, stored=layers, matrices=own, bias=width * len(terms)))  # type: ignore[arg-type]
        beside.append(Sublayer(part="attention", layers=1, norm=2 * width * normed))
        sizes |= {"per_layer_embedding": rows * width}
    return sizes | {"beside": tuple(beside)}


def _seeing(seen: AttentionGroup) -> Sublayer:
    return Sublayer(part="attention", layers=seen.layers, attending=(seen,))


@family("squeezebert", _BLOCK)
def squeezebert(keys: ConfigKeys) -> dict[str, Any]:
    """BERT whose products are of groups of channels, but for attention's output."""
    sizes = read_encoder(Encoder(), keys)
    layers, width, heads, dim, ffn = (sizes[name] for name in ("layers", "width", "heads", "head_dim", "ffn"))
    q, k, v, out, up, down = (
        keys.size(f"{name}_groups", default=groups)
        for name, groups in (("q", 4), ("k", 4), ("v", 4), ("post_attention", 1), ("intermediate", 4), ("output", 4))
    )
    attention = Sublayer(
        part="attention",
        layers=layers,
        convolution=width * (width // q + width // k + width // v + width // out),
        bias=4 * width,
        attending=(AttentionGroup.scored(layers, heads, heads, dim).uncached,),
    )
    mlp = Sublayer(part="mlp", layers=layers, convolution=(width // up) * ffn + (ffn // down) * width, bias=ffn + width)
    pooler = Sublayer(part="mlp", layers=0, stored=1, matrices=(("other", width, width),), bias=width)
    return sizes | {"attention_bias": 0, "dense_layers": 0, "instead": (attention, mlp), "beside": (pooler,)}


@family("albert", Block(attention_dropout=True, activation="gelu-new"))
def albert(keys: ConfigKeys) -> dict[str, Any]:
    """BERT with a narrower embedding whose few layers are each used again."""
    sizes = read_encoder(Encoder(vocabulary=30000, factored=True, final_norms=0, pooler=False), keys)
    layers, width, heads, dim, ffn = (sizes[name] for name in ("layers", "width", "heads", "head_dim", "ffn"))
    inner = keys.size("inner_group_num", default=1)
    stored, used = keys.size("num_hidden_groups", default=1) * inner, layers * inner
    seen = AttentionGroup.scored(used, heads, heads, dim).uncached
    attention = projected_attention(width, seen, stored=stored, bias=4 * width, norm=4 * width)
    mlp = Sublayer(part="mlp", layers=used, stored=stored, matrices=(("up", width, ffn), ("down", ffn, width)), bias=ffn + width)
    return sizes | {"layers": used, "norms": 0, "attention_bias": 0, "dense_layers": 0, "instead": (attention, mlp)}
