"""Encoders beyond BERT's table: for proteins (ESM-2, ESM C), and with several embeddings or widths (RemBERT, RoCBert)."""

from __future__ import annotations

from typing import Any

from planner.workload.block import Block
from planner.workload.huggingface.families.encoders.bert import Encoder, read_encoder, read_head
from planner.workload.huggingface.families.gpt import named_block
from planner.workload.huggingface.keys import ConfigKeys, family
from planner.workload.huggingface.sizes import line_sizes
from planner.workload.sublayers import Sublayer


@family("esm", Block(attention_dropout=True))
def esm(keys: ConfigKeys) -> dict[str, Any]:
    """ESM-1b and ESM-2: norms before attention and MLP, learned or rotary positions, and a regression over all attention scores."""
    vocabulary = keys.size("vocab_size", default=33)
    sizes = named_block(keys, keys.size("intermediate_size"), vocabulary, positions=1026)
    width, rotary = sizes["width"], keys.value("position_embedding_type") == "rotary"
    contacts = sizes["layers"] * sizes["heads"]
    sizes |= {
        "encoder": True,
        "rotary": rotary,
        "learned_positions": sizes["max_context"] * (not rotary),
        "dropout": keys.share("hidden_dropout_prob", default=0.1) > 0,
        "output_matrix": width * width,
        "final_norms": 2 + keys.flag("emb_layer_norm_before", default=False),
        "final_bias": width + vocabulary,
    }
    sizes |= read_head(keys, sizes, norms=True, pooler=False)
    return sizes | {"final_bias": sizes["final_bias"] + 1, "beside": (Sublayer(part="mlp", layers=1, other=contacts),)}


@family("esmc")
def esmc(keys: ConfigKeys) -> dict[str, Any]:
    """ESM C: LayerNorm before attention and MLP, also of query and key over the whole projection, rotary positions, a gated MLP."""
    sizes = line_sizes(keys)
    width = sizes["width"]
    sizes |= {
        "encoder": True,
        "centred": True,
        "norm_parameters": 2 * width,
        "attention_norm": 2 * width,
        "output_matrix": width * width,
        "final_norms": 1,
        "final_bias": width + sizes["vocabulary"],
        "beside": (Sublayer(part="mlp", layers=1, norm=width),),
    }
    return sizes | read_head(keys, sizes, norms=True, pooler=False)


@family("rembert", Block(attention_dropout=True))
def rembert(keys: ConfigKeys) -> dict[str, Any]:
    """BERT with embeddings narrower than its layers, and a wider, untied head."""
    vocabulary = keys.size("vocab_size", default=250300)
    sizes = named_block(keys, keys.size("intermediate_size"), vocabulary, positions=512)
    width, narrow = sizes["width"], keys.size("input_embedding_size", default=256)
    wide = keys.size("output_embedding_size", default=1664)
    rows = vocabulary + sizes["max_context"] + keys.size("type_vocab_size", default=2)
    sizes |= {
        "encoder": True,
        "rotary": False,
        "tied": False,
        "dropout": keys.share("hidden_dropout_prob", default=0.0) > 0,
        "embedding_width": wide,
        "per_layer_embedding": rows * narrow - vocabulary * wide,
        "input_matrix": narrow * width,
        "output_matrix": width * wide,
        "final_norms": 0,
        "final_bias": width + wide + vocabulary,
        "beside": (Sublayer(part="mlp", layers=1, norm=2 * (narrow + wide)),),
    }
    without = read_head(keys, sizes, norms=False, pooler=True)
    if without:
        return sizes | without | {"embedding_width": narrow, "per_layer_embedding": (rows - vocabulary) * narrow} | {
            "final_bias": without["final_bias"] + width, "beside": (Sublayer(part="mlp", layers=1, norm=2 * narrow),)
        }  # fmt: skip
    return sizes


@family("roc_bert", Block(attention_dropout=True))
def roc_bert(keys: ConfigKeys) -> dict[str, Any]:
    """BERT for Chinese: embeddings of a sign's sound and shape in addition to its own, joined by a product."""
    sizes, width = read_encoder(Encoder(), keys), keys.size("hidden_size")
    sound, shape = (
        keys.size(f"{name}_embed_dim", default=width_of) * keys.flag(f"enable_{name}", default=True)
        for name, width_of in (("pronunciation", 768), ("shape", 512))
    )
    rows = keys.size("pronunciation_vocab_size", default=910) * sound + keys.size("shape_vocab_size", default=24858) * shape
    joined = keys.flag("concat_input", default=True)
    return sizes | {
        "per_layer_embedding": rows,
        "input_matrix": (width + sound + shape) * width * joined,
        "final_bias": sizes["final_bias"] + width * joined,
    }
