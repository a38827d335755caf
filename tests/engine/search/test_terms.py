"""Terms of renting: commitments are paid whole, interruptions lengthen a job, and all terms stand in one ranking."""

from __future__ import annotations

import math
import time
from typing import Any

import msgspec
import numpy as np
import pytest
from engine_sample import plan, session, workload

from planner.engine.answers.plan import PlanRow
from planner.engine.evaluate.offer_prices import paid_hours
from planner.engine.evaluate.spot import Spot, spot_of
from planner.engine.evaluate.task import Task
from planner.engine.search.plan import make_plan
from planner.present.prices import money_sentences
from planner.workload.tasks import Term

G5 = {
    "model": "llama-3.1-8b",
    "task": "finetune",
    "lora": {"rank": 8},
    "sequence": 2048,
    "gpus_considered": ["A10G"],
    "providers": ["aws"],
    "max_gpus": 4,
}


def rows(**fields: Any) -> list[PlanRow]:
    return session().plan(session().workload(G5 | fields, "test"), basis="spec", levers=False).rows


def _spot(nodes: int, write_s: float, **fields: Any) -> Spot:
    return spot_of(session().workload(G5 | fields, "test"), np.array([float(nodes)]), np.array([write_s]))


def job_of(days: float, **fields: Any) -> PlanRow:
    """A job that takes so many days on what ranks first for it."""
    tokens = 1e9
    for _ in range(6):
        row = rows(train_tokens=tokens, **fields)[0]
        assert row.job_h is not None
        tokens *= days * 24 / row.job_h.value
    return rows(train_tokens=tokens, **fields)[0]


@pytest.mark.parametrize(
    ("term", "hours", "use", "paid"),
    [
        ("on-demand", 336.0, 0.0, 336.0),
        ("reserved-3y", 336.0, 0.0, 26280.0),
        ("reserved-1y", 336.0, 0.0, 8760.0),
        ("reserved-1y", 9000.0, 0.0, 2 * 8760.0),
        ("reserved-3y", 336.0, 1.0, 336.0),
        ("reserved-3y", 336.0, 0.5, 336.0 + (26280.0 - 336.0) / 2),
    ],
)
def test_hours_a_job_pays_for(term: Term, hours: float, use: float, paid: float) -> None:
    assert paid_hours(term, np.array([hours]), use=use)[0] == pytest.approx(paid)


def test_fourteen_days_on_three_years_cost_three_years() -> None:
    """g5.12xlarge for 3 years: 2.269 $/h · 26,280 h = 59,629 $, whatever of it is used; by the hour 5.672 · 336 = 1,906 $."""
    row = job_of(14, market="reserved-3y")
    assert row.offer is not None
    assert row.job_usd is not None
    assert row.usd_per_h is not None
    assert (row.offer.instance, row.usd_per_h.value) == ("g5.12xlarge", 2.269)
    assert row.job_usd.value == pytest.approx(2.269 * 26280)
    assert pytest.approx(59_629, abs=1) == 2.269 * 26280
    by_term = {one.term: one for one in row.terms}
    hourly, committed = by_term["on-demand"], by_term["reserved-3y"]
    assert hourly.job_usd is not None
    assert row.job_h is not None
    assert row.job_h.value == pytest.approx(336, rel=0.02)
    assert hourly.job_usd.value == pytest.approx(5.672 * row.job_h.value)
    assert committed.committed_usd == pytest.approx(59_629, abs=1)
    assert committed.break_even_use == pytest.approx(2.269 / 5.672)
    used = job_of(14, market="reserved-3y", commitment_use=1.0)
    assert used.job_usd is not None
    assert used.job_h is not None
    assert used.job_usd.value == pytest.approx(2.269 * used.job_h.value)
    assert "59,600 $ in all, used or not, cheaper than by the hour above 40 % of the time" in " ".join(money_sentences(row))


def test_seventy_percent_of_three_years_by_the_hour_against_a_card() -> None:
    """18,396 h · 5.12 $/h = 94,188 $ by the hour, against 12,000 $ once."""
    hours = 0.7 * 26280
    assert hours == pytest.approx(18_396)
    assert 5.12 * paid_hours("on-demand", np.array([hours]))[0] == pytest.approx(94_187.5, abs=0.1)
    assert hours > 12_000 / 5.12


def test_lost_work_by_hand() -> None:
    """Eight nodes lost 0.01 times an hour each, a checkpoint an hour: M = 12.5 h, R = 0.25 h; 12.5·e^0.02·(e^0.08 - 1) = 1.0621."""
    hourly = {"checkpoint_interval_h": 1, "spot_interruptions_per_h": 0.01}
    by_hand = 12.5 * math.exp(0.02) * math.expm1(0.08)
    assert by_hand == pytest.approx(1.0621, abs=1e-4)
    assert _spot(8, 0.0, **hourly).factors(0) == pytest.approx((by_hand, by_hand, by_hand))
    assert _spot(8, 0.0, **hourly | {"spot_interruptions_per_h": 0}).value == pytest.approx(1.0)
    rarely, often = (_spot(64, 0.0, **hourly | {"checkpoint_interval_h": hours}).value[0] for hours in (4.0, 0.25))
    assert rarely > often > 1.0


def test_checkpoints_on_spot_are_as_far_apart_as_is_best() -> None:
    """64 nodes lost 0.0034 times an hour each: M = 4.6 h; written in 20 s: sqrt(2 · 20 s · M) = 813 s. No other interval is better."""
    chosen = _spot(64, 20.0)
    assert chosen.interval_h[0] * 3600 == pytest.approx(math.sqrt(2 * 20 * 3600 / (64 * 3.4e-3)))
    for other in (0.5, 2.0):
        stated = _spot(64, 20.0, checkpoint_interval_h=float(chosen.interval_h[0]) * other)
        assert stated.value[0] > chosen.value[0]
    assert _spot(1, 600.0, spot_interruptions_per_h=0).interval_h == 24.0
    assert _spot(64, 0.0).interval_h == 1.0


def test_a_job_that_may_never_end_on_spot_has_no_price() -> None:
    """2,048 nodes lost up to 0.042 times an hour each: one in 42 s, and 15 minutes to begin again."""
    assert _spot(2048, 3.0).factors(0) == (math.inf, math.inf, math.inf)
    asked = {"gpus_considered": ["H100 SXM5 80GB"]}
    bought = plan("llama-3.1-405b-pretrain", **asked).rows[0]
    assert bought.answer.layout is not None
    assert bought.answer.layout.nodes == 2048
    prices = {term.term: term.job_usd for term in bought.terms}
    assert prices["spot"] is None
    assert prices["on-demand"] is not None
    lost = {"market": "spot", "spot_interruptions_per_h": 90, "targets": {}}
    row = plan("llama-3.1-405b-pretrain", **asked, **lost).rows[0]
    assert row.verdict == "misses-target"
    assert "may never end: of " in row.why
    assert row.job_h is None
    assert row.job_usd is None


def test_spot_takes_longer_and_knows_it_less() -> None:
    base = {"model": "llama-3.1-8b", "task": "train", "recipe": "mixed", "sequence": 2048, "train_tokens": 1e11, "max_gpus": 16}
    base |= {"gpus_considered": ["H100 SXM5 80GB"], "providers": ["coreweave"]}
    calm, spot, never = (
        session().plan(session().workload(base | keys, "test"), basis="spec").rows[0]
        for keys in ({}, {"market": "spot"}, {"market": "spot", "spot_interruptions_per_h": 0})
    )
    assert calm.job_h is not None
    assert spot.job_h is not None
    assert never.job_h is not None
    assert spot.answer.layout == calm.answer.layout
    assert never.job_h.value == pytest.approx(calm.job_h.value, rel=0.002)
    assert spot.job_h.value > 1.002 * calm.job_h.value
    assert spot.job_h.high / spot.job_h.value > 1.02 * calm.job_h.high / calm.job_h.value
    assert spot.offer is not None
    assert spot.usd_per_h is not None
    assert spot.job_usd is not None
    assert spot.job_usd.value == pytest.approx(spot.usd_per_h.value * spot.job_h.value)
    assert any("Spot nodes are taken away" in words for words in money_sentences(spot))
    assert spot.answer.assumed["spot_interruptions_per_h"] == 3.4e-3
    assert "each is lost once in 12.3 d (spot_interruptions_per_h), a checkpoint every " in " ".join(money_sentences(spot))
    assert "spot_interruptions_per_h" not in never.answer.assumed
    assert "checkpoint_interval_h" not in calm.answer.assumed


@pytest.mark.sweep
def test_all_terms_stand_in_one_ranking() -> None:
    whole = plan("llama-3.1-8b-full-finetune", market="any")
    solutions = [row for row in whole.rows if row.verdict == "fits" and row.job_usd]
    costs = [row.answer.usd_per_million_tokens.value for row in solutions if row.answer.usd_per_million_tokens]
    assert costs == sorted(costs)
    terms = {row.offer.market for row in solutions if row.offer}
    assert {"on-demand", "spot"} <= terms
    cheapest = min(plan("llama-3.1-8b-full-finetune", market=term).rows[0].job_usd.value for term in ("on-demand", "spot"))  # type: ignore[union-attr]  # jobs cost
    assert costs[0] == pytest.approx(min(costs))
    assert solutions[0].job_usd is not None
    assert solutions[0].job_usd.value <= 1.05 * cheapest
    service = plan("qwen3-30b-a3b-service", market="any", providers=["gcp"], gpus_considered=["A100 40GB SXM"]).rows[0]
    assert service.offer is not None
    assert service.offer.market == "reserved-3y", "a service that never ends uses all of its commitment"
    assert [(one.term, one.basis) for one in service.terms] == [
        ("on-demand", "published"), ("spot", "published"), ("reserved-1y", "published"), ("reserved-3y", "published")
    ]  # fmt: skip
    advertised = plan("qwen3-30b-a3b-service", market="any", providers=["gcp"], gpus_considered=["B200 SXM"]).rows[0]
    assert [(one.term, one.basis) for one in advertised.terms][-1] == ("reserved-3y", "by discount")


@pytest.mark.parametrize("preset", ["llama-3.1-70b-chat-service", "llama-3.1-8b-pretrain"])
def test_all_terms_are_ranked_within_a_tenth_of_a_second(preset: str) -> None:
    s = session()
    asked = msgspec.structs.replace(workload(preset), market="any")
    task, supply = Task(asked, s.models_of(asked)), s._supply("spec")
    make_plan(task, supply, simulated=False)
    took = []
    for _ in range(5):
        begin = time.process_time()
        make_plan(task, supply, simulated=False)
        took.append(time.process_time() - begin)
    assert min(took) <= 0.1
