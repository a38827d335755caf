"""Providers of GPUs: their kind, countries and terms, and the network between nodes of each instance type."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from planner.errors import Problem, nearest_names
from planner.numbers import Gpus, Name, Positive, Share

if TYPE_CHECKING:
    from planner.hardware.prices.offers import Offer

Kind = Literal["hyperscaler", "gpu-cloud", "marketplace", "peer-to-peer"]
"""'marketplace': data centres of others by auction; 'peer-to-peer': single hosts of private owners."""

NONE_SOLD = "none sold"
"""Name of the network of nodes that cannot be joined."""
USUAL_NODES: Mapping[Kind, int] = {"hyperscaler": 64, "gpu-cloud": 16, "marketplace": 8, "peer-to-peer": 4}
"""Nodes of one type assumed to be available at once; `max_nodes` of a provider's record replaces it."""
UNION = (
    "AT BE BG CY CZ DE DK EE ES FI FR GR HR HU IE IT LT LU LV MT NL PL PT RO SE SI SK".split()  # noqa: SIM905  # one line
)
"""Countries of the European Union, which the group 'EU' stands for; 'EEA' adds three."""
GROUPS: Mapping[str, frozenset[str]] = {"EU": frozenset(UNION), "EEA": frozenset([*UNION, "IS", "LI", "NO"])}


_CLOUDS = {"amazon": "aws", "google": "gcp", "microsoft": "azure"}
"""Company -> its cloud."""


def nearest_providers(name: str, known: Collection[str]) -> tuple[str, ...]:
    """Providers that an unknown `name` may mean."""
    cloud = _CLOUDS.get(name.casefold())
    return (cloud,) if cloud else nearest_names(name, known)


class NodeNetwork(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Network between nodes of some instance types."""

    instances: list[Name]
    """Names of instances, with * and ?."""
    fabric: Name
    """'InfiniBand', 'EFA', 'RoCE', 'Ethernet', …; `NONE_SOLD`: nodes cannot be joined."""
    node_bytes_per_s: Positive | None = None
    """Rate of all adapters of a node together, one direction."""
    most_nodes: Gpus | None = None
    """Nodes of one cluster that anyone can order; None: not published."""
    most_nodes_by_agreement: Gpus | None = None
    """Nodes of the largest cluster that the provider states it has rented out."""
    by_agreement_alone: bool = False
    """True if every node needs a contract to be ordered."""
    as_of: str
    source: str
    note: str = ""


class Provider(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Provider of GPUs, with its places and terms as far as they are known."""

    name: Name
    kind: Kind
    tier_kinds: dict[str, Kind] = {}
    """Tier of an offer -> its kind, where the provider has several."""
    countries: list[str] = []
    """ISO 3166 codes of the countries its data centres are in."""
    regions: dict[str, str] = {}
    """Region of an offer, with * and ? -> country."""
    certifications: list[Name] = []
    interruption_notice_s: Positive | None = None
    """Warning before a spot instance is taken away."""
    billing_s: Positive | None = None
    """Billing increment."""
    billing_minimum_s: Positive | None = None
    egress_usd_per_gb: float | None = None
    """Price of the first paid gigabyte to the internet."""
    most_nodes: Gpus | None = None
    """Nodes of one type that are reliably available at once, joined or not; None: the usual number of its kind."""
    reserved_1y_discount: Share | None = None
    """Advertised share of the on-demand price saved by a year's commitment; a committed price in an offer takes precedence."""
    reserved_3y_discount: Share | None = None
    commitment_note: str = ""
    network: list[NodeNetwork] = []
    """Networks by pattern; the first whose pattern matches an instance counts."""
    as_of: str
    source: str
    figure_sources: dict[str, str] = {}
    """Key -> its own source."""
    note: str = ""

    def kind_of(self, offer: "Offer") -> Kind:
        """Kind of `offer`, which may be that of its tier."""
        return self.tier_kinds.get(offer.tier, self.kind)

    def network_of(self, instance: str) -> NodeNetwork | None:
        """Network between nodes of `instance`; None if it is not known."""
        return next((one for one in self.network if any(matches(instance, name) for name in one.instances)), None)

    def countries_of(self, region: str) -> frozenset[str]:
        """Country of `region`; all countries of the provider where the offer names no single one; empty: not known."""
        for pattern, country in self.regions.items():
            if matches(region, pattern):
                return frozenset([country])
        return frozenset(self.countries) if region in {"any", "all"} else frozenset([region] if region in self.countries else [])


def matches(name: str, pattern: str) -> bool:
    """True if `name` matches `pattern`, in which * and ? stand for anything; most patterns have neither, or one * at their end."""
    prefix = pattern.removesuffix("*")
    if any(sign in prefix for sign in "*?["):
        return fnmatchcase(name, pattern)
    return name.startswith(prefix) if prefix != pattern else name == pattern


def load_providers(folder: Path) -> dict[str, Provider]:
    """Every provider of the optional `folder/*.toml` by name; raises `UserError` with one problem per fault."""
    from planner.hardware.catalogue.entries import read_catalogue

    return {one.name: one for one in read_catalogue(sorted(folder.glob("*.toml")), "provider", Provider, _faults)}


def _faults(read: Sequence[Provider], path: Path) -> Iterator[Problem]:
    seen: set[str] = set()
    for one in read:
        if one.name in seen:
            yield Problem(str(path), f"provider[{one.name}]", "is given twice.")
        seen.add(one.name)
        for code in (*one.countries, *one.regions.values()):
            if len(code) != 2 or not code.isupper():
                yield Problem(str(path), f"provider[{one.name}].countries", f"{code!r} is not an ISO 3166 code of two letters.")
        for network in one.network:
            if (network.fabric == NONE_SOLD) != (network.node_bytes_per_s is None):
                yield Problem(
                    str(path), f"provider[{one.name}].network", f"{network.fabric!r} and node_bytes_per_s contradict each other."
                )


def with_discounts(offers: Sequence["Offer"], providers: Mapping[str, Provider]) -> tuple["Offer", ...]:
    """`offers`, with the prices of commitments that follow from their provider's advertised discount and a note that states this."""
    return tuple(_discounted(offer, providers.get(offer.provider)) for offer in offers)


def _discounted(offer: "Offer", provider: Provider | None) -> "Offer":
    if provider is None or offer.on_demand_usd_per_h is None:
        return offer
    added = {}
    for years, discount in (("1y", provider.reserved_1y_discount), ("3y", provider.reserved_3y_discount)):
        field = f"reserved_{years}_usd_per_h"
        if discount is not None and getattr(offer, field) is None:
            added[field] = round(offer.on_demand_usd_per_h * (1 - discount), 6)
    if not added:
        return offer
    note = "; ".join(part for part in (offer.note, provider.commitment_note) if part)
    return msgspec.structs.replace(offer, **added, note=note, by_discount=sorted(added))
