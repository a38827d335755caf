"""`python -m sglang.bench_serving --output-file`: one JSON object a line, appended by every run.

Keys by https://docs.sglang.io/developer_guide/bench_serving.html (read 2026-11-22). `concurrency` is the mean that was measured,
`max_concurrency` the limit; an unlimited rate is written as Infinity.
"""

from __future__ import annotations

from typing import Any

from planner.observe.results.readers.vllm_serve import scripted_lengths, scripted_load, scripted_seen
from planner.observe.results.result import Reader, Result, each_object, number, served, whole

ENGINES = {"sglang": "sglang", "sglang-native": "sglang", "vllm": "vllm", "vllm-chat": "vllm", "trt": "tensorrt-llm"}
"""Backends that name the engine; 'sglang-oai' and its like name the protocol."""


def _result(one: dict[str, Any]) -> Result:
    accepted = number(one, "accept_length")
    return served(
        "sglang.bench_serving",
        scripted_load(one),
        scripted_seen(one, "mean_e2e_latency_ms"),
        model=str(one.get("model") or one.get("model_id") or ""),
        engine=ENGINES.get(str(one.get("backend") or "")),
        tp=whole(number(one, "tp_size")),
        notes=(f"a draft was at work: {accepted:.2f} tokens accepted a step",) if accepted else (),
        **scripted_lengths(one),
    )


READER = Reader(
    "sglang.bench_serving",
    lambda contents: contents.have("backend", "mean_e2e_latency_ms", "total_output_tokens_retokenized", "request_throughput"),
    each_object(_result),
    "JSON lines with backend and mean_e2e_latency_ms",
)
