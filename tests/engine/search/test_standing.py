"""What a solution's row says beside its rank: that its memory may not be enough, and why what has no price comes last."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from engine_sample import plan, workload

from planner.engine.answers.figure import Figure
from planner.engine.answers.plan import SOLUTIONS
from planner.engine.evaluate.probability import probability_below
from planner.engine.search.ranking import Scored, ranked
from planner.present.cells import spread_text
from planner.present.plan import fit_text
from planner.units import bytes_text
from planner.workload.tasks import Targets


def test_what_may_not_fit_comes_after_what_does_and_says_what_it_may_need() -> None:
    found = plan("llama-3.1-8b-full-finetune")
    ranked_rows = [row for row in found.rows if row.rank]
    assert [row.rank for row in ranked_rows] == list(range(1, len(ranked_rows) + 1))
    assert [row.verdict for row in ranked_rows] == sorted((row.verdict for row in ranked_rows), key=SOLUTIONS.index)
    assert {row.verdict for row in ranked_rows} == set(SOLUTIONS)
    for row in ranked_rows:
        memory, sure = row.answer.memory_bytes, row.verdict == "fits"
        assert memory is not None
        assert row.probability_fits is not None
        assert row.probability_meets is not None
        assert row.probability_meets <= row.probability_fits
        assert (row.probability_fits >= 0.9 - 1e-3) == sure or row.probability_fits == 0.9
        assert (f"; may need {bytes_text(memory.total.high)}; " in row.why) == (not sure)
    dollars = [row.job_usd.value for row in ranked_rows if row.job_usd]
    cheaper = ["% cheaper; " in row.why for row in ranked_rows if row.job_usd]
    assert cheaper == [each * 1.005 < dollars[0] for each in dollars]
    assert any(cheaper), "a row behind the first for its memory alone"


def test_what_a_service_costs_a_month_is_no_matter_of_chance() -> None:
    first = next(row for row in plan("qwen3-8b-single-user-chat").rows if row.rank)
    assert first.usd_per_month is not None
    budget = {"p95_tpot_s": 0.05, "budget_usd": first.usd_per_month.value * 1.001}
    again = next(row for row in plan("qwen3-8b-single-user-chat", targets=budget).rows if row.rank)
    free = next(row for row in plan("qwen3-8b-single-user-chat", targets={"p95_tpot_s": 0.05}).rows if row.rank)
    assert again.probability_meets == free.probability_meets


def test_a_deadline_is_met_by_as_many_replicas_as_make_it_sure() -> None:
    """Work that ends costs the same on twice the GPUs in half the time."""
    sure, bold = (next(row for row in plan("qwen3-32b-batch-job", confidence=share).rows if row.rank) for share in (0.9, 0.0))
    assert sure.probability_meets is not None
    assert bold.probability_meets is not None
    assert bold.probability_meets < 0.9 <= sure.probability_meets + 0.02
    assert sure.job_usd is not None
    assert bold.job_usd is not None
    assert sure.job_usd.value < 1.05 * bold.job_usd.value


def test_the_confidence_asked_for_decides_what_fits() -> None:
    bold = plan("llama-3.1-8b-full-finetune", confidence=0.0)
    assert {row.verdict for row in bold.rows if row.rank} == {"fits"}
    usual, wary = (plan("llama-3.1-8b-full-finetune", confidence=share) for share in (0.9, 0.99))
    counts = [sum(row.verdict == "fits" for row in one.rows) for one in (bold, usual, wary)]
    assert counts == sorted(counts, reverse=True)
    assert counts[2] < counts[0]


def test_a_probability_follows_the_range() -> None:
    half = np.full(5, 0.4)
    found = probability_below(np.array([-9.0, -0.4, 0.0, 0.4, 9.0]), half)
    assert found == pytest.approx([0.005, 0.05, 0.5, 0.95, 0.995])


def test_what_is_kept_free_does_not_change_whether_a_fit_may_not_fit() -> None:
    """The share kept free is there for just that: what is compared is all of the memory."""
    given = {"gpus_considered": ["H200 SXM"], "max_gpus": 16}
    chances: dict[bytes, float | None] = {}
    for headroom in (0.0, 0.1, 0.2):
        for row in plan("llama-3.1-8b-full-finetune", targets={"headroom": headroom}, **given).rows:
            if row.rank and row.answer.layout is not None:
                key = msgspec.json.encode((row.answer.layout, row.answer.memory_bytes))
                assert chances.setdefault(key, row.probability_fits) == row.probability_fits
    assert chances


def test_a_service_that_fills_its_cache_takes_in_fewer_requests_rather_than_not_fit() -> None:
    rows = [row for row in plan("qwen3-30b-a3b-service").rows if row.rank and row.answer.memory_bytes]
    full = [
        row
        for row in rows
        if row.answer.memory_bytes and row.answer.memory_bytes.total.high > 0.9 * row.answer.memory_bytes.capacity
    ]
    assert full
    for row in full:
        memory = row.answer.memory_bytes
        assert memory is not None
        assert ("may need" in row.why) <= (memory.total.high - memory.kv_cache > 0.8 * memory.capacity)


@pytest.mark.parametrize(
    ("objective", "said"), [("cheapest", True), ("flop-per-usd", True), ("fastest", False), ("fewest-gpus", False)]
)
def test_what_has_no_price_says_that_it_comes_after_what_has_one(objective: str, said: bool) -> None:
    of = workload("llama-3.1-8b-lora", objective=objective)
    first = next(row for row in plan("llama-3.1-8b-lora").rows if row.rank == 1)
    own = msgspec.structs.replace(first, usd_per_h=None, offer=None, here=True)
    _, last = ranked([Scored(own, 1e18), Scored(first, 1.0)], of)
    assert (last.rank, last.here) == (2, True)
    assert last.why.startswith("no price: comes last; ") == said
    (alone,) = ranked([Scored(own, 1e18)], of)
    assert alone.why.startswith("no price is known: by number of GPUs; ") == said  # it has a deadline
    (alone,) = ranked([Scored(own, 1e18)], msgspec.structs.replace(of, targets=Targets()))
    assert alone.why.startswith("no price is known: by speed; ") == said


def test_rows_that_miss_stand_by_how_far_they_are_from_their_targets() -> None:
    found = plan("llama-3.1-70b-chat-service", targets={"p95_request_s": 1.0})
    assert found.best is None
    misses = [row for row in found.rows if row.verdict == "misses-target" and "; " not in row.why and row.usd_per_h is not None]
    taken = [
        row.answer.request_s.p95.value
        for row in misses
        if row.answer.request_s is not None and row.answer.request_s.p95 is not None
    ]
    assert len(taken) == len(misses) > 5
    assert taken == sorted(taken)
    prices = [row.usd_per_h.value for row in misses if row.usd_per_h is not None]
    assert prices != sorted(prices)
    shares = [
        memory.total.value / memory.capacity
        for row in plan("llama-3.1-405b-pretrain", max_gpus=1).rows
        if row.verdict == "does-not-fit" and row.usd_per_h is not None and (memory := row.answer.memory_bytes) is not None
    ]
    assert shares == sorted(shares)


def test_where_some_miss_a_target_what_fits_does_so_in_memory() -> None:
    none, some = (plan("llama-3.1-70b-chat-service", targets={"p95_request_s": limit}) for limit in (1.0, 5.0))
    every = plan("llama-3.1-70b-chat-service", targets={}, gpus_considered=["B200 SXM"])
    assert fit_text(none).endswith(" fit in memory")
    assert any(row.verdict == "misses-target" and not row.here for row in some.rows)
    assert fit_text(some).endswith(" fit in memory")
    assert fit_text(every).endswith(" fit")


@pytest.mark.parametrize(
    ("value", "text"), [(1.2, "-13 %"), (0.95, "-17 +5 %"), (0.996, "-17 %"), (0.5, "±20 %")]
)  # fmt: skip
def test_the_range_of_a_share_does_not_reach_beyond_all(value: float, text: str) -> None:
    factor = 1.2 if value < 1 else 1.2 / 0.87
    assert spread_text(Figure(value, value / factor, value * factor, "spec").capped(1.0)) == text
