"""Money over time, held against sums worked by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.engine.money import Way, break_even_months, break_even_use, gco2_per_million_tokens, token_costs

HOURS = 730.0


def _by_the_hour(usd_per_h: float) -> Way:
    return Way(name="on-demand", used_usd_per_month=usd_per_h * HOURS)


def _committed(usd_per_h: float, months: int) -> Way:
    return Way(name="reserved", fixed_usd_per_month=usd_per_h * HOURS, commitment_months=months)


def test_seventy_percent_of_three_years_by_the_hour_against_a_purchase() -> None:
    rented = _by_the_hour(5.12)
    assert pytest.approx(18_396.0) == 0.7 * 36 * HOURS
    assert rented.cost(36, 0.7) == pytest.approx(94_187.52)  # 18,396 h · 5.12 $/h
    bought = Way(name="bought", entry_usd=12_000.0)
    # 12,000 $ ÷ (5.12 $/h · 0.7 · 730 h) = 4.59 months
    assert break_even_months(rented, bought, 0.7) == pytest.approx(12_000 / (5.12 * 0.7 * 730), rel=1e-6)
    assert break_even_use(rented, bought, 36) == pytest.approx(12_000 / (5.12 * 730 * 36))


def test_fourteen_days_on_three_years_cost_three_years() -> None:
    committed, hourly = _committed(1.0, 36), _by_the_hour(2.5)
    days = 14 * 24 / HOURS  # in months
    assert committed.cost(days) == pytest.approx(26_280.0)
    assert hourly.cost(days) == pytest.approx(14 * 24 * 2.5)
    # even when 2.5 · 730 · m = 26,280, and in use 40 % of the time over three years
    assert break_even_months(hourly, committed) == pytest.approx(26_280 / (2.5 * 730), rel=1e-6)
    assert break_even_use(hourly, committed, 36) == pytest.approx(0.4)
    assert committed.cost(37) == pytest.approx(2 * 26_280.0)


def test_what_is_bought_again_after_its_life_gives_back_its_residual() -> None:
    bought = Way(name="bought", entry_usd=10_000.0, life_months=48.0, residual_usd=1_000.0, fixed_usd_per_month=10.0)
    assert bought.cost(12) == 10_120.0
    assert bought.cost(48) == 10_000.0 - 1_000.0 + 480.0
    assert bought.cost(60) == 20_000.0 - 1_000.0 + 600.0
    assert bought.once(60, 1.0) == 10_600.0


def test_ways_that_never_meet_have_no_break_even() -> None:
    assert break_even_months(_by_the_hour(1.0), _by_the_hour(2.0)) is None
    assert break_even_months(_by_the_hour(2.0), _by_the_hour(1.0)) is None
    assert break_even_use(_by_the_hour(1.0), _by_the_hour(2.0), 36) is None


@given(
    rent=st.floats(0.1, 50),
    price=st.floats(10, 1e5),
    running=st.floats(0, 500),
    use=st.floats(0.05, 1.0),
    months=st.integers(1, 60),
)
def test_both_cost_the_same_at_every_break_even(rent: float, price: float, running: float, use: float, months: int) -> None:
    rented, bought = _by_the_hour(rent), Way(name="bought", entry_usd=price, fixed_usd_per_month=running)
    if (even := break_even_months(rented, bought, use)) is not None:
        assert rented.once(even, use) == pytest.approx(bought.once(even, use), rel=1e-3)
    share = break_even_use(rented, bought, months)
    assert share is not None
    assert rented.cost(months, share) == pytest.approx(bought.cost(months, share), rel=1e-6)


def test_prompt_and_answer_add_up_to_the_rent() -> None:
    costs = token_costs(usd_per_h=3.6, requests_per_s=2.0, prefill_s=0.1, replicas=1.0, prompt_tokens=1000.0, answer_tokens=200.0)
    assert costs is not None
    # 0.001 $/s ÷ 2 requests/s = 0.0005 $ a request; 2 · 0.1 s = 20 % of the time reads prompts
    assert costs.prompt == pytest.approx(0.1)  # 0.0001 $ ÷ 1,000 tokens
    assert costs.answer == pytest.approx(2.0)  # 0.0004 $ ÷ 200 tokens
    assert costs.prompt * 1000 + costs.answer * 200 == pytest.approx(0.0005 * 1e6)


def test_a_million_tokens_of_a_joule_each() -> None:
    assert gco2_per_million_tokens(1.0, 1.2, 360.0) == pytest.approx(120.0)  # 1e6 J = 0.2778 kWh · 1.2 · 360 g
