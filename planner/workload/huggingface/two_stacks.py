"""Families of an encoder and a decoder that attends to its output: the lines of T5 and BART, including Whisper, as transformers 5.23 builds them.

The sizes of the architecture are those of the decoder; `Architecture.source` is the encoder. The projections of its output to the keys and
values of every decoder layer count as part of its last layer, because they run once, with the prompt.
"""

from typing import Any

import msgspec

from planner.paths import read_shipped_part
from planner.workload.architecture import Architecture
from planner.workload.block import Block
from planner.workload.huggingface.families.gpt import plain_block
from planner.workload.huggingface.families.llama import gemma2
from planner.workload.huggingface.keys import ConfigKeys, family
from planner.workload.sublayers import AttentionGroup, Matrices, Sublayer

SOUND_CHANNELS, SOUND_TOKENS = 80, 1500
"""Frequencies of Whisper's spectrogram, and tokens of its 30 seconds, two frames each, where the config does not state them."""


class Facts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Differences of one family of BART's line from BART."""

    extra_positions: int = 0
    """Rows of the table of positions before the first position."""
    positions: int = 1024
    learned: bool = True
    """True if positions are parameters; else they are computed."""
    embedding_norm: bool = False
    last_norm: bool = False
    """True if there is a norm after the last layer of each stack, and before attention and MLP; else after these."""
    activation: str = "gelu"
    dropout: float = 0.1
    attention_dropout: float = 0.0


BART_LINE = read_shipped_part(dict[str, Facts], "families", "families", "bart.toml")
"""`model_type` -> its facts."""
WHOLE_PROMPTS = (*BART_LINE, "mt5", "t5", "t5gemma", "umt5", "whisper")
"""Model types of all families here."""


def _crossing(
    sizes: dict[str, Any], layers: int, *, bias: int, key_bias: int, norm: int, read: int = 0
) -> tuple[Sublayer, Sublayer]:
    """(queries and outputs in `layers` decoder layers, keys and values of the encoder's output); `read`: its width."""
    width, heads, groups, dim = sizes["width"], sizes["heads"], sizes["kv_heads"], sizes["head_dim"]
    inner, key = heads * dim, groups * dim
    seen = AttentionGroup.scored(layers, heads, groups, dim, attends_to="source")
    matrices: Matrices = (("q", width, inner), ("o", inner, width))
    asks = Sublayer(part="attention", layers=layers, matrices=matrices, bias=bias, norm=norm, attending=(seen,))
    answers = Sublayer(
        part="attention", layers=layers, matrices=(("k", read or width, key), ("v", read or width, key)), bias=key_bias
    )
    return asks, answers


def with_encoder(decoder: dict[str, Any], encoder: dict[str, Any], block: Block, name: str) -> dict[str, Any]:
    """`decoder` with its encoder, which shares the decoder's embedding and has no head."""
    stack = {**encoder, "encoder": True, "vocabulary": 0, "tied": True, "final_bias": 0, "rotary": False}
    return decoder | {"block": block, "source": Architecture(family=name, block=block, eager_attention=False, **stack)}


ACTIVATIONS = {"gelu_new": "gelu-new", "relu": "relu"}
"""Activations of either line that are not a single kernel which keeps only its input."""
_T5 = Block(activation="relu")


@family("t5", _T5)
@family("mt5", _T5)
@family("umt5", _T5)
def t5(keys: ConfigKeys) -> dict[str, Any]:
    """T5's line: no biases; distances are a learned bias of the scores, in the first layer of each stack (UMT5: in every layer)."""
    width, dim, heads = keys.size("d_model"), keys.size("d_kv"), keys.size("num_heads")
    layers, deeper = keys.size("num_layers"), keys.size("num_decoder_layers", "num_layers")
    name = str(keys.value("model_type"))
    vocabulary = keys.size("vocab_size", default=32128 if name == "t5" else 250112)
    kind = keys.value("feed_forward_proj") or ("relu" if name == "t5" else "gated-gelu")
    buckets = keys.size("relative_attention_num_buckets", default=32) * heads
    drops = keys.share("dropout_rate", default=0.1) > 0
    inside = str(kind).rpartition("-")[2]
    activation = "gelu-new" if kind == "gated-gelu" else ACTIVATIONS.get(inside, "gelu")
    block = Block(
        activation=activation,
        narrow_softmax=True,
        narrow_norm_input=True,
        narrow_loss=True,
        attention_dropout=drops,
        inner_dropout=drops,
    )
    sizes: dict[str, Any] = {
        "width": width,
        "heads": heads,
        "kv_heads": heads,
        "head_dim": dim,
        "ffn": keys.size("d_ff"),
        "gated": str(kind).startswith("gated"),
        "vocabulary": vocabulary,
        "tied": keys.flag("tie_word_embeddings", default=True),
        "norm_parameters": width,
        "max_context": None,
        "alibi": True,
        "dropout": drops,
    }

    def stack(number: int, beside: Sublayer) -> dict[str, Any]:
        distances = Sublayer(part="attention", layers=number if name == "umt5" else 1, other=buckets)
        return sizes | {"layers": number, "dense_layers": number, "beside": (beside, distances)}

    asks, answers = _crossing(sizes, deeper, bias=0, key_bias=0, norm=width)
    return with_encoder(stack(deeper, asks), stack(layers, answers), block, name)


def _bart_stack(keys: ConfigKeys, side: str, facts: Facts, *, key_bias: bool = True) -> dict[str, Any]:
    """Sizes of the stack called `side`."""
    width, heads, layers = keys.size("d_model"), keys.size(f"{side}_attention_heads"), keys.size(f"{side}_layers")
    positions = keys.size(f"max_{side}_position_embeddings", "max_position_embeddings", default=facts.positions)
    ffn, vocabulary = keys.size(f"{side}_ffn_dim"), keys.size("vocab_size")
    return plain_block(keys, width, heads, layers, vocabulary, ffn, key=f"{side}_attention_heads") | {
        "attention_bias": (3 + key_bias) * width,
        "final_norms": facts.embedding_norm + facts.last_norm,
        "learned_positions": (positions + facts.extra_positions) * facts.learned,
        "max_context": positions,
        "dropout": keys.share("dropout", default=facts.dropout) > 0,
    }


def both_stacks(keys: ConfigKeys, facts: Facts, name: str, *, key_bias: bool = True, biased: bool = True) -> dict[str, Any]:
    """Sizes of BART's two stacks, `biased` in attention, with the encoder's as `source`."""
    decoder, encoder = (_bart_stack(keys, side, facts, key_bias=key_bias) for side in ("decoder", "encoder"))
    width = decoder["width"] * biased
    for one in (decoder, encoder):
        one["attention_bias"] *= biased
    asks, answers = _crossing(
        decoder, decoder["layers"], bias=2 * width, key_bias=(1 + key_bias) * width, norm=decoder["norm_parameters"]
    )
    activation = str(keys.value("activation_function") or facts.activation)
    block = Block(
        activation=ACTIVATIONS.get(activation, "gelu"),
        narrow_softmax=True,
        narrow_loss=True,
        wide_logits=name not in {"m2m_100", "whisper"},
        plain_input=not facts.last_norm,
        attention_dropout=keys.share("attention_dropout", default=facts.attention_dropout) > 0,
        inner_dropout=keys.share("activation_dropout", default=0.0) > 0,
    )
    return with_encoder(decoder | {"beside": (asks,)}, encoder | {"beside": (answers,)}, block, name)


def _bart_reader(name: str, facts: Facts) -> Any:
    def read(keys: ConfigKeys) -> dict[str, Any]:
        return both_stacks(keys, facts, name)

    return read


for _name, _facts in BART_LINE.items():
    family(_name)(_bart_reader(_name, _facts))


_GEMMA = Block(wide_norms=True, branch_norms=True, capped_scores=True, capped_logits=True)


@family("t5gemma", _GEMMA, eager_attention=True)
def t5gemma(keys: ConfigKeys) -> dict[str, Any]:
    """Two stacks of Gemma 2 with separate sizes and embeddings; grouped keys and two norms of cross-attention."""
    decoder, encoder = (
        gemma2(keys.part(side).also(vocab_size=keys.size("vocab_size", default=256000))) for side in ("decoder", "encoder")
    )
    asks, answers = _crossing(decoder, decoder["layers"], bias=0, key_bias=0, norm=2 * decoder["width"], read=encoder["width"])
    words = encoder["vocabulary"] * encoder["width"]
    tied = keys.flag("tie_word_embeddings", default=True)
    own = encoder | {"beside": (answers,), "per_layer_embedding": words}
    return with_encoder(decoder | {"beside": (asks,), "tied": tied}, own, _GEMMA, "t5gemma")


@family("whisper")
def whisper(keys: ConfigKeys) -> dict[str, Any]:
    """BART's stacks without a bias of the keys, after two convolutions over sound, which is always of 30 seconds.

    The first convolution runs twice per token but is counted once (at most 4 % of both, which are a thousandth of an encoder's layers).
    """
    sizes = both_stacks(keys, Facts(last_norm=True, dropout=0.0), "whisper", key_bias=False)
    width, source = sizes["width"], sizes["source"]
    channels, heard = keys.size("num_mel_bins", default=SOUND_CHANNELS), keys.size("max_source_positions", default=SOUND_TOKENS)
    said = keys.size("max_target_positions", default=448)
    waves = Sublayer(part="mlp", layers=1, convolution=3 * width * (channels + width), bias=2 * width)
    encoder = msgspec.structs.replace(source, learned_positions=heard, max_context=heard, beside=(*source.beside, waves))
    return sizes | {"source": encoder, "source_tokens": heard, "learned_positions": said, "max_context": said}
