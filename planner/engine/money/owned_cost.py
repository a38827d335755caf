"""Cost of an hour of a GPU that is owned: power around the clock, its place, its people, and what it loses in value.

usd/h = W/1000 · PUE · usd/kWh + (hosting + staff)/730 + price · (1 - residual) / (years · 8760)
"""

from __future__ import annotations

from planner.units import HOURS_PER_MONTH
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
