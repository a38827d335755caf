"""Price sets: GPU prices per hour of one provider, of one of its tiers, or the cheapest anywhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from planner.engine.evaluate.offer_prices import cheapest_single_gpus
from planner.errors import Problem, UserError, nearest_names
from planner.hardware.catalogue.gpus import Gpu
from planner.hardware.prices.offers import Offer
from planner.workload.studies import PublishedPrice, PublishedStudy

CHEAPEST = "cheapest"
"""Lowest price of all providers and tiers."""


class Price(msgspec.Struct, frozen=True, kw_only=True):
    """Price of one GPU; `usd_per_gpu_h` None: not known, with the reason in `text`."""

    usd_per_gpu_h: float | None
    text: str
    as_of: str | None = None
    source: str = ""


class PriceSet(msgspec.Struct, frozen=True):
    """A named selection of the offers."""

    name: str
    offers: tuple[Offer, ...]
    given: tuple[tuple[str, float], ...] = ()
    """Canonical GPU name and USD per hour, given by the user; these override the others."""
    past: tuple[PublishedPrice, ...] = ()
    """Prices at the time of a published study, in place of offers."""

    def of(self, gpu: Gpu) -> Price:
        """Lowest on-demand price of one `gpu`; instances of a single GPU are preferred to larger ones."""
        for name, usd in self.given:
            if name == gpu.name:
                return Price(usd_per_gpu_h=usd, text="as given")
        for price in self.past:
            if price.gpu == gpu.name:
                return Price(usd_per_gpu_h=price.usd_per_gpu_h, text=self.name, as_of=price.as_of, source=price.source)
        found = cheapest_single_gpus([offer for offer in self.offers if offer.gpu == gpu.name], "on-demand").get(gpu.name)
        if found is None:
            where = "no provider offers" if self.name == CHEAPEST else f"{self.name} has no price for"
            return Price(usd_per_gpu_h=None, text=f"{where} {gpu.name}")
        usd, offer = found
        size = f", sold by the {offer.gpus}" if offer.gpus > 1 else ""
        return Price(
            usd_per_gpu_h=usd,
            text=f"{offer.provider} {offer.instance}{size}, {offer.tier}",
            as_of=offer.as_of,
            source=offer.source,
        )


def price_set_names(offers: Iterable[Offer], study: PublishedStudy | None = None) -> tuple[str, ...]:
    """All price sets: 'cheapest', each provider, each tier of providers that have several, and a study's."""
    tiers: dict[str, dict[str, None]] = {}
    for offer in offers:
        tiers.setdefault(offer.provider, {})[offer.tier] = None
    names = [CHEAPEST]
    for provider in sorted(tiers):
        names.append(provider)
        if len(tiers[provider]) > 1:
            names += [f"{provider}-{tier}" for tier in sorted(tiers[provider]) if " " not in tier]
    return (*names, study.price_set) if study else tuple(names)


def price_set(
    name: str, offers: Sequence[Offer], given: Sequence[tuple[str, float]] = (), study: PublishedStudy | None = None
) -> PriceSet:
    """Price set called `name`; raises `UserError` with the nearest names if it does not exist."""
    known = price_set_names(offers, study)
    if study and name == study.price_set:
        return PriceSet(name, (), tuple(given), study.price)
    if name not in known:
        raise UserError(
            Problem("", "prices", f"{name!r} is not a known price set; known: {', '.join(known)}.", nearest_names(name, known))
        )
    provider, tier = (name, "")
    if name not in {CHEAPEST, *(offer.provider for offer in offers)}:
        provider, _, tier = name.rpartition("-")
        while provider not in {offer.provider for offer in offers}:  # tier with a dash in its name
            provider, _, more = provider.rpartition("-")
            tier = f"{more}-{tier}"
    chosen = tuple(offer for offer in offers if name == CHEAPEST or (offer.provider == provider and tier in {"", offer.tier}))
    return PriceSet(name, chosen, tuple(given))
