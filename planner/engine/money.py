"""Ways to pay for the same work and their costs after a number of months; the cost of an owned GPU, and of a million tokens.

cost(m) = entry · ⌈m/life⌉ + fixed · (m, or whole commitments) + used · use · m
owned usd/h = W/1000 · PUE · usd/kWh + (hosting + staff)/730 + price · (1 - residual) / (years · 8760)
"""

from __future__ import annotations

import math
from typing import NamedTuple

import msgspec

from planner.units import HOURS_PER_MONTH, SECONDS_PER_HOUR
from planner.workload.hardware.owned import Owning

MOST_MONTHS = 120
"""Months up to which a break-even is searched for."""
HOURS_PER_YEAR = 8760.0
WORLD_GCO2_PER_KWH = 481.0
"""Mean of the world's electricity in 2023 (Ember, Yearly Electricity Data, via Statista 943137, 2024-07-03)."""
JOULES_PER_KWH = 3.6e6
MOST_SHARE = 0.999
"""Largest share of the time for prompts, because a replica that answers also decodes."""


class Way(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One way to pay; dollars are of the whole deployment."""

    name: str
    """'on-demand', 'spot', 'reserved-1y', 'reserved-3y', 'bought', 'api'."""
    who: str = ""
    """Provider and instance, or what is bought."""
    entry_usd: float = 0.0
    """Cost at the start, and again after each `life_months`."""
    life_months: float | None = None
    """Months until `entry_usd` is paid again; None: never."""
    residual_usd: float = 0.0
    """Resale value at the end of the life."""
    fixed_usd_per_month: float = 0.0
    """Cost that is owed whether or not it is used."""
    used_usd_per_month: float = 0.0
    """Cost of full use; a share of the time costs that share."""
    idle_gpus: int = 0
    """GPUs that are paid for in addition, because they come in the same machines as those needed."""
    commitment_months: int = 0
    """Months that are owed once begun; 0: no commitment."""
    as_of: str = ""
    source: str = ""

    def cost(self, months: float, use: float = 1.0) -> float:
        """Dollars owed after `months` with use for the share `use` of the time; a commitment is owed as a whole."""
        if months <= 0:
            return 0.0
        owed = math.ceil(months / self.commitment_months - 1e-9) * self.commitment_months if self.commitment_months else months
        lives = math.ceil(months / self.life_months - 1e-9) if self.life_months else 1
        ended = math.floor(months / self.life_months + 1e-9) if self.life_months else 0
        return (
            self.entry_usd * lives
            - self.residual_usd * ended
            + self.fixed_usd_per_month * owed
            + self.used_usd_per_month * use * months
        )

    def once(self, months: float, use: float) -> float:
        """Cost without replacements, for a break-even within one life."""
        return msgspec.structs.replace(self, life_months=None, residual_usd=0.0).cost(months, use)


def break_even_months(dear_later: Way, dear_at_first: Way, use: float = 1.0) -> float | None:
    """Months after which `dear_later` has cost as much as `dear_at_first`; None: never within `MOST_MONTHS`, or already at the start."""

    def gap(months: float) -> float:
        return dear_later.once(months, use) - dear_at_first.once(months, use)

    if gap(1e-6) >= 0:
        return None
    steps = (quarter / 4 for quarter in range(1, 4 * MOST_MONTHS + 1))
    high = next((months for months in steps if gap(months) >= 0), None)
    if high is None:
        return None
    low = high - 0.25
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if gap(middle) >= 0 else (middle, high)
    return high


def break_even_use(by_use: Way, other: Way, months: float) -> float | None:
    """Share of the time in use at which both have cost the same after `months`; above 1: never; None: only at no use, or at any use.

    cost is linear in use: c(u) = c(0) + u · (c(1) - c(0)) for both.
    """
    at_none = by_use.cost(months, 0.0) - other.cost(months, 0.0)
    at_full = by_use.cost(months, 1.0) - other.cost(months, 1.0)
    if abs(at_full - at_none) < 1e-9 or abs(at_none) < 1e-9:
        return None
    share = at_none / (at_none - at_full)
    return share if share > 0 else None


class WayCosts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One way to pay, month by month, and where it breaks even with the first way."""

    way: Way
    usd_after_months: dict[str, float]
    """Months -> dollars owed by then."""
    break_even_months: float | None = None
    """Months after which the way with the higher cost at the start has cost no more; None: never, or already at the start."""
    break_even_use: float | None = None
    """Share of the time in use at which both cost the same over the horizon; above 1: never."""


class ProviderCosts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Cost of the same GPUs at one provider over the horizon."""

    provider: str
    instance: str
    """Instance with the lowest figure."""
    other_instances: dict[str, str] = {}
    """Market -> instance, where it differs."""
    usd: dict[str, float]
    """Market -> dollars over the horizon, at the given use."""


class Costs(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Ways to pay for one row, compared."""

    gpu: str
    gpus: int
    use: float
    """Share of the time in use."""
    horizon_months: int
    ways: list[WayCosts]
    providers: list[ProviderCosts] = []
    usd_per_million_prompt_tokens: float | None = None
    usd_per_million_answer_tokens: float | None = None
    usd_per_million_tokens_owned: float | None = None
    """Tokens (of answers, where there are prompts) on owned GPUs, at the given use."""
    gco2_per_million_tokens: float | None = None
    assumed: dict[str, str] = {}


def running_usd_per_h(power_w: float, owning: Owning) -> float:
    """Dollars per hour of one GPU apart from its price, around the clock."""
    power = power_w / 1000 * owning.pue * owning.usd_per_kwh
    return power + (owning.hosting_usd_per_month + owning.staff_usd_per_month) / HOURS_PER_MONTH


def bought_usd(price_usd: float, owning: Owning) -> float:
    """Price of one GPU with its share of server and network."""
    return price_usd + owning.server_usd + owning.network_usd


def depreciation_usd_per_h(price_usd: float, owning: Owning) -> float:
    """Depreciation per hour of a GPU bought for `price_usd`, including server and network."""
    return price_usd * (1 - owning.residual) / (owning.life_years * HOURS_PER_YEAR)


class TokenCosts(NamedTuple):
    """Dollars per million tokens."""

    prompt: float
    answer: float


def token_costs(
    *, usd_per_h: float, requests_per_s: float, prefill_s: float, replicas: float, prompt_tokens: float, answer_tokens: float
) -> TokenCosts | None:
    """Rent divided among prompt and answer tokens by the time of replicas; None if there is nothing to divide.

    Reading one prompt keeps a replica busy for `prefill_s`, so the share requests/s · prefill_s ÷ replicas of its time goes to prompts. In
    the rest it decodes, or waits. `prompt_tokens`: tokens that are computed, without a cached prefix.
    """
    if requests_per_s <= 0 or prompt_tokens <= 0 or answer_tokens <= 0:
        return None
    share = min(MOST_SHARE, requests_per_s * prefill_s / replicas)
    request_usd = usd_per_h / SECONDS_PER_HOUR / requests_per_s
    return TokenCosts(1e6 * request_usd * share / prompt_tokens, 1e6 * request_usd * (1 - share) / answer_tokens)


def gco2_per_million_tokens(energy_j_per_token: float, pue: float, gco2_per_kwh: float) -> float:
    """Grams of CO2 from the energy of the GPUs, including cooling and power supply."""
    return energy_j_per_token * 1e6 / JOULES_PER_KWH * pue * gco2_per_kwh
