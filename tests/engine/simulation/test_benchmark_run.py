"""Benchmarks of a replica: the ramp at their begin and the drain at their end, against the long run and against arithmetic."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from engine_sample import ask
from simulation_sample import load_of, rules_of

from planner.engine.answers.answer import Answer
from planner.engine.evaluate.ranges import LENGTHS, LENGTHS_SPREAD
from planner.engine.performance.simulation.benchmark_run import COLD_EXPERTS_S, MOST_REQUESTS, simulate_benchmark
from planner.engine.performance.simulation.iteration_time import constant_time
from planner.engine.performance.simulation.summary import Summary
from planner.errors import UserError
from planner.workload.tasks import Lengths

STEP_S = 0.01


def benchmark(
    requests: int, *, warm: int = 0, sequences: float = 64.0, intake_s: float = 0.0, cold_s: float = 0.0, **load: Any
) -> Summary:
    """One replica whose iterations take `STEP_S` each, whatever is in them."""
    counts = (np.array([requests]), np.array([warm]))
    time = constant_time(1, step_s=STEP_S, intake_s=intake_s)
    return simulate_benchmark(time, rules_of(1, sequences=sequences), load_of(**load), *counts, cold_s)


def service(**given: Any) -> Answer:
    plain = {"model": "llama-3.1-8b", "task": "serve", "gpu": "H100 SXM5 80GB", "input_tokens": 600, "output_tokens": 200}
    return ask(**plain | given)


def value(answer: Answer, name: str) -> float:
    figure = getattr(answer, name)
    return float((getattr(figure, "mean", None) or figure).value)


@pytest.mark.parametrize(("requests", "rounds"), [(64, 1), (128, 2), (96, 2), (65, 2), (32, 1)])
def test_all_at_once_takes_whole_rounds(requests: int, rounds: int) -> None:
    """A round is one iteration of prompts, whose token is the first, and 199 that decode."""
    found = benchmark(requests, concurrency=requests, outputs=200)
    assert found.requests_per_s[0] == pytest.approx(requests / (rounds * 200 * STEP_S), rel=1e-6)
    assert found.samples[0] == 2 * requests


@pytest.mark.parametrize("every", [1, 2, 5])
def test_requests_that_come_at_once_are_taken_in_one_after_the_other(every: int) -> None:
    """One of 64 enters every so many iterations, whose prompt is in the next: request k has waited for all before it."""
    found = benchmark(64, concurrency=64, outputs=500, intake_s=every * STEP_S)
    assert found.ttft_s.mean[0] == pytest.approx((31.5 * every + 1) * STEP_S, rel=0.02)
    assert found.requests_per_s[0] == pytest.approx(64 / ((63 * every + 500) * STEP_S), rel=0.01)


@pytest.mark.parametrize("cold_s", [0.5, 2.0])
def test_the_first_requests_wait_until_a_cold_service_takes_them(cold_s: float) -> None:
    """64 of 128 requests are sent at once, and wait for all of it; the run takes longer by it. After a warm-up nothing does."""
    warm, cold = (benchmark(128, concurrency=64, outputs=200, cold_s=seconds) for seconds in (0.0, cold_s))
    assert cold.ttft_s.mean[0] - warm.ttft_s.mean[0] == pytest.approx(cold_s / 2, rel=1e-6)
    assert 128 / cold.requests_per_s[0] - 128 / warm.requests_per_s[0] == pytest.approx(cold_s, rel=1e-6)
    later = benchmark(128, warm=64, concurrency=64, outputs=200, cold_s=cold_s)
    assert later.ttft_s.mean[0] == pytest.approx(warm.ttft_s.mean[0])


def test_requests_at_a_rate_that_come_to_a_cold_service_wait_for_the_rest_of_it() -> None:
    """20 a second for 10 s: those of the first 2 s wait for 1 s on average, and some more until the engine has caught up."""
    warm, cold = (benchmark(200, rate_per_s=20.0, outputs=10, cold_s=seconds) for seconds in (0.0, 2.0))
    assert 0.2 <= cold.ttft_s.mean[0] - warm.ttft_s.mean[0] < 0.3


def test_a_mixture_of_experts_starts_cold_and_a_dense_model_does_not() -> None:
    run = {"model": "qwen3-30b-a3b", "concurrency": 16, "requests": 160, "engine": "vllm"}
    cold, warm = service(**run), service(**run, warmup_requests=16)
    assert value(cold, "ttft_s") - value(warm, "ttft_s") == pytest.approx(0.1 * COLD_EXPERTS_S, rel=0.3)
    assert cold.ttft_s is not None
    assert cold.ttft_s.mean.low < value(warm, "ttft_s")
    dense = run | {"model": "llama-3.1-8b"}
    assert value(service(**dense), "ttft_s") - value(service(**dense, warmup_requests=16), "ttft_s") < 0.03


def test_a_few_long_answers_drain_alone() -> None:
    alike = benchmark(512, concurrency=512, outputs=200)
    spread = benchmark(512, concurrency=512, outputs=Lengths(mean=200, p50=145))
    assert spread.requests_per_s[0] < 0.8 * alike.requests_per_s[0]


@pytest.mark.sweep
def test_ranges_of_a_burst_reach_up_to_answers_that_are_alike() -> None:
    """A mean alone spreads as conversations do; the range of a burst holds what it takes where all answers are of one length."""
    burst = service(concurrency=512, requests=512)
    alike = service(concurrency=512, requests=512, output_tokens={"mean": 200, "p50": 200})
    assert burst.output_tokens_per_s is not None
    assert burst.output_tokens_per_s.value < value(alike, "output_tokens_per_s") < burst.output_tokens_per_s.high
    amounts = [
        found.evidence.get(LENGTHS, 0.0)
        for found in (
            burst,
            service(concurrency=64, requests=512),
            service(concurrency=64, requests=5000),
            service(concurrency=64),
            alike,
        )
    ]
    assert amounts == sorted(amounts, reverse=True)
    assert amounts[0] == pytest.approx(LENGTHS_SPREAD, rel=1e-2)
    assert amounts[3:] == [0.0, 0.0]


def test_a_length_of_a_burst_changes_its_answer_by_no_more_than_its_share() -> None:
    """200 tokens are no other kind of length than 201: nothing jumps between neighbours."""
    found = [value(service(concurrency=300, requests=300, output_tokens=tokens), "request_s") for tokens in (199, 200, 201, 202)]
    assert all(after / before == pytest.approx(1.0, abs=0.02) for before, after in pairwise(found))


@pytest.mark.sweep
def test_the_longest_benchmark_passes_into_the_long_run() -> None:
    ended, endless = (service(concurrency=16, requests=number) for number in (MOST_REQUESTS, MOST_REQUESTS + 1))
    for name in ("ttft_s", "tpot_s", "request_s", "requests_per_s"):
        assert value(ended, name) == pytest.approx(value(endless, name), rel=0.12)


@pytest.mark.sweep
def test_warm_up_is_not_measured() -> None:
    """The first round waits in an empty engine for 256 prompts of a chunk each; later ones find their places free one by one."""
    cold, warm = (
        service(concurrency=64, requests=1280, warmup_requests=first, output_tokens={"mean": 200, "p50": 150}) for first in (0, 256)
    )
    assert value(warm, "ttft_s") < value(cold, "ttft_s")


@pytest.mark.sweep
def test_a_long_benchmark_is_the_long_run() -> None:
    load = {"request_rate_per_s": 4.0, "output_tokens": {"mean": 200, "p50": 150}}
    endless, ended = service(**load), service(**load, requests=4000)
    for name in ("ttft_s", "tpot_s", "request_s"):
        assert value(ended, name) == pytest.approx(value(endless, name), rel=0.1)
    assert value(ended, "requests_per_s") == pytest.approx(4.0, rel=0.02)


def test_a_limit_on_sequences_lengthens_a_burst() -> None:
    alike = {"mean": 200, "p50": 200}
    free, limited = (service(concurrency=400, requests=400, max_num_seqs=most, output_tokens=alike) for most in (None, 50))
    assert value(limited, "requests_per_s") < 0.7 * value(free, "requests_per_s")
    assert value(limited, "tpot_s") < value(free, "tpot_s")


@pytest.mark.parametrize("limit", [1, 4])
def test_a_request_at_a_rate_is_sent_once_a_client_is_free(limit: int) -> None:
    """All but the first come at once and wait for a client, which is no part of their latency: each takes the time of its own iterations."""
    found = benchmark(24, rate_per_s=1e6, concurrency=limit, outputs=50)
    assert found.ttft_s.p50[0] == pytest.approx(STEP_S, rel=0.02)
    assert found.request_s.mean[0] == pytest.approx(50 * STEP_S, rel=0.05)
    assert found.requests_per_s[0] == pytest.approx(limit / (50 * STEP_S), rel=0.05)


def test_a_limit_of_the_engine_is_a_wait() -> None:
    """Requests that were sent wait for a place in the engine, unlike those that wait for a client."""
    sent, waiting = benchmark(24, rate_per_s=1e6, sequences=4, outputs=50), benchmark(24, rate_per_s=1e6, concurrency=4, outputs=50)
    assert sent.ttft_s.mean[0] > 20 * waiting.ttft_s.mean[0]
    assert sent.requests_per_s[0] == pytest.approx(waiting.requests_per_s[0], rel=1e-6)


def test_small_iterations_let_others_wait_less() -> None:
    """Sequences that decode beside prompts of 8,000 tokens stand still for less of them at a time."""
    load = {"input_tokens": 8000, "output_tokens": 100, "request_rate_per_s": 1.0}
    whole, pieces = (service(**load, max_num_batched_tokens=most) for most in (8192, 512))
    assert value(pieces, "ttft_s") > value(whole, "ttft_s")


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"concurrency": 8, "warmup_requests": 5}, "warmup_requests"),
        ({"concurrency": 8, "requests": 5, "warmup_requests": 5}, "warmup_requests"),
        ({"task": "generate", "max_num_seqs": 8}, "max_num_seqs"),
    ],
)
def test_limits_that_mean_nothing_are_told(given: dict[str, Any], key: str) -> None:
    with pytest.raises(UserError) as told:
        service(**given)
    assert [problem.key for problem in told.value.problems] == [key]
