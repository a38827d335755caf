"""Cost of an hour of a GPU that is owned (power around the clock, its place, its people, its loss in value), and of a million tokens.

usd/h = W/1000 · PUE · usd/kWh + (hosting + staff)/730 + price · (1 - residual) / (years · 8760)
"""

from __future__ import annotations

from typing import NamedTuple

from planner.units import HOURS_PER_MONTH, SECONDS_PER_HOUR
from planner.workload.hardware.owned import Owning

HOURS_PER_YEAR = 8760.0


def running_usd_per_h(power_w: float, owning: Owning) -> float:
    """Dollars an hour of one GPU beside its price, around the clock."""
    power = power_w / 1000 * owning.pue * owning.usd_per_kwh
    return power + (owning.hosting_usd_per_month + owning.staff_usd_per_month) / HOURS_PER_MONTH


def bought_usd(price_usd: float, owning: Owning) -> float:
    """Price of one GPU with its share of server and network."""
    return price_usd + owning.server_usd + owning.network_usd


def depreciation_usd_per_h(price_usd: float, owning: Owning) -> float:
    """Loss of value an hour of a GPU bought for `price_usd`, server and network included."""
    return price_usd * (1 - owning.residual) / (owning.life_years * HOURS_PER_YEAR)


WORLD_GCO2_PER_KWH = 481.0
"""Mean of the world's electricity in 2023 (Ember, Yearly Electricity Data, by way of Statista 943137, 2024-07-03)."""
JOULES_PER_KWH = 3.6e6
MOST_SHARE = 0.999
"""A replica that answers also decodes."""


class TokenCosts(NamedTuple):
    """Dollars per million tokens."""

    prompt: float
    answer: float


def token_costs(
    *, usd_per_h: float, requests_per_s: float, prefill_s: float, replicas: float, prompt_tokens: float, answer_tokens: float
) -> TokenCosts | None:
    """Rent divided by what the time of replicas goes into; None where there is nothing to divide.

    Reading one prompt keeps a replica busy for `prefill_s`, so of its time the share requests/s · prefill_s ÷ replicas reads prompts; the
    rest decodes, or waits. `prompt_tokens`: those read, without a cached prefix.
    """
    if requests_per_s <= 0 or prompt_tokens <= 0 or answer_tokens <= 0:
        return None
    share = min(MOST_SHARE, requests_per_s * prefill_s / replicas)
    request_usd = usd_per_h / SECONDS_PER_HOUR / requests_per_s
    return TokenCosts(1e6 * request_usd * share / prompt_tokens, 1e6 * request_usd * (1 - share) / answer_tokens)


def gco2_per_million_tokens(energy_j_per_token: float, pue: float, gco2_per_kwh: float) -> float:
    """Grams of CO2 of the GPUs' energy, with that of their room."""
    return energy_j_per_token * 1e6 / JOULES_PER_KWH * pue * gco2_per_kwh
