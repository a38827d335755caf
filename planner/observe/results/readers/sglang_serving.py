"""`python -m sglang.bench_serving --output-file`: one JSON object a line, appended by every run.

Keys by https://docs.sglang.io/developer_guide/bench_serving.html (read 2026-11-22). `concurrency` is the mean that was measured,
`max_concurrency` the limit; an unlimited rate is written as Infinity.
"""

from __future__ import annotations

from typing import Any

from planner.observe.results.contents import Contents
from planner.observe.results.result import Reader, Result, format_of, known, load, number, ratio, scaled, stated, whole

MS = 1e-3
ENGINES = {"sglang": "sglang", "sglang-native": "sglang", "vllm": "vllm", "vllm-chat": "vllm", "trt": "tensorrt-llm"}
"""Backends that name the engine; 'sglang-oai' and its like name the protocol."""


def _read(contents: Contents) -> list[Result]:
    return [_result(one) for one in contents.objects]


def _result(one: dict[str, Any]) -> Result:
    requests, rate, achieved = number(one, "completed"), number(one, "request_rate"), number(one, "request_throughput")
    model = str(one.get("model") or one.get("model_id") or "")
    given = load(rate, number(one, "max_concurrency"), requests, achieved)
    accepted = number(one, "accept_length")
    return Result(
        tool="sglang.bench_serving",
        name=f"rate {rate:g}/s" if "request_rate_per_s" in given else f"{given.get('concurrency', '?')} at once",
        settings={"task": "serve"}
        | stated(
            model=model,
            engine=ENGINES.get(str(one.get("backend") or "")),
            input_tokens=whole(ratio(number(one, "total_input_tokens"), requests)),
            output_tokens=whole(ratio(number(one, "total_output_tokens"), requests)),
            tp=whole(number(one, "tp_size")),
        )
        | format_of(model)
        | given,
        seen=known(
            ttft_s=scaled(number(one, "mean_ttft_ms"), MS),
            tpot_s=scaled(number(one, "mean_tpot_ms"), MS),
            request_s=scaled(number(one, "mean_e2e_latency_ms"), MS),
            output_tokens_per_s=number(one, "output_throughput"),
            requests_per_s=achieved,
        ),
        notes=(f"a draft was at work: {accepted:.2f} tokens accepted a step",) if accepted else (),
    )


READER = Reader(
    "sglang.bench_serving",
    lambda contents: contents.have("backend", "mean_e2e_latency_ms", "total_output_tokens_retokenized", "request_throughput"),
    _read,
    "JSON lines with backend and mean_e2e_latency_ms",
)
