"""Byte latent transformers: a small stack for every byte, a large one for every patch, and a third that determines patches."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from planner.workload.huggingface.keys import ConfigKeys, family
from planner.workload.sublayers import AttentionGroup, Sublayer, gated_mlp


@family("blt")
def blt(keys: ConfigKeys) -> dict[str, Any]:
    """A token is a byte; `patch_size` bytes make a patch on average, so layers of patches count as that share of a layer per byte.

    The large stack keeps its keys and values, as any engine that generates with it must; transformers 5.23 recomputes it for every byte.
    """
    each, per_patch = 1 / keys.size("patch_size", default=4), keys.size("cross_attn_k", default=2)
    before, after, patches = (keys.part(f"{name}_config") for name in ("encoder", "decoder", "global"))
    width, heads = after.size("hidden_size", default=1024), after.size("num_attention_heads", default=16)
    groups, dim = after.size("num_key_value_heads", default=heads), width // heads
    if before.size("hidden_size", default=1024) != width:
        keys.reject("encoder_config", f"has to have the hidden_size of decoder_config, {width}.")
    first, last = before.size("num_hidden_layers", default=1), after.size("num_hidden_layers", default=9)
    inner, ffn = before.size("intermediate_size", default=2730), after.size("intermediate_size", default=2816)
    wide = patches.size("hidden_size", default=2048)
    window, layers = keys.count("local_attention_window_len", absent=512), first + last
    crossing = [
        *_crossing(width, heads, first if before.flag("cross_attn_all_layers", default=False) else 1, queries=per_patch * each),
        *_crossing(width, heads, last if after.flag("cross_attn_all_layers", default=True) else 1, keys=per_patch * each),
    ]
    joined = Sublayer(
        part="mlp", layers=each, stored=1, matrices=(("other", width, per_patch * width), ("other", wide, per_patch * width))
    )
    first_mlp = Sublayer(part="mlp", layers=first, matrices=gated_mlp(width, inner))
    hashed = len(keys.items("encoder_hash_byte_group_size")) * keys.size("encoder_hash_byte_group_nb_functions", default=1)
    vocabulary = keys.size("vocab_size", default=260)
    ends = _patcher(keys.part("patcher_config"), vocabulary) if keys.flag("patch_in_forward", default=True) else ()
    return {
        "layers": layers,
        "width": width,
        "heads": heads,
        "kv_heads": groups,
        "head_dim": dim,
        "ffn": ffn,
        "gated": True,
        "vocabulary": vocabulary,
        "tied": keys.flag("tie_word_embeddings", default=False),
        "rotary": True,
        "norm_parameters": width,
        "dense_layers": last,
        "window": window or None,
        "windowed_layers": layers * (window > 0),
        "max_context": after.count("max_position_embeddings") or None,
        "per_layer_embedding": hashed * keys.size("encoder_hash_byte_group_vocab", default=500_002) * width,
        "instead": (first_mlp,),
        "beside": (*crossing, joined, *_stack(patches, wide, share=each), *ends),
    }


def _crossing(width: int, heads: int, layers: int, *, queries: float = 1, keys: float = 1) -> tuple[Sublayer, Sublayer]:
    """Attention from bytes to patches or from patches to bytes in `layers` layers, with the numbers of queries and keys per byte."""
    score = AttentionGroup(layers=layers * queries * keys, heads=heads, score_dim=width // heads, value_dim=width // heads)
    asks = Sublayer(
        part="attention",
        layers=layers * queries,
        stored=layers,
        matrices=(("q", width, width), ("o", width, width)),
        norm=2 * width,
        attending=(score,),
    )
    return asks, Sublayer(
        part="attention", layers=layers * keys, stored=layers, matrices=(("k", width, width), ("v", width, width))
    )


def _stack(keys: ConfigKeys, width: int, *, share: float) -> tuple[Sublayer, Sublayer]:
    """Layers that `share` of the bytes pass, and attend to each other."""
    layers, heads = keys.size("num_hidden_layers"), keys.size("num_attention_heads")
    groups, dim = keys.size("num_key_value_heads", default=heads), max(1, width // heads)
    seen = AttentionGroup.scored(layers * share * share, heads, groups, dim)
    seen = replace(seen, cached=seen.cached / share, read=seen.read / share)
    query, key = heads * dim, groups * dim
    attention = Sublayer(
        part="attention",
        layers=layers * share,
        stored=layers,
        matrices=(("q", width, query), ("k", width, key), ("v", width, key), ("o", query, width)),
        norm=width,
        attending=(seen,),
    )
    mlp = Sublayer(
        part="mlp", layers=layers * share, stored=layers, matrices=gated_mlp(width, keys.size("intermediate_size")), norm=width
    )
    return attention, mlp


def _patcher(keys: ConfigKeys, vocabulary: int) -> tuple[Sublayer, ...]:
    """Stack that determines the ends of patches: all bytes pass it, and it keeps nothing."""
    width = keys.size("hidden_size", default=768)
    attention, mlp = _stack(keys, width, share=1)
    seen = tuple(one.uncached for one in attention.attending)
    ends = Sublayer(part="mlp", layers=1, matrices=(("other", width, vocabulary),), other=vocabulary * width, norm=width)
    return replace(attention, attending=seen), mlp, ends
