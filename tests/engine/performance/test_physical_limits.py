"""Roofs that no range crosses: the data sheet's rate of the sums an engine may make."""

from __future__ import annotations

from typing import Any

import pytest
from engine_sample import ask

HALF = 165.2e12
"""FP16 rate of an RTX 4090 that adds up in FP32, FLOP/s; sums in FP16 take half as long, INT8 a quarter."""
INNER = 32 * (4 * 4096 * 4096 + 3 * 4096 * 11008)
"""Parameters of Llama 2 7B that every token of a prompt is multiplied with."""


def most_flop_per_s(gpu: str = "RTX 4090", **given: Any) -> float:
    """FLOP/s of the products of a prompt at the fast end of its range."""
    fields = {"model": "llama-2-7b", "task": "prefill", "input_tokens": 1920, "dtype": "fp16", "weight_dtype": "gptq-int4"}
    found = ask(**{"gpu": gpu, **fields, **given})
    assert found.prefill_s is not None
    return 2 * INNER * 1920 / found.prefill_s.low


def test_an_engine_that_is_not_named_may_add_up_in_fp16() -> None:
    """ExLlama reads 13,918 tokens a second there: 185 TFLOP/s, more than the data sheet's 165."""
    assert HALF < 13_918 * 2 * INNER / 1.0 < most_flop_per_s() <= 4 * HALF * (1 + 1e-9)


def test_an_engine_that_adds_up_in_fp32_stays_below_the_data_sheet() -> None:
    assert most_flop_per_s(engine="vllm") <= HALF * (1 + 1e-9)


@pytest.mark.parametrize(("engine", "most"), [("llama.cpp@b3000", 2 * HALF), ("llama.cpp", 4 * HALF)])
def test_llama_cpp_multiplies_packed_weights_in_int8_since_2024(engine: str, most: float) -> None:
    assert most_flop_per_s(engine=engine, weight_dtype="q4_k_m") <= most * (1 + 1e-9)


def test_other_parts_have_one_rate() -> None:
    assert most_flop_per_s(gpu="A100 80GB SXM", weight_dtype="fp16") <= 312e12 * (1 + 1e-9)
