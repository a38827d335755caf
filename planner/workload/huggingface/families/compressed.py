"""DeepSeek V4: attention to a window of tokens and to entries that stand for several earlier tokens each."""

from __future__ import annotations

from typing import Any

from planner.workload.block import Block
from planner.workload.huggingface.keys import ConfigKeys, family
from planner.workload.huggingface.sizes import line_sizes, routed
from planner.workload.sublayers import AttentionGroup, Role, Sublayer

_SPARSE, _HEAVY = "compressed_sparse_attention", "heavily_compressed_attention"


def hyper_connections(width: int, layers: int, copies: int, *, mixed: bool) -> tuple[Sublayer, ...]:
    """Residual stream in `copies`: before and after attention and MLP a small product determines how they are joined and divided.

    `mixed`: it also determines how the copies are mixed with each other.
    """
    outputs = copies * (2 + copies * mixed)
    each = Sublayer(part="attention", layers=layers, convolution=2 * outputs * copies * width, other=2 * (outputs + 2 + mixed))
    return each, Sublayer(part="attention", layers=1, convolution=copies * copies * width, other=copies + 1)


@family("deepseek_v4", Block(wide_router=True, sinks=True))
def deepseek_v4(keys: ConfigKeys) -> dict[str, Any]:
    """Keys are the values, in one head; layers keep an entry for every 4th token and choose among them, or for every 128th."""
    rates = keys.part("compress_rates")
    sparse_rate = rates.size(_SPARSE, default=keys.size("compress_rate_csa", default=4))
    heavy_rate = rates.size(_HEAVY, default=keys.size("compress_rate_hca", default=128))
    sizes = line_sizes(keys, head_dim=512, kv_heads=1, ffn=keys.size("moe_intermediate_size"), whole=False)
    layers, width, copies = sizes["layers"], sizes["width"], keys.size("hc_mult", default=4)
    kinds, ratios = keys.items("layer_types"), keys.items("compress_ratios")[:layers]
    sparse = kinds.count(_SPARSE) if kinds else ratios.count(sparse_rate)
    heavy = kinds.count(_HEAVY) if kinds else ratios.count(heavy_rate)
    dim, heads, rank = sizes["head_dim"], sizes["heads"], keys.size("q_lora_rank", default=1024)
    narrow = keys.size("o_groups", default=8) * keys.size("o_lora_rank", default=1024)
    grouped = heads * dim // keys.size("o_groups", default=8)
    window = AttentionGroup(layers=layers, heads=heads, score_dim=dim, value_dim=dim, attends_to="window", cached=dim, read=dim)
    own = Sublayer(
        part="attention",
        layers=layers,
        matrices=(
            ("q_a", width, rank),
            ("q_b", rank, heads * dim),
            ("kv_a", width, dim),
            ("o", grouped, narrow),
            ("o", narrow, width),
        ),
        other=heads,
        norm=rank + dim,
        attending=(window,),
    )
    beside = [
        _entries(sizes, heavy, heavy_rate, ()),
        _entries(
            sizes, sparse, sparse_rate, (keys.size("index_n_heads", default=64), keys.size("index_head_dim", default=128), rank)
        ),
    ]
    experts = routed(keys, shared="n_shared_experts") | {"dense_layers": 0}
    hashed = keys.items("mlp_layer_types").count("hash_moe") or keys.count("num_hash_layers")
    corrections = Sublayer(part="router", layers=layers - hashed, other=experts["experts"])
    return {
        **sizes,
        **experts,
        "window": keys.size("sliding_window", default=128),
        "chosen": keys.size("index_topk", default=512) * sparse_rate,
        "instead": (own,),
        "beside": (*(one for one in beside if one.layers), corrections, *hyper_connections(width, layers, copies, mixed=True)),
    }


def _entries(sizes: dict[str, Any], layers: int, rate: int, index: tuple[int, ...]) -> Sublayer:
    """Entries for every `rate` tokens, made from their gated sum; with an index two series overlap, and it chooses among them.

    `index`: its heads, their elements, and the width of the compressed query. Figures are per token, so an entry counts 1 ÷ rate.
    """
    width, dim, series = sizes["width"], sizes["head_dim"], 2 if index else 1
    matrices: list[tuple[Role, int, int]] = [("kv_a", width, series * dim), ("kv_a", width, series * dim)]
    attending = [
        AttentionGroup(
            layers=layers,
            heads=sizes["heads"],
            score_dim=dim // rate,
            value_dim=dim // rate,
            attends_to="chosen" if index else "all",
            cached=dim / rate,
            read=dim / rate,
            state=2 * rate * dim * (series - 1),
        )
    ]
    if index:
        heads, inner, rank = index
        matrices += [
            ("index_key", width, 2 * inner),
            ("index_key", width, 2 * inner),
            ("index", rank, heads * inner),
            ("index_weights", width, heads),
        ]
        entries = AttentionGroup(
            layers=layers, heads=heads, score_dim=inner // rate, cached=inner / rate, read=inner / rate, state=2 * rate * inner
        )
        attending.append(entries)
    vectors = dim + (index[1] if index else 0)
    return Sublayer(
        part="attention",
        layers=layers,
        matrices=tuple(matrices),
        other=rate * series * vectors,
        norm=vectors,
        attending=tuple(attending),
    )
