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
    """The data sheet's 165 TFLOP/s are no roof: ExLlama reads 13,918 tokens a second there, 180 TFLOP/s."""
    assert HALF < most_flop_per_s() <= 4 * HALF * (1 + 1e-9)


def test_exllama_adds_up_in_fp16() -> None:
    assert HALF < most_flop_per_s(engine="exllamav3") <= 2 * HALF * (1 + 1e-9)


def test_an_engine_that_adds_up_in_fp32_stays_below_the_data_sheet() -> None:
    assert most_flop_per_s(engine="vllm") <= HALF * (1 + 1e-9)


@pytest.mark.parametrize(("engine", "most"), [("llama.cpp@b3000", 2 * HALF), ("llama.cpp", 4 * HALF)])
def test_llama_cpp_multiplies_packed_weights_in_int8_since_2024(engine: str, most: float) -> None:
    assert most_flop_per_s(engine=engine, weight_dtype="q4_k_m") <= most * (1 + 1e-9)


OPT = {"model_type": "opt", "hidden_size": 1024, "ffn_dim": 4096, "num_hidden_layers": 2, "num_attention_heads": 16}


@pytest.mark.parametrize("embedded", [64, 4096, 32768])
def test_an_embedding_of_another_width_takes_the_time_of_its_products(embedded: int) -> None:
    """The head has as many columns as the embedding, and a projection stands before it: OPT, with 50,272 words."""
    trained = {"gpu": "H100 SXM5 80GB", "task": "train", "recipe": "bf16", "sequence": 2048, "micro_batch": 16}
    plain, other = (ask(model={**OPT, "word_embed_proj_dim": width}, **trained) for width in (1024, embedded))
    tokens = (plain.tokens_per_s, other.tokens_per_s)
    assert tokens[0] is not None
    assert tokens[1] is not None
    further_flop = 3 * 2 * (50272 * (embedded - 1024) + 2 * 1024 * embedded)
    further_s = 1 / tokens[1].value - 1 / tokens[0].value
    assert 0.4 < further_flop / further_s / 989.4e12 <= 1
    assert other.mfu is not None
    assert other.mfu.high <= 1


def test_words_that_are_served_wait_for_the_head_of_their_embedding() -> None:
    served = {"gpu": "H100 SXM5 80GB", "task": "serve", "input_tokens": 1024, "output_tokens": 64, "concurrency": 32}
    rates = [ask(model={**OPT, "word_embed_proj_dim": width}, **served).output_tokens_per_s for width in (64, 1024, 4096, 32768)]
    values = [one.value for one in rates if one]
    assert values == sorted(values, reverse=True)
    assert values[0] > 2 * values[-1]


def test_other_parts_have_one_rate() -> None:
    assert most_flop_per_s(gpu="A100 80GB SXM", weight_dtype="fp16") <= 312e12 * (1 + 1e-9)
