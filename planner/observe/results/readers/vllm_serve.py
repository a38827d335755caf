"""`vllm bench serve --save-result` (earlier benchmarks/benchmark_serving.py): one JSON object.

Keys as vllm/benchmarks/serve.py of vLLM 0.11 writes them (https://docs.vllm.ai/en/v0.11.0/api/vllm/benchmarks/serve.html, read 2026-11-22):
latencies in ms, `request_rate` a number or "inf".
"""

from __future__ import annotations

from typing import Any

from planner.observe.results.contents import Contents
from planner.observe.results.result import Reader, Result, format_of, known, load, number, ratio, scaled, stated, whole

MS = 1e-3
ENGINES = {"vllm": "vllm", "vllm-chat": "vllm", "tensorrt-llm": "tensorrt-llm", "sglang": "sglang"}
"""Backends that name the engine; the others ('openai', 'openai-chat') are spoken by any."""


def _read(contents: Contents) -> list[Result]:
    return [_result(one) for one in contents.objects]


def _result(one: dict[str, Any]) -> Result:
    requests, rate = number(one, "completed"), number(one, "request_rate")
    model, backend = str(one.get("model_id") or ""), str(one.get("backend") or one.get("endpoint_type") or "")
    at_once, achieved = number(one, "max_concurrency"), number(one, "request_throughput")
    given = load(rate, at_once, requests, achieved)
    burstiness = number(one, "burstiness")
    if "request_rate_per_s" in given and burstiness and burstiness != 1:
        given["arrival_variation"] = burstiness**-0.5  # gaps are gamma distributed with this shape
    return Result(
        tool="vllm bench serve",
        name=f"rate {rate:g}/s" if "request_rate_per_s" in given else f"{given.get('concurrency', '?')} at once",
        settings={"task": "serve"}
        | stated(
            model=model,
            engine=ENGINES.get(backend),
            input_tokens=whole(ratio(number(one, "total_input_tokens"), requests)),
            output_tokens=whole(ratio(number(one, "total_output_tokens"), requests)),
            tp=whole(number(one, "tensor_parallel_size")),
        )
        | format_of(model)
        | given,
        seen=known(
            ttft_s=scaled(number(one, "mean_ttft_ms"), MS),
            tpot_s=scaled(number(one, "mean_tpot_ms"), MS),
            request_s=scaled(number(one, "mean_e2el_ms"), MS),
            output_tokens_per_s=number(one, "output_throughput"),
            requests_per_s=achieved,
        ),
        taken_at=str(one.get("date") or ""),
        notes=_notes(one),
    )


def _notes(one: dict[str, Any]) -> tuple[str, ...]:
    failed = number(one, "failed") or 0
    return (f"{failed:.0f} requests failed and are in no figure",) if failed else ()


READER = Reader(
    "vllm bench serve",
    lambda contents: contents.have("mean_ttft_ms", "model_id", "request_throughput", "total_input_tokens"),
    _read,
    "a JSON object with model_id and mean_ttft_ms",
)
