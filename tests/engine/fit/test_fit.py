"""What given GPUs can run: every row is the answer that the same candidate gets when it is asked for alone."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec
import pytest

from planner.engine.answers.answer import Answer
from planner.engine.answers.fit import Fit, FitRow
from planner.engine.fit.ranking import Order, precision_bits
from planner.errors import UserError
from planner.present.fit import best_facts
from planner.session import Session
from planner.workload.tasks import Request

pytestmark = pytest.mark.sweep

SMALL: dict[str, Any] = {"input_tokens": 400, "output_tokens": 100}
QUESTIONS: tuple[tuple[str, int, dict[str, Any]], ...] = (
    ("L40S", 8, {}),
    ("RTX 3090", 2, SMALL),
    ("T4", 1, {"task": "generate", "batch": 4, **SMALL}),
    ("H100 SXM5 80GB", 16, {"concurrency": 64, "weight_dtype": "fp8", **SMALL}),
    ("A100 80GB SXM", 4, {"task": "finetune", "sequence": 1024, "model": "qwen3-8b"}),
    ("V100 SXM2 32GB", 2, {"task": "train", "sequence": 512, "model": "gpt2"}),
    ("MI300X", 1, {"targets": {"p95_tpot_s": 0.05}, "model": "llama-3.1-70b", **SMALL}),
    ("L4", 1, {"request_rate_per_s": 1.5, "model": "qwen3-8b", **SMALL}),
)


@cache
def session() -> Session:
    return Session.open()


@cache
def _asked(number: int) -> Fit:
    gpu, gpus, fields = QUESTIONS[number]
    return session().fit(fields, gpu, gpus)


@pytest.mark.parametrize("number", range(len(QUESTIONS)), ids=lambda number: QUESTIONS[number][0])
def test_every_row_is_what_estimate_says_of_the_same_candidate(number: int) -> None:
    rows = [row for row in _asked(number).rows if row.request]
    assert rows
    requests = [msgspec.convert(row.request, Request) for row in rows]
    for row, alone in zip(rows, session().estimate(requests), strict=True):
        assert isinstance(alone, Answer)
        assert msgspec.json.encode(row.answer) == msgspec.json.encode(alone), row.model
        assert row.fits == alone.fits
        if row.headroom is not None:
            assert alone.memory_bytes is not None
            kept = alone.memory_bytes.total.value - (0 if alone.step_s else alone.memory_bytes.kv_cache)
            assert row.headroom == pytest.approx(1 - kept / alone.memory_bytes.capacity, abs=1e-3)
        assert row.request["gpus"] == QUESTIONS[number][1]


def test_no_layout_that_estimate_chooses_is_faster_than_the_row() -> None:
    rows = [row for row in _asked(1).rows if row.fits]
    plain = [msgspec.convert({**row.request, "tp": None, "pp": None, "dp": None}, Request) for row in rows]
    for row, other in zip(rows, session().estimate(plain), strict=True):
        assert isinstance(other, Answer)
        if other.fits and other.output_tokens_per_s and row.verdict == "fits":
            assert row.answer.output_tokens_per_s
            slower = row.answer.output_tokens_per_s.value < other.output_tokens_per_s.value * 0.999
            assert not slower or _may_not_fit(row, other), row.model


def _may_not_fit(row: FitRow, other: Answer) -> bool:
    """Whether the layout of `other` is not sure to fit, which comes before speed."""
    gpu, gpus, _ = QUESTIONS[1]
    assert other.layout is not None
    degrees = {"tp": other.layout.tp, "pp": other.layout.pp, "dp": other.layout.dp}
    (alone,) = session().fit({**row.request, **degrees}, gpu, gpus).rows
    return alone.verdict == "may-not-fit"


def test_one_request_alone_is_as_fast_as_estimate_says() -> None:
    rows = [row for row in _asked(1).rows if row.alone_tokens_per_s]
    assert len(rows) > 50
    single = [msgspec.convert(row.request | {"concurrency": row.request["dp"]}, Request) for row in rows]
    for row, alone in zip(rows, session().estimate(single), strict=True):
        assert isinstance(alone, Answer)
        assert alone.decode_tokens_per_s is not None
        assert row.alone_tokens_per_s == pytest.approx(alone.decode_tokens_per_s.value, rel=1e-3), row.model


def test_the_context_fits_and_a_longer_one_does_not() -> None:
    gpu, gpus, fields = QUESTIONS[1]
    rows = [row for row in _asked(1).rows if row.context_tokens and row.model in {"qwen3-32b", "gemma-3-27b", "qwen2.5-14b"}]
    assert len(rows) >= 3
    for row in rows:
        assert row.context_tokens
        positions = session().architecture(row.model).max_context or 2**24
        for tokens, expected in ((row.context_tokens * 0.97, True), (row.context_tokens * 1.05, False)):
            if tokens > positions:
                continue
            lengths = {"input_tokens": int(tokens) - fields["output_tokens"], "concurrency": 1}
            request = msgspec.convert({**row.request, **lengths, "dp": 1, "gpus": gpus // row.request["dp"]}, Request)
            (answer,) = session().estimate([request])
            assert isinstance(answer, Answer)
            assert (answer.fits and (answer.max_concurrency or 0) >= 1) is expected, (gpu, row.model, row.weight_dtype, tokens)


def test_rows_come_by_the_order_asked_for_and_solutions_are_numbered() -> None:
    measures: dict[str, Callable[[Any], Any]] = {
        "size": lambda row: (row.answer.parameters.total, precision_bits(row.weight_dtype)),
        "speed": lambda row: row.answer.output_tokens_per_s.value,
        "users": lambda row: row.concurrency or 0,
        "context": lambda row: row.longest_context_tokens or 0,
    }
    for order, measure in measures.items():
        rows = session().fit({**SMALL, "weight_dtype": "awq"}, "L40S", 2, order=order).rows  # type: ignore[arg-type]  # its keys are orders
        solutions = [row for row in rows if row.rank]
        assert [row.rank for row in rows if row.rank] == list(range(1, len(solutions) + 1))
        for verdict in ("fits", "may-not-fit"):
            measured = [measure(row) for row in solutions if row.verdict == verdict]
            assert measured == sorted(measured, reverse=True), order


def test_a_limit_of_latency_lowers_the_users_until_it_is_kept() -> None:
    asked = {"model": "qwen3-8b", "weight_dtype": "fp8", **SMALL}
    (free,) = session().fit(asked, "L40S", 1).rows
    (kept,) = session().fit({**asked, "targets": {"p95_tpot_s": 0.03}}, "L40S", 1).rows
    assert kept.verdict == "fits"
    assert kept.answer.tpot_s is not None
    assert kept.answer.tpot_s.p95 is not None
    assert kept.answer.tpot_s.p95.value <= 0.03
    assert free.answer.tpot_s is not None
    assert free.answer.tpot_s.mean.value > kept.answer.tpot_s.mean.value
    assert kept.request["concurrency"] < (free.concurrency or 0)


def test_a_rate_that_is_not_kept_up_with_is_no_solution() -> None:
    asked = {"model": "qwen3-8b", "weight_dtype": "bf16", **SMALL}
    (slow,) = session().fit({**asked, "request_rate_per_s": 500.0}, "L4", 1).rows
    assert slow.verdict == "misses-target"
    assert "500 that come" in slow.why


def test_what_cannot_be_asked_of_any_model_is_refused() -> None:
    with pytest.raises(UserError, match="tp"):
        session().fit({"tp": 3}, "L40S", 8)
    with pytest.raises(UserError, match="7 sequences cannot be divided over 3 GPUs"):
        session().fit({"task": "train", "global_batch": 7, "model": "gpt2"}, "L40S", 3)
    with pytest.raises(UserError, match="unknown key"):
        session().fit({"input_tokns": 3}, "L40S", 8)


@pytest.mark.sweep
def test_the_whole_catalogue_is_answered_in_seconds() -> None:
    """A second on an idle machine, half as much again where others use it; five are a fault."""
    began = time.process_time()
    found = Session.open().fit({}, "L40S", 8)
    assert time.process_time() - began < 5.0
    served = {name for name in session().models.names() if not name.startswith("qwen3-study-")}
    assert found.counts.models == len(served)
    assert {row.model for row in found.rows} == served


@pytest.mark.parametrize(
    ("order", "label", "measure"),
    [("users", "most users", lambda row: row.concurrency), ("speed", "most tokens/s", lambda row: row.answer.tokens_per_s.value)],
)
def test_the_first_row_of_an_order_is_the_best_that_is_named(order: Order, label: str, measure: Callable[[FitRow], float]) -> None:
    """Models of studies, which nobody serves, are in neither, unless they are asked for."""
    found = session().fit(SMALL, "RTX 3090", 2, order=order)
    named = next(fact.value for fact in best_facts(found) if fact.label == label)
    assert named == found.rows[0].model
    assert measure(found.rows[0]) == max(measure(row) for row in found.rows if row.verdict == "fits")
    assert not any(row.model.startswith("qwen3-study-") for row in found.rows)
    assert session().fit({**SMALL, "model": "qwen3-study-w256"}, "RTX 3090").rows


@pytest.mark.parametrize("model", ["dbrx", "mixtral-8x22b", "devstral-2-123b"])
def test_a_stricter_target_never_makes_a_model_fit(model: str) -> None:
    """A target of latency tries smaller loads, and so does the lack of one where as many requests as memory holds may not fit."""
    held = [
        session().fit({"model": model} | ({"targets": {"p95_tpot_s": limit}} if limit else {}), "RTX 4090", 4)
        for limit in (None, 0.2, 0.05, 0.02)
    ]
    fitting = [any(row.verdict == "fits" for row in found.rows) for found in held]
    assert fitting == sorted(fitting, reverse=True)


def test_fewer_requests_than_memory_holds_surely_fit() -> None:
    row = session().fit({"model": "dbrx"}, "RTX 4090", 4).rows[0]
    assert row.verdict == "fits"
    assert row.probability_fits is not None
    assert row.probability_fits >= 0.9
    assert row.concurrency is not None
    assert 1 <= int(str(row.request["concurrency"])) < row.concurrency, "with all that memory holds it may not fit"
