"""Cost of a row on bought GPUs: per hour, per million tokens, and the use above which buying is cheaper than renting."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from planner.engine.advice.ownership import least_text
from planner.engine.answers.plan import PlanRow
from planner.engine.money import Costs
from planner.present.plan import throughput
from planner.units import HOURS_PER_MONTH, SECONDS_PER_HOUR, digits, percent_text, usd_text

MONTHS_PER_YEAR = 12


class Owned(msgspec.Struct, frozen=True, kw_only=True):
    """Cost of a row on bought GPUs, from the ways to pay for it."""

    who: str
    """Number and name of the GPUs."""
    price_usd: float
    """Price of all of them."""
    rents: str
    """Market and provider of renting them instead."""
    least_use: float | None
    """Share of the time in use above which buying is cheaper than renting over the months; above 1 or None: never."""
    months: int
    use: float
    """Share of the time in use that the following figures assume."""
    usd_per_h: float
    """Mean cost of an hour: price, power and hosting."""
    usd_per_million_tokens: float | None
    tokens_per_year: float | None
    rests_on: str
    """Power, price and omitted costs as text."""

    @property
    def _span(self) -> str:
        """Period such as '3 years' or '18 months'."""
        years, months = divmod(self.months, MONTHS_PER_YEAR)
        return f"{self.months} months" if months else f"{years} year{'s' * (years != 1)}"

    @property
    def in_short(self) -> str:
        """Break-even in a few words."""
        if self.least_use is None or self.least_use > 1:
            return f"dearer at any use over {self._span}"
        return f"cheaper above {least_text(self.least_use)} use over {self._span}"

    def sentences(self) -> Iterator[str]:
        """Sentences on the costs and the break-even, with their inputs."""
        use = f"in use {percent_text(self.use)} of the time"
        yield f"Buy: {self.who} for {usd_text(self.price_usd)} $; over {self._span}, {use}: {usd_text(self.usd_per_h)} $/h ({self.rests_on})."
        if self.usd_per_million_tokens is not None and self.tokens_per_year is not None:
            yield (
                f"Bought and {use}, a million tokens cost {usd_text(self.usd_per_million_tokens)} $, and a year gives "
                f"{digits(self.tokens_per_year / 1e9)} billion."
            )
        if self.least_use is None or self.least_use > 1:
            yield f"Renting ({self.rents}) is cheaper however much they are used: buying does not pay within {self._span} at these prices."
        else:
            yield f"Buying is cheaper than renting ({self.rents}) where they are in use more than {least_text(self.least_use)} of {self._span}."


def owned(costs: Costs | None, row: PlanRow) -> Owned | None:
    """Cost of `row` on bought GPUs compared with renting; None if either is unknown, or if the GPUs are owned already."""
    ways = costs.ways if costs is not None else []
    bought = next((ways for ways in ways if ways.way.name == "bought"), None)
    if costs is None or bought is None or bought is ways[0]:
        return None
    hours = costs.horizon_months * HOURS_PER_MONTH
    speed = throughput(row.answer)
    assumed = [costs.assumed[key] for key in ("purchase", "power", "left out") if key in costs.assumed]
    return Owned(
        who=bought.way.who,
        price_usd=bought.way.entry_usd,
        rents=f"{ways[0].way.name}, {ways[0].way.who}",
        least_use=bought.break_even_use,
        months=costs.horizon_months,
        use=costs.use,
        usd_per_h=bought.way.cost(costs.horizon_months, costs.use) / hours,
        usd_per_million_tokens=costs.usd_per_million_tokens_owned,
        tokens_per_year=speed.value * costs.use * SECONDS_PER_HOUR * HOURS_PER_MONTH * MONTHS_PER_YEAR if speed else None,
        rests_on="; ".join(assumed),
    )


def owned_sentences(row: PlanRow) -> Iterator[str]:
    """Sentences on the cost of a row on owned GPUs, or GPUs to buy."""
    own = row.owned
    if own is None:
        return
    name = "To buy" if own.bought else "Own"
    price = f" = {usd_text(own.price_usd)} $" if own.price_usd is not None else ""
    yield f"{name}: {own.gpus:,} × {row.gpu}{price}; {own.words}."
    lost = own.depreciation_usd_per_h
    loss = f" + {usd_text(lost)} $/h loss in value = {usd_text(own.running_usd_per_h + lost)} $/h" if lost is not None else ""
    yield f"Power and place {usd_text(own.running_usd_per_h)} $/h{loss}, around the clock."
