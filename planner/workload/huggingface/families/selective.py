"""Families with the selective state space of Mamba, with or without attention: Mamba, Falcon Mamba, Jamba, Zamba 1 and 2."""

from __future__ import annotations

from typing import Any, Literal

from planner.workload.block import Block
from planner.workload.huggingface.families.linear import MambaKeys, mamba2
from planner.workload.huggingface.keys import ConfigKeys, family
from planner.workload.huggingface.sizes import line_sizes, routed
from planner.workload.sublayers import AttentionGroup, Matrices, Role, Sublayer

CHANNELS = 64
"""Channels that count as a head where a recurrence handles channels separately: ranks divide them in such blocks."""


def mamba1(
    width: int, inner: int, layers: int, *, state: int, rank: int, kernel: int, biases: int, normed: bool = False, heads: int = 1
) -> Sublayer:
    """Selective state space of Mamba 1: a state of every channel in FP32, with steps from a narrow vector of `rank` elements.

    `heads`: parts of the channels with their own projections to selections and steps. `normed`: steps and selections are normed.
    Reading the state takes 2·inner·state FLOP per token; its update is element by element.
    """
    into: Matrices = (("other", inner, rank + 2 * state), ("other", rank, inner))
    narrow = inner * (rank + 2 * state) + rank * inner
    return Sublayer(
        part="attention",
        layers=layers,
        matrices=(("in", width, 2 * inner), *(into if heads == 1 else ()), ("out", inner, width)),
        convolution=inner * kernel + (0 if heads == 1 else narrow),
        other=inner * (state + 1) + (0 if heads == 1 else inner),
        bias=biases + (inner if heads == 1 else 0),
        norm=(rank + 2 * state) * normed,
        attending=(AttentionGroup(layers=layers, state=inner * kernel, wide_state=inner * state, scan_flop=2 * inner * state),),
    )


def without_attention(keys: ConfigKeys, *, heads: int, head_dim: int, tied: bool) -> dict[str, Any]:
    """Sizes of a model whose layers are one recurrence under one norm: no attention, no MLP."""
    width, layers = keys.size("hidden_size"), keys.size("num_hidden_layers")
    return {
        "layers": layers,
        "width": width,
        "heads": heads,
        "kv_heads": 1,
        "head_dim": head_dim,
        "ffn": width,
        "gated": True,
        "vocabulary": keys.size("vocab_size"),
        "tied": keys.flag("tie_word_embeddings", default=tied),
        "norms": 1,
        "norm_parameters": width,
        "dense_layers": 0,
    }


@family("mamba")
@family("falcon_mamba")
def mamba(keys: ConfigKeys) -> dict[str, Any]:
    """Mamba 1 in every layer."""
    width = keys.size("hidden_size")
    inner = keys.size("intermediate_size", default=keys.size("expand", default=2) * width)
    sizes = without_attention(keys, heads=max(1, inner // CHANNELS), head_dim=CHANNELS, tied=True)
    layers = sizes["layers"]
    given = keys.value("time_step_rank")
    rank = -(-width // 16) if given in (None, "auto") else keys.size("time_step_rank")
    biases = inner * keys.flag("use_conv_bias", default=True) + (2 * inner + width) * keys.flag("use_bias", default=False)
    recurrent = mamba1(
        width,
        inner,
        layers,
        state=keys.size("state_size", default=16),
        rank=rank,
        kernel=keys.size("conv_kernel", default=4),
        biases=biases,
    )
    return sizes | {"instead": (recurrent, Sublayer(part="mlp", layers=layers))}


_BARE = MambaKeys("num_heads", "head_dim", "state_size", "n_groups", "conv_kernel", "use_conv_bias", "use_bias", "chunk_size")


@family("mamba2", Block(wide_norms=True))
def mamba_2(keys: ConfigKeys) -> dict[str, Any]:
    """Mamba 2 in every layer; its heads are those of the recurrence."""
    sizes = without_attention(keys, heads=keys.size("num_heads"), head_dim=keys.size("head_dim"), tied=False)
    layers = sizes["layers"]
    return sizes | {"instead": (mamba2(keys, sizes["width"], layers, named=_BARE), Sublayer(part="mlp", layers=layers))}


def _selective(keys: ConfigKeys, width: int, layers: int, *, normed: bool, heads: int = 1) -> Sublayer:
    """Mamba 1 by the keys of its sizes in hybrids."""
    inner, given = keys.size("mamba_expand", default=2) * width, keys.value("mamba_dt_rank")
    biases = inner * keys.flag("mamba_conv_bias", default=True) + (2 * inner + width) * keys.flag("mamba_proj_bias", default=False)
    return mamba1(
        width,
        inner,
        layers,
        state=keys.size("mamba_d_state", default=16),
        rank=-(-width // 16) if given in (None, "auto") else keys.size("mamba_dt_rank"),
        kernel=keys.size("mamba_d_conv", default=4),
        biases=biases,
        normed=normed,
        heads=heads,
    )


@family("jamba")
def jamba(keys: ConfigKeys) -> dict[str, Any]:
    """Mamba 1 except in every `attn_layer_period`-th layer; experts in every `expert_layer_period`-th."""
    sizes = line_sizes(keys, kv_heads=8)
    layers = sizes["layers"]
    attention, sparse = (
        len(range(keys.count(f"{name}_layer_offset", absent=offset), layers, keys.size(f"{name}_layer_period", default=period)))
        for name, offset, period in (("attn", 4, 8), ("expert", 1, 2))
    )
    recurrent = _selective(keys, sizes["width"], layers - attention, normed=True)
    sizes |= {"instead": (recurrent,) * (layers > attention)}
    if keys.size("num_experts", default=16) == 1:
        return sizes
    return sizes | routed(keys, experts="num_experts", inner="intermediate_size") | {"dense_layers": layers - sparse}


@family("zamba")
def zamba(keys: ConfigKeys) -> dict[str, Any]:
    """Mamba 1 in every layer; before some of them attention and an MLP that all of these share."""
    heads = keys.size("n_mamba_heads", default=2)
    kinds, layers = keys.items("layers_block_type"), keys.size("num_hidden_layers")
    recurrent = _selective(keys, keys.size("hidden_size"), layers, normed=False, heads=heads)
    hybrid = kinds.count("hybrid") or len(
        range(keys.count("attn_layer_offset", absent=4), layers, keys.size("attn_layer_period", default=6))
    )
    return _shared(keys, recurrent, hybrid, stored=1, ffn_matrices=(("gate", 1), ("up", 1)))


@family("zamba2")
def zamba2(keys: ConfigKeys) -> dict[str, Any]:
    """Mamba 2 in every layer; before some of them one of few shared blocks, each use with adapters of its own."""
    width = keys.size("hidden_size")
    inner, heads = keys.size("mamba_expand", default=2) * width, keys.size("n_mamba_heads", default=8)
    named = MambaKeys("n_mamba_heads", "mamba_headdim", groups="mamba_ngroups", conv_bias="use_conv_bias", proj_bias="add_bias_linear", chunk="chunk_size")  # fmt: skip
    if inner % heads:
        keys.reject("n_mamba_heads", f"{heads} does not divide the {inner} channels of the recurrence.")
    recurrent = mamba2(keys, width, keys.size("num_hidden_layers"), named=named, inner=inner)
    kinds = keys.items("layers_block_type")
    hybrid, blocks = kinds.count("hybrid"), keys.size("num_mem_blocks", default=1)
    sizes = _shared(keys, recurrent, hybrid, stored=blocks, ffn_matrices=(("gate_up", 2),))
    rank, ffn = keys.size("adapter_rank", default=128), sizes["ffn"]
    beside = list(sizes["beside"])
    if hybrid:
        beside.append(_adapters("mlp", hybrid, rank, ((width, 2 * ffn),)))
    if hybrid and keys.flag("use_shared_attention_adapter", default=False):
        beside.append(_adapters("attention", hybrid, rank, ((2 * width, sizes["heads"] * sizes["head_dim"]),) * 3))
    return sizes | {"beside": tuple(beside)}


def _adapters(part: Literal["attention", "mlp"], layers: int, rank: int, shapes: tuple[tuple[int, int], ...]) -> Sublayer:
    """Pairs of narrow matrices for shared ones of these shapes, separate in each layer."""
    pairs: list[tuple[Role, int, int]] = []
    for inputs, outputs in shapes:
        pairs += [("other", inputs, rank), ("other", rank, outputs)]
    return Sublayer(part=part, layers=layers, matrices=tuple(pairs))


def _shared(
    keys: ConfigKeys, recurrent: Sublayer, hybrid: int, *, stored: int, ffn_matrices: tuple[tuple[Role, int], ...]
) -> dict[str, Any]:
    """A recurrence in every layer; in `hybrid` of them one of `stored` blocks over the layer's input joined with the embedding."""
    width, ffn = keys.size("hidden_size"), keys.size("intermediate_size")
    heads = keys.size("num_attention_heads")
    kv_heads = keys.size("num_key_value_heads", default=heads)
    dim = keys.size("attention_head_dim", default=max(1, 2 * width // heads))
    query, key = heads * dim, kv_heads * dim
    sizes = without_attention(keys, heads=heads, head_dim=dim, tied=True)
    joined = keys.size("attention_hidden_size", default=2 * width)
    attention = Sublayer(
        part="attention",
        layers=hybrid,
        stored=stored,
        matrices=(("q", joined, query), ("k", joined, key), ("v", joined, key), ("o", query, width)),
        norm=joined + width,
        attending=(AttentionGroup.scored(hybrid, heads, kv_heads, dim),),
    )
    mlp = Sublayer(
        part="mlp",
        layers=hybrid,
        stored=stored,
        matrices=(*((role, width, times * ffn) for role, times in ffn_matrices), ("down", ffn, width)),
    )
    after = Sublayer(part="mlp", layers=hybrid, matrices=(("other", width, width),))
    return sizes | {
        "kv_heads": kv_heads,
        "ffn": ffn,
        "max_context": keys.count("max_position_embeddings") or None,
        "instead": (recurrent, Sublayer(part="mlp", layers=sizes["layers"])),
        "beside": tuple(one for one in (attention, mlp, after) if hybrid),
    }
