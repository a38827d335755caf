"""Weights and caches that vLLM and SGLang print when they start, against what the planner says of the same start."""

from __future__ import annotations

from typing import Any

import pytest
from engine_sample import ask

from planner.engine.answers.answer import Answer
from planner.engine.answers.memory import MemoryBytes
from planner.units import GIB

H100, A100 = {"gpu": "H100 SXM5 80GB"}, {"gpu": "A100 80GB SXM"}
LOAD = {"task": "serve", "input_tokens": 512, "output_tokens": 512, "concurrency": 1}
STARTS: list[tuple[str, dict[str, Any], float | None, float | None]] = [
    ("vllm-project/vllm#23278", {"model": "gpt-oss-120b", "engine": "vllm@0.10.1", "max_num_seqs": 1024, **H100}, 65.97, -2.14),
    ("vllm-project/vllm#33155", {"model": "gpt-oss-120b", "engine": "vllm@0.14.1", **H100}, 64.38, None),
    ("vllm-project/vllm#27508", {"model": "gpt-oss-120b", "engine": "vllm@0.11.0", "memory_fraction": 0.95, **H100}, None, 1.71),
    ("myoceane.fr (2026)", {"model": "gpt-oss-20b", "engine": "vllm@0.19.0", "memory_fraction": 0.65, **A100}, 13.72, 36.56),
    ("myoceane.fr (2026)", {"model": "gemma-4-26b-a4b", "engine": "vllm@0.19.0", "memory_fraction": 0.9, **A100}, 48.5, 21.5),
    ("vllm-project/vllm#10511", {"model": "llama-3-8b", "engine": "vllm@0.6.4", **H100}, 14.96, 53.29),
    (
        "vllm-project/vllm#21348",
        {"model": "qwen3-235b-a22b", "engine": "vllm@0.9.2", "weight_dtype": "fp8", "tp": 4, **H100},
        None,
        8.11,
    ),
    (
        "vllm-project/vllm#21348",
        {"model": "qwen3-235b-a22b", "engine": "sglang@0.4.9", "weight_dtype": "fp8", "tp": 4, "memory_fraction": 0.93, **H100},
        None,
        16.46,
    ),
]
"""Source, start, GiB of weights on one GPU, GiB left for the cache of one GPU."""


def memory_of(answer: Answer) -> MemoryBytes:
    """What takes memory, which every answer here has."""
    assert answer.memory_bytes is not None
    return answer.memory_bytes


@pytest.mark.parametrize(("source", "start", "weights", "cache"), STARTS)
def test_a_start_leaves_what_its_log_says(source: str, start: dict[str, Any], weights: float | None, cache: float | None) -> None:
    """Weights within 3.5 %, caches within 2 GiB of some 70: what a process takes beside PyTorch differs by driver."""
    answer = ask(**LOAD | {"gpus": start.get("tp", 1)} | start)
    memory = memory_of(answer)
    if weights is not None:
        assert memory.weights / GIB == pytest.approx(weights, rel=0.035), source
    if cache is not None:
        left = memory.capacity * memory.usable_share - (memory.total.value - memory.kv_cache)
        assert left / GIB == pytest.approx(cache, abs=2.0), source
    assert answer.fits == (cache is None or cache > 0) or "0.14.1" in start["engine"]


def test_experts_in_mxfp4_are_padded_as_marlin_takes_them() -> None:
    """gpt-oss 20B by hand: 24 layers of 32 experts, each 2,880 · 5,760 and 2,880 · 2,880 elements of 4.25 bits and their biases of 16.

    Marlin has 3,072 for the width and 2,944 inside: 3,072 · 2,944 over 2,880 · 2,880 elements. TensorRT-LLM's are taken as they are here.
    """
    given = {"model": "gpt-oss-20b", **H100}
    padded, plain = (memory_of(ask(**LOAD | given, engine=engine)).weights for engine in ("vllm@0.10.1", "tensorrt-llm"))
    experts = 24 * 32 * ((2880 * 5760 + 2880 * 2880) * 4.25 / 8 + (5760 + 2880) * 2)
    more = experts * (3072 * 2944 / 2880**2 - 1)
    assert padded - plain == pytest.approx(more, rel=1e-3)


def test_a_service_that_its_trial_keeps_from_starting_is_tried_with_fewer_requests() -> None:
    """gpt-oss 120B by vLLM 0.10.1 on one H100 leaves no room for 1,024 requests, of 201,088 logits each; 256 are what small GPUs admit."""
    given = {"model": "gpt-oss-120b", "engine": "vllm@0.10.1", **H100}
    usual, asked, fewer = (ask(**LOAD | given | more) for more in ({}, {"max_num_seqs": 1024}, {"max_num_seqs": 256}))
    assert [answer.fits for answer in (usual, asked, fewer)] == [True, False, True]
    assert memory_of(usual) == memory_of(fewer)
    spared = memory_of(asked).total.value - memory_of(usual).total.value
    assert spared == pytest.approx((1024 - 256) * 201088 * 36, rel=0.15)


@pytest.mark.parametrize("gpu", ["A100 80GB SXM", "H100 SXM5 80GB", "H100 PCIe"])
def test_seventy_billion_parameters_in_16_bit_are_served_by_two_gpus_of_80_gb(gpu: str) -> None:
    """Published runs are (Massed-Compute/gpu-benchmark, 2026-07: 32 clients at two H100, 416 tokens a second); a cache of one request would give 21."""
    given = {"model": "llama-3.1-70b", "engine": "vllm@0.8.5", "gpu": gpu, "gpus": 2, "tp": 2}
    answer = ask(**{"task": "serve", "input_tokens": 128, "output_tokens": 128, "concurrency": 32} | given)
    assert answer.fits
    assert answer.max_concurrency is not None
    assert answer.max_concurrency >= 16


@pytest.mark.parametrize(("engine", "bytes_each"), [("vllm@0.15.0", 36), ("vllm@0.19.0", 14)])
def test_sampling_for_the_most_requests_is_tried_first(engine: str, bytes_each: int) -> None:
    """2,048 requests more, of 151,936 logits each."""
    given = {"model": "qwen3-0.6b", "gpu": "L4", "engine": engine}
    many, few = (memory_of(ask(**LOAD | given, max_num_seqs=most)).total.value for most in (4096, 2048))
    assert many - few == pytest.approx(2048 * 151936 * bytes_each, rel=1e-6)
