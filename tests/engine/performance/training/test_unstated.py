"""Ends of a training step's range that rest on what is left unsaid: TF32 for FP32, stored scores of encoders."""

from __future__ import annotations

import math
from typing import Any

import pytest
from engine_sample import ask

from planner.engine.answers.answer import Answer
from planner.engine.answers.figure import Figure
from planner.engine.explain.unstated import SCORES_OPEN, TF32_OPEN

BERT = {
    "model_type": "bert",
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_attention_heads": 16,
    "num_hidden_layers": 24,
    "max_position_embeddings": 512,
    "vocab_size": 30522,
}
TUNED: dict[str, Any] = {
    "model": BERT,
    "gpu": "A100 80GB SXM",
    "task": "finetune",
    "sequence": 384,
    "micro_batch": 16,
    "engine": "torch",
}


def step(found: Answer) -> Figure:
    assert found.step_s is not None
    return found.step_s


def test_fp32_may_be_tf32_where_the_part_has_it() -> None:
    """An A100 multiplies TF32 at eight times the rate of FP32: published BERT steps "in TF32/FP32" are 3.7 times as fast as FP32 allows."""
    plain, rounded = (step(ask(**TUNED, dtype=dtype, recipe="fp32", attention="eager")) for dtype in ("fp32", "tf32"))
    assert plain.low < rounded.value < plain.value / 3
    assert plain.low > plain.value / 8, "no product is faster than TF32's peak, and the rest is not faster at all"
    old = ask(**TUNED | {"gpu": "V100 SXM2 16GB"}, dtype="fp32", recipe="fp32", attention="eager")
    assert TF32_OPEN not in old.evidence


@pytest.mark.parametrize("dtype", ["tf32", "bf16"])
def test_other_dtypes_are_what_they_say(dtype: str) -> None:
    recipe = "fp32" if dtype == "tf32" else "bf16"
    assert TF32_OPEN not in ask(**TUNED, dtype=dtype, recipe=recipe).evidence


def test_an_encoder_may_store_its_scores() -> None:
    open_, stored = ask(**TUNED, dtype="fp16", recipe="mixed"), ask(**TUNED, dtype="fp16", recipe="mixed", attention="eager")
    slower = math.exp(open_.evidence[SCORES_OPEN])
    predicted, eager = step(open_), step(stored)
    assert predicted.value * slower == pytest.approx(eager.value, rel=0.15), "but for the kernels' own times"
    assert predicted.high / predicted.value == pytest.approx(slower * eager.high / eager.value, rel=1e-3)
    assert predicted.low / predicted.value == pytest.approx(eager.low / eager.value, rel=1e-3)


@pytest.mark.parametrize("said", [{"attention": "flash"}, {"attention": "eager"}, {"model": "llama-3.2-1b"}])
def test_what_is_stated_and_decoders_stay(said: dict[str, Any]) -> None:
    assert SCORES_OPEN not in ask(**TUNED | {"dtype": "bf16", "recipe": "mixed"} | said).evidence
