"""JSON written by the benchmark scripts of vLLM and SGLang, one object for each run; SGLang's began as a copy of vLLM's and shares its keys.

- `vllm bench serve --save-result` (earlier benchmarks/benchmark_serving.py), keys as vllm/benchmarks/serve.py of vLLM 0.11 writes them
  (https://docs.vllm.ai/en/v0.11.0/api/vllm/benchmarks/serve.html, read 2026-11-22): latencies in ms, `request_rate` a number or "inf".
- `vllm bench throughput --output-json`, keys as vllm/benchmarks/throughput.py writes them (vLLM 0.11 to 0.33; `model_id` of late). The rate
  of tokens counts prompts and outputs together, so only requests/s are compared.
- `python -m sglang.bench_serving --output-file`, appended by every run; keys by https://docs.sglang.io/developer_guide/bench_serving.html
  (read 2026-11-22). `concurrency` is the mean that was measured, `max_concurrency` the limit; an unlimited rate is written as Infinity.
"""

from __future__ import annotations

from typing import Any

from planner.observe.results.result import Reader, Result, each_object, known, load, number, ratio, served, whole

MS = 1e-3
VLLM_ENGINES = {"vllm": "vllm", "vllm-chat": "vllm", "tensorrt-llm": "tensorrt-llm", "sglang": "sglang"}
"""Backends that name the engine; others ('openai', 'openai-chat') can be any engine."""
SGLANG_ENGINES = {"sglang": "sglang", "sglang-native": "sglang", "vllm": "vllm", "vllm-chat": "vllm", "trt": "tensorrt-llm"}
"""Backends that name the engine; others, such as 'sglang-oai', name the protocol."""


def _vllm_serve(one: dict[str, Any]) -> Result:
    given, burstiness, failed = _load(one), number(one, "burstiness"), number(one, "failed")
    if "request_rate_per_s" in given and burstiness and burstiness != 1:
        given["arrival_variation"] = burstiness**-0.5  # gaps are gamma distributed with this shape
    return served(
        "vllm bench serve",
        given,
        _seen(one, "mean_e2el_ms"),
        model=str(one.get("model_id") or ""),
        engine=VLLM_ENGINES.get(str(one.get("backend") or one.get("endpoint_type") or "")),
        tp=whole(number(one, "tensor_parallel_size")),
        taken_at=str(one.get("date") or ""),
        notes=(f"{failed:.0f} requests failed and are not counted in any figure",) if failed else (),
        **_lengths(one),
    )


def _vllm_throughput(one: dict[str, Any]) -> Result:
    requests = whole(number(one, "num_requests"))
    return served(
        "vllm bench throughput",
        {"concurrency": requests, "requests": requests} if requests else {},
        known(requests_per_s=number(one, "requests_per_second")),
        name=f"{requests or '?'} requests at once",
        model=str(one.get("model_id") or ""),
        engine="vllm",
        notes=("tokens_per_second counts prompts and outputs together and is not compared",),
    )


def _sglang(one: dict[str, Any]) -> Result:
    accepted = number(one, "accept_length")
    return served(
        "sglang.bench_serving",
        _load(one),
        _seen(one, "mean_e2e_latency_ms"),
        model=str(one.get("model") or one.get("model_id") or ""),
        engine=SGLANG_ENGINES.get(str(one.get("backend") or "")),
        tp=whole(number(one, "tp_size")),
        notes=(f"a draft model was used: {accepted:.2f} tokens accepted a step",) if accepted else (),
        **_lengths(one),
    )


def _load(one: dict[str, Any]) -> dict[str, Any]:
    return load(*(number(one, key) for key in ("request_rate", "max_concurrency", "completed", "request_throughput")))


def _lengths(one: dict[str, Any]) -> dict[str, Any]:
    """Mean tokens of a prompt and of an answer."""
    requests = number(one, "completed")
    return {f"{kind}_tokens": whole(ratio(number(one, f"total_{kind}_tokens"), requests)) for kind in ("input", "output")}


def _seen(one: dict[str, Any], request_ms: str) -> dict[Any, float]:
    """Times and rates; `request_ms`: the key of the mean time of a request."""
    return known(
        ttft_s=number(one, "mean_ttft_ms", scale=MS),
        tpot_s=number(one, "mean_tpot_ms", scale=MS),
        request_s=number(one, request_ms, scale=MS),
        output_tokens_per_s=number(one, "output_throughput"),
        requests_per_s=number(one, "request_throughput"),
    )


READERS = (
    Reader(
        "vllm bench serve",
        lambda contents: contents.have("mean_ttft_ms", "model_id", "request_throughput", "total_input_tokens"),
        each_object(_vllm_serve),
        "a JSON object with model_id and mean_ttft_ms",
    ),
    Reader(
        "vllm bench throughput",
        lambda contents: contents.have("elapsed_time", "num_requests", "total_num_tokens", "requests_per_second"),
        each_object(_vllm_throughput),
        "a JSON object with elapsed_time and requests_per_second",
    ),
    Reader(
        "sglang.bench_serving",
        lambda contents: contents.have("backend", "mean_e2e_latency_ms", "total_output_tokens_retokenized", "request_throughput"),
        each_object(_sglang),
        "JSON lines with backend and mean_e2e_latency_ms",
    ),
)
