"""What given GPUs can run: every row is the answer that the same candidate gets when it is asked for alone."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec
import pytest

from planner.engine.answers.answer import Answer
from planner.engine.answers.fit import Fit, FitRow, Order
from planner.engine.fit.ranking import LARGE, parameters, precision_bits
from planner.errors import UserError
from planner.present.fit.best import best_facts
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
def _asked_within(number: int, order: Order) -> tuple[Fit, float]:
    """An answer, and the processor seconds it took."""
    gpu, gpus, fields = QUESTIONS[number]
    began = time.process_time()
    return session().fit(fields, gpu, gpus, order=order), time.process_time() - began


def _asked(number: int, order: Order = "size") -> Fit:
    return _asked_within(number, order)[0]


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
    """True if the layout of `other` is not sure to fit, which comes before speed."""
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


@pytest.mark.usefixtures("fewer_models")
def test_rows_come_by_the_order_asked_for_and_solutions_are_numbered() -> None:
    """Except by size, of models that are as large, to the half, as the largest that surely fits, then a half of that, and so on."""
    measures: dict[str, Callable[[Any], Any]] = {
        "size": lambda row: (row.answer.parameters.total, precision_bits(row.weight_dtype)),
        "speed": lambda row: row.answer.output_tokens_per_s.value,
        "users": lambda row: row.at_once or 0,
        "context": lambda row: row.longest_context_tokens or 0,
    }
    for order, measure in measures.items():
        rows = session().fit({**SMALL, "weight_dtype": "awq"}, "L40S", 2, order=order).rows  # type: ignore[arg-type]  # its keys are orders
        solutions = [row for row in rows if row.rank]
        assert [row.rank for row in rows if row.rank] == list(range(1, len(solutions) + 1))
        for verdict in ("fits", "may-not-fit"):
            listed = [row for row in solutions if row.verdict == verdict]
            largest = max(parameters(row) for row in solutions if row.verdict == "fits")
            halvings = [next(n for n in range(40) if parameters(row) >= largest * LARGE ** (n + 1)) for row in listed]
            measured = [measure(row) for row in listed]
            expected = sorted(zip(halvings, measured, strict=True), key=lambda pair: (pair[0], -pair[1])) if order != "size" else []
            assert measured == ([value for _, value in expected] or sorted(measured, reverse=True)), order


def test_a_limit_of_latency_lowers_the_users_until_it_is_kept() -> None:
    asked = {"model": "qwen3-8b", "weight_dtype": "fp8", **SMALL}
    (free,) = session().fit(asked, "L40S", 1).rows
    (kept,) = session().fit({**asked, "targets": {"p95_tpot_s": 0.03}}, "L40S", 1).rows
    assert kept.verdict == "fits"
    assert kept.answer.tpot_s is not None
    assert kept.answer.tpot_s.p95 is not None
    assert kept.answer.tpot_s.p95.value <= 0.03
    assert free.answer.tpot_s is not None
    assert free.answer.tpot_s.p95 is not None
    assert free.answer.tpot_s.p95.value <= 0.1, "what a reader needs, where no limit is set"
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
    found, took_s = _asked_within(0, "size")
    assert took_s < 5.0
    served = {name for name in session().models.names() if not name.startswith("qwen3-study-")} - set(found.left_out)
    assert found.counts.models == len(served) > 250
    assert {row.model for row in found.rows} == served


@pytest.mark.parametrize(
    ("order", "label", "measure"),
    [("users", "most users", lambda row: row.at_once), ("speed", "most tokens/s", lambda row: row.answer.tokens_per_s.value)],
)
def test_the_first_model_of_an_order_is_the_best_that_is_named(
    order: Order, label: str, measure: Callable[[FitRow], float]
) -> None:
    """Models of studies, which nobody serves, are in neither, unless they are asked for."""
    found = _asked(1, order)
    facts = {fact.label: fact.value for fact in best_facts(found)}
    sure = [row for row in found.rows if row.verdict == "fits"]
    largest = max(map(parameters, sure))
    assert facts["largest model"] in {row.model for row in sure if parameters(row) == largest}
    large = [row for row in sure if parameters(row) >= LARGE * largest]
    assert facts[label] == found.rows[0].model
    assert found.rows[0] in large
    assert measure(found.rows[0]) == max(map(measure, large))
    smaller = [row for row in sure if parameters(row) < LARGE * largest]
    assert max(map(measure, smaller)) > measure(found.rows[0]), "small models are faster, and follow"
    assert not any(row.model.startswith("qwen3-study-") for row in found.rows)
    assert session().fit({**SMALL, "model": "qwen3-study-w256"}, "RTX 3090").rows


def test_prompts_are_answered_by_decoders_unless_another_model_is_asked_for() -> None:
    served, read = session().fit(SMALL, "L4"), session().fit({"task": "prefill", "input_tokens": 400}, "L4")
    for model in ("t5-small", "whisper-large-v3", "bert-base"):
        assert model in served.left_out
        assert model not in {row.model for row in served.rows}
        assert model in {row.model for row in read.rows}
    (row, *_) = session().fit({**SMALL, "model": "t5-small"}, "L4").rows
    assert row.rank == 1


def test_every_user_gets_the_least_speed_or_the_model_is_none() -> None:
    found = session().fit(SMALL, "L4", each_tokens_per_s=15.0)
    assert found.each_tokens_per_s == 15.0
    served = [row for row in found.rows if row.rank]
    assert served
    assert all(row.answer.tpot_s and row.answer.tpot_s.p95 and row.answer.tpot_s.p95.value <= 1 / 15 for row in served)
    slow = [row for row in found.rows if row.verdict == "misses-target"]
    assert slow
    assert all(
        row.at_once == 1 and row.answer.tpot_s and row.answer.tpot_s.p95 and row.answer.tpot_s.p95.value > 1 / 15 for row in slow
    )
    assert {fact.label for fact in best_facts(found)} >= {"larger, may not fit", "larger, too slow"}


@pytest.mark.parametrize(
    "given", [{"concurrency": 64}, {"request_rate_per_s": 2.0}, {"daily_users": 1000}, {"targets": {"p95_ttft_s": 5.0}}]
)
def test_a_load_or_a_limit_that_is_given_counts_instead_of_the_least_speed(given: dict[str, Any]) -> None:
    found = session().fit({**SMALL, **given, "model": "qwen3-8b"}, "L4")
    assert found.each_tokens_per_s is None
    assert all(row.request.get("targets", {}).get("p95_tpot_s") is None for row in found.rows)


def test_more_requests_at_once_are_too_slow_or_may_not_fit() -> None:
    """The load is the most there is: with half as many again it misses the speed, or the confidence."""
    found = session().fit(SMALL, "RTX 4090")
    rows = [row for row in found.rows if row.verdict == "fits" and row.request.get("concurrency")]
    assert len(rows) > 100
    more = [msgspec.convert(row.request | {"concurrency": round(row.request["concurrency"] * 1.5 + 0.6)}, Request) for row in rows]
    for row, answer in zip(rows, session().estimate(more), strict=True):
        assert isinstance(answer, Answer)
        assert answer.tpot_s is not None
        assert answer.tpot_s.p95 is not None
        unsure = answer.probability_fits is not None and answer.probability_fits <= 0.9
        full = answer.layout is not None and answer.layout.batch == row.answer.layout.batch  # type: ignore[union-attr]
        assert unsure or full or answer.tpot_s.p95.value > 0.1, row.model


def test_requests_of_several_lengths_are_fewer_where_the_simulation_says_so() -> None:
    """Closed formulas keep 10 tokens/s with 20 requests at once, of which a twentieth are slower."""
    lengths = {"input_tokens": {"mean": 600, "p95": 2000}, "output_tokens": {"mean": 200, "p95": 800}}
    rows = session().fit({**lengths, "model": "yi-34b"}, "RTX 4090").rows
    kept = [row for row in rows if row.fits]
    assert kept
    assert {row.verdict for row in kept} <= {"fits", "may-not-fit"}
    assert all(row.answer.tpot_s and row.answer.tpot_s.p95 and row.answer.tpot_s.p95.value <= 0.1 for row in kept)


def test_the_order_of_the_rows_changes_none_of_the_best() -> None:
    assert best_facts(_asked(1)) == best_facts(_asked(1, "users"))


def test_a_larger_model_that_may_not_fit_is_named_with_its_chance() -> None:
    facts = {fact.label: fact for fact in best_facts(session().fit({}, "RTX 4090"))}
    rows = session().fit({"model": str(facts["larger, may not fit"].value)}, "RTX 4090").rows
    row = next(row for row in rows if row.verdict == "may-not-fit")
    assert row.probability_fits is not None
    assert f"fits with a chance of {100 * row.probability_fits:.0f} %" in facts["larger, may not fit"].aside


@pytest.mark.parametrize("model", ["dbrx", "mixtral-8x22b", "devstral-2-123b"])
def test_a_stricter_target_never_makes_a_model_fit(model: str) -> None:
    """A target of latency tries smaller loads, and so does the lack of one where as many requests as memory holds may not fit."""
    held = [
        session().fit({"model": model}, "RTX 4090", 4, each_tokens_per_s=1 / limit if limit else 0.0)
        for limit in (None, 0.2, 0.05, 0.02)
    ]
    fitting = [any(row.verdict == "fits" for row in found.rows) for found in held]
    assert fitting == sorted(fitting, reverse=True)


def test_fewer_requests_than_memory_holds_surely_fit() -> None:
    row = session().fit({"model": "dbrx"}, "RTX 4090", 4, each_tokens_per_s=0.0).rows[0]
    assert row.verdict == "fits"
    assert row.probability_fits is not None
    assert row.probability_fits >= 0.9
    assert row.concurrency is not None
    assert 1 <= int(str(row.request["concurrency"])) < row.concurrency, "with all that memory holds it may not fit"
