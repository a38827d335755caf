"""Rent of one GPU in each market, and rent or buy: after how many hours of use buying has cost no more than renting.

Rent is paid for the hours in use, u·t; a bought GPU costs its price once, and power and hosting around the clock:
    rent · u · t = price + (power · PUE · usd_per_kwh + hosting + staff) · t.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from planner.engine.evaluate.offer_prices import cheapest_single_gpus
from planner.engine.money import depreciation_usd_per_h, running_usd_per_h
from planner.hardware.prices.offers import Offer
from planner.units import HOURS_PER_MONTH, digits, percent_text, usd_text
from planner.workload.hardware.owned import Owning
from planner.workload.tasks import Term

ALMOST_ALL = 0.995
"""Share above which a rounded percentage would read 100 %."""


class Quote(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Price of one GPU per hour."""

    usd_per_h: float
    market: str
    provider: str
    """Provider; 'you' for a price that the user gave."""
    instance: str = ""
    region: str = ""
    as_of: str = ""
    source: str = ""
    whole: int = 1
    """GPUs of the instance; with more than one, the price is a share of an instance that is rented whole."""

    @property
    def text(self) -> str:
        """'2.35 $/h (vast-ai, on-demand)'."""
        share = f", a share of {self.whole}" if self.whole > 1 else ""
        return f"{self.usd_per_h:.2f} $/h ({self.provider}{'' if self.provider == 'you' else f', {self.market}'}{share})"


def quotes(offers: Sequence[Offer], market: Term = "on-demand", providers: Sequence[str] = ()) -> dict[str, Quote]:
    """GPU -> its cheapest offer of a single GPU; where there is none, the cheapest share of a larger instance.

    `providers` restricts the offers (empty: all); raises `UserError` for an unknown provider.
    """
    return {
        gpu: Quote(
            usd_per_h=price,
            market=market,
            provider=offer.provider,
            instance=offer.instance,
            region=offer.region,
            as_of=offer.as_of,
            source=offer.source,
            whole=offer.gpus,
        )
        for gpu, (price, offer) in cheapest_single_gpus(offers, market, providers).items()
    }


def least_text(share: float) -> str:
    """A share of the time in use that has to be exceeded: '87 %', and '99.6 %' where a whole percentage would read 100 %."""
    return percent_text(share) if share < ALMOST_ALL else f"{math.floor(share * 1000) / 10:.1f} %"


class BreakEven(msgspec.Struct, frozen=True, kw_only=True):
    """Time after which buying is cheaper than renting, and the inputs of the calculation."""

    hours_in_use: float | None
    """None: never; running it costs more than renting it for so small a share of the time."""
    months: float | None
    """Calendar months until then, at the observed utilisation."""
    least_utilisation: float
    """Share of the time in use above which buying pays within the life; above 1: never."""
    utilisation: float
    rent_usd_per_h: float
    purchase_usd: float
    running_usd_per_h: float
    """Power and hosting, around the clock."""
    power_w: float
    owning: Owning
    purchase_source: str

    @property
    def text(self) -> str:
        """Time after which buying is cheaper than renting in words, with its inputs."""
        hosting = f"{usd_text(self.owning.hosting_usd_per_month)} $/month hosting, " if self.owning.hosting_usd_per_month else ""
        inputs = (
            f"({usd_text(self.purchase_usd)} $ to buy, without a server; {self.power_w:.0f} W at {self.owning.usd_per_kwh:g} $/kWh, "
            f"{hosting}rent {self.rent_usd_per_h:.2f} $/h)"
        )
        least = f"buying pays within {self.owning.life_years:g} years above {least_text(self.least_utilisation)} use"
        if self.least_utilisation > 1:
            least = f"within {self.owning.life_years:g} years buying does not pay at this price, however much it is used"
        use = percent_text(self.utilisation)
        if self.hours_in_use is None or self.months is None:
            return f"rent: in use {use} of the time, owning it costs more than renting it; {least} {inputs}"
        return f"break-even after {self.hours_in_use:,.0f} h in use, {digits(self.months, 2)} months at {use} use as observed; {least} {inputs}"


def break_even(
    *, rent_usd_per_h: float, purchase_usd: float, utilisation: float, power_w: float, owning: Owning, source: str
) -> BreakEven:
    """Break-even of one GPU; `power_w` is its mean power at this utilisation, including idle hours."""
    running = running_usd_per_h(power_w, owning)
    gained = rent_usd_per_h * utilisation - running
    hours = purchase_usd / gained if gained > 0 else None
    return BreakEven(
        hours_in_use=None if hours is None else hours * utilisation,
        months=None if hours is None else hours / HOURS_PER_MONTH,
        least_utilisation=(depreciation_usd_per_h(purchase_usd, owning) + running) / rent_usd_per_h,
        utilisation=utilisation,
        rent_usd_per_h=rent_usd_per_h,
        purchase_usd=purchase_usd,
        running_usd_per_h=running,
        power_w=power_w,
        owning=owning,
        purchase_source=source,
    )
