"""Quotes for nodes: every offer on every allowed term, with its network and the number of nodes available."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import cached_property
from typing import NamedTuple, get_args

import msgspec
from msgspec.structs import replace

from planner.engine.evaluate.offer_prices import PRICE_FIELDS
from planner.engine.evaluate.task import Supply
from planner.errors import Problems, UserError, nearest_names
from planner.hardware.catalogue.gpus import Gpu
from planner.hardware.catalogue.interconnects import Fabric, fabric_kind, fabric_of, usual_fabric
from planner.hardware.prices.offers import Offer
from planner.hardware.prices.providers import GROUPS, NONE_SOLD, USUAL_NODES, Provider, nearest_providers
from planner.workload.tasks import ProviderKind, Term, Workload

UNLIMITED = 10**6
FABRICS = ("infiniband", "ethernet", "none")
"""Names of networks that a workload may give."""


class Wire(msgspec.Struct, frozen=True):
    """A kind of network between nodes."""

    fabric: str
    """Name on screen; `NONE_SOLD`: there is none."""
    kind: Fabric
    bytes_per_s: float
    """Per GPU and direction; 0: there is none."""
    basis: str
    """'published', 'given' or 'assumed'."""
    source: str = ""


class Quote(msgspec.Struct, frozen=True, dict=True):
    """One offer on one term, for a node of a given number of GPUs."""

    usd_per_h: float
    """Price of the node."""
    term: Term
    offer: Offer
    provider: Provider | None
    wire: Wire
    machines: int
    """Nodes that can be had at once, each working alone."""
    cluster: int
    """Nodes that can be joined; 1: they cannot be joined."""
    to_order: int
    """Nodes that anyone can order; more need a contract."""
    assumed: tuple[str, ...] = ()
    """Names of the fields that nobody publishes."""

    @cached_property
    def countries(self) -> list[str]:
        """Codes of the countries where the nodes may be, in order; kept, as the quotes are from plan to plan."""
        return sorted(self.provider.countries_of(self.offer.region)) if self.provider else []

    def over(self, wire: tuple[Fabric, float]) -> Quote:
        """Quote if nodes need this kind and rate of network: with any other network its nodes work alone."""
        return self if (self.wire.kind, self.wire.bytes_per_s) == wire else replace(self, cluster=1)

    def covers(self, other: Quote, *, memory: bool) -> bool:
        """True if `other` has no advantage: this quote is as fast, as large, as many and no dearer; `memory`: host memory is compared too."""
        return (
            self.term == other.term
            and self.usd_per_h <= other.usd_per_h
            and self.machines >= other.machines
            and self.cluster >= other.cluster
            and (other.cluster == 1 or self.wire.bytes_per_s >= other.wire.bytes_per_s)
            and (
                not memory or (self.offer.memory_bytes or 0) / self.offer.gpus >= (other.offer.memory_bytes or 0) / other.offer.gpus
            )
        )


def wire_given(workload: Workload, gpu: Gpu, size: int) -> Wire | None:
    """Network stated in the workload, for nodes of `size` GPUs; None if it states none."""
    if workload.fabric is None:
        return None
    if workload.fabric == "none":
        return Wire(NONE_SOLD, "ethernet", 0.0, "given")
    name, rate = fabric_of(gpu, workload.fabric, size)
    kind: Fabric = "ethernet" if workload.fabric == "ethernet" else "infiniband"
    return Wire(name, kind, rate, "given")


def usual_wire(gpu: Gpu, size: int, source: str) -> Wire:
    """Network that a GPU usually has, used where none is stated."""
    name, rate = fabric_of(gpu, None, size)
    return Wire(name, usual_fabric(gpu), rate, "assumed", source)


def quotes_of(workload: Workload, supply: Supply, considered: Collection[str]) -> Iterator[tuple[str, int, Quote]]:
    """(GPU, GPUs of a node, quote) of every offer of the GPUs `considered` (empty: all) that the workload admits, on every allowed term.

    Raises `UserError` for an unknown provider, kind, country or network.
    """
    check_supply_keys(workload, supply)
    terms: Sequence[Term] = get_args(Term) if workload.market == "any" else (workload.market,)
    for offer in supply.offers:
        if considered and offer.gpu not in considered:
            continue
        provider = supply.providers.get(offer.provider)
        if not admitted(offer, provider, workload):
            continue
        priced = [(term, price) for term in terms if (price := getattr(offer, PRICE_FIELDS[term])) is not None]
        size = offer.gpus
        while priced and size <= (offer.gpus_max or offer.gpus):
            gpu = supply.find_gpu(offer.gpu)
            reach = _reach(offer, supply, gpu, size, workload)
            for term, price in priced:
                yield offer.gpu, size, Quote(price * size / offer.gpus, term, offer, provider, *reach)
            size *= 2


class _Reach(NamedTuple):
    """Network and number of an offer's nodes, with the names of `Quote`."""

    wire: Wire
    machines: int
    cluster: int
    to_order: int
    assumed: tuple[str, ...]


def _reach(offer: Offer, supply: Supply, gpu: Gpu, size: int, workload: Workload) -> _Reach:
    """Nodes of `size` GPUs that `offer` has."""
    provider, known = supply.providers.get(offer.provider), supply.network_of(offer)
    whole = size == (offer.gpus_max or offer.gpus)
    assumed = []
    if offer.fabric is not None:
        rate = (offer.node_bytes_per_s or 0.0) / size
        wire = Wire(offer.fabric, fabric_kind(offer.fabric), rate, "published", offer.source)
    elif known is None:
        wire = usual_wire(gpu, size, f"the usual network of a {gpu.name}; {offer.provider}'s is not known")
    elif known.node_bytes_per_s is None or not whole:
        wire = Wire(NONE_SOLD, "ethernet", 0.0, "published", known.source)
    else:
        wire = Wire(
            known.fabric, fabric_kind(known.fabric), known.node_bytes_per_s / size, "published", f"{known.source} ({known.as_of})"
        )
    published = offer.most_nodes or (known.most_nodes if known else None) or (provider.most_nodes if provider else None)
    usual = USUAL_NODES[provider.kind_of(offer) if provider else "gpu-cloud"]
    if published is None:
        assumed.append("max_nodes")
    most = max(published or usual, (known.most_nodes_by_agreement if known else None) or 0)
    to_order = 0 if known and known.by_agreement_alone else published or usual
    if workload.max_nodes is not None:
        most = to_order = workload.max_nodes
        assumed = []
    wire = wire_given(workload, gpu, size) or wire
    if wire.basis == "assumed":
        assumed.append("fabric")
    return _Reach(wire, most, most if wire.bytes_per_s > 0 else 1, to_order, tuple(assumed))


def admitted(offer: Offer, provider: Provider | None, workload: Workload) -> bool:
    """True if `offer` passes the workload's filters; an unknown property of a provider does not pass."""
    w = workload
    kind = provider.kind_of(offer) if provider else None
    left_out = {name.casefold() for name in w.exclude}
    names = {offer.provider.casefold(), offer.gpu.casefold(), *([kind] if kind else [])}
    if names & left_out or any(fnmatchcase(offer.instance.casefold(), pattern) for pattern in left_out):
        return False
    if (w.providers and offer.provider not in w.providers) or (w.kinds and kind not in w.kinds):
        return False
    if w.regions and not any(fnmatchcase(offer.region, pattern) for pattern in w.regions):
        return False
    if w.countries and not (provider and provider.countries_of(offer.region) & countries_asked(workload)):
        return False
    held = {name.casefold() for name in provider.certifications} if provider else set()
    return all(name.casefold() in held for name in w.certifications)


def countries_asked(workload: Workload) -> frozenset[str]:
    """Codes of the requested countries, with groups expanded."""
    codes = (GROUPS.get(name.upper(), frozenset([name.upper()])) for name in workload.countries)
    return frozenset().union(*codes)


def check_supply_keys(workload: Workload, supply: Supply) -> None:
    """Raise `UserError` with every unknown name among the GPUs considered and the filters."""
    problems, offers, records = Problems(), supply.offers, supply.providers.values()
    for name in workload.gpus_considered:
        try:
            supply.find_gpu(name)
        except UserError as error:
            problems.found += [one._replace(key="gpus_considered") for one in error.problems]
    providers = {offer.provider for offer in offers}
    kinds: tuple[str, ...] = get_args(ProviderKind)

    def check(key: str, given: Sequence[str], known: set[str], what: str) -> None:
        for name in given:
            if name not in known:
                near = nearest_providers(name, known) if key == "providers" else nearest_names(name, known)
                problems.add(key, f"{name!r} is not a known {what}; known: {', '.join(sorted(known))}.", near)

    check("providers", workload.providers, providers, "provider")
    countries = {code for one in records for code in (*one.countries, *one.regions.values())} | {*GROUPS}
    unknown = [name for name in workload.countries if name.upper() not in countries]
    check("countries", unknown, countries, "country of a provider")
    held = {name.casefold(): name for one in records for name in one.certifications}
    check(
        "certifications", [held.get(name.casefold(), name) for name in workload.certifications], {*held.values()}, "certification"
    )
    instances = {offer.instance.casefold() for offer in offers}
    parts = {gpu.name.casefold() for gpu in supply.gpus}
    for name in workload.exclude:
        folded = name.casefold()
        if folded not in {*providers, *kinds, *parts} and not any(fnmatchcase(one, folded) for one in instances):
            known = sorted({*providers, *kinds, *(gpu.name for gpu in supply.gpus)})
            problems.add("exclude", f"{name!r} is not a known provider, kind, instance or GPU.", nearest_names(name, known))
    regions = {offer.region for offer in offers}
    for name in workload.regions:
        if not any(fnmatchcase(one, name) for one in regions):
            problems.add(
                "regions",
                f"{name!r} matches no region of an offer; there are {', '.join(sorted(regions))}.",
                nearest_names(name, regions),
            )
    if isinstance(workload.fabric, str) and workload.fabric not in FABRICS:
        words = " or ".join(FABRICS)
        problems.add(
            "fabric",
            f"{workload.fabric!r} is not accepted; it has to be {words}, or bytes/s.",
            nearest_names(workload.fabric, FABRICS),
        )
    problems.raise_if_any()
