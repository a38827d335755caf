"""Rows of a plan on GPUs that are one's own or would be bought, and requests of people: sums worked by hand."""

from __future__ import annotations

from typing import Any

import pytest

from planner.engine.answers.plan import Plan, PlanRow
from planner.errors import UserError
from planner.session import Session

SERVICE: dict[str, Any] = {
    "model": "qwen3-8b",
    "task": "serve",
    "weight_dtype": "fp8",
    "input_tokens": 500,
    "output_tokens": 200,
    "request_rate_per_s": 2.0,
}


@pytest.fixture(scope="module")
def session() -> Session:
    return Session.open()


def _plan(session: Session, **fields: Any) -> Plan:
    return session.plan(session.workload({**SERVICE, **fields}), levers=False)


def _own(plan: Plan, *, bought: bool = False) -> list[PlanRow]:
    return [row for row in plan.rows if row.owned is not None and row.owned.bought is bought]


def test_own_gpus_cost_power_place_and_loss_in_value(session: Session) -> None:
    owning = {"usd_per_kwh": 0.2, "pue": 1.5, "hosting_usd_per_month": 73.0, "life_years": 4.0, "residual": 0.25}
    plan = _plan(session, own=[{"gpu": "L40S", "count": 4, "power_limit_w": 300, "purchase_usd": 7008.0}], owning=owning)
    row = _own(plan)[0]
    assert row.owned is not None
    gpus = row.owned.gpus
    # 300 W · 1.5 · 0.2 $/kWh = 0.09 $/h; 73 $ ÷ 730 h = 0.10 $/h; 7,008 $ · 0.75 ÷ (4 · 8,760 h) = 0.15 $/h
    assert row.owned.running_usd_per_h == pytest.approx(0.19 * gpus)
    assert row.owned.depreciation_usd_per_h == pytest.approx(0.15 * gpus)
    assert row.usd_per_h is not None
    assert row.usd_per_h.value == pytest.approx(0.34 * gpus)
    assert row.offer is None
    assert row.rank
    rented = next(other for other in plan.rows if other.gpu == "L40S" and other.offer)
    assert rented.answer.parameters == row.answer.parameters
    assert rented.rank, "rows to rent stay beside one's own"


def test_a_power_cap_of_ones_own_slows_what_arithmetic_limits(session: Session) -> None:
    job = {
        "model": "qwen3-8b",
        "task": "train",
        "sequence": 2048,
        "train_tokens": 1e9,
        "request_rate_per_s": None,
        "weight_dtype": None,
    }
    job |= {"input_tokens": None, "output_tokens": None, "recipe": "bf16", "max_gpus": 4}
    free, capped = (
        _own(_plan(session, **job, own=[{"gpu": "L40S", "count": 4} | limit]))[0] for limit in ({}, {"power_limit_w": 200})
    )
    assert free.answer.tokens_per_s is not None
    assert capped.answer.tokens_per_s is not None
    assert 0.5 < capped.answer.tokens_per_s.value / free.answer.tokens_per_s.value < 0.95
    assert capped.owned is not None
    assert capped.owned.power_w == capped.owned.power_limit_w == 200
    detail = session.time_detail(
        session.workload(SERVICE | job | {"own": [{"gpu": "L40S", "count": 4, "power_limit_w": 200}]}), capped
    )
    assert detail is not None
    assert capped.answer.step_s is not None
    assert detail.total_s == pytest.approx(capped.answer.step_s.value, rel=0.02)


def test_more_gpus_than_there_are_is_no_solution(session: Session) -> None:
    plan = _plan(session, own=[{"gpu": "L40S"}], request_rate_per_s=500.0, gpus_considered=["L40S"])
    (row,) = _own(plan)
    assert row.rank is None
    assert "there are 1" in row.why


@pytest.mark.sweep
def test_what_rented_gpus_could_do_is_no_hint_on_those_there_are(session: Session) -> None:
    asked = SERVICE | {"own": [{"gpu": "L40S"}], "gpus_considered": ["L40S"], "max_gpus": 1, "request_rate_per_s": 100.0}
    rows = session.plan(session.workload(asked), hints=True).rows
    hints = {row.owned is not None: row.why.partition(" → ")[2] for row in rows if row.gpu == "L40S" and not row.rank}
    assert hints[False].startswith("more GPUs may do, on "), "rented ones could be more"
    assert not hints[True], "there is one"


def test_without_a_price_the_loss_in_value_is_left_out_and_told(session: Session) -> None:
    unpriced = next(gpu for gpu in session.gpus.all if gpu.purchase is None and gpu.tdp_w and gpu.memory_bytes > 20e9)
    row = _own(_plan(session, own=[{"gpu": unpriced.name}]))[0]
    assert row.owned is not None
    assert row.owned.depreciation_usd_per_h is None
    assert "no price is known" in row.owned.words


def test_a_slice_loses_its_part_of_the_value(session: Session) -> None:
    """Two 3g.40gb are an A100 of 15,000 $: 7,500 $ ÷ (3 · 8,760 h) = 0.2854 $/h each, and 400 W ÷ 2 · 0.15 $/kWh = 0.03 $/h."""
    row = _own(_plan(session, own=[{"gpu": "A100 80GB SXM", "mig": "3g.40gb"}], request_rate_per_s=0.1))[0]
    assert row.owned is not None
    assert row.owned.depreciation_usd_per_h == pytest.approx(7500 / 26280)
    assert row.usd_per_h is not None
    assert row.usd_per_h.value == pytest.approx(0.2854 + 0.03, abs=1e-4)


def test_a_slice_pays_its_part_of_rack_server_and_cap(session: Session) -> None:
    """All seven 1g.10gb cost what the A100 costs uncut: at 300 W, 210 $ a month of rack and staff, 21,900 $ with its server."""
    owning = {"hosting_usd_per_month": 140.0, "staff_usd_per_month": 70.0, "server_usd": 5000.0, "network_usd": 1900.0}
    small = {"model": "qwen3-0.6b", "request_rate_per_s": 0.1}
    cut = {"gpu": "A100 80GB SXM", "mig": "1g.10gb", "power_limit_w": 300}
    whole = _own(_plan(session, own=[{"gpu": "A100 80GB SXM", "power_limit_w": 300}], owning=owning, **small))[0]
    slice_ = _own(_plan(session, own=[cut], owning=owning, **small))[0]
    assert whole.usd_per_h is not None
    # 0.3 kW · 0.15 $/kWh + 210 $ ÷ 730 h + 21,900 $ ÷ (3 · 8,760 h)
    assert whole.usd_per_h.value == pytest.approx(0.045 + 210 / 730 + 21_900 / 26_280)
    assert slice_.usd_per_h is not None
    assert slice_.usd_per_h.value == pytest.approx(whole.usd_per_h.value / 7)
    free = _own(_plan(session, own=[{"gpu": "A100 80GB SXM", "mig": "1g.10gb"}], **small))[0]
    assert slice_.answer.prefill_s is not None
    assert free.answer.prefill_s is not None
    assert slice_.answer.prefill_s.value > free.answer.prefill_s.value, "a cap of the GPU slows its slices too"


def test_slices_hold_replicas_and_no_model_between_them(session: Session) -> None:
    plan = _plan(session, own=[{"gpu": "A100 80GB SXM", "mig": "2g.20gb", "count": 3}], weight_dtype="awq", request_rate_per_s=1.0)
    row = _own(plan)[0]
    assert row.gpu == "A100 80GB SXM 2g.20gb"
    assert row.answer.layout is not None
    assert row.answer.layout.tp == 1
    whole = next(gpu for gpu in session.gpus.all if gpu.name == "A100 80GB SXM")
    part = session.gpus.find(row.gpu)
    assert part.memory_bandwidth_bytes_per_s == whole.memory_bandwidth_bytes_per_s / 4
    assert part.compute_flop_per_s["bf16"] == pytest.approx(whole.compute_flop_per_s["bf16"] * 0.24)
    assert row.answer.memory_bytes is not None
    assert row.answer.memory_bytes.capacity == pytest.approx(whole.memory_bytes / 4 * 0.975)
    (large,) = _own(_plan(session, own=[{"gpu": "A100 80GB SXM", "mig": "2g.20gb", "count": 3}], model="qwen3-32b"))
    assert not large.answer.fits


def test_capital_buys_whole_gpus_and_no_more(session: Session) -> None:
    plan = _plan(session, capex_usd=20_000.0, gpus_considered=["L40S", "H100 NVL"])
    rows = _own(plan, bought=True)
    assert {row.gpu for row in rows} == {"L40S"}, "an H100 NVL costs 30,000 $"
    assert all(row.owned and row.owned.price_usd == 8500.0 * row.owned.gpus <= 20_000.0 for row in rows if row.rank)


def test_people_are_requests_of_the_busiest_hour(session: Session) -> None:
    people = {"messages_per_day": 24.0, "peak_factor": 2.5}
    fields = {key: value for key, value in SERVICE.items() if key != "request_rate_per_s"}
    asked = session.workload({**fields, "daily_users": 7200, "people": people, "gpus_considered": ["L40S"]})
    plan = session.plan(asked, levers=False)
    assert plan.task["request_rate_per_s"] == pytest.approx(5.0)  # 7,200 · 24 · 2.5 ÷ 86,400 s
    usual = session.plan(session.workload({**fields, "daily_users": 7200, "gpus_considered": ["L40S"]}), levers=False)
    assert usual.task["request_rate_per_s"] == pytest.approx(2.5)  # 10 messages, 3 times the mean
    assert "10 messages" in str(usual.rows[0].answer.assumed["people"])
    assert "people" not in plan.rows[0].answer.assumed


def test_people_beside_another_load_are_refused(session: Session) -> None:
    for fields in ({"daily_users": 100}, {"daily_users": 100, "task": "generate", "request_rate_per_s": None}):
        with pytest.raises(UserError, match="daily_users"):
            session.workload({**SERVICE, **fields})
