"""What a solution's row says beside its rank: that its memory may not be enough, and why what has no price comes last."""

from __future__ import annotations

import msgspec
import pytest
from engine_sample import plan, workload

from planner.engine.answers.figure import Figure
from planner.engine.search.ranking import ranked
from planner.present.cells import spread_text
from planner.units import bytes_text


def test_a_fit_whose_range_ends_beyond_the_gpu_says_so() -> None:
    found = plan("llama-3.1-8b-full-finetune")
    fits = [row for row in found.rows if row.rank]
    doubtful = 0
    for row in fits:
        memory = row.answer.memory_bytes
        assert memory is not None
        beyond = memory.total.high > memory.capacity
        assert (f"; may need {bytes_text(memory.total.high)}; " in row.why) == beyond, (row.gpu, row.why)
        doubtful += beyond
    assert 0 < doubtful < len(fits)


def test_what_is_kept_free_does_not_change_whether_a_fit_may_not_fit() -> None:
    """The share kept free is there for just that: what is compared is all of the memory."""
    given = {"gpus_considered": ["H200 SXM"], "max_gpus": 16}
    for headroom in (0.0, 0.1, 0.2):
        row = next(row for row in plan("llama-3.1-8b-full-finetune", targets={"headroom": headroom}, **given).rows if row.rank)
        memory = row.answer.memory_bytes
        assert memory is not None
        assert ("may need" in row.why) == (memory.total.high > memory.capacity)


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
    _, last = ranked([(own, 1e18), (first, 1.0)], of)
    assert (last.rank, last.here) == (2, True)
    assert last.why.startswith("no price, so after all that have one; ") == said
    (alone,) = ranked([(own, 1e18)], of)
    assert alone.why.startswith("no price is known: by speed; ") == said


@pytest.mark.parametrize(
    ("value", "text"), [(1.2, "-13 %"), (0.95, "+5/-17 %"), (0.996, "-17 %"), (0.5, "±20 %")]
)  # fmt: skip
def test_the_range_of_a_share_does_not_reach_beyond_all(value: float, text: str) -> None:
    factor = 1.2 if value < 1 else 1.2 / 0.87
    assert spread_text(Figure(value, value / factor, value * factor, "spec").capped(1.0)) == text
