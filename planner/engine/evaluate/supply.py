"""GPUs that a plan can choose from, what each reaches, and what they cost."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from planner.engine.answers.plan import PlanRow
from planner.engine.performance.operators.chip import FindChip
from planner.errors import Problems, nearest_names
from planner.hardware.catalogue.gpus import Gpu
from planner.hardware.prices.offers import Offer
from planner.workload.tasks import Market

PRICE_FIELDS: Mapping[Market, str] = {
    "on-demand": "on_demand_usd_per_h",
    "spot": "spot_usd_per_h",
    "reserved-1y": "reserved_1y_usd_per_h",
    "reserved-3y": "reserved_3y_usd_per_h",
}

PricedOffer = tuple[float, Offer]
"""(USD/h, the offer it is of)."""


@dataclass(frozen=True)
class Supply:
    """The catalogue, its offers, and this machine."""

    gpus: Sequence[Gpu]
    """Every part of the catalogue."""
    find_gpu: Callable[[str], Gpu]
    """A part of the catalogue by a name or an alias; raises `UserError`."""
    offers: Sequence[Offer]
    machine: Sequence[Gpu]
    """Devices of this machine."""
    local_counts: Mapping[str, int]
    """Number of each of them, by name."""
    chip: FindChip
    spec_chip: FindChip
    """Look-up without this machine's measurements."""

    def gpu_of(self, row: PlanRow) -> Gpu:
        """The part that `row` is about: this machine's own where the row is of this machine."""
        here = next((device for device in self.machine if row.here and device.name == row.gpu), None)
        return here or self.find_gpu(row.gpu)

    def nvlink_of(self, row: PlanRow) -> bool | None:
        """Whether the offer of `row` says that its GPUs are joined by NVLink; None where it does not say, or there is none."""
        offer = row.offer
        return self._nvlink.get((offer.provider, offer.instance, offer.region, row.gpu)) if offer else None

    @cached_property
    def _nvlink(self) -> dict[tuple[str, str, str, str], bool | None]:
        """NVLink of an offer by provider, instance, region and GPU; the first of several such offers counts."""
        return {(one.provider, one.instance, one.region, one.gpu): one.nvlink for one in reversed(self.offers)}


def priced_offers(offers: Sequence[Offer], market: Market, providers: Collection[str] = ()) -> list[PricedOffer]:
    """(USD/h of the instance, offer) of every offer that has a price in `market`.

    `providers` restricts the offers (empty: all); raises `UserError` for one that has none.
    """
    if providers:
        _check_providers(providers, {offer.provider for offer in offers})
    field = PRICE_FIELDS[market]
    return [
        (price, offer)
        for offer in offers
        if (price := getattr(offer, field)) is not None and (not providers or offer.provider in providers)
    ]


def cheapest_single_gpus(offers: Sequence[Offer], market: Market, providers: Collection[str] = ()) -> dict[str, PricedOffer]:
    """GPU -> (USD/h of one, offer): its cheapest offer of a single GPU, or where there is none the cheapest share of a larger."""
    cheapest: dict[str, PricedOffer] = {}
    for price, offer in priced_offers(offers, market, providers):
        share = price / offer.gpus
        known = cheapest.get(offer.gpu)
        if known is None or (offer.gpus > 1, share) < (known[1].gpus > 1, known[0]):
            cheapest[offer.gpu] = share, offer
    return cheapest


def _check_providers(names: Collection[str], known: set[str]) -> None:
    problems = Problems()
    for name in names:
        if name not in known:
            problems.add(
                "providers", f"{name!r} is not a known provider; known: {', '.join(sorted(known))}.", nearest_names(name, known)
            )
    problems.raise_if_any()
