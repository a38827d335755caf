"""`vllm bench serve --save-result` (earlier benchmarks/benchmark_serving.py): one JSON object.

Keys as vllm/benchmarks/serve.py of vLLM 0.11 writes them (https://docs.vllm.ai/en/v0.11.0/api/vllm/benchmarks/serve.html, read 2026-11-22):
latencies in ms, `request_rate` a number or "inf".
"""

from __future__ import annotations

from typing import Any

from planner.observe.results.result import (
    Reader,
    Result,
    each_object,
    known,
    load,
    number,
    ratio,
    served,
    whole,
)

MS = 1e-3
ENGINES = {"vllm": "vllm", "vllm-chat": "vllm", "tensorrt-llm": "tensorrt-llm", "sglang": "sglang"}
"""Backends that name the engine; the others ('openai', 'openai-chat') are spoken by any."""


def _result(one: dict[str, Any]) -> Result:
    given, burstiness = scripted_load(one), number(one, "burstiness")
    if "request_rate_per_s" in given and burstiness and burstiness != 1:
        given["arrival_variation"] = burstiness**-0.5  # gaps are gamma distributed with this shape
    return served(
        "vllm bench serve",
        given,
        scripted_seen(one, "mean_e2el_ms"),
        model=str(one.get("model_id") or ""),
        engine=ENGINES.get(str(one.get("backend") or one.get("endpoint_type") or "")),
        tp=whole(number(one, "tensor_parallel_size")),
        taken_at=str(one.get("date") or ""),
        notes=_notes(one),
        **scripted_lengths(one),
    )


def scripted_load(one: dict[str, Any]) -> dict[str, Any]:
    """Load of the clients by the keys of this script, which those that began as copies of it share."""
    return load(*(number(one, key) for key in ("request_rate", "max_concurrency", "completed", "request_throughput")))


def scripted_lengths(one: dict[str, Any]) -> dict[str, Any]:
    """Mean tokens of a prompt and of an answer, by the same keys."""
    requests = number(one, "completed")
    return {f"{kind}_tokens": whole(ratio(number(one, f"total_{kind}_tokens"), requests)) for kind in ("input", "output")}


def scripted_seen(one: dict[str, Any], request_ms: str) -> dict[Any, float]:
    """Times and rates, by the same keys; `request_ms`: the key of the mean time of a request."""
    return known(
        ttft_s=number(one, "mean_ttft_ms", scale=MS),
        tpot_s=number(one, "mean_tpot_ms", scale=MS),
        request_s=number(one, request_ms, scale=MS),
        output_tokens_per_s=number(one, "output_throughput"),
        requests_per_s=number(one, "request_throughput"),
    )


def _notes(one: dict[str, Any]) -> tuple[str, ...]:
    failed = number(one, "failed") or 0
    return (f"{failed:.0f} requests failed and are in no figure",) if failed else ()


READER = Reader(
    "vllm bench serve",
    lambda contents: contents.have("mean_ttft_ms", "model_id", "request_throughput", "total_input_tokens"),
    each_object(_result),
    "a JSON object with model_id and mean_ttft_ms",
)
