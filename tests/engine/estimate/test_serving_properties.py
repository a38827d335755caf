"""What holds of any service: Little's law, the parts of a request, weights that are read in every step, and rates that are kept up with."""

from __future__ import annotations

import math
from typing import Any

import pytest
from engine_sample import ask_all, gpus_of, session, solutions
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from planner.engine.answers.answer import Answer
from planner.engine.answers.figure import Percentiles
from planner.workload.presets import read_workload

DENSE = ["llama-3.1-8b", "bloom-560m", "opt-1.3b", "llama-2-7b"]
GPUS = {"H100 SXM5 80GB": 3.35e12, "A100 80GB SXM": 2.039e12, "RTX 4090": 1.008e12, "L4": 3.0e11}
"""Part -> its bandwidth by the data sheet, bytes/s."""
MOST_BLOCK_TOKENS = 64
"""Tokens of a block of the cache: TensorRT-LLM's, of which those of other engines are parts."""
quick = settings(max_examples=3, deadline=None, derandomize=True, database=None)
unshrunk = settings(quick, max_examples=6, phases=[Phase.generate])

service = st.fixed_dictionaries(
    {
        "model": st.sampled_from(DENSE),
        "gpu": st.sampled_from(list(GPUS)),
        "task": st.just("serve"),
        "engine": st.sampled_from(["vllm", "sglang", "tensorrt-llm"]),
        "input_tokens": st.integers(16, 1500),
        "output_tokens": st.integers(2, 500),
    }
)


several = st.lists(st.tuples(service, st.integers(1, 128)), min_size=12, max_size=12)
"""Services and the clients of a closed loop, asked together."""


def answers_to(*requests: dict[str, Any]) -> list[Answer]:
    """Answers of requests, none of which may be refused."""
    found = ask_all(*requests)
    assert all(isinstance(one, Answer) for one in found), found
    return [one for one in found if isinstance(one, Answer)]


def loops(given: list[tuple[dict[str, Any], int]]) -> list[tuple[dict[str, Any], int, Answer]]:
    """Each service, its clients and what they see."""
    answers = answers_to(*({**request, "concurrency": clients} for request, clients in given))
    return [(*one, answer) for one, answer in zip(given, answers, strict=True)]


def mean(latency: Percentiles | None) -> float:
    assert latency is not None
    return latency.mean.value


@quick
@given(several)
def test_a_closed_loop_has_all_its_clients_in_flight(given: list[tuple[dict[str, Any], int]]) -> None:
    for _, clients, answer in loops(given):
        assert answer.requests_per_s is not None
        if answer.fits:
            assert answer.requests_per_s.value * mean(answer.request_s) == pytest.approx(clients, rel=0.05)


@quick
@given(several)
def test_a_request_is_its_first_token_and_all_others(given: list[tuple[dict[str, Any], int]]) -> None:
    for request, _, answer in loops(given):
        parts = mean(answer.ttft_s) + (request["output_tokens"] - 1) * mean(answer.tpot_s)
        assert mean(answer.request_s) == pytest.approx(parts, rel=0.05)


@quick
@given(several)
def test_no_token_comes_before_the_weights_are_read(given: list[tuple[dict[str, Any], int]]) -> None:
    for request, _, answer in loops(given):
        assert answer.memory_bytes is not None
        assert answer.parameters is not None
        read = answer.memory_bytes.weights * (1 - answer.parameters.embedding / answer.parameters.total)
        assert mean(answer.tpot_s) >= read / GPUS[request["gpu"]]


@pytest.mark.sweep
@unshrunk
@given(several, st.sampled_from([0.0, 0.02, 0.1, 0.4, 0.8]))
def test_a_small_change_of_lengths_changes_little(given: list[tuple[dict[str, Any], int]], sigma: float) -> None:
    """Answers whose lengths spread a little more, or are a token longer, take about as long: alike is no other kind of load.

    A token that begins a block of the cache is left out: of as many blocks more the cache holds fewer sequences, and more clients wait.
    """

    def loop(request: dict[str, Any], clients: int, spread: float, more: int) -> dict[str, Any]:
        tokens = request["output_tokens"] + 100
        tokens += ((request["input_tokens"] + tokens) % MOST_BLOCK_TOKENS == 0) + more
        return {**request, "concurrency": clients, "output_tokens": {"mean": tokens, "p50": tokens * math.exp(-(spread**2) / 2)}}

    changes = [(sigma, 0), (sigma + 0.002, 0), (sigma, 1)]
    found = answers_to(*(loop(*one, spread, more) for one in given for spread, more in changes))
    for first, *others in zip(found[::3], found[1::3], found[2::3], strict=True):
        for other in others if first.fits else ():
            for name in ("ttft_s", "tpot_s", "request_s"):
                # a cache holds a whole number of requests: with one fewer, some wait for their first token
                seats = 0.03 * mean(first.request_s) if name == "ttft_s" else 0.0
                assert mean(getattr(other, name)) == pytest.approx(mean(getattr(first, name)), rel=0.1, abs=seats)
            assert first.requests_per_s is not None
            assert other.requests_per_s is not None
            assert other.requests_per_s.value == pytest.approx(first.requests_per_s.value, rel=0.03)


@quick
@given(st.lists(st.tuples(service, st.floats(0.05, 20)), min_size=12, max_size=12))
def test_a_service_that_keeps_up_answers_what_comes(given: list[tuple[dict[str, Any], float]]) -> None:
    answers = answers_to(*({**request, "request_rate_per_s": rate} for request, rate in given))
    for (_, rate), answer in zip(given, answers, strict=True):
        assert answer.requests_per_s is not None
        assert answer.requests_per_s.value <= rate * (1 + 1e-9)
        if answer.fits and str(answer.assumed["percentiles"]).startswith("simulated"):
            assert answer.requests_per_s.value == pytest.approx(rate)


spread = st.builds(
    lambda median, factor: {"mean": median * 2, "p50": median, "p95": median * factor}, st.integers(50, 400), st.integers(8, 12)
)
"""Numbers of tokens that differ widely: a few long prompts look like a queue that grows."""


@pytest.mark.sweep
@settings(unshrunk, max_examples=2)
@given(st.lists(st.tuples(service, st.one_of(st.none(), spread), st.sampled_from([0, 1, 2])), min_size=5, max_size=5))
def test_no_load_is_answered_above_what_can_be_answered(given: list[tuple[dict[str, Any], dict[str, int] | None, int]]) -> None:
    """What a service can answer does not depend on what it is asked, and exactly the loads up to it are answered."""
    shares = (0.3, 0.62, 0.9, 0.97, 1.0, 1.01, 1.1, 1.3, 20.0)
    services = [
        {**one, "arrival_variation": variation} | ({"input_tokens": inputs} if inputs else {}) for one, inputs, variation in given
    ]
    most = [rate_of(answer) for answer in answers_to(*({**one, "request_rate_per_s": 1e5} for one in services))]
    asked = [(one, rate, rate * share) for one, rate in zip(services, most, strict=True) for share in shares]
    found = answers_to(*({**one, "request_rate_per_s": rate} for one, _, rate in asked))
    for (_, rate, load), answer in zip(asked, found, strict=True):
        if answer.fits:
            assert rate_of(answer) == pytest.approx(min(rate, load), rel=1e-9)
            assert (answer.request_s is not None) == (load <= rate)


def test_a_full_cache_answers_what_it_was_said_to_serve() -> None:
    """Answers grow: a cache runs more sequences than it holds whole ones, and answers more than these would."""
    fields = {
        "model": "llava-1.5-13b",
        "gpu": "H200",
        "engine": "sglang",
        "task": "serve",
        "input_tokens": 1500,
        "output_tokens": 700,
    }
    rates = [2.0, 3.0, 4.0, 4.5, 5.0, 5.5, 6.0, 8.0, 20.0]
    answers = answers_to(*({**fields, "request_rate_per_s": rate} for rate in rates))
    answered = [rate_of(answer) for answer in answers]
    assert answered == sorted(answered)
    assert answered[-1] < rates[-1]


@pytest.mark.parametrize("clients", [1, 3, 5, 100])
def test_replicas_answer_no_more_than_the_clients_there_are(clients: int) -> None:
    """By Little's law clients = rate × time of a request, however they are dealt to replicas."""
    fields = {"model": "llama-3.1-8b", "gpu": "H100 SXM5 80GB", "task": "serve", "engine": "vllm", "tp": 1, "output_tokens": 200}
    for answer in answers_to(*({**fields, "gpus": dp, "dp": dp, "concurrency": clients} for dp in (1, 2, 4, 64))):
        assert rate_of(answer) * mean(answer.request_s) == pytest.approx(clients, rel=0.02)


def test_a_planned_loop_answers_no_more_than_its_clients_ask() -> None:
    workload = {"model": "qwen3-8b", "task": "serve", "concurrency": 5, "input_tokens": 500, "output_tokens": 200, "max_gpus": 8}
    found = solutions(session().plan(read_workload(workload | {"gpus_considered": ["L40S"]}, "test"), basis="spec", levers=False))
    assert max(gpus_of(row) for row in found) > 2
    for row in found:
        answered = rate_of(row.answer)
        assert answered * mean(row.answer.request_s) == pytest.approx(5, rel=0.02)
        if row.usd_per_h is not None:
            assert row.answer.usd_per_million_tokens is not None
            paid = row.usd_per_h.value / (answered * 200 * 3600) * 1e6
            assert row.answer.usd_per_million_tokens.value == pytest.approx(paid, rel=0.02)


def rate_of(answer: Answer) -> float:
    assert answer.requests_per_s is not None
    return answer.requests_per_s.value


@pytest.mark.parametrize("gpu", ["A100 80GB SXM", "RTX 4090"])
@pytest.mark.parametrize("model", ["mixtral-8x7b", "llama-2-7b"])
def test_llama_cpp_takes_no_less_for_more_sequences(model: str, gpu: str) -> None:
    fields = {"model": model, "gpu": gpu, "task": "generate", "engine": "llama.cpp", "input_tokens": 64, "output_tokens": 8}
    answers = answers_to(*({**fields, "batch": size} for size in (8, 16, 40, 60, 90, 150, 250, 400)))
    between = [mean(answer.tpot_s) for answer in answers]
    assert between == sorted(between)
