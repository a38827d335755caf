"""The questions people ask about money, end to end, each held against a sum worked by hand."""

from __future__ import annotations

import msgspec
import pytest

from planner.engine.answers.answer import Answer
from planner.engine.answers.plan import Plan
from planner.engine.money import Costs
from planner.engine.procurement.paying import IDLE_POWER, Terms
from planner.hardware.prices.api_prices import ApiPrice, api_price
from planner.present.money.costs import break_evens
from planner.session import Session
from planner.workload.tasks import Request, Workload


@pytest.fixture(scope="module")
def session() -> Session:
    return Session.open()


def _costs(session: Session, workload: Workload, plan: Plan, terms: Terms | None = None) -> Costs:
    costs = session.costs(workload, plan.rows[0], terms)
    assert costs is not None
    return costs


def test_13b_from_scratch_in_60_days_under_200_k_usd(session: Session) -> None:
    """6 · 13.0e9 · 260e9 tokens = 2.0e22 FLOP: at 400 TFLOP/s of an H100, 14,100 GPU-hours, 10 GPUs for 60 days, some 35,000 $."""
    workload = session.workload(
        {
            "model": "llama-2-13b",
            "task": "train",
            "sequence": 4096,
            "train_tokens": 260e9,
            "global_batch": 1024,
            "targets": {"deadline_h": 1440.0, "budget_usd": 200_000.0},
        }
    )
    plan = session.plan(workload, levers=False)
    row = plan.rows[0]
    assert row.rank == 1
    assert row.job_h is not None
    assert row.job_usd is not None
    assert row.job_h.value <= 1440
    assert 15_000 <= row.job_usd.value <= 200_000
    answer, layout = row.answer, row.answer.layout
    assert answer.mfu is not None
    assert layout is not None
    peak = session.gpus.find(row.gpu).compute_flop_per_s[str(answer.assumed["dtype"])]
    gpu_s = row.job_h.value * 3600 * layout.gpus
    done = gpu_s * answer.mfu.value * peak
    assert done == pytest.approx(6 * 13.0e9 * 260e9, rel=0.15), "FLOPs that were paid for are those of the job"


def test_two_million_dollars_for_50_000_daily_users(session: Session) -> None:
    """50,000 people · 10 messages · 3 in the busiest hour ÷ 86,400 s = 17.4 requests/s; the capital buys 235 L40S at 8,500 $."""
    workload = session.workload(
        {
            "model": "llama-3.1-70b",
            "task": "serve",
            "weight_dtype": "fp8",
            "daily_users": 50_000,
            "input_tokens": 800,
            "output_tokens": 300,
            "capex_usd": 2e6,
            "gpus_considered": ["L40S", "H100 SXM5 80GB", "H200 SXM"],
        }
    )
    plan = session.plan(workload, levers=False)
    assert plan.task["request_rate_per_s"] == pytest.approx(17.36, abs=0.01)
    bought = [row for row in plan.rows if row.rank and row.owned and row.owned.bought]
    assert bought
    for row in bought:
        assert row.owned is not None
        assert row.owned.price_usd is not None
        assert row.owned.price_usd <= 2e6
        assert row.answer.layout is not None
        assert row.owned.price_usd == pytest.approx(
            {"L40S": 8500, "H100 SXM5 80GB": 30_000, "H200 SXM": 32_000}[row.gpu] * row.answer.layout.gpus
        )


def test_a_million_tokens_on_a_3090_for_700_usd_used_70_percent_at_12_cents(session: Session) -> None:
    workload = session.workload(
        {
            "model": "qwen3-8b",
            "task": "serve",
            "weight_dtype": "awq",
            "concurrency": 16,
            "input_tokens": 500,
            "output_tokens": 300,
            "own": [{"gpu": "RTX 3090", "purchase_usd": 700.0}],
            "owning": {"usd_per_kwh": 0.12},
            "gpus_considered": ["RTX 3090"],
        }
    )
    plan = session.plan(workload, levers=False)
    row = next(row for row in plan.rows if row.owned)
    costs = session.costs(workload, row, Terms(months=36, use=0.7))
    assert costs is not None
    # 700 $ + 36 · 730 h · 0.35 kW · (0.1 + 0.9 · 0.7) · 0.12 $/kWh = 700 + 805.7 = 1,505.7 $ for 18,396 h at work
    total = 700.0 + 36 * 730 * 0.350 * (IDLE_POWER + (1 - IDLE_POWER) * 0.7) * 0.12
    assert total == pytest.approx(1505.7, abs=0.1)
    bought = next(ways for ways in costs.ways if ways.way.name == "bought")
    assert bought.usd_after_months["36"] == pytest.approx(total)
    assert row.answer.output_tokens_per_s is not None
    by_hand = total / (18_396 * 3600 * row.answer.output_tokens_per_s.value) * 1e6
    assert costs.usd_per_million_tokens_owned == pytest.approx(by_hand, rel=1e-6)


def test_seventy_percent_of_three_years_at_5_12_usd_against_12_000_usd(session: Session) -> None:
    """0.7 · 26,280 h = 18,396 h; at 5.12 $/h 94,187.52 $, against a card of 12,000 $ whose power costs nothing here."""
    workload = session.workload(
        {
            "model": "qwen3-8b",
            "task": "serve",
            "concurrency": 16,
            "input_tokens": 500,
            "output_tokens": 300,
            "own": [{"gpu": "A100 80GB SXM", "purchase_usd": 12_000.0}],
            "owning": {"usd_per_kwh": 0.0},
            "gpus_considered": ["A100 80GB SXM"],
        }
    )
    plan = session.plan(workload, levers=False)
    row = next(row for row in plan.rows if row.owned)
    costs = session.costs(workload, row, Terms(months=36, use=0.7, given_usd_per_h=5.12))
    assert costs is not None
    ways = {ways.way.who or ways.way.name: ways for ways in costs.ways}
    rented, bought = ways["given"], next(ways for ways in costs.ways if ways.way.name == "bought")
    assert rented.usd_after_months["36"] == pytest.approx(94_187.52)
    assert bought.usd_after_months["36"] == pytest.approx(12_000.0)
    assert rented.break_even_months == pytest.approx(12_000 / (5.12 * 0.7 * 730), rel=1e-6)  # 4.59 months
    assert rented.break_even_use == pytest.approx(12_000 / (5.12 * 26_280))  # 8.9 % of the time
    assert costs.assumed["left out"].startswith("server, network, rack or colocation, staff")


def test_three_years_across_clouds(session: Session) -> None:
    """Each provider's figure is price · instances · 26,280 h · use; a commitment of three years is owed whatever the use."""
    workload = session.workload(
        {
            "model": "llama-3.1-8b",
            "task": "serve",
            "request_rate_per_s": 1.0,
            "gpus_considered": ["H100 SXM5 80GB"],
            "input_tokens": 500,
            "output_tokens": 200,
        }
    )
    plan = session.plan(workload, levers=False)
    costs = _costs(session, workload, plan, Terms(months=36, use=0.5))
    assert len(costs.providers) >= 5
    layout = plan.rows[0].answer.layout
    assert layout is not None
    assert layout.gpus == 1
    assert {one.provider for one in costs.providers} >= {"aws", "gcp", "lambda", "runpod"}
    for one in costs.providers:
        offers = [offer for offer in session.offers if offer.provider == one.provider and offer.gpu == "H100 SXM5 80GB"]
        if "on-demand" in one.usd:
            cheapest = min(offer.on_demand_usd_per_h for offer in offers if offer.on_demand_usd_per_h is not None)
            assert one.usd["on-demand"] == pytest.approx(cheapest * 26_280 * 0.5)
        if "reserved-3y" in one.usd:
            cheapest = min(offer.reserved_3y_usd_per_h for offer in offers if offer.reserved_3y_usd_per_h is not None)
            assert one.usd["reserved-3y"] == pytest.approx(cheapest * 26_280)
    assert [min(one.usd.values()) for one in costs.providers] == sorted(min(one.usd.values()) for one in costs.providers)


def test_an_api_costs_its_tokens(session: Session) -> None:
    fields = {
        "model": "qwen3-32b",
        "task": "serve",
        "weight_dtype": "fp8",
        "input_tokens": 1000,
        "output_tokens": 200,
        "prefix_tokens": 600,
    }
    people = {"messages_per_day": 20.0, "peak_factor": 4.0}
    workload = session.workload({**fields, "daily_users": 4320, "people": people, "gpus_considered": ["L40S", "H100 NVL"]})
    plan = session.plan(workload, levers=False)
    rate = ApiPrice(
        name="mine",
        provider="API",
        input_usd_per_million=1.0,
        cached_usd_per_million=0.25,
        output_usd_per_million=4.0,
        as_of="",
        source="",
    )
    costs = _costs(session, workload, plan, Terms(months=1, api=rate))
    api = next(ways for ways in costs.ways if ways.way.name == "api")
    # 400 · 1 $ + 600 · 0.25 $ + 200 · 4 $ = 1,350 µ$ a request; 4,320 · 20 = 86,400 a day, 730 / 24 days
    assert api.usd_after_months["1"] == pytest.approx(0.00135 * 86_400 * 730 / 24, rel=1e-6)
    usual = _costs(session, workload, plan)
    assert next(ways.way.who for ways in usual.ways if ways.way.name == "api") == "deepinfra Qwen3 32B"
    unsaid = session.workload({"model": "qwen3-32b", "task": "serve", "request_rate_per_s": 1.0, "gpus_considered": ["H100 NVL"]})
    costs = _costs(session, unsaid, session.plan(unsaid, levers=False), Terms(months=1, api=rate))
    api = next(ways for ways in costs.ways if ways.way.name == "api")
    # 512 and 128 tokens, which the engine took: 512 · 1 $ + 128 · 4 $ = 1,024 µ$ a request; 730 h
    assert api.usd_after_months["1"] == pytest.approx(0.001024 * 3600 * 730, rel=1e-6)


def test_the_table_of_api_prices_names_models_of_the_catalogue(session: Session) -> None:
    known = set(session.models.names())
    assert len(session.api_prices) >= 20
    for price in session.api_prices:
        assert not price.model or price.model in known, price.name
        assert price.source
        assert price.as_of
        assert 0 < price.input_usd_per_million <= price.output_usd_per_million * 1.01
    assert api_price(session.api_prices, "anthropic/claude sonnet 4.6").output_usd_per_million == 15.0


@pytest.mark.parametrize("preset", ["llama-3.1-70b-chat-service", "qwen3-8b-single-user-chat", "llama-3.1-8b-full-finetune"])
def test_the_first_way_costs_what_the_row_says(session: Session, preset: str) -> None:
    """Offers that cannot hold the layout (tensor parallelism in one node, joined nodes) are no way to pay for it."""
    workload = session.presets.load(preset).workload
    plan = session.plan(workload, levers=False)
    row, ways = plan.rows[0], _costs(session, workload, plan, Terms(months=1)).ways
    assert row.offer is not None
    first = ways[0]
    assert first.way.name == workload.market
    assert first.usd_after_months["1"] == pytest.approx(row.offer.usd_per_h * 730, rel=1e-6)


def test_a_price_that_was_given_is_no_list_price_and_equal_ways_are_told_apart(session: Session) -> None:
    fields = {"model": "qwen3-8b", "task": "serve", "concurrency": 16, "input_tokens": 500, "output_tokens": 300}
    workload = session.workload(
        {**fields, "own": [{"gpu": "A100 80GB SXM", "purchase_usd": 12_000.0}], "gpus_considered": ["A100 80GB SXM"]}
    )
    row = next(row for row in session.plan(workload, levers=False).rows if row.owned)
    costs = session.costs(workload, row, Terms(months=36, use=0.7, given_usd_per_h=5.12))
    assert costs is not None
    assert costs.assumed["purchase"].startswith("as given; ")
    sentences = list(break_evens(costs))
    assert sum(text.startswith("on-demand (") for text in sentences) == 2
    assert any(text.startswith("on-demand (given) against bought: ") for text in sentences)


def test_each_figure_of_a_provider_is_of_the_instance_beside_it(session: Session) -> None:
    """For one GPU, AWS's p5.4xlarge is cheaper than a p5.48xlarge of eight, which comes first in the list."""
    fields = {"model": "llama-3.1-8b", "task": "serve", "request_rate_per_s": 1.0, "input_tokens": 500, "output_tokens": 200}
    workload = session.workload({**fields, "gpus_considered": ["H100 SXM5 80GB"]})
    costs = _costs(session, workload, session.plan(workload, levers=False), Terms(months=36, use=1.0))
    for one in costs.providers:
        for market, usd in one.usd.items():
            instance = one.other_instances.get(market, one.instance)
            alike = [offer for offer in session.offers if (offer.provider, offer.instance) == (one.provider, instance)]
            prices = [{"on-demand": offer.on_demand_usd_per_h, "spot": offer.spot_usd_per_h}.get(market) for offer in alike]
            if known := [price for price in prices if price is not None]:
                assert usd == pytest.approx(min(known) * 26_280), (one.provider, market)


def test_a_short_job_on_a_commitment_says_that_three_years_are_paid(session: Session) -> None:
    preset = session.presets.load("llama-3.1-8b-full-finetune").workload
    asked = {**msgspec.to_builtins(preset), "market": "reserved-3y", "train_tokens": 30e9, "targets": {"deadline_h": 336.0}}
    plan = session.plan(session.workload({**asked, "gpus_considered": ["H100 SXM5 80GB"]}), levers=False)
    assert plan.best is not None
    assert plan.best.job_h is not None
    assert plan.best.job_h.value < 500
    assert any("26,280 h are paid" in note for note in plan.notes)


def test_users_pay_for_the_tokens_of_the_mean_hour(session: Session) -> None:
    """5,000 people · 12 messages · 400 tokens = 24 M tokens a day, 730 M a month, which the rent of a month is divided by."""
    people = {"messages_per_day": 12.0, "peak_factor": 3.0}
    fields = {"model": "qwen3-8b", "task": "serve", "input_tokens": 1500, "output_tokens": 400, "gpus_considered": ["H100 NVL"]}
    workload = session.workload({**fields, "daily_users": 5000, "people": people})
    plan = session.plan(workload, levers=False)
    first = plan.rows[0]
    assert first.answer.usd_per_million_tokens is not None
    assert first.usd_per_month is not None
    assert first.answer.usd_per_million_tokens.value == pytest.approx(first.usd_per_month.value / 730)
    costs = _costs(session, workload, plan, Terms(months=36))
    assert costs.usd_per_million_prompt_tokens is not None
    assert costs.usd_per_million_answer_tokens is not None
    request_usd = (1500 * costs.usd_per_million_prompt_tokens + 400 * costs.usd_per_million_answer_tokens) / 1e6
    assert request_usd * 5000 * 12 * 730 / 24 == pytest.approx(first.usd_per_month.value)
    bought = next(way for way in costs.ways if way.way.name == "bought")
    assert costs.usd_per_million_tokens_owned == pytest.approx(bought.usd_after_months["36"] / 36 / 730)
    asked = msgspec.convert(
        {**fields, "daily_users": 5000, "people": people, "gpu": "H100 NVL", "price_usd_per_gpu_h": 2.0}, Request
    )
    (alone,) = session.estimate([asked])
    assert isinstance(alone, Answer)
    assert alone.usd_per_million_tokens is not None
    assert alone.usd_per_million_tokens.value == pytest.approx(2.0 * 730 / 730)
    even = session.workload({**fields, "request_rate_per_s": 5000 * 12 / 86_400})
    steady = session.plan(even, levers=False).rows[0]
    assert steady.answer.usd_per_million_tokens is not None
    assert steady.usd_per_month is not None
    assert steady.answer.usd_per_million_tokens.value == pytest.approx(steady.usd_per_month.value / 730), "the same in every hour"
