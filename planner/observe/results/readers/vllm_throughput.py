"""`vllm bench throughput --output-json`: elapsed time, requests, tokens and rates, of late the model, no other setting.

Keys as vllm/benchmarks/throughput.py writes them (vLLM 0.11 to 0.33): `elapsed_time`, `num_requests`, `total_num_tokens`,
`requests_per_second`, `tokens_per_second`, later `model_id`. The rate of tokens counts prompts and outputs together, so only requests/s are compared.
"""

from __future__ import annotations

from typing import Any

from planner.observe.results.contents import Contents
from planner.observe.results.result import Reader, Result, format_of, known, number, stated, whole


def _read(contents: Contents) -> list[Result]:
    return [_result(one) for one in contents.objects]


def _result(one: dict[str, Any]) -> Result:
    requests, model = whole(number(one, "num_requests")), str(one.get("model_id") or "")
    return Result(
        tool="vllm bench throughput",
        name=f"{requests or '?'} requests at once",
        settings={"task": "serve", "engine": "vllm"}
        | stated(model=model, concurrency=requests, requests=requests)
        | format_of(model),
        seen=known(requests_per_s=number(one, "requests_per_second")),
        notes=("tokens_per_second counts prompts and outputs together and is not compared",),
    )


READER = Reader(
    "vllm bench throughput",
    lambda contents: contents.have("elapsed_time", "num_requests", "total_num_tokens", "requests_per_second"),
    _read,
    "a JSON object with elapsed_time and requests_per_second",
)
