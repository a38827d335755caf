"""Decoders with unusual attention, norms or residual stream: DiffLlama, Doge, ModernBERT, xLSTM, JetMoe, CPM-Ant, HRM, Moshi."""

from __future__ import annotations

from collections import Counter
from typing import Any, Literal

from msgspec.structs import replace

from planner.errors import shown
from planner.workload.block import Block
from planner.workload.huggingface.families.encoders.bert import read_head
from planner.workload.huggingface.families.selective import without_attention
from planner.workload.huggingface.keys import ConfigKeys, family
from planner.workload.huggingface.sizes import head_normed, line_sizes, projected, routed, windowed
from planner.workload.sublayers import AttentionGroup, Sublayer, gated_mlp, projected_attention


@family("diffllama")
def diffllama(keys: ConfigKeys) -> dict[str, Any]:
    """Difference of two attentions: each head reads the values of two."""
    sizes = line_sizes(keys, biased=True)
    seen = AttentionGroup.scored(sizes["layers"], sizes["heads"], sizes["kv_heads"], sizes["head_dim"])
    plain = projected_attention(sizes["width"], seen, other=4 * seen.score_dim, bias=sizes["attention_bias"])
    twice = replace(seen, score_dim=2 * seen.score_dim, value_dim=2 * seen.value_dim)
    return sizes | {"attention_bias": 0, "instead": (replace(plain, attending=(twice,)),)}


@family("moshi", Block(wide_norms=True, fused_gate=True))
def moshi(keys: ConfigKeys) -> dict[str, Any]:
    """Text of Moshi: a window in every layer, gate and up in one matrix, an embedding with one token more than the head."""
    sizes = line_sizes(keys, ffn=max(1, keys.size("ffn_dim", default=22528) // 2))
    own = windowed(keys, sizes, keys.size("sliding_window", default=3000), sizes["layers"])
    parts = tuple(name for name in ("audio_encoder_config", "depth_decoder_config") if keys.value(name) is not None)
    return own | {"fused_gate_up": True, "per_layer_embedding": sizes["width"], "left_out": parts}


@family("nemotron-nas")
def nemotron_nas(keys: ConfigKeys) -> dict[str, Any]:
    """Llama 3 pruned by search (`block_configs`): layers lack attention or MLP, have one matrix instead, or another MLP width."""
    sizes = line_sizes(keys, kv_heads=8, ffn=1, layers=len(keys.items("block_configs")) or None)
    width, heads, dim = sizes["width"], sizes["heads"], sizes["head_dim"]
    found: Counter[tuple[Any, ...]] = Counter()
    for block in keys.items("block_configs"):
        config = block if isinstance(block, dict) else {}
        for part, size in (("attention", "n_heads_in_group"), ("ffn", "ffn_mult")):
            given = config.get(part)
            one = given if isinstance(given, dict) else {}
            value = one.get(size)
            number = value if isinstance(value, int | float) else None
            found[part, bool(one.get("no_op")), bool(one.get("replace_with_linear")), number] += 1
    instead = []
    for (part, empty, linear, size), layers in found.items():
        of_part: Literal["attention", "mlp"] = "mlp" if part == "ffn" else "attention"
        if empty:
            instead.append(Sublayer(part=of_part, layers=layers))
        elif linear:
            instead.append(Sublayer(part=of_part, layers=layers, matrices=(("other", width, width),), norm=width))
        elif not isinstance(size, int | float) or not 0 < size <= heads:
            keys.reject("block_configs", f"{shown(size)} is not accepted for {part}.")
        elif part == "attention":
            instead.append(
                projected_attention(width, AttentionGroup.scored(layers, heads, max(1, heads // int(size)), dim), norm=width)
            )
        else:
            ffn = _MULTIPLE * -(-int(2 * size * width / 3) // _MULTIPLE)
            sizes["ffn"] = max(sizes["ffn"], ffn)
            instead.append(Sublayer(part="mlp", layers=layers, matrices=gated_mlp(width, ffn), norm=width))
    return sizes | {"norms": 0, "dense_layers": 0, "instead": tuple(instead)}


_MULTIPLE = 256
"""Multiple to which the inner width of an MLP is rounded up, in the code of the checkpoints of nemotron-nas."""


@family("doge")
def doge(keys: ConfigKeys) -> dict[str, Any]:
    """A mask made of the values, and a learned weight of every element of the residual stream."""
    if keys.flag("is_moe", default=False) or 0 in (
        keys.count("num_experts", absent=1),
        keys.count("num_experts_per_tok", absent=1),
    ):
        keys.reject("is_moe", "its experts of one neuron are not known; gpu-planner models show PATH --exact traces them.")
    sizes = head_normed(line_sizes(keys, biased=True))
    layers, width, groups = sizes["layers"], sizes["width"], sizes["kv_heads"]
    mask = Sublayer(part="attention", layers=layers, matrices=(("other", groups * sizes["head_dim"], groups),), other=groups)
    return sizes | {
        "mlp_vector": (2 * sizes["ffn"] + width) * keys.flag("mlp_bias", default=False),
        "beside": (mask, Sublayer(part="mlp", layers=layers, other=2 * width)),
    }


@family("modernbert", Block(fused_gate=True))
def modernbert(keys: ConfigKeys) -> dict[str, Any]:
    """Its decoder, in both directions, with a fused query, key and value; the window is `local_attention` tokens."""
    around = keys.size("local_attention", default=128)
    sizes = modernbert_decoder(keys.also(sliding_window=around)) | {"encoder": True, "fused_qkv": True}
    return sizes | read_head(keys, sizes, norms=True, pooler=False)


@family("eurobert")
def eurobert(keys: ConfigKeys) -> dict[str, Any]:
    """Llama in both directions."""
    sizes = line_sizes(keys, biased=True) | {"encoder": True}
    sizes["mlp_vector"] = (2 * sizes["ffn"] + sizes["width"]) * keys.flag("mlp_bias", default=False)
    return sizes | read_head(keys, sizes, norms=False, pooler=False)


@family("modernbert-decoder", Block(fused_gate=True))
def modernbert_decoder(keys: ConfigKeys) -> dict[str, Any]:
    """LayerNorm without bias, none before the first attention; a product, a norm and a bias at the tied head; windows."""
    sizes = line_sizes(keys, tied=True)
    layers, width, vocabulary = sizes["layers"], sizes["width"], sizes["vocabulary"]
    vectors = 1 + keys.flag("norm_bias", default=False)
    biases = (sizes["heads"] * sizes["head_dim"] * 3 + width) * keys.flag("attention_bias", default=False)
    window = keys.size("sliding_window", default=max(1, keys.size("local_attention", default=128) // 2))
    every = keys.size("global_attn_every_n_layers", default=3)
    return windowed(keys, sizes, window, layers - -(-layers // every)) | {
        "fused_gate_up": True,
        "centred": True,
        "norms": 1,
        "final_norms": 3,
        "norm_parameters": vectors * width,
        "attention_bias": biases,
        "mlp_vector": (2 * sizes["ffn"] + width) * keys.flag("mlp_bias", default=False),
        "output_matrix": width * width,
        "final_bias": vocabulary * keys.flag("decoder_bias", default=True) + width * keys.flag("classifier_bias", default=False),
        "beside": (Sublayer(part="attention", layers=layers - 1, norm=vectors * width),) * (layers > 1),
    }


@family("xlstm")
def xlstm(keys: ConfigKeys) -> dict[str, Any]:
    """A matrix memory of every head (mLSTM), with gates of its input, its forgetting and its output; a gated MLP."""
    sizes = without_attention(keys, heads=keys.size("num_heads"), head_dim=1, tied=False)
    layers, width, heads = keys.size("num_blocks", "num_hidden_layers"), sizes["width"], sizes["heads"]
    query = int(width * keys.factor("qk_dim_factor", default=0.5))
    value = int(width * keys.factor("v_dim_factor", default=1.0))
    multiple = keys.size("ffn_round_up_to_multiple_of", default=64)
    ffn = multiple * -(-int(width * keys.factor("ffn_proj_factor", default=2.667)) // multiple)
    chunk, each, value_dim = keys.size("chunk_size", default=64), max(1, query // heads), max(1, value // heads)
    memory = Sublayer(
        part="attention",
        layers=layers,
        matrices=(
            ("q", width, query), ("k", width, query), ("v", width, value), ("other", width, value),
            ("in", width, heads), ("in", width, heads), ("out", value, width),
        ),
        bias=2 * heads,
        other=value,
        attending=(
            AttentionGroup(
                layers=layers,
                state=heads * (each * value_dim + each + 1),
                scan_flop=heads * (2 * chunk * (each + value_dim) + 4 * each * value_dim),
            ),
        ),
    )  # fmt: skip
    return sizes | {"layers": layers, "dense_layers": layers, "ffn": ffn, "norms": 2, "instead": (memory,)}


@family("jetmoe")
def jetmoe(keys: ConfigKeys) -> dict[str, Any]:
    """Queries and outputs of attention are experts too, with common keys; unchosen ones are only stored."""
    groups, dim = keys.size("num_key_value_heads", default=16), keys.size("kv_channels", "head_dim", default=128)
    chosen, number = keys.size("num_experts_per_tok", default=2), keys.size("num_local_experts", default=8)
    heads, key = groups * chosen, groups * dim
    sizes = line_sizes(keys, tied=True, heads=heads, head_dim=dim) | {"heads": heads, "head_dim": dim}
    layers, width = sizes["layers"], sizes["width"]
    attention = Sublayer(
        part="attention",
        layers=layers,
        matrices=(("kv", width, 2 * key), ("router", width, number)),
        convolution=2 * chosen * width * key,
        other=2 * (number - chosen) * width * key,
        bias=width,
        attending=(AttentionGroup.scored(layers, heads, groups, dim),),
    )
    return (
        sizes
        | routed(keys, experts="num_local_experts", inner="intermediate_size")
        | {"fused_gate_up": True, "instead": (attention,), "beside": (Sublayer(part="mlp", layers=layers, bias=width),)}
    )


@family("cpmant", eager_attention=True)
def cpmant(keys: ConfigKeys) -> dict[str, Any]:
    """A bias of the scores by position and segment; learned prompts, one of which precedes every sequence and is in its cache."""
    sizes = line_sizes(keys, head_dim=keys.size("dim_head", default=128), ffn=keys.size("dim_ff", default=10240))
    layers, heads, segments = sizes["layers"], sizes["heads"], keys.size("segment_types", default=32)
    prompt, buckets = keys.size("prompt_length", default=32), keys.size("position_bias_num_buckets", default=512)
    bias = Sublayer(part="mlp", layers=1, other=(segments**2 + buckets) * heads)
    kept = AttentionGroup(layers=layers, state=prompt * 2 * heads * sizes["head_dim"])
    return sizes | {
        "tied": False,
        "rotary": False,
        "learned_positions": keys.size("prompt_types", default=32) * prompt,
        "token_types": segments,
        "dropout": keys.share("dropout_p", default=0.0) > 0,
        "beside": (bias, Sublayer(part="attention", layers=layers, attending=(kept,))),
    }


@family("hrm_text")
def hrm_text(keys: ConfigKeys) -> dict[str, Any]:
    """Two stacks of layers in cycles, each use with a cache of its own; gated attention, norms without weights."""
    high, low = keys.size("H_cycles", default=2), keys.size("L_cycles", default=3)
    stack = keys.size("num_layers_per_stack", "num_hidden_layers")
    sizes = line_sizes(keys, head_dim=128, layers=stack * high * (low + 1))
    layers, width, ffn = sizes["layers"], sizes["width"], sizes["ffn"]
    query = sizes["heads"] * sizes["head_dim"]
    seen = AttentionGroup.scored(layers, sizes["heads"], sizes["kv_heads"], sizes["head_dim"])
    biases = (projected(sizes) + query + width) * keys.flag("attention_bias", default=False)
    attention = projected_attention(width, seen, further=(("other", width, query),), stored=2 * stack, bias=biases)
    mlp = Sublayer(
        part="mlp",
        layers=layers,
        stored=2 * stack,
        matrices=gated_mlp(width, ffn),
        bias=(2 * ffn + width) * keys.flag("mlp_bias", default=False),
    )
    begin = Sublayer(part="mlp", layers=1, other=width)
    return sizes | {"norm_parameters": 0, "dense_layers": 0, "instead": (attention, mlp), "beside": (begin,)}
