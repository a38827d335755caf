"""Ends of a training step's range that rest on what is left unsaid: TF32 for FP32, stored scores of encoders, a release."""

from __future__ import annotations

import math
from typing import Any

import pytest
from engine_sample import ask

from planner.engine.answers.answer import Answer
from planner.engine.answers.figure import Figure
from planner.engine.explain.range_ends import FP16_SUMS_OPEN, SCORES_OPEN, SLOWER_BEFORE, SLOWER_HOST, TF32_OPEN

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


def test_fp16_products_of_a_geforce_may_be_added_up_in_fp16() -> None:
    """Which they do 1.72 times as fast; a card that adds up in FP32 at the full rate gains nothing, nor do products in BF16."""
    asked: dict[str, Any] = {
        "model": "llama-3.2-1b",
        "task": "finetune",
        "sequence": 2048,
        "micro_batch": 4,
        "engine": "torch",
    }
    asked |= {"lora": {"rank": 8, "targets": ["q", "v"]}}
    fp16, bf16 = (ask(**asked, gpu="RTX 4090", dtype=dtype) for dtype in ("fp16", "bf16"))
    gain = math.exp(fp16.evidence[FP16_SUMS_OPEN])
    assert 1.1 < gain < 1.72, "the rest of a step is not faster"
    assert step(fp16).value / step(fp16).low == pytest.approx(gain * step(fp16).high / step(fp16).value, rel=2e-3)
    assert TF32_OPEN not in fp16.evidence
    assert FP16_SUMS_OPEN not in bf16.evidence
    assert FP16_SUMS_OPEN not in ask(**asked, gpu="A100 80GB SXM", dtype="fp16").evidence


def test_a_release_that_is_not_named_may_be_an_older_and_slower_one() -> None:
    """Transformers before 4.45 took 1.45 times as long in its kernels as the formulas say, and 1.22 since 5.0; TRL brings its release with it, and Megatron's releases are equally fast."""
    asked: dict[str, Any] = {"model": "llama-2-7b", "gpu": "A100 80GB SXM", "task": "finetune", "sequence": 1024, "micro_batch": 4}
    asked |= {"lora": {"rank": 8, "targets": ["q", "v"]}}
    open_, named, old = (ask(**asked, engine=engine) for engine in ("transformers", "transformers@5.0", "transformers@4.40"))
    assert open_.evidence[SLOWER_BEFORE] == pytest.approx(math.log(1.45 / 1.22), rel=0.05)
    assert step(open_).value == step(named).value
    assert step(open_).low == step(named).low
    assert step(open_).high == pytest.approx(step(named).high * step(old).value / step(named).value, rel=0.02)
    assert not any(SLOWER_BEFORE in ask(**asked, engine=engine).evidence for engine in ("trl", "transformers@4.40", "torch", None))


def test_a_step_that_waits_for_its_host_may_wait_for_a_slower_one() -> None:
    asked = TUNED | {"model": "qwen3-0.6b", "micro_batch": 1, "gpu": "H200 SXM", "dtype": "bf16", "recipe": "amp"}
    small, large = (ask(**asked | {"sequence": size}) for size in (64, 16384))
    assert small.bottleneck == "host launches"
    assert math.exp(small.evidence[SLOWER_HOST]) == pytest.approx(2.0, rel=0.15)
    assert SLOWER_HOST not in large.evidence
