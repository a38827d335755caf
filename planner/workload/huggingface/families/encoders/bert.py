"""Families of the BERT line, each a row of `presets/families/bert.toml`: encoders with LayerNorm, a plain MLP, and a head that predicts tokens."""

from collections.abc import Callable
from typing import Any

import msgspec

from planner.paths import read_shipped_part
from planner.workload.block import Block
from planner.workload.huggingface.families.gpt import named_block
from planner.workload.huggingface.keys import ConfigKeys, family
from planner.workload.sublayers import Sublayer


class Encoder(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Differences of one family from BERT."""

    vocabulary: int | None = 30522
    positions: int = 512
    token_types: int = 2
    """Default number of kinds of segments; 0: it has no embedding of them."""
    head: bool = True
    """True if a product and a norm precede the output head, where an untied one has two biases."""
    final_norms: int = 2
    """Norms outside the layers: after the embedding, after the last layer, in the head."""
    sinusoidal: bool = False
    """True if positions are a table of sines of a head's width."""
    rotary: bool = False
    gated: bool = False
    biased: bool = True
    """True if projections of attention have biases, and those of the MLP; in a gated MLP only the last."""
    buckets: bool = False
    """True if the scores have a learned bias by distance, which all layers share."""
    factored: bool = False
    """True if the embedding may be narrower than the layers (`embedding_size`), with a head of the same width."""
    pooler: bool = True
    """True if a product and a bias follow the layers where there is no head that predicts tokens."""
    named: tuple[tuple[str, str], ...] = ()
    """(BERT's key, this family's)."""


def read_encoder(facts: Encoder, keys: ConfigKeys) -> dict[str, Any]:
    """Sizes of an encoder with these facts."""
    return _reader(facts)(keys)


def _reader(facts: Encoder) -> Callable[[ConfigKeys], dict[str, Any]]:
    def read(keys: ConfigKeys) -> dict[str, Any]:
        keys = keys.also(**{name: keys.value(own) for name, own in facts.named if keys.value(own) is not None})
        vocabulary = keys.size("vocab_size", default=facts.vocabulary)
        sizes = named_block(keys, keys.size("intermediate_size"), vocabulary, positions=facts.positions)
        if keys.flag("is_decoder", default=False):
            keys.reject("is_decoder", "an encoder made to generate is not supported.")
        width, positions, ffn = sizes["width"], sizes["max_context"], sizes["ffn"]
        head, learned = width * facts.head, not (facts.sinusoidal or facts.rotary)
        biases = keys.size("relative_attention_num_buckets", default=32) * sizes["heads"] * facts.buckets
        further: dict[str, Any] = {
            "encoder": True,
            "gated": facts.gated,
            "rotary": facts.rotary,
            "attention_bias": sizes["attention_bias"] * facts.biased,
            "mlp_vector": (width + ffn * (not facts.gated)) * facts.biased,
            "learned_positions": positions * learned,
            "per_layer_embedding": positions * sizes["head_dim"] * facts.sinusoidal + biases,
            "token_types": keys.size("type_vocab_size", default=facts.token_types) if facts.token_types else 0,
            "dropout": keys.share("dropout" if facts.named else "hidden_dropout_prob", default=0.1) > 0,
            "output_matrix": width * head,
            "final_norms": facts.final_norms,
            "final_bias": head + vocabulary * (1 if sizes["tied"] or not facts.head else 2),
        }
        found = sizes | further | (_narrow(keys, sizes, further) if facts.factored else {})
        return found | read_head(keys, found, norms=facts.head, pooler=facts.pooler)

    return read


def read_head(keys: ConfigKeys, sizes: dict[str, Any], *, norms: bool, pooler: bool) -> dict[str, Any]:
    """Sizes of the head where `architectures` names no model that predicts tokens: none or a pooler, and classes."""
    classes = keys.items("architectures")
    named = str(classes[0]) if classes else ""
    if named.endswith(("ForMaskedLM", "ForCausalLM", "ForPreTraining", "LMHeadModel")) or not named:
        return {}
    width, labels = sizes["width"], keys.value("id2label")
    number = len(labels) if isinstance(labels, dict) else keys.size("num_labels", default=2)
    classified = named.endswith("ForSequenceClassification")
    product = pooler or classified
    return {
        "tied": True,
        "output_matrix": (width * product + number * classified) * width,
        "final_norms": sizes["final_norms"] - norms,
        "final_bias": width * product + number * classified,
    }


def _narrow(keys: ConfigKeys, sizes: dict[str, Any], further: dict[str, Any]) -> dict[str, Any]:
    """Embeddings of all kinds narrower than the layers: two norms of that width, and a product on either side where it differs."""
    width, inner = sizes["width"], keys.size("embedding_size", default=128)
    rows = further["learned_positions"] + further["token_types"]
    bias = inner + sizes["vocabulary"] + width * (inner != width)
    return {
        "embedding_width": inner,
        "learned_positions": 0,
        "token_types": 0,
        "per_layer_embedding": rows * inner,
        "input_matrix": width * inner * (inner != width),
        "output_matrix": width * inner,
        "final_bias": bias,
        "beside": (Sublayer(part="mlp", layers=1, norm=4 * inner),),
    }


@family("xmod", Block(attention_dropout=True))
def xmod(keys: ConfigKeys) -> dict[str, Any]:
    """RoBERTa with an adapter for every language behind each MLP; a token passes one of them."""
    sizes = _reader(Encoder())(keys)
    layers, width = sizes["layers"], sizes["width"]
    inner, languages = width // keys.size("adapter_reduction_factor", default=2), max(1, len(keys.items("languages")))
    adapter = Sublayer(
        part="mlp",
        layers=layers,
        matrices=(("other", width, inner), ("other", inner, width)),
        other=2 * width * inner * (languages - 1),
        bias=(inner + width) * languages,
        norm=2 * width * keys.flag("adapter_layer_norm", default=False),
    )
    return sizes | {"final_norms": sizes["final_norms"] + keys.flag("pre_norm", default=False), "beside": (adapter,)}


for _name, _facts in read_shipped_part(dict[str, Encoder], "families", "families", "bert.toml").items():
    family(_name, Block(attention_dropout=True))(_reader(_facts))
