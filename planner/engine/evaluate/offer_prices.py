"""Prices of offers on one term, and the hours that a job pays for on each term."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import numpy as np

from planner.engine.columns import Floats
from planner.errors import Problems, UserError
from planner.hardware.catalogue.gpus import Gpu
from planner.hardware.prices.offers import Offer
from planner.hardware.prices.providers import Provider, nearest_providers
from planner.units import HOURS_PER_MONTH, SECONDS_PER_HOUR
from planner.workload.tasks import Term, Workload

PRICE_FIELDS: Mapping[Term, str] = {
    "on-demand": "on_demand_usd_per_h",
    "spot": "spot_usd_per_h",
    "reserved-1y": "reserved_1y_usd_per_h",
    "reserved-3y": "reserved_3y_usd_per_h",
}

PricedOffer = tuple[float, Offer]
"""USD/h, and the offer with that price."""
COMMITTED_H: Mapping[Term, float] = {"reserved-1y": 12 * HOURS_PER_MONTH, "reserved-3y": 36 * HOURS_PER_MONTH}
"""Term -> hours that have to be paid whether used or not: 8,760 and 26,280."""
ROUNDED_ABOVE_S = 60.0
"""Billing periods longer than this are rounded up; shorter ones make no visible difference."""


def own_prices(workload: Workload, named: Iterable[str], find_gpu: Callable[[str], Gpu]) -> dict[str, float]:
    """GPU -> price of owned GPUs: a table gives a price for each GPU, and a number is the price of the `named` GPUs only.

    Raises `UserError` with every unknown GPU of a table.
    """
    given = workload.price_usd_per_gpu_h
    if not isinstance(given, Mapping):
        return {} if given is None else dict.fromkeys(named, given)
    problems, found = Problems(), dict[str, float]()
    for name, price in given.items():
        try:
            found[find_gpu(name).name] = price
        except UserError as error:
            problems.found += [one._replace(key=f"price_usd_per_gpu_h.{name}") for one in error.problems]
    problems.raise_if_any()
    return found


def priced_offers(offers: Sequence[Offer], market: Term, providers: Collection[str] = ()) -> list[PricedOffer]:
    """USD/h of the instance, and the offer, for every offer that has a price in `market`.

    `providers` restricts the offers (empty: all); raises `UserError` for an unknown provider.
    """
    if providers:
        _check_providers(providers, {offer.provider for offer in offers})
    field = PRICE_FIELDS[market]
    return [
        (price, offer)
        for offer in offers
        if (price := getattr(offer, field)) is not None and (not providers or offer.provider in providers)
    ]


def cheapest_single_gpus(offers: Sequence[Offer], market: Term, providers: Collection[str] = ()) -> dict[str, PricedOffer]:
    """GPU -> (USD/h of one, offer): its cheapest offer of a single GPU; where there is none, the cheapest share of a larger offer."""
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
            message = f"{name!r} is not a known provider; known: {', '.join(sorted(known))}."
            problems.add("providers", message, nearest_providers(name, known))
    problems.raise_if_any()


def pays_as_it_takes(term: Term, provider: Provider | None) -> bool:
    """True if a job pays for exactly the hours it takes; see `paid_hours`."""
    minimum_s, unit_s = (provider.billing_minimum_s or 0.0, provider.billing_s or 0.0) if provider else (0.0, 0.0)
    return term not in COMMITTED_H and not minimum_s and unit_s <= ROUNDED_ABOVE_S


def paid_hours(term: Term, job_h: Floats, *, use: float = 0.0, provider: Provider | None = None) -> Floats:
    """Hours that a job of `job_h` hours pays for: the hours it takes, or a whole commitment less the share `use` of the hours it leaves.

    A job longer than a commitment takes another one. By the hour, `provider` may bill a minimum or round up.
    """
    committed = COMMITTED_H.get(term)
    if committed is not None:
        whole = np.ceil(job_h / committed) * committed
        return job_h + (whole - job_h) * (1 - use)
    if provider is not None and provider.billing_minimum_s:
        job_h = np.maximum(job_h, provider.billing_minimum_s / SECONDS_PER_HOUR)
    if provider is not None and (provider.billing_s or 0.0) > ROUNDED_ABOVE_S:
        unit_h = (provider.billing_s or 0.0) / SECONDS_PER_HOUR
        job_h = np.ceil(job_h / unit_h) * unit_h
    return job_h
