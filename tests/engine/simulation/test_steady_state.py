"""Services in the long run: Little's law, and estimate and plan saying the same where requests are rare."""

from __future__ import annotations

from typing import Any

import pytest
from engine_sample import ask, plan, session, workload

from planner.engine.answers.answer import Answer
from planner.engine.answers.figure import Percentiles

MODELS = [("llama-3.1-8b", "H100 SXM5 80GB", 1), ("qwen3-30b-a3b", "H200 SXM", 2), ("llama-3.1-70b", "B200 SXM", 4)]
LENGTHS: list[Any] = [(600, 200), (4000, 50), ({"mean": 600, "p50": 300}, {"mean": 200, "p50": 150})]
ENGINES = ["vllm", "sglang", "tensorrt-llm"]


def mean(latency: Percentiles | None) -> float:
    assert latency is not None
    return latency.mean.value


def service(model: str, gpu: str, gpus: int, lengths: tuple[Any, Any], **given: Any) -> Answer:
    plain = {"model": model, "task": "serve", "gpu": gpu, "gpus": gpus, "input_tokens": lengths[0], "output_tokens": lengths[1]}
    return ask(**plain | given)


@pytest.mark.sweep
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("lengths", LENGTHS[:2])
@pytest.mark.parametrize(("model", "gpu", "gpus"), MODELS)
def test_a_closed_loop_holds_its_clients(model: str, gpu: str, gpus: int, lengths: tuple[Any, Any], engine: str) -> None:
    """Requests at once = requests a second · seconds of a request."""
    for clients in (1, 16, 128):
        found = service(model, gpu, gpus, lengths, engine=engine, concurrency=clients)
        assert found.requests_per_s is not None
        assert found.requests_per_s.value * mean(found.request_s) == pytest.approx(clients, rel=0.03)


def test_clients_that_wait_for_room_in_the_cache_are_answered() -> None:
    """About 100 of 115 clients find room at once; the others wait, and send nothing more while they do."""
    lengths: tuple[Any, Any] = (16, {"mean": 369, "p50": 368})
    found = service("llama-3.1-8b", "RTX 4090", 1, lengths, engine="vllm", concurrency=115)
    assert found.assumed["waiting_per_replica"] > 10
    assert found.requests_per_s is not None
    assert found.requests_per_s.value * mean(found.request_s) == pytest.approx(115, rel=0.2)


@pytest.mark.sweep
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("lengths", LENGTHS)
def test_a_request_takes_its_first_token_and_those_after_it(lengths: tuple[Any, Any], engine: str) -> None:
    for load in ({"concurrency": 16}, {"request_rate_per_s": 2.0}, {"concurrency": 16, "requests": 200}):
        found = service(*MODELS[0], lengths, engine=engine, **load)
        tokens = lengths[1] if isinstance(lengths[1], int) else lengths[1]["mean"]
        whole = mean(found.ttft_s) + mean(found.tpot_s) * (tokens - 1)
        assert mean(found.request_s) == pytest.approx(whole, rel=0.12)


@pytest.mark.parametrize("rate", [0.001, 0.01, 0.05])
def test_where_requests_are_rare_estimate_and_plan_agree(rate: float) -> None:
    keys = {"request_rate_per_s": rate, "gpus_considered": ["H100 SXM5 80GB"], "engine": "vllm", "targets": {}}
    first = plan("llama-3.1-70b-chat-service", **keys).rows[0]
    layout, asked = first.answer.layout, workload("llama-3.1-70b-chat-service", **keys)
    assert layout is not None
    assert first.usd_per_h is not None
    lengths = [
        of if isinstance(of, int) else {"mean": of.mean, "p50": of.p50, "p95": of.p95}
        for of in (asked.input_tokens, asked.output_tokens)
        if of
    ]
    degrees = {"tp": layout.tp, "pp": layout.pp, "dp": layout.dp, "price_usd_per_gpu_h": first.usd_per_h.value / layout.gpus}
    same = {"weight_dtype": asked.weight_dtype, "engine": "vllm", "request_rate_per_s": rate, "prefix_tokens": asked.prefix_tokens}
    given = {name: value for name, value in (degrees | same).items() if value is not None}
    alone = service("llama-3.1-70b", first.gpu, layout.gpus, (lengths[0], lengths[1]), **given)
    for of in (first.answer, alone):
        assert of.requests_per_s is not None
        assert of.requests_per_s.value == pytest.approx(rate, rel=1e-6)
    for name in ("ttft_s", "tpot_s", "request_s"):
        assert mean(getattr(alone, name)) == pytest.approx(mean(getattr(first.answer, name)), rel=0.05)
    assert alone.usd_per_million_tokens is not None
    assert first.answer.usd_per_million_tokens is not None
    assert alone.usd_per_million_tokens.value == pytest.approx(first.answer.usd_per_million_tokens.value, rel=0.01)


def test_prompts_that_wait_together_share_a_pass() -> None:
    """Eight prompts of 1,024 tokens fit into one pass of 8,192: a tenth of the requests wait for (8 + 8)/2 of them, the others for one alone
    and 1.5 (vLLM) at the time each takes among others, which is less than alone as kernels start once for all."""
    clients, lengths = 8, (1024, 512)
    alone, together = (service("qwen3-32b", "H100 SXM5 80GB", 8, lengths, engine="vllm@0.12", concurrency=c) for c in (1, clients))
    assert together.prefill_s is not None
    each, single = together.prefill_s.value, mean(alone.ttft_s) - mean(alone.tpot_s) / 2
    assert each < 0.8 * single
    expected = 0.1 * clients * each + 0.9 * (single + 1.5 * each) + mean(together.tpot_s) / 2
    assert mean(together.ttft_s) == pytest.approx(expected, rel=0.05)


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("model", "lengths", "rate", "gpus"),
    [
        ("gemma-2-9b", (500, 20), 0.5, ["RTX A6000", "GH200 96GB", "RTX 4090", "L4"]),
        ("gemma-2-9b", (500, 100), 3.0, ["A100 80GB SXM", "L40S", "H200 SXM", "RTX 4090"]),
        ("llama-3.2-3b", (100, 20), 0.5, ["L4", "A10G", "L40S", "RTX 4090"]),
    ],
)
def test_rows_that_are_not_simulated_promise_what_the_simulation_of_their_layout_finds(
    model: str, lengths: tuple[int, int], rate: float, gpus: list[str]
) -> None:
    """Also those of more GPUs than are needed, which only the first screening keeps: at a load of its own."""
    asked = {"model": model, "task": "serve", "input_tokens": lengths[0], "output_tokens": lengths[1], "request_rate_per_s": rate}
    targets = {"targets": {"p95_request_s": 8.0}, "gpus_considered": gpus, "max_gpus": 8}
    found = session().plan(session().workload(asked | targets, "test"), basis="spec", levers=False)
    by_formula = [row for row in found.rows if row.verdict == "fits" and row.answer.assumed["percentiles"] == "by formula"]
    assert len(by_formula) > 3
    for row in by_formula:
        layout = row.answer.layout
        given = {name: getattr(layout, name) for name in ("gpus", "tp", "pp", "dp", "gpus_per_node")}
        alone = ask(**asked, gpu=row.gpu, engine="vllm", **given)
        for name in ("ttft_s", "tpot_s", "request_s"):
            assert mean(getattr(row.answer, name)) == pytest.approx(mean(getattr(alone, name)), rel=0.1), row.gpu
