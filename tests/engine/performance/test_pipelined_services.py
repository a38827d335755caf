"""Services whose layers lie on several GPUs: stages work on different requests at once, while one request passes them one after the other."""

from __future__ import annotations

from typing import Any

import pytest
from engine_sample import ask

from planner.engine.answers.answer import Answer
from planner.engine.answers.figure import Percentiles

LLAMA: dict[str, Any] = {"model": "llama-3.1-70b", "gpu": "RTX PRO 6000 Blackwell Server", "task": "serve", "tp": 1}
NVFP4: dict[str, Any] = {"dtype": "fp4", "kv_dtype": "fp8", "engine": "tensorrt-llm@1.0", "concurrency": "max"}
PUBLISHED = [
    (128, 128, (3264, 6172, 9641)),
    (1000, 1000, (1787, 3707, 5961)),
    (2048, 128, (393, 813, 1511)),
    (5000, 500, (401, 812, 1511)),
    (20000, 2000, (142, 319, 630)),
]
"""(tokens in, out, output tokens a second with 1, 2 and 4 stages) of TensorRT-LLM's perf-overview, release 1.0 (commit 00f37686), Llama 3.3 70B FP4."""


def staged(stages: int, **given: Any) -> Answer:
    return ask(**LLAMA, gpus=stages, pp=stages, **given)


def mean(latency: Percentiles | None) -> float:
    assert latency is not None
    return latency.mean.value


def rate(answer: Answer) -> float:
    assert answer.output_tokens_per_s is not None
    return answer.output_tokens_per_s.value


@pytest.mark.parametrize(("inputs", "outputs", "published"), PUBLISHED)
def test_throughput_grows_with_stages_as_published(inputs: int, outputs: int, published: tuple[int, ...]) -> None:
    for stages, measured in zip((1, 2, 4), published, strict=True):
        found = staged(stages, input_tokens=inputs, output_tokens=outputs, **NVFP4)
        assert rate(found) == pytest.approx(measured, rel=0.26)
        assert found.output_tokens_per_s is not None
        assert found.output_tokens_per_s.low < measured < found.output_tokens_per_s.high


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm"])
def test_one_request_passes_the_stages_one_after_the_other(engine: str) -> None:
    """Its time between tokens is that of all layers, whatever the number of stages; so is its prompt's."""
    alone = {"input_tokens": 1000, "output_tokens": 100, "dtype": "fp8", "engine": engine, "concurrency": 1}
    whole, split = (staged(stages, **alone) for stages in (1, 4))
    for name in ("ttft_s", "tpot_s"):
        assert 0.99 < mean(getattr(split, name)) / mean(getattr(whole, name)) < 1.2


def test_a_step_of_all_is_a_turn_of_every_micro_batch() -> None:
    """64 sequences on four stages: each of four micro batches of 16 passes all layers while the others do, so that a step lasts as long as one GPU
    with all layers takes for 16, and four times as many tokens come out."""
    long = {"input_tokens": 16, "output_tokens": 2000, "dtype": "fp8", "engine": "vllm@0.15"}
    one, four = staged(1, **long, concurrency=16), staged(4, **long, concurrency=64)
    assert mean(four.tpot_s) == pytest.approx(mean(one.tpot_s), rel=0.06)
    assert rate(four) == pytest.approx(4 * rate(one), rel=0.06)


@pytest.mark.parametrize("engine", ["vllm@0.15", "sglang", "tensorrt-llm@1.0"])
def test_simulation_and_formulas_agree_on_a_pipeline(engine: str) -> None:
    """Lengths of one value are answered by formulas, and those that hardly spread by simulation."""
    load = {"dtype": "fp8", "engine": engine, "concurrency": 64}
    formula = staged(4, input_tokens=1000, output_tokens=300, **load)
    spread = {"input_tokens": {"mean": 1000, "p50": 900}, "output_tokens": {"mean": 300, "p50": 270}}
    assert rate(staged(4, **spread, **load)) == pytest.approx(rate(formula), rel=0.15)


def test_a_rate_is_kept_up_with_by_as_many_stages_as_it_needs() -> None:
    load = {"input_tokens": 2000, "output_tokens": 200, "dtype": "fp8", "engine": "vllm@0.15", "request_rate_per_s": 4.0}
    one, four = staged(1, **load), staged(4, **load)
    assert one.requests_per_s is not None
    assert one.requests_per_s.value < 4.0
    assert four.requests_per_s is not None
    assert four.requests_per_s.value >= 4.0


def test_layers_split_for_one_stream_wait_for_each_other() -> None:
    """llama.cpp's server hands a batch from GPU to GPU: two halves of the layers are no faster than all of them."""
    given = {
        "model": "llama-3.1-8b",
        "gpu": "RTX 4090",
        "task": "serve",
        "engine": "llama.cpp",
        "input_tokens": 16,
        "output_tokens": 500,
    }
    one, two = (ask(**given, gpus=gpus, tp=1, pp=gpus, concurrency=8) for gpus in (1, 2))
    assert rate(two) <= rate(one)
