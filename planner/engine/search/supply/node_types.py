"""Node types a job could run on: every kind of node that is offered for rent, every GPU of the catalogue, and this machine."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property

import msgspec

from planner.engine.evaluate.offer_prices import own_prices
from planner.engine.evaluate.task import Supply
from planner.engine.search.supply.owned_nodes import OwnedNode, owned_pools
from planner.engine.search.supply.quotes import UNLIMITED, Quote, Wire, check_supply_keys, quotes_of, usual_wire, wire_given
from planner.hardware.catalogue.gpus import Gpu
from planner.hardware.catalogue.interconnects import link_of, most_in_host
from planner.hardware.catalogue.mig import split_name
from planner.workload.tasks import Workload

UNPRICED_NODE = 8
"""GPUs in a node of a GPU that nobody in the catalogue rents out."""
HOST_SHARE = 0.9
"""Share of a host's memory for what is offloaded; the system and the processes need the rest. An assumption."""
DEFAULT_MOST_GPUS = {"train": 64, "finetune": 16, "generate": 8, "prefill": 8, "serve": 64}
"""Task -> most GPUs that the search considers where the workload states no limit."""
FILTERS = ("providers", "kinds", "regions", "countries", "certifications", "exclude")
"""Keys that leave offers out: a GPU without an offer that passes is no solution."""
SUPPLY_KEYS = (
    *("task", "gpus_considered", "max_gpus", "max_nodes", "fabric", "offload"),
    *("price_usd_per_gpu_h", "own", "owning", "capex_usd", "market"),
    *FILTERS,
)
"""Keys of a workload that decide which hardware there is for it; this folder reads no other key."""
NEXT_TO_NONE = 1e-6
"""Number of available nodes where the filters leave out all offers: far below one, so that it misses by more than any target."""
NO_NETWORK_BYTES_PER_S = 1.0
"""Rate that stands for a network that is not sold; nothing of a candidate uses it."""
MOST_KEPT = 16
"""Lists of node types that are stored with a supply."""


class NodeType(msgspec.Struct, frozen=True, dict=True):
    """A GPU in nodes of `per_node` over one kind of network; the search considers up to `most` GPUs."""

    gpu: Gpu
    per_node: int
    nvlink: bool | None
    """NVLink as stated in the offer; None: not stated, or there is no offer."""
    most: int
    wire: Wire
    """Network between nodes."""
    here: bool = False
    """True if it is a device of this machine."""
    usd_per_gpu_h: float | None = None
    """Price given by the user, which replaces every quote."""
    quotes: tuple[Quote, ...] = ()
    """Quotes to choose from: those that no other quote of the same GPUs makes pointless, the cheapest first."""
    others: tuple[Quote, ...] = ()
    """All quotes of nodes of the same GPUs with the same kind of link, the cheapest first."""
    limit_w: float | None = None
    """Power limit set on a GPU of this machine."""
    owned: OwnedNode | None = None
    """Costs of a GPU that is not rented."""
    left_out: bool = False
    """True if the filters leave out everyone who rents it out."""
    largest: bool = True
    """True if it is the largest node of this GPU that can be joined with others: jobs over several nodes use only these."""

    @cached_property
    def place(self) -> tuple[str, str]:
        """(GPU, whether it is rented, here, owned, or to be bought): rows of one place compete."""
        kind = "" if self.owned is None else "bought" if self.owned.bought else "own"
        return self.gpu.name, "here" if self.here else kind

    @property
    def power_limit_w(self) -> float | None:
        """Power cap that applies; None: the vendor's limit."""
        return self.owned.power_limit_w if self.owned else self.limit_w

    @cached_property
    def cluster(self) -> int:
        """Maximum number of nodes that can be joined."""
        if self.here or not self.largest or self.wire.bytes_per_s <= 0:
            return 1
        return max((quote.cluster for quote in self.quotes), default=UNLIMITED)

    @cached_property
    def links(self) -> tuple[float, float, float]:
        """1 where NVLink joins its GPUs, bytes/s inside a node, bytes/s between nodes."""
        link, rate = link_of(self.gpu, None, nvlink=self.nvlink)
        return float(link == "nvlink"), rate, self.wire.bytes_per_s or NO_NETWORK_BYTES_PER_S

    @cached_property
    def terms(self) -> list[tuple[float, ...]]:
        """Each quote, or the user's price, as the numbers of `bills.Terms`."""
        return [self._terms(quote) for quote in self.quotes or (None,)]

    @cached_property
    def least_usd_per_h(self) -> float:
        """The lowest price of a single node, or of a GPU at the user's price; NaN where none is known."""
        return min(usd_per_h for usd_per_h, *_ in self.terms)

    def _terms(self, quote: Quote | None) -> tuple[float, ...]:
        return (
            quote.usd_per_h if quote else self.usd_per_gpu_h or float("nan"),
            quote is None,
            quote is not None and quote.term == "spot",
            quote.machines if quote else NEXT_TO_NONE if self.left_out else UNLIMITED,
            min(self.cluster, quote.cluster if quote else UNLIMITED),
            host_bytes_per_gpu(quote),
        )

    @property
    def most_joined(self) -> int:
        """Maximum number of GPUs of a job whose GPUs all exchange data."""
        return min(self.most, self.per_node * self.cluster)


def host_bytes_per_gpu(quote: Quote | None) -> float:
    """Host memory that a job may use for each GPU of an instance; NaN if the offer does not state it."""
    if quote is None or quote.offer.memory_bytes is None:
        return float("nan")
    return HOST_SHARE * quote.offer.memory_bytes / quote.offer.gpus


def is_narrowed(workload: Workload) -> bool:
    """True if `workload` leaves offers out, by its filters or by a term on which not all are rented."""
    return workload.market not in {"on-demand", "any"} or any(getattr(workload, key) for key in FILTERS)


def most_gpus(workload: Workload) -> int:
    """Largest number of GPUs that the search considers."""
    return workload.max_gpus or DEFAULT_MOST_GPUS[workload.task]


def node_types_for(workload: Workload, supply: Supply) -> list[NodeType]:
    """Node types that are worth their price, one for each GPU, node size, link and network; then the devices of this machine.

    Computed once for all workloads that differ only in keys outside `SUPPLY_KEYS`. Raises `UserError` for an unknown GPU, provider or place
    in the workload.
    """
    asked = Workload(model="", **{key: getattr(workload, key) for key in SUPPLY_KEYS})
    name, kept = msgspec.json.encode(asked), supply.node_types
    if name not in kept:
        check_supply_keys(workload, supply)
        every = kept.get(msgspec.json.encode(msgspec.structs.replace(asked, gpus_considered=[])))
        if every is not None and _by_offers_alone(asked):
            considered = {supply.find_gpu(name).name for name in workload.gpus_considered}
            made = [node for node in every if node.gpu.name in considered]
        else:
            made = _node_types_for(asked, supply)
        if len(kept) >= MOST_KEPT:
            del kept[next(iter(kept))]
        kept[name] = made
    found: list[NodeType] = kept[name]
    return found


def _by_offers_alone(workload: Workload) -> bool:
    """True if all GPUs are rented, or this machine's: considering fewer of them then changes nothing for the others."""
    return workload.price_usd_per_gpu_h is None and not workload.own and workload.capex_usd is None


def _node_types_for(workload: Workload, supply: Supply) -> list[NodeType]:
    considered = {supply.find_gpu(name).name for name in workload.gpus_considered}
    most = most_gpus(workload)
    quotes: dict[str, dict[int, list[Quote]]] = defaultdict(lambda: defaultdict(list))
    for name, size, quote in quotes_of(workload, supply, considered):
        quotes[name][size].append(quote)
    narrowed = is_narrowed(workload)
    prices = own_prices(workload, considered, supply.find_gpu)
    of_machine = own_prices(workload, {gpu.name for gpu in supply.machine}, supply.find_gpu)
    found: list[NodeType] = []
    for gpu in supply.gpus:
        if considered and gpu.name not in considered:
            continue
        price = prices.get(gpu.name)
        if gpu.only_named and not considered and price is None and gpu.name not in quotes:
            continue
        if price is not None or gpu.name not in quotes:
            sizes = sorted(quotes[gpu.name]) or [min(UNPRICED_NODE, most_in_host(gpu))]
            found += _unquoted(gpu, sizes, workload, most, price, left_out=price is None and narrowed)
        else:
            found += _quoted(gpu, quotes[gpu.name], workload, most)
    for gpu in supply.machine:
        if not considered or gpu.name in considered:
            count = min(supply.local_counts.get(gpu.name, 1), most)
            price = of_machine.get(gpu.name)
            inside = count if split_name(gpu.name) is None else 1  # slices only exchange data through the host
            wire, limit = usual_wire(gpu, inside, ""), supply.power_limits_w.get(gpu.name)
            found.append(NodeType(gpu, inside, None, count, wire, here=True, usd_per_gpu_h=price, limit_w=limit))
    return [*found, *_owned_types(workload, supply)]


def _owned_types(workload: Workload, supply: Supply) -> Iterator[NodeType]:
    """Node types that are owned, and those that may be bought; a slice is alone in its node."""
    for pool in owned_pools(workload, supply):
        whole = split_name(pool.gpu.name) is None
        wire = wire_given(workload, pool.gpu, pool.per_node) or usual_wire(
            pool.gpu, pool.per_node, f"the usual network of a {pool.gpu.name}: your own is not known"
        )
        cost = pool.node.usd_per_h if pool.node else None
        yield NodeType(pool.gpu, pool.per_node, pool.nvlink, pool.most, wire, usd_per_gpu_h=cost, owned=pool.node, largest=whole)


def _unquoted(
    gpu: Gpu, sizes: Sequence[int], workload: Workload, most: int, price: float | None, *, left_out: bool
) -> Iterator[NodeType]:
    """Nodes at the user's price, or of a GPU that nobody rents out, or nobody whom the filters let pass."""
    why = "no provider in the catalogue rents it out" if price is None else "the price is your own"
    for size in sizes:
        wire = wire_given(workload, gpu, size) or usual_wire(gpu, size, f"the usual network of a {gpu.name}: {why}")
        if workload.max_nodes is not None:
            most = min(most, workload.max_nodes * size)
        yield NodeType(gpu, size, None, most, wire, usd_per_gpu_h=price, largest=size == sizes[-1], left_out=left_out)


def _quoted(gpu: Gpu, by_size: dict[int, list[Quote]], workload: Workload, most: int) -> Iterator[NodeType]:
    """Nodes of each size, link and network that are worth considering because of one of their quotes."""
    memory = workload.offload not in {None, "none"}
    joined = [size for size, quotes in by_size.items() if any(quote.cluster > 1 for quote in quotes)]
    for size in sorted(by_size):
        linked: dict[bool, list[Quote]] = defaultdict(list)
        for quote in sorted(by_size[size], key=lambda quote: (quote.usd_per_h, quote.offer.provider)):
            linked[_nvlink(gpu, quote)].append(quote)
        for nvlink, quotes in linked.items():
            rivals = [*quotes, *(linked.get(True, ()) if not nvlink else ())]
            worth = [quote for place, quote in enumerate(quotes) if not _covered(quote, place, rivals, memory=memory)]
            for wire in dict.fromkeys((quote.wire.kind, quote.wire.bytes_per_s) for quote in worth):
                over = [quote.over(wire) for quote in quotes]
                kept = [quote for place, quote in enumerate(over) if not _covered(quote, place, over, memory=memory)]
                first = next(quote for quote in worth if (quote.wire.kind, quote.wire.bytes_per_s) == wire)
                yield NodeType(
                    gpu,
                    size,
                    first.offer.nvlink,
                    most,
                    first.wire,
                    quotes=tuple(kept),
                    others=tuple(quotes),
                    largest=size == max(joined, default=max(by_size)),
                )


def _nvlink(gpu: Gpu, quote: Quote) -> bool:
    return link_of(gpu, None, nvlink=quote.offer.nvlink)[0] == "nvlink"


def _covered(quote: Quote, place: int, rivals: Sequence[Quote], *, memory: bool) -> bool:
    """True if another of `rivals` makes `quote` pointless; of equal ones the first stays."""
    return any(
        rival.covers(quote, memory=memory) and (number < place or not quote.covers(rival, memory=memory))
        for number, rival in enumerate(rivals)
        if rival is not quote
    )
