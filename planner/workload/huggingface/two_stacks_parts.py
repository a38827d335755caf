"""Families of an encoder and a decoder whose encoder attends to parts of its prompt, or whose layers have experts, as in transformers 5.23.

Where attention stays within blocks, its FLOPs are those of the library's code, which multiplies whole blocks: they grow linearly with the
prompt, and are counted like those of a recurrence. The different cost of first and last blocks is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from msgspec.structs import replace

from planner.workload.block import Block
from planner.workload.huggingface.families.llama import gemma3
from planner.workload.huggingface.keys import ConfigKeys, family
from planner.workload.huggingface.two_stacks import BART_LINE, WHOLE_PROMPTS, Facts, both_stacks, t5, with_encoder
from planner.workload.sublayers import AttentionGroup, Sublayer

TWO_STACKS = (
    *WHOLE_PROMPTS,
    "bigbird_pegasus", "fsmt", "led", "longt5", "nllb-moe", "pegasus_x", "seamless_m4t", "seamless_m4t_v2", "switch_transformers", "t5gemma2",
)  # fmt: skip
"""Model types of all families of an encoder and a decoder."""


def _within_blocks(sizes: dict[str, Any], layers: int, keys_seen: float, values_seen: float, *, bias: int = 0) -> Sublayer:
    """Attention in `layers` layers where every token is multiplied with a fixed number of keys and values, however long the prompt is."""
    width, heads, inner = sizes["width"], sizes["heads"], sizes["heads"] * sizes["head_dim"]
    seen = AttentionGroup(layers=layers, heads=heads, scan_flop=2 * inner * (keys_seen + values_seen))
    return Sublayer(
        part="attention",
        layers=layers,
        matrices=(("q", width, inner), ("k", width, inner), ("v", width, inner), ("o", inner, width)),
        bias=bias,
        attending=(seen,),
    )


def _sizes_of(encoder: Any) -> dict[str, Any]:
    return {name: getattr(encoder, name) for name in ("width", "heads", "head_dim", "layers")}


@family("seamless_m4t")
@family("seamless_m4t_v2")
def seamless(keys: ConfigKeys) -> dict[str, Any]:
    """Translation of text: stacks of M2M-100, without encoders and decoders of speech."""
    return both_stacks(keys.also(d_model=keys.size("hidden_size")), BART_LINE["m2m_100"], "m2m_100")


@family("fsmt")
def fsmt(keys: ConfigKeys) -> dict[str, Any]:
    """BART's stacks with a vocabulary for each language, no norm after the embedding, and a table of computed positions."""
    named = keys.also(vocab_size=keys.size("tgt_vocab_size", default=42024), tie_word_embeddings=False)
    sizes = both_stacks(named, Facts(extra_positions=2, activation="relu"), "fsmt")
    source = sizes["source"]
    words = keys.size("src_vocab_size", default=42024) * source.width
    return sizes | {"source": replace(source, per_layer_embedding=words)}


@family("led")
def led(keys: ConfigKeys) -> dict[str, Any]:
    """A window around every token of the prompt, in half-window blocks; projections for tokens that see all are unused."""
    sizes = both_stacks(keys, Facts(embedding_norm=True), "led")
    source = sizes["source"]
    own, width, layers = _sizes_of(source), source.width, source.layers
    given = keys.value("attention_window")
    windows = Counter(given if isinstance(given, list) and len(given) == layers else [given] * layers)
    usable = {one: count for one, count in windows.items() if isinstance(one, int) and 0 < one <= 10**6 and one % 2 == 0}
    if len(usable) < len(windows):
        keys.reject("attention_window", "is not accepted; it has to be an even number, or a list of one for each layer.")
    near = tuple(_within_blocks(own, count, 2 * w, 1.5 * w, bias=4 * width) for w, count in usable.items())
    wide = Sublayer(
        part="attention",
        layers=0,
        stored=layers,
        matrices=(("q", width, width), ("k", width, width), ("v", width, width)),
        bias=3 * width,
    )
    return sizes | {"source": replace(source, attention_bias=0, instead=near, beside=(*source.beside, wide))}


@family("bigbird_pegasus")
def bigbird_pegasus(keys: ConfigKeys) -> dict[str, Any]:
    """Blocks of the prompt see three around them, random ones, the first and the last, which see all; no biases in attention."""
    sizes = both_stacks(
        keys,
        Facts(positions=4096, embedding_norm=True, activation="gelu_new"),
        "bigbird_pegasus",
        biased=keys.flag("use_bias", default=False),
    )
    source = sizes["source"]
    size, chosen = keys.size("block_size", default=64), keys.count("num_random_blocks", absent=3)
    if keys.value("attention_type") == "original_full":
        return sizes
    seen = (5 + chosen) * size + 2 * size
    near = _within_blocks(_sizes_of(source), source.layers, seen, seen, bias=source.attention_bias)
    return sizes | {"source": replace(source, attention_bias=0, instead=(near,))}


@family("pegasus_x")
def pegasus_x(keys: ConfigKeys) -> dict[str, Any]:
    """Blocks of the prompt see themselves and a few global tokens, which see all and have a norm in every layer."""
    sizes = both_stacks(keys, Facts(positions=16384, learned=False, last_norm=True), "pegasus_x", biased=False)
    source = sizes["source"]
    beside = keys.size("num_global_tokens", default=32)
    seen = keys.size("block_size", default=512) + 2 * beside
    near = _within_blocks(_sizes_of(source), source.layers, seen, seen)
    return sizes | {"source": replace(source, attention_bias=0, norms=3, learned_positions=beside, instead=(near,))}


@family("longt5")
def longt5(keys: ConfigKeys) -> dict[str, Any]:
    """T5 whose encoder sees blocks of tokens and their neighbours; `transient-global`: means of 16 tokens each, too."""
    sizes = t5(keys.also(feed_forward_proj="relu"))
    source = sizes["source"]
    own, width, inner = _sizes_of(source), source.width, source.heads * source.head_dim
    seen = 3 * (keys.size("local_radius", default=127) + 1)
    near = _within_blocks(own, source.layers, seen, seen)
    each = keys.size("global_block_size", default=16)
    if keys.value("encoder_attention_type") != "transient-global":
        return sizes | {"source": replace(source, instead=(near,))}
    summed = AttentionGroup(layers=source.layers, heads=1, score_dim=width // each)
    means = AttentionGroup(
        layers=source.layers,
        heads=source.heads,
        score_dim=source.head_dim // each,
        value_dim=source.head_dim // each,
        scan_flop=2 * 2 * width * inner / each,
    )
    buckets = keys.size("relative_attention_num_buckets", default=32) * source.heads
    near = replace(near, attending=(*near.attending, summed, means), norm=width)
    first = Sublayer(part="attention", layers=1, other=buckets)
    return sizes | {"source": replace(source, instead=(near,), beside=(*source.beside, first))}


def _with_experts(
    keys: ConfigKeys, sizes: dict[str, Any], sparse_layers: Callable[[str, int], int], *, experts: int, top: int, biased: bool
) -> dict[str, Any]:
    """Both stacks with routed experts in `sparse_layers` of their layers."""
    router, found = keys.flag("router_bias", default=False), []
    for side, stack in (("decoder", SimpleNamespace(**sizes)), ("encoder", sizes["source"])):
        sparse = sparse_layers(side, stack.layers)
        found.append(
            {
                "dense_layers": stack.layers - sparse,
                "experts": experts * bool(sparse),
                "experts_per_token": top * bool(sparse),
                "expert_ffn": stack.ffn,
                "expert_vector": (stack.ffn + stack.width) * biased,
                "router_vector": experts * router * bool(sparse),
            }
        )
    return sizes | found[0] | {"source": replace(sizes["source"], **found[1])}


@family("nllb-moe")
def nllb_moe(keys: ConfigKeys) -> dict[str, Any]:
    """Stacks of M2M-100 with experts in every few layers, two of them for a token (arXiv:2207.04672).

    transformers 5.23 mistakes the mask of the first expert for expert numbers, so it runs every token through all experts.
    """

    def sparse(side: str, layers: int) -> int:
        step = keys.count(f"{side}_sparse_step", absent=4)
        return len(range(step - 1, layers, step)) if step else 0

    sizes = both_stacks(keys, BART_LINE["m2m_100"], "m2m_100")
    return _with_experts(keys, sizes, sparse, experts=keys.size("num_experts", default=128), top=2, biased=True)


@family("switch_transformers", Block(activation="relu"))
def switch_transformers(keys: ConfigKeys) -> dict[str, Any]:
    """T5 with experts in some layers, one of them for a token."""

    def sparse(side: str, layers: int) -> int:
        wanted = keys.count(f"num_sparse_{side}_layers", absent=3)
        step = layers // wanted if wanted else 0
        return len(range(0 if step == 1 else 1, layers, step)) if step else 0

    sizes = t5(keys.also(feed_forward_proj="relu", num_decoder_layers=12))
    return _with_experts(keys, sizes, sparse, experts=keys.size("num_experts", default=8), top=1, biased=False)


_GEMMA = Block(wide_norms=True, branch_norms=True)


@family("t5gemma2", _GEMMA)
def t5gemma2(keys: ConfigKeys) -> dict[str, Any]:
    """Two stacks of Gemma 3 with one embedding; decoder layers project their own tokens and the encoder's output alike."""
    inner, _ = keys.part("encoder"), keys.value("vocab_size")  # both parts state it, too
    decoder, encoder = gemma3(keys.part("decoder")), gemma3(inner.part("text_config"))
    layers, width, heads, groups, dim = (decoder[name] for name in ("layers", "width", "heads", "kv_heads", "head_dim"))
    seen = AttentionGroup.scored(layers, heads, groups, dim, attends_to="source")
    asks = Sublayer(part="attention", layers=layers, attending=(seen,))
    key = groups * dim
    answers = Sublayer(
        part="attention", layers=layers, stored=0, matrices=(("k", encoder["width"], key), ("v", encoder["width"], key))
    )
    end_of_picture = Sublayer(part="mlp", layers=1, other=width)
    left = ("encoder.vision_config",) if inner.value("vision_config") is not None else ()
    sizes = with_encoder(decoder | {"beside": (asks,)}, encoder | {"beside": (answers, end_of_picture)}, _GEMMA, "t5gemma2")
    return sizes | {"tied": True, "left_out": left}
