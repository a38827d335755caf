"""Where a job could run: every node that is offered for rent, every part of the catalogue, and this machine."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from planner.engine.search.layouts import Site
from planner.errors import Problems, nearest_names
from planner.hardware.catalogue.gpus import Gpu
from planner.hardware.prices.offers import Offer
from planner.workload.tasks import Market, Workload

_PRICE_FIELD: dict[Market, str] = {
    "on-demand": "on_demand_usd_per_h",
    "spot": "spot_usd_per_h",
    "reserved-1y": "reserved_1y_usd_per_h",
    "reserved-3y": "reserved_3y_usd_per_h",
}
UNPRICED_NODE = 8
"""GPUs in a node of a part that nobody in the catalogue rents out."""


def sites_for(
    workload: Workload,
    gpus: Sequence[Gpu],
    offers: Iterable[Offer],
    machine: Sequence[Gpu],
    local_counts: Mapping[str, int],
    considered: set[str],
    most: int,
) -> list[Site]:
    """One site a GPU and node size, at its cheapest offer in the asked market; then the devices of this machine."""
    by_node: dict[tuple[str, int], list[tuple[float, Offer]]] = defaultdict(list)
    offers = list(offers)
    check_providers(workload.providers, {offer.provider for offer in offers})
    for offer in offers:
        if workload.providers and offer.provider not in workload.providers:
            continue
        for size, price in _sizes(offer, workload.market):
            by_node[offer.gpu, size].append((price, offer))
    sizes: dict[str, list[int]] = defaultdict(list)
    for name, size in by_node:
        sizes[name].append(size)
    sites = []
    for gpu in gpus:
        if considered and gpu.name not in considered:
            continue
        known = sorted(sizes[gpu.name]) or [UNPRICED_NODE]
        for size in known:
            choices = _choices(by_node.get((gpu.name, size), []), workload)
            sites += [_site(gpu, size, found, workload, most, largest=size == known[-1]) for found in choices]
    for gpu in machine:
        if not considered or gpu.name in considered:
            count = min(local_counts.get(gpu.name, 1), most)
            own = workload.price_usd_per_gpu_h or float("nan")
            sites.append(Site(gpu, count, None, count, here=True, usd_per_h=own))
    return sites


def check_providers(asked: Sequence[str], known: set[str]) -> None:
    """Raises `UserError` for a provider nobody has an offer of."""
    problems = Problems()
    for name in asked:
        if name not in known:
            problems.add(
                "providers", f"{name!r} is not a known provider; known: {', '.join(sorted(known))}.", nearest_names(name, known)
            )
    problems.raise_if_any()


def _sizes(offer: Offer, market: Market) -> Iterable[tuple[int, float]]:
    """(GPUs of a node, USD/h of the node): the instance as it is, or every power of two up to the most of a per-GPU price."""
    price = getattr(offer, _PRICE_FIELD[market])
    if price is None:
        return
    size = offer.gpus
    while size <= (offer.gpus_max or offer.gpus):
        yield size, price * size / offer.gpus
        size *= 2


def _choices(found: list[tuple[float, Offer]], workload: Workload) -> Iterable[list[tuple[float, Offer]]]:
    """All offers of a node, the cheapest first.

    For a job that is offloaded several times: from each host on that has more memory than any cheaper one.
    """
    by_price = sorted(found, key=lambda item: (item[0], item[1].provider))
    if workload.offload in {None, "none"} or not by_price:
        yield by_price
        return
    most = -1.0
    for place, (_, offer) in enumerate(by_price):
        if (memory := offer.memory_bytes or 0) > most:
            most = memory
            yield by_price[place:]


def _site(gpu: Gpu, size: int, found: list[tuple[float, Offer]], workload: Workload, most: int, *, largest: bool) -> Site:
    if workload.price_usd_per_gpu_h is not None:
        return Site(gpu, size, None, most, usd_per_h=workload.price_usd_per_gpu_h, largest=largest)
    if not found:
        return Site(gpu, size, None, most, largest=largest)
    (price, offer), *dearer = found
    return Site(
        gpu,
        size,
        offer.nvlink,
        most,
        usd_per_h=price,
        billed=size,
        offer=offer,
        dearer=_other_providers(offer, dearer),
        largest=largest,
    )


def _other_providers(cheapest: Offer, dearer: list[tuple[float, Offer]]) -> tuple[tuple[float, Offer], ...]:
    """The cheapest offer of every other provider over the same kind of link."""
    first: dict[str, tuple[float, Offer]] = {}
    for price, offer in dearer:
        if offer.provider != cheapest.provider and offer.nvlink == cheapest.nvlink:
            first.setdefault(offer.provider, (price, offer))
    return tuple(first.values())
