"""Format of the weights of a checkpoint from the `quantization_config` of its config.json, with the names of `planner.workload.weights`.

Each method of quantisation has one reader for its keys, as spelled by transformers 5.23, vLLM and the tools that write them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from planner.workload.architecture import Architecture
from planner.workload.huggingface.mixed_formats import NAMES, Rule, formats_in, left_out, names_in, stored_parts
from planner.workload.sublayers import SIXTEEN_BITS, StoredPart

_NAMED_GROUPS = (32, 64)
"""Sizes of groups that are part of the format's name."""
_FLOATS: dict[tuple[object, object], str] = {(8, 32): "mxfp8", (4, 16): "nvfp4", (4, 32): "mxfp4"}
"""(bits, weights of a block) of floating point -> format; 8 bits of other blocks are FP8."""
_EXPERTS_ALONE = {"w4a16-g32": "w4a16-experts"}
"""Format -> the one that leaves all but routed experts in 16 bit."""


def quantised_format(config: Mapping[str, Any]) -> str:
    """Format of most weights; '' if the config names none, or one without a name here."""
    given = _given(config)
    method = _text(given.get("quant_method")) or _unnamed(given)
    if method == "fp8" and config.get("expert_dtype") == "fp4":
        return NAMES.algorithms.get(_text(given.get("moe_quant_algo")).upper(), "mxfp4-fp8")
    return NAMES.whole.get(method, "") or (_READERS[method](given) if method in _READERS else "")


def _given(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The `quantization_config` of a model or of its text part; empty if there is none."""
    return _mapping(config.get("quantization_config") or _mapping(config.get("text_config")).get("quantization_config"))


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _inner(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Part under which ModelOpt puts its keys, if there is one."""
    inner = given.get("quantization")
    return inner if isinstance(inner, Mapping) else given


def mixed_formats(config: Mapping[str, Any], main: str, architecture: Architecture) -> tuple[StoredPart, ...]:
    """Parts that `config` stores in another format than `main`, the format of most weights."""
    given = _given(config)
    if not given:
        return ()
    inner = _inner(given)
    kept = "fp8" if _text(given.get("quant_method")) == "fp8" and main != "fp8" else SIXTEEN_BITS
    listed = [*formats_in(inner.get("quantized_layers"), NAMES.algorithms), *_of_groups(inner), *_of_modules(inner)]
    rest = SIXTEEN_BITS if _lists_what_is_packed(inner) else main
    return stored_parts([*listed, *left_out(inner, kept)], main, rest, architecture)


def _lists_what_is_packed(given: Mapping[str, Any]) -> bool:
    """True if modules without a rule are in 16 bit, because all others are listed."""
    if given.get("quant_algo") == "MIXED_PRECISION" or given.get("quantized_layers"):
        return True
    return bool(_groups(given)) and not any("Linear" in names for names, _ in _groups(given))


def _groups(given: Mapping[str, Any]) -> list[tuple[list[str], str]]:
    """Targets and format of each group of compressed-tensors that has both."""
    found = [(_mapping(one).get("targets"), _of_group(one)) for one in _mapping(given.get("config_groups")).values()]
    return [
        ([one for one in names if isinstance(one, str)], stored) for names, stored in found if isinstance(names, list) and stored
    ]


def _of_groups(given: Mapping[str, Any]) -> Iterator[Rule]:
    """Rules of groups that name modules, instead of the class of all modules."""
    for names, stored in _groups(given):
        yield from names_in([one for one in names if one != "Linear"], stored)


def _of_modules(given: Mapping[str, Any]) -> Iterator[Rule]:
    """Rules of modules with their own settings: GPTQModel's expressions, AutoRound's names, Quark's patterns."""
    dynamic, extra, layers = (_mapping(given.get(key)) for key in ("dynamic", "extra_config", "layer_quant_config"))
    for name, own in dynamic.items():
        if name[:2] in {"-:", "+:"}:
            stored = SIXTEEN_BITS if name.startswith("-:") else _by_bits("gptq")({**given, **_mapping(own)})
            yield from names_in([f"re:{name[2:]}"], stored)
    for name, own in extra.items():
        if isinstance(own, Mapping):
            yield from names_in([name], SIXTEEN_BITS if own.get("bits") == 16 else _auto_round({**given, **own}))
    for name, own in layers.items():
        weights = _mapping(own).get("weight")
        if isinstance(weights, Mapping):
            yield from names_in([name], NAMES.quark.get(_text(weights.get("dtype")), SIXTEEN_BITS))


def _unnamed(given: Mapping[str, Any]) -> str:
    """Method of a config that does not name it: early checkpoints of bitsandbytes, and ModelOpt's `hf_quant_config.json`."""
    if _mapping(given.get("producer")).get("name") == "modelopt" or "quant_algo" in _mapping(given.get("quantization")):
        return "modelopt"
    return "bitsandbytes" if given.get("load_in_4bit") or given.get("load_in_8bit") else ""


def _bitsandbytes(given: Mapping[str, Any]) -> str:
    if given.get("load_in_8bit") is True:
        return "int8"
    kind = str(given.get("bnb_4bit_quant_type", "fp4"))
    doubled = given.get("bnb_4bit_use_double_quant") is True
    return "" if given.get("load_in_4bit") is not True else "nf4-dq" if (kind, doubled) == ("nf4", True) else kind


def _modelopt(given: Mapping[str, Any]) -> str:
    inner = _inner(given)
    algorithm, layers = inner.get("quant_algo"), inner.get("quantized_layers")
    if algorithm == "MIXED_PRECISION" and isinstance(layers, Mapping):
        algorithm = _mostly(layers)
    return NAMES.algorithms.get(str(algorithm).upper(), "") if algorithm else _compressed(given)


def _mostly(layers: Mapping[str, Any]) -> object:
    """Algorithm of most experts, else of most MLPs, which hold most of the weights."""
    for part in ("experts", "mlp", ""):
        found = Counter(
            str(one.get("quant_algo"))
            for name, one in layers.items()
            if part in name and "shared" not in name and isinstance(one, Mapping)
        )
        if found:
            return found.most_common(1)[0][0]
    return None


def _compressed(given: Mapping[str, Any]) -> str:
    """Format of the group of layers with the fewest bits, which holds most of the weights."""
    found = [_of_group(one) for one in _mapping(given.get("config_groups")).values()]
    stored = next((one for one in sorted(found, key=lambda one: "4" not in one) if one), "")
    return _EXPERTS_ALONE.get(stored, stored) if _spares_attention(given.get("ignore")) else stored


def _of_group(group: object) -> str:
    """Format of one group of layers: floating point by its bits and blocks; whole numbers by column, or by groups with a scale."""
    if not isinstance(group, Mapping) or not isinstance(weights := group.get("weights"), Mapping):
        return ""
    bits, size, kind = weights.get("num_bits"), weights.get("group_size"), weights.get("type", "int")
    if kind == "float":
        stored = _FLOATS.get((bits, size), "fp8" if bits == 8 else "")
        alone = stored == "nvfp4" and "input_activations" in group and group["input_activations"] is None
        return "nvfp4-a16" if alone else stored
    if size in {None, -1} and bits == 8:
        return "int8"
    return _grouped("packed" if weights.get("symmetric", True) else "awq", bits, size)


def _spares_attention(ignored: object) -> bool:
    """True if the attention of all layers stays in 16 bit, as in Kimi K2 Thinking, which packs only routed experts."""
    return isinstance(ignored, Iterable) and any(isinstance(one, str) and "self_attn" in one and "*" in one for one in ignored)


def _torchao(given: Mapping[str, Any]) -> str:
    asked = given.get("quant_type")
    if isinstance(asked, Mapping):
        asked = asked.get("default", asked)
    inner, named = (
        (asked.get("_data"), asked.get("_type")) if isinstance(asked, Mapping) else (given.get("quant_type_kwargs"), asked)
    )
    name = str(named).lower().replace("_", "")
    kind = next((NAMES.torchao[one] for one in sorted(NAMES.torchao, key=len, reverse=True) if name.startswith(one)), "")
    size = inner.get("group_size", 128) if isinstance(inner, Mapping) else 128
    return _grouped("int", 4, size) if kind == "int4" else kind


def _hqq(given: Mapping[str, Any]) -> str:
    inner = _mapping(given.get("quant_config"))
    weights = _mapping(inner.get("weight_quant_params", inner))
    return _grouped("int", weights.get("nbits"), weights.get("group_size"))


def _quark(given: Mapping[str, Any]) -> str:
    weights = _mapping(_mapping(given.get("global_quant_config")).get("weight"))
    return NAMES.quark.get(_text(weights.get("dtype")), "")


def _quanto(given: Mapping[str, Any]) -> str:
    return {"float8": "fp8", "int8": "int8", "int4": "int4"}.get(_text(given.get("weights")), "")


def _by_bits(kind: str) -> Callable[[Mapping[str, Any]], str]:
    """A reader for bits and weights of a group, in their two spellings."""

    def read(given: Mapping[str, Any]) -> str:
        return _grouped(kind, given.get("bits", given.get("w_bit")), given.get("group_size", given.get("q_group_size")))

    return read


def _auto_round(given: Mapping[str, Any]) -> str:
    """Format of AutoRound, which writes the tensors of other methods: GPTQ's unless the config names AWQ's."""
    return _by_bits("awq" if "awq" in str(given.get("packing_format", "")) else "gptq")(given)


def _grouped(kind: str, bits: object, size: object) -> str:
    """Format of weights in groups that share a scale; '' for a format without a name here."""
    stored, sizes = NAMES.grouped[kind].get(str(bits), ("", ())) if isinstance(bits, int) else ("", ())
    return "" if size not in sizes else f"{stored}-g{size}" if size in _NAMED_GROUPS else stored


def _text(value: object) -> str:
    return value.lower() if isinstance(value, str) else ""


_READERS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "auto-round": _auto_round,
    "awq": _by_bits("awq"),
    "bitsandbytes": _bitsandbytes,
    "compressed-tensors": _compressed,
    "gptq": _by_bits("gptq"),
    "gptq_marlin": _by_bits("gptq"),
    "hqq": _hqq,
    "modelopt": _modelopt,
    "modelopt_fp4": _modelopt,
    "modelopt_mixed": _modelopt,
    "quanto": _quanto,
    "quark": _quark,
    "torchao": _torchao,
}
"""`quant_method` -> its reader."""
