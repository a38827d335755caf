"""`vllm bench throughput --output-json`: elapsed time, requests, tokens and rates, of late the model, no other setting.

Keys as vllm/benchmarks/throughput.py writes them (vLLM 0.11 to 0.33): `elapsed_time`, `num_requests`, `total_num_tokens`,
`requests_per_second`, `tokens_per_second`, later `model_id`. The rate of tokens counts prompts and outputs together, so only requests/s are compared.
"""

from __future__ import annotations

from typing import Any

from planner.observe.results.result import Reader, Result, each_object, known, number, served, whole


def _result(one: dict[str, Any]) -> Result:
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


READER = Reader(
    "vllm bench throughput",
    lambda contents: contents.have("elapsed_time", "num_requests", "total_num_tokens", "requests_per_second"),
    each_object(_result),
    "a JSON object with elapsed_time and requests_per_second",
)
