"""Families of the GPT line: LayerNorm, a plain MLP of two matrices, biases nearly everywhere."""

from __future__ import annotations

from typing import Any

from planner.workload.block import Block
from planner.workload.huggingface.keys import ConfigKeys, family
from planner.workload.sublayers import AttentionGroup, Sublayer


def plain_block(
    keys: ConfigKeys, width: int, heads: int, layers: int, vocabulary: int, ffn: int, *, key: str = "num_attention_heads"
) -> dict[str, Any]:
    """A block with full attention and two LayerNorms, biases in both; the head is the embedding. `key`: that of the heads."""
    if width % heads:
        keys.reject(key, f"{heads} does not divide the width of {width}.")
    return {
        "layers": layers,
        "width": width,
        "heads": heads,
        "kv_heads": heads,
        "head_dim": max(1, width // heads),
        "ffn": ffn,
        "gated": False,
        "vocabulary": vocabulary,
        "tied": keys.flag("tie_word_embeddings", default=True),
        "attention_bias": 4 * width,
        "mlp_vector": ffn + width,
        "centred": True,
        "norm_parameters": 2 * width,
        "dense_layers": layers,
    }


def _grouped(sizes: dict[str, Any], kv_heads: int) -> dict[str, Any]:
    """`sizes` with `kv_heads` key/value heads instead of one per query head."""
    width, key = sizes["width"], kv_heads * sizes["head_dim"]
    return sizes | {"kv_heads": kv_heads, "attention_bias": 2 * width + 2 * key}


@family("gpt2", Block(activation="gelu-new", narrow_softmax=True, attention_dropout=True))
def gpt2(keys: ConfigKeys) -> dict[str, Any]:
    """Learned positions; dropout while training."""
    width = keys.size("n_embd", "hidden_size")
    heads, layers = keys.size("n_head", "num_attention_heads"), keys.size("n_layer", "num_hidden_layers")
    positions = keys.size("n_positions", "max_position_embeddings", default=1024)
    sizes = plain_block(keys, width, heads, layers, keys.size("vocab_size", default=50257), keys.size("n_inner", default=4 * width))
    return sizes | {"learned_positions": positions, "max_context": positions, "dropout": True, "fused_qkv": True}


@family("gpt_bigcode", Block(attention_dropout=True))
def gpt_bigcode(keys: ConfigKeys) -> dict[str, Any]:
    """StarCoder and SantaCoder: like GPT-2 with one key head, unless the config states otherwise."""
    sizes = gpt2(keys)
    return _grouped(sizes, 1 if keys.flag("multi_query", default=True) else sizes["heads"])


@family("gpt_neo", Block(activation="gelu-new", wide_scores=True))
def gpt_neo(keys: ConfigKeys) -> dict[str, Any]:
    """No biases of query, key and value; layers called local attend to a window, but keep every token."""
    width, layers = keys.size("hidden_size"), keys.size("num_layers")
    positions, inner = keys.size("max_position_embeddings", default=2048), keys.size_or_none("intermediate_size")
    sizes = plain_block(keys, width, keys.size("num_heads"), layers, keys.size("vocab_size", default=50257), inner or 4 * width)
    return sizes | {"learned_positions": positions, "max_context": positions, "attention_bias": width}


@family("openai-gpt", Block(activation="gelu-new", attention_dropout=True))
def openai_gpt(keys: ConfigKeys) -> dict[str, Any]:
    """Same as GPT-2, without a norm after the last layer."""
    return gpt2(keys) | {"final_norms": 0}


@family("codegen", Block(activation="gelu-new", parallel=True, joined_rotary=True, wide_scores=True), eager_attention=True)
@family("gptj", Block(activation="gelu-new", parallel=True, joined_rotary=True, wide_scores=True), eager_attention=True)
def gptj(keys: ConfigKeys) -> dict[str, Any]:
    """One LayerNorm feeds attention (without biases) and MLP; an untied head with a bias. CodeGen fuses query, key and value."""
    width, vocabulary = keys.size("n_embd"), keys.size("vocab_size", default=50400)
    sizes = plain_block(keys, width, keys.size("n_head"), keys.size("n_layer"), vocabulary, keys.size("n_inner", default=4 * width))
    return sizes | {
        "tied": keys.flag("tie_word_embeddings", default=False),
        "rotary": True,
        "fused_qkv": keys.value("model_type") == "codegen",
        "attention_bias": 0,
        "norms": 1,
        "final_bias": vocabulary,
        "max_context": keys.size("n_positions", default=2048),
    }


@family("gpt_neox", Block(parallel=True, joined_rotary=True))
def gpt_neox(keys: ConfigKeys) -> dict[str, Any]:
    """Rotary positions; attention and MLP side by side; an untied head."""
    sizes = named_block(keys, keys.size("intermediate_size"), keys.size("vocab_size"), positions=2048)
    biases = keys.flag("attention_bias", default=True)
    return sizes | {
        "tied": keys.flag("tie_word_embeddings", default=False),
        "rotary": True,
        "fused_qkv": True,
        "attention_bias": sizes["attention_bias"] if biases else 0,
    }


@family("falcon", Block(parallel=True, narrow_softmax=True))
def falcon(keys: ConfigKeys) -> dict[str, Any]:
    """7B: one key/value head and one norm a layer. 40B and 180B ("new decoder architecture"): grouped heads, two norms.

    RW: one block after the other, a key head a query head, ALiBi instead of rotary positions.
    """
    width = keys.size("hidden_size")
    ffn, vocabulary = keys.size("ffn_hidden_size", default=4 * width), keys.size("vocab_size", default=65024)
    sizes = named_block(keys, ffn, vocabulary, positions=2048)
    heads = sizes["heads"]
    new = keys.flag("new_decoder_architecture", default=False)
    one_head = keys.flag("multi_query", default=True)
    kv_heads = keys.size("num_kv_heads", default=heads) if new else 1 if one_head else heads
    norms = keys.size("num_ln_in_parallel_attn", default=2 if new else 1) if keys.flag("parallel_attn", default=True) else 2
    alibi = keys.flag("alibi", default=False)
    sizes = _grouped(sizes, kv_heads) | {"norms": norms, "fused_qkv": True}
    sizes |= {"alibi": alibi, "rotary": not alibi}
    return sizes if keys.flag("bias", default=False) else sizes | {"attention_bias": 0, "mlp_vector": 0}


@family("mpt", eager_attention=True)
def mpt(keys: ConfigKeys) -> dict[str, Any]:
    """ALiBi instead of positions; no bias anywhere, norms included."""
    width = keys.size("d_model")
    if (ratio := keys.size("expansion_ratio", default=4)) != 4:
        keys.reject("expansion_ratio", f"{ratio} is not supported; transformers builds an MLP of four widths.")
    vocabulary = keys.size("vocab_size", default=50368)
    sizes = plain_block(keys, width, keys.size("n_heads"), keys.size("n_layers"), vocabulary, 4 * width)
    return sizes | {
        "alibi": True,
        "fused_qkv": True,
        "attention_bias": 0,
        "mlp_vector": 0,
        "norm_parameters": width,
        "max_context": keys.size("max_seq_len", default=2048),
    }


@family("bloom", eager_attention=True)
def bloom(keys: ConfigKeys) -> dict[str, Any]:
    """ALiBi instead of positions; a norm after the embedding."""
    width, vocabulary = keys.size("hidden_size", "n_embed"), keys.size("vocab_size", default=250880)
    heads, layers = keys.size("n_head", "num_attention_heads"), keys.size("n_layer", "num_hidden_layers")
    sizes = plain_block(keys, width, heads, layers, vocabulary, 4 * width)
    context = keys.count("seq_length") or None
    return sizes | {"alibi": True, "fused_qkv": True, "final_norms": 2, "max_context": context}


@family("ctrl", eager_attention=True)
def ctrl(keys: ConfigKeys) -> dict[str, Any]:
    """Sinusoidal positions, a bias of the tied head."""
    vocabulary = keys.size("vocab_size", default=246534)
    sizes = plain_block(keys, keys.size("n_embd"), keys.size("n_head"), keys.size("n_layer"), vocabulary, keys.size("dff"))
    return sizes | {"final_bias": vocabulary, "max_context": keys.size("n_positions", default=256)}


@family("gpt_neox_japanese", Block(parallel=False, joined_rotary=True))
def gpt_neox_japanese(keys: ConfigKeys) -> dict[str, Any]:
    """Rotary positions; the only bias is that of the last attention's output."""
    width, times = keys.size("hidden_size"), keys.size("intermediate_multiple_size", default=4)
    sizes = named_block(keys, times * width, keys.size("vocab_size"), positions=2048)
    last = Sublayer(part="attention", layers=1, other=width)
    return sizes | {"rotary": True, "fused_qkv": True, "attention_bias": 0, "mlp_vector": 0, "beside": (last,)}


@family("persimmon", Block(activation="relu2"))
def persimmon(keys: ConfigKeys) -> dict[str, Any]:
    """Rotary positions, biases, q/k LayerNorms over the head, an untied head."""
    sizes = named_block(keys, keys.size("intermediate_size"), keys.size("vocab_size"), positions=16384)
    normed = keys.flag("qk_layernorm", default=True)
    return sizes | {
        "tied": keys.flag("tie_word_embeddings", default=False),
        "rotary": True,
        "fused_qkv": True,
        "attention_norm": 4 * sizes["head_dim"] * normed,
    }


@family("xglm")
def xglm(keys: ConfigKeys) -> dict[str, Any]:
    """Sinusoidal positions."""
    vocabulary, ffn = keys.size("vocab_size", default=256008), keys.size("ffn_dim")
    sizes = plain_block(keys, keys.size("d_model"), keys.size("attention_heads"), keys.size("num_layers"), vocabulary, ffn)
    return sizes | {"max_context": keys.size("max_position_embeddings", default=2048)}


@family("biogpt")
def biogpt(keys: ConfigKeys) -> dict[str, Any]:
    """Learned positions, two rows more than it has tokens."""
    sizes = named_block(keys, keys.size("intermediate_size"), keys.size("vocab_size", default=42384), positions=1024)
    return sizes | {"learned_positions": sizes["max_context"] + 2}


@family("opt", Block(activation="relu"))
def opt(keys: ConfigKeys) -> dict[str, Any]:
    """Learned positions, two rows more than it has tokens. 350M: narrower embeddings, projected; norms after, none at the end."""
    width, vocabulary = keys.size("hidden_size"), keys.size("vocab_size", default=50272)
    positions = keys.size("max_position_embeddings", default=2048)
    sizes = named_block(keys, keys.size("ffn_dim"), vocabulary, positions=2048)
    inner = keys.size("word_embed_proj_dim", default=width)
    projection = width * inner if inner != width else 0
    affine = keys.flag("layer_norm_elementwise_affine", default=True)
    last = keys.flag("do_layer_norm_before", default=True) and not keys.flag("_remove_final_layer_norm", default=False)
    biases = keys.flag("enable_bias", default=True)
    return sizes | {
        "embedding_width": inner if projection else None,
        "input_matrix": projection,
        "output_matrix": projection,
        "learned_positions": positions + 2,
        "dropout": keys.share("dropout", default=0.1) > 0,
        "attention_bias": sizes["attention_bias"] * biases,
        "mlp_vector": sizes["mlp_vector"] * biases,
        "norm_parameters": sizes["norm_parameters"] * affine,
        "final_norms": int(last),
    }


@family("phi", Block(activation="gelu-new", parallel=True, joined_rotary=True))
def phi(keys: ConfigKeys) -> dict[str, Any]:
    """One LayerNorm per layer; an untied head with a bias; optional q/k LayerNorms over the head."""
    vocabulary = keys.size("vocab_size")
    sizes = named_block(keys, keys.size("intermediate_size"), vocabulary, positions=2048)
    sizes = _grouped(sizes, keys.size("num_key_value_heads", default=sizes["heads"]))
    normed = keys.flag("qk_layernorm", default=False)
    return sizes | {
        "tied": keys.flag("tie_word_embeddings", default=False),
        "rotary": True,
        "attention_norm": 4 * sizes["head_dim"] * normed,
        "norms": 1,
        "final_bias": vocabulary,
    }


@family("xlm", Block(attention_dropout=True))
def xlm(keys: ConfigKeys) -> dict[str, Any]:
    """Attention in both directions; learned positions, an embedding of languages, a norm after the embedding, no final one."""
    if keys.flag("asm", default=False):
        keys.reject("asm", "an adaptive softmax is not supported; false is.")
    width, vocabulary = keys.size("emb_dim", "hidden_size"), keys.size("vocab_size", "n_words", default=30145)
    heads, layers = keys.size("n_heads", "num_attention_heads"), keys.size("n_layers", "num_hidden_layers")
    positions, languages = keys.size("max_position_embeddings", default=512), keys.count("n_langs", absent=1)
    return plain_block(keys, width, heads, layers, vocabulary, 4 * width) | {
        "encoder": True,
        "learned_positions": positions,
        "max_context": positions,
        "token_types": languages * (languages > 1 and keys.flag("use_lang_emb", default=True)),
        "dropout": keys.share("dropout", default=0.1) > 0,
        "final_bias": vocabulary,
    }


@family("xlnet", Block(attention_dropout=True), eager_attention=True)
def xlnet(keys: ConfigKeys) -> dict[str, Any]:
    """Attention in both directions, with scores of relative positions, twice as many as tokens."""
    width, heads, layers = (
        keys.size("d_model", "hidden_size"),
        keys.size("n_head", "num_attention_heads"),
        keys.size("n_layer", "num_hidden_layers"),
    )
    sizes = plain_block(keys, width, heads, layers, keys.size("vocab_size", default=32000), keys.size("d_inner", default=4 * width))
    dim = sizes["head_dim"]
    attention = Sublayer(
        part="attention",
        layers=layers,
        convolution=5 * width * width,
        other=(3 + 2) * width,
        attending=(AttentionGroup(layers=layers, heads=heads, kv_heads=heads, score_dim=3 * dim, value_dim=dim),),
    )
    positions = Sublayer(part="attention", layers=layers, stored=0, convolution=width * width)
    mask = Sublayer(part="mlp", layers=1, other=width)
    return sizes | {
        "encoder": True,
        "attention_bias": 0,
        "final_norms": 0,
        "final_bias": sizes["vocabulary"],
        "dropout": keys.share("dropout", default=0.1) > 0,
        "instead": (attention,),
        "beside": (positions, mask),
    }


def named_block(keys: ConfigKeys, ffn: int, vocabulary: int, *, positions: int) -> dict[str, Any]:
    """A block whose sizes have the names that newer families share."""
    width, heads, layers = keys.size("hidden_size"), keys.size("num_attention_heads"), keys.size("num_hidden_layers")
    sizes = plain_block(keys, width, heads, layers, vocabulary, ffn)
    return sizes | {"max_context": keys.size("max_position_embeddings", default=positions)}
