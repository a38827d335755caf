"""Services of encoders: embeddings and re-ranking at a rate, one pass a text."""

from __future__ import annotations

from typing import Any

import pytest
from engine_sample import ask, plan

from planner.engine.answers.figure import Percentiles
from planner.errors import UserError

L4: dict[str, Any] = {"model": "bert-large", "gpu": "L4", "task": "serve", "input_tokens": 400}
OPEN = dict.fromkeys(("engine", "dtype", "weight_dtype", "kv_dtype", "output_tokens"))


def slowest_s(of: Percentiles | None) -> float:
    assert of is not None
    assert of.p95 is not None
    return of.p95.value


def test_a_text_is_answered_by_one_pass_that_keeps_nothing() -> None:
    calm, busy = (ask(**L4, request_rate_per_s=rate) for rate in (5, 100))
    for answer in (calm, busy):
        assert slowest_s(answer.ttft_s) == slowest_s(answer.request_s)
        assert answer.memory_bytes is not None
        assert answer.memory_bytes.kv_cache == 0
        assert answer.max_concurrency is None
        assert str(answer.assumed["output_tokens"]).startswith("1: ")
    assert calm.requests_per_s is not None
    assert calm.requests_per_s.value == pytest.approx(5)
    assert slowest_s(busy.request_s) > 1.3 * slowest_s(calm.request_s)


def test_texts_that_come_together_share_a_pass() -> None:
    alone, together = (ask(**L4, concurrency=clients).requests_per_s for clients in (1, 64))
    assert alone is not None
    assert together is not None
    assert together.value > 2 * alone.value


@pytest.mark.parametrize(
    ("more", "key"),
    [({"output_tokens": 5}, "output_tokens"), ({"prefix_tokens": 100}, "prefix_tokens"), ({"task": "generate"}, "task")],
)
def test_what_an_encoder_does_not_do_is_refused(more: dict[str, Any], key: str) -> None:
    with pytest.raises(UserError, match="is an encoder") as refused:
        ask(**L4 | {"request_rate_per_s": 5} | more)
    assert key in {one.key for one in refused.value.problems}


def test_a_plan_rents_as_many_gpus_as_answer_the_texts() -> None:
    asked = {**OPEN, "model": "bert-large", "input_tokens": 400, "gpus_considered": ["L4"], "targets": {"p95_request_s": 0.1}}
    few, many = (plan("llama-3.1-70b-chat-service", **asked, request_rate_per_s=rate).rows[0] for rate in (50, 500))
    assert few.answer.layout is not None
    assert many.answer.layout is not None
    assert many.answer.layout.gpus > few.answer.layout.gpus
    for row, rate in ((few, 50), (many, 500)):
        assert row.answer.requests_per_s is not None
        assert row.answer.requests_per_s.value == pytest.approx(rate)
        assert slowest_s(row.answer.request_s) < 0.1
