"""Format of the weights of a checkpoint by the `quantization_config` of its config.json, in the names of `planner.workload.weights`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_WHOLE = {"fp8": "fp8", "fbgemm_fp8": "fp8", "mxfp4": "mxfp4", "nvfp4": "nvfp4"}
"""`quant_method` -> format, where it says all."""
_MODELOPT = {"FP8": "fp8", "NVFP4": "nvfp4"}
_GROUPED = {
    ("awq", 4, 128): "awq",
    ("awq", 4, 64): "awq-g64",
    ("gptq", 4, 128): "gptq-int4",
    ("gptq", 4, 64): "gptq-int4-g64",
    ("gptq", 4, 32): "gptq-int4-g32",
    ("gptq", 8, 128): "gptq-int8",
}
"""(method, bits, weights of a group) -> format."""


def quantised_format(config: Mapping[str, Any]) -> str:
    """The format; '' where the config names none, or one that has no name here."""
    given = config.get("quantization_config")
    if not isinstance(given, Mapping):
        return ""
    method = str(given.get("quant_method", "")).lower()
    if method == "bitsandbytes":
        if given.get("load_in_8bit") is True:
            return "int8"
        kind = str(given.get("bnb_4bit_quant_type", "fp4"))
        doubled = given.get("bnb_4bit_use_double_quant") is True
        return "" if given.get("load_in_4bit") is not True else "nf4-dq" if (kind, doubled) == ("nf4", True) else kind
    if method == "modelopt":
        return _MODELOPT.get(str(given.get("quant_algo", "")).upper(), "")
    if method == "compressed-tensors":
        return _compressed(given.get("config_groups"))
    bits, group = given.get("bits", given.get("w_bit")), given.get("group_size", given.get("q_group_size"))
    known = isinstance(bits, int) and isinstance(group, int)
    return _WHOLE.get(method, "") or (_GROUPED.get((method, bits, group), "") if known else "")


def _compressed(groups: object) -> str:
    """Format of the first group of layers: 8 bits of floating point are FP8; other kinds have no name here."""
    first = next(iter(groups.values()), None) if isinstance(groups, Mapping) else None
    weights = first.get("weights") if isinstance(first, Mapping) else None
    if not isinstance(weights, Mapping):
        return ""
    return "fp8" if (weights.get("num_bits"), weights.get("type")) == (8, "float") else ""
