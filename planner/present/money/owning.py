"""The cost of a row on GPUs that are bought: an hour, a million tokens, and the use above which that is cheaper than renting."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from planner.engine.advice.ownership import BreakEven, break_even, least_text
from planner.engine.answers.plan import PlanRow
from planner.engine.money.owned_cost import HOURS_PER_YEAR, bought_usd, depreciation_usd_per_h
from planner.engine.procurement.paying import IDLE_POWER
from planner.hardware.catalogue.gpus import Gpu
from planner.present.plan import throughput
from planner.units import SECONDS_PER_HOUR, digits, usd_text
from planner.workload.hardware.owned import Owning

TOKENS = 1e6


class Owned(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of a row on GPUs that are bought and used around the clock."""

    gpus: int
    even: BreakEven
    """Break-even of one GPU."""
    usd_per_h: float
    """Price over the life, power and hosting."""
    usd_per_million_tokens: float | None
    tokens_per_year: float | None

    @property
    def in_short(self) -> str:
        """The break-even in a few words."""
        share = self.even.least_utilisation
        if share > 1:
            return f"dearer at any use over {self.even.owning.life_years:g} years"
        return f"cheaper above {least_text(share)} use over {self.even.owning.life_years:g} years"

    def sentences(self) -> Iterator[str]:
        """The costs and the break-even in sentences, each with its inputs."""
        even, owning = self.even, self.even.owning
        servers = ", with its share of server and network" if owning.server_usd or owning.network_usd else ", without servers"
        hosting = f", {usd_text(owning.hosting_usd_per_month)} $/month hosting each" if owning.hosting_usd_per_month else ""
        yield (
            f"Buy: {self.gpus:,} × {usd_text(even.purchase_usd)} $ ({even.purchase_source}){servers}; over {owning.life_years:g} years, "
            f"with {even.power_w:.0f} W each at {owning.usd_per_kwh:g} $/kWh{hosting}: {usd_text(self.usd_per_h)} $/h around the clock."
        )
        if self.usd_per_million_tokens is not None and self.tokens_per_year is not None:
            yield (
                f"Bought and always busy, a million tokens cost {usd_text(self.usd_per_million_tokens)} $, and a year gives "
                f"{digits(self.tokens_per_year / 1e9)} billion."
            )
        share = even.least_utilisation
        if share > 1:
            yield f"Renting is cheaper however much they are used: buying does not pay within {owning.life_years:g} years at these prices."
        else:
            yield f"Buying is cheaper than renting by the hour where they are in use more than {least_text(share)} of {owning.life_years:g} years."


def owned(row: PlanRow, gpu: Gpu | None, owning: Owning | None = None) -> Owned | None:
    """Cost of `row` on bought GPUs; None where its rent, its price or its power is not known."""
    layout = row.answer.layout
    if gpu is None or gpu.purchase is None or gpu.tdp_w is None or layout is None or row.offer is None or row.offer.usd_per_h <= 0:
        return None
    terms = (owning or Owning()).of_part(gpu.of_whole)
    even = break_even(
        rent_usd_per_h=row.offer.usd_per_h / (row.offer.gpus * row.offer.instances),
        purchase_usd=bought_usd(gpu.purchase.price_usd, terms),
        utilisation=1.0,
        power_w=gpu.tdp_w,
        owning=terms,
        source=f"{gpu.purchase.kind} of {gpu.purchase.as_of}",
        idle=IDLE_POWER,
    )
    usd_per_h = layout.gpus * (depreciation_usd_per_h(even.purchase_usd, terms) + even.running_usd_per_h)
    speed = throughput(row.answer)
    tokens_per_h = speed.value * SECONDS_PER_HOUR if speed else None
    return Owned(
        gpus=layout.gpus,
        even=even,
        usd_per_h=usd_per_h,
        usd_per_million_tokens=usd_per_h / tokens_per_h * TOKENS if tokens_per_h else None,
        tokens_per_year=tokens_per_h * HOURS_PER_YEAR if tokens_per_h else None,
    )


def owned_sentences(row: PlanRow) -> Iterator[str]:
    """Cost of a row on GPUs that are one's own, or would be bought, and its basis."""
    own = row.owned
    if own is None:
        return
    name = "To buy" if own.bought else "Own"
    price = f" = {usd_text(own.price_usd)} $" if own.price_usd is not None else ""
    yield f"{name}: {own.gpus:,} × {row.gpu}{price}; {own.words}."
    lost = own.depreciation_usd_per_h
    loss = f" + {usd_text(lost)} $/h loss in value = {usd_text(own.running_usd_per_h + lost)} $/h" if lost is not None else ""
    yield f"Power and place {usd_text(own.running_usd_per_h)} $/h{loss}, around the clock."
