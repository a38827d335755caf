"""Node types a job could run on: every kind of node that is offered for rent, every part of the catalogue, and this machine."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from planner.engine.evaluate.offer_prices import PricedOffer, priced_offers
from planner.engine.evaluate.supply import Supply
from planner.hardware.catalogue.gpus import Gpu
from planner.hardware.prices.offers import Offer
from planner.workload.tasks import Workload

UNPRICED_NODE = 8
"""GPUs in a node of a part that nobody in the catalogue rents out."""
HOST_SHARE = 0.9
"""Share of a host's memory for what is offloaded: the rest is the system's and the processes' own. An assumption."""
DEFAULT_MOST_GPUS = {"train": 64, "finetune": 16, "generate": 8, "prefill": 8, "serve": 64}
"""Task -> most GPUs that the search considers when the workload does not say."""


@dataclass(frozen=True)
class NodeType:
    """A GPU in nodes of `per_node`; `most` of them can be had."""

    gpu: Gpu
    per_node: int
    nvlink: bool | None
    """NVLink as the offer states it; None: it does not, or there is no offer."""
    most: int
    here: bool = False
    """A device of this machine."""
    usd_per_h: float = float("nan")
    """Price of `billed` GPUs; NaN: no offer in the workload's market."""
    billed: int = 1
    """GPUs that are paid for together: a whole instance, or one."""
    offer: Offer | None = None
    dearer: tuple[PricedOffer, ...] = ()
    """Offers of the same node by other providers, the cheapest first."""
    largest: bool = True
    """The largest node this GPU comes in: jobs over several nodes are only built from these."""

    @property
    def host_bytes_per_gpu(self) -> float:
        """Host memory that a job may take for each GPU of the offered instance; NaN where the offer does not state it."""
        if self.offer is None or self.offer.memory_bytes is None:
            return float("nan")
        return HOST_SHARE * self.offer.memory_bytes / self.offer.gpus


def most_gpus(workload: Workload) -> int:
    """Where the search over counts ends."""
    return workload.max_gpus or DEFAULT_MOST_GPUS[workload.task]


def node_types_for(workload: Workload, supply: Supply) -> list[NodeType]:
    """One node type a GPU and node size, at its cheapest offer in the workload's market; then the devices of this machine.

    Raises `UserError` for a GPU or a provider of the workload that nobody knows.
    """
    considered = {supply.find_gpu(name).name for name in workload.gpus_considered}
    most = most_gpus(workload)
    by_node: dict[tuple[str, int], list[PricedOffer]] = defaultdict(list)
    for price, offer in priced_offers(supply.offers, workload.market, workload.providers):
        for size in _sizes(offer):
            by_node[offer.gpu, size].append((price * size / offer.gpus, offer))
    sizes: dict[str, list[int]] = defaultdict(list)
    for name, size in by_node:
        sizes[name].append(size)
    found = []
    for gpu in supply.gpus:
        if considered and gpu.name not in considered:
            continue
        known = sorted(sizes.get(gpu.name, [])) or [UNPRICED_NODE]
        for size in known:
            alternatives = _alternatives(by_node.get((gpu.name, size), []), workload)
            found += [_node_type(gpu, size, offers, workload, most, largest=size == known[-1]) for offers in alternatives]
    for gpu in supply.machine:
        if not considered or gpu.name in considered:
            count = min(supply.local_counts.get(gpu.name, 1), most)
            own_price = workload.price_usd_per_gpu_h or float("nan")
            found.append(NodeType(gpu, count, None, count, here=True, usd_per_h=own_price))
    return found


def _sizes(offer: Offer) -> Iterator[int]:
    """GPUs of a node: those of the instance, or every power of two up to the most of a per-GPU price."""
    size = offer.gpus
    while size <= (offer.gpus_max or offer.gpus):
        yield size
        size *= 2


def _alternatives(offers: list[PricedOffer], workload: Workload) -> Iterator[list[PricedOffer]]:
    """All offers of a node, the cheapest first.

    For a job that is offloaded several times: from each host on that has more memory than any cheaper one.
    """
    by_price = sorted(offers, key=lambda item: (item[0], item[1].provider))
    if workload.offload in {None, "none"} or not by_price:
        yield by_price
        return
    most = -1.0
    for place, (_, offer) in enumerate(by_price):
        if (memory := offer.memory_bytes or 0) > most:
            most = memory
            yield by_price[place:]


def _node_type(gpu: Gpu, size: int, offers: Sequence[PricedOffer], workload: Workload, most: int, *, largest: bool) -> NodeType:
    if workload.price_usd_per_gpu_h is not None:
        return NodeType(gpu, size, None, most, usd_per_h=workload.price_usd_per_gpu_h, largest=largest)
    if not offers:
        return NodeType(gpu, size, None, most, largest=largest)
    (price, offer), *dearer = offers
    return NodeType(
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


def _other_providers(cheapest: Offer, dearer: Iterable[PricedOffer]) -> tuple[PricedOffer, ...]:
    """The cheapest offer of every other provider over the same kind of link."""
    first: dict[str, PricedOffer] = {}
    for price, offer in dearer:
        if offer.provider != cheapest.provider and offer.nvlink == cheapest.nvlink:
            first.setdefault(offer.provider, (price, offer))
    return tuple(first.values())
