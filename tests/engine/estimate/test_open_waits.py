"""Ranges of first tokens where a question leaves open how prompts meet and whether the service is warm, and loops larger than the cache."""

from __future__ import annotations

import math
from typing import Any

import pytest
from engine_sample import ask_all

from planner.engine.answers.answer import Answer
from planner.engine.explain.open_waits import APART, COLD, COLD_START_PCIE_S, COLD_START_S, LONGER_QUEUE, TOGETHER, USUAL_SHARE
from planner.engine.performance.prefill_decode.request_latency import prompts_in_step, prompts_queued

LOOP = {
    "task": "serve",
    "model": "llama-3.1-8b",
    "gpu": "H100 SXM5 80GB",
    "input_tokens": 1000,
    "output_tokens": 500,
    "concurrency": 32,
}
RUN = {
    "task": "serve",
    "model": "llama-3.1-8b",
    "gpu": "RTX 4090",
    "tp": 2,
    "engine": "vllm",
    "input_tokens": 200,
    "output_tokens": 200,
    "request_rate_per_s": 4.0,
    "requests": 200,
}


def answers_to(*requests: dict[str, Any]) -> list[Answer]:
    found = [answer for answer in ask_all(*requests) if isinstance(answer, Answer)]
    assert len(found) == len(requests)
    return found


def high(answer: Answer, share: str = "mean") -> float:
    assert answer.ttft_s is not None
    figure = getattr(answer.ttft_s, share)
    return float(figure.high)


def test_prompts_a_request_waits_for_by_hand() -> None:
    assert prompts_in_step(1.0, 1.0) == 1
    assert prompts_queued(1.0, 0.1, 1e9) == pytest.approx(1.0)
    # 32 prompts, 8 in a pass: the median is the 20th, and waits for its pass's 8, but for the quarter that is its own
    assert prompts_in_step(32.0, 8.0) == 20 + 8 * 0.75
    # prompts take half of the time: 1 + 0.5 · 0.5 / 0.5
    assert prompts_queued(10.0, 0.1, 1.0) == pytest.approx(1.5)


def test_a_client_alone_meets_no_other_prompt() -> None:
    (alone,) = answers_to({**LOOP, "concurrency": 1})
    assert not {APART, TOGETHER, COLD} & set(alone.evidence)


def test_an_engine_that_is_not_named_may_keep_requests_in_step() -> None:
    unnamed, in_step = answers_to(LOOP, {**LOOP, "engine": "sglang"})
    assert in_step.ttft_s is not None
    assert unnamed.ttft_s is not None
    assert unnamed.ttft_s.mean.value < in_step.ttft_s.mean.value < high(unnamed)
    assert unnamed.evidence[TOGETHER] > 0
    assert TOGETHER not in in_step.evidence
    assert in_step.evidence[APART] > 0


def test_lengths_that_spread_say_how_prompts_meet() -> None:
    (spread,) = answers_to({**LOOP, "output_tokens": {"mean": 500, "p50": 400}})
    assert spread.evidence.get(TOGETHER, 0.0) < 0.01


def test_a_queue_may_be_shorter_or_three_times_as_long() -> None:
    rated = {**LOOP, "engine": "vllm", "concurrency": None, "max_num_seqs": 16}
    idle, busy = answers_to({**rated, "request_rate_per_s": 0.5}, {**rated, "request_rate_per_s": 3.0})
    assert busy.wait_s is not None
    assert busy.ttft_s is not None
    share = busy.wait_s.mean.value / busy.ttft_s.mean.value
    assert share > 0.3
    assert busy.evidence[APART] == pytest.approx(-USUAL_SHARE * math.log(1 - share), abs=2e-3)
    assert busy.evidence[TOGETHER] == pytest.approx(USUAL_SHARE * math.log(1 + (LONGER_QUEUE - 1) * share), abs=2e-3)
    assert idle.evidence.get(TOGETHER, 0.0) < busy.evidence[TOGETHER]
    assert idle.ttft_s is not None
    assert high(idle) / idle.ttft_s.mean.value < high(busy) / busy.ttft_s.mean.value


def test_layers_in_turn_start_communicators_as_well() -> None:
    (in_turn,) = answers_to({**RUN, "tp": 1, "pp": 2})
    assert in_turn.evidence[COLD] > 0
    assert "several GPUs" not in in_turn.evidence


def test_the_first_requests_of_a_run_may_find_a_cold_service() -> None:
    cold, warm, loop = answers_to(RUN, {**RUN, "warmup_requests": 20}, {**RUN, "request_rate_per_s": None, "concurrency": 10})
    assert COLD not in warm.evidence
    # 60 of 200 requests come in 15 s and wait for half of them; of the median none does
    assert high(cold) - high(warm) == pytest.approx(0.3 * COLD_START_PCIE_S / 2, rel=0.05)
    assert high(cold, "p50") == pytest.approx(high(warm, "p50"), rel=0.2)
    # the slowest twentieth waits from the first sixth of these 60 on
    assert high(cold, "p95") > COLD_START_PCIE_S * 5 / 6
    # 10 of 200 are sent at once and wait for all of it
    assert high(loop) > 0.05 * COLD_START_PCIE_S


def test_requests_that_are_all_sent_at_once_may_be_read_together() -> None:
    burst = {**LOOP, "engine": "vllm", "requests": 64}
    at_once, alone, rated = answers_to(burst, {**burst, "concurrency": 1}, {**burst, "request_rate_per_s": 2.0})
    assert at_once.evidence[TOGETHER] > 0
    assert APART not in at_once.evidence
    assert TOGETHER not in alone.evidence
    assert rated.evidence.get(TOGETHER, 0.0) < at_once.evidence[TOGETHER]


def test_one_gpu_compiles_kernels_for_its_first_requests() -> None:
    of_ten = {**RUN, "tp": 1, "gpus": 1, "request_rate_per_s": None, "concurrency": 10}
    cold, warm = answers_to(of_ten, {**of_ten, "warmup_requests": 20})
    assert COLD not in warm.evidence
    assert 0.9 < (high(cold) - high(warm)) / (0.05 * COLD_START_S) < 1.2


def test_more_requests_fit_a_cache_that_fills_as_answers_grow() -> None:
    """A cache of 100 whole requests of 2,000 tokens holds 133 that have made half of theirs; engines that reserve room hold 100."""
    loop = {**LOOP, "output_tokens": 1000, "max_num_seqs": 512}
    grows, reserves = answers_to({**loop, "engine": "vllm"}, {**loop, "engine": "tensorrt-llm"})
    assert grows.max_concurrency is not None
    assert reserves.max_concurrency is not None
    few, crowd = answers_to(
        {**loop, "engine": "vllm", "concurrency": round(1.2 * grows.max_concurrency)},
        {**loop, "engine": "tensorrt-llm", "concurrency": round(1.2 * reserves.max_concurrency)},
    )
    for answer, waits in ((few, False), (crowd, True)):
        assert answer.ttft_s is not None
        assert answer.request_s is not None
        assert (answer.ttft_s.mean.value > 0.1 * answer.request_s.mean.value) == waits


@pytest.mark.parametrize("clients", [256, 257, 5000])
def test_more_clients_than_a_model_without_a_cache_takes_at_once_wait(clients: int) -> None:
    """vLLM runs 256 sequences on an L4; by Little's law a request takes clients ÷ rate, whether it waits for its admission or not."""
    (found,) = answers_to({"task": "serve", "model": "minilm-l6", "gpu": "L4", "concurrency": clients})
    assert found.layout is not None
    assert found.layout.batch == 256
    assert found.requests_per_s is not None
    assert found.request_s is not None
    assert found.request_s.mean.value == pytest.approx(clients / found.requests_per_s.value, rel=0.01)
