"""Requests that differ only in their GPU share one resolved job, and answer as each of them alone."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from engine_sample import session

from planner.engine.answers.answer import Answer
from planner.workload.tasks import Request

CASES: dict[str, list[dict[str, Any]]] = {
    "GPUs with and without BF16": [{"gpu": name} for name in ("H100 SXM5 80GB", "V100 SXM2 32GB", "L4")],
    "a dtype given and the same one taken": [{"gpu": "L4", "dtype": "bf16"}, {"gpu": "L4"}, {"gpu": "H200 SXM"}],
    "prices of their own": [{"gpu": "L4", "price_usd_per_gpu_h": 1.0}, {"gpu": "L4", "price_usd_per_gpu_h": 2.0}, {"gpu": "L40S"}],
}


@pytest.mark.parametrize("case", CASES)
def test_requests_together_answer_as_each_of_them_alone(case: str) -> None:
    common = {"model": "Qwen/Qwen3-8B", "task": "generate", "input_tokens": 300, "output_tokens": 40}
    requests = [msgspec.convert(common | own | {"id": number}, Request) for number, own in enumerate(CASES[case])]
    together = session().estimate(requests)
    for number, (request, answer) in enumerate(zip(requests, together, strict=True)):
        assert isinstance(answer, Answer)
        assert answer.id == number
        assert answer == session().estimate([request])[0]
