"""Offers from the CSV of a public price catalogue: one offer per instance, GPU names looked up exactly, nothing guessed."""

from __future__ import annotations

import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from planner.errors import Problem, UserError
from planner.hardware.catalogue.gpus import Gpu, GpuCatalogue
from planner.hardware.catalogue.interconnects import on_baseboard
from planner.hardware.prices.catalogue_rows import Row, assembled, read_rows
from planner.hardware.prices.offers import Offer
from planner.reading import read_toml
from planner.schema import read_struct
from planner.units import GIB

FLAT = 0.005
"""Variation of spot ÷ list price between regions below which the spot price is a placeholder, not a market price."""


class CataloguedProvider(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One provider of the catalogue, and the meaning of its names."""

    cloud: str
    """Provider's folder in the catalogue."""
    provider: str
    """Provider's name among the offers."""
    home: str | None = None
    """Region whose price is used where the instance is offered there; None: the cheapest."""
    accelerators: dict[str, str] = {}
    """AcceleratorName -> GPU; has precedence over the table for all providers."""
    part: str | None = None
    """Regular expression of an instance's name, with the group `part`, and `tier` where the name states it."""
    parts: dict[str, str] = {}
    """Group `part`, alone or with the memory of one GPU ('RTX_4090 24GB') -> GPU; when given, AcceleratorName is not read."""
    tiers: dict[str, str] = {}
    """Group `tier` -> tier of the offer."""
    machines: dict[str, tuple[str, int]] = {}
    """Instance whose host (the name up to '+') and GPUs are priced in separate rows -> AcceleratorName and count of the GPUs."""
    memory_is_total: bool = False
    """True if GpuInfo states the memory of all GPUs together."""
    least_over_spot: float = 0.0
    """A list price below this multiple of the spot price is not an on-demand price, and its region is left out."""
    least_of_dearest: float = 0.0
    """A list price below this share of the most expensive region's is not an on-demand price, and its region is left out."""
    flat_spot_is_placeholder: bool = False
    """True if a spot price that is the same share of the list price in every region is ignored."""
    kept_by_hand: bool = False
    """True if the file is not regenerated daily; it is then read only when the provider is named."""
    note: str = ""


class PriceCatalogue(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Publisher of prices, and the meaning of its names."""

    name: str
    base: str
    """URL of the folder that holds one folder per provider."""
    mirror: str | None = None
    """A second URL, used where the first does not answer."""
    accelerators: dict[str, str]
    """AcceleratorName -> GPU, for names that mean one part at every provider."""
    asked: dict[str, str]
    """GPU -> accelerator name with which SkyPilot rents it."""
    provider: tuple[CataloguedProvider, ...]


class CataloguedOffers(msgspec.Struct):
    """Offers of one file, and the rows left out of it."""

    offers: list[Offer] = msgspec.field(default_factory=list)
    unknown: Counter[str] = msgspec.field(default_factory=Counter)
    """Accelerator without a known part -> number of instances left out."""
    unusable: list[str] = msgspec.field(default_factory=list)
    """Lines that could not be read, each with its number and the reason."""


def load_price_catalogue(path: Path, gpus: GpuCatalogue) -> PriceCatalogue:
    """Catalogue described in `path`; raises `UserError` with one problem per fault, including unknown GPUs."""
    catalogue = read_struct(PriceCatalogue, read_toml(path), str(path))
    problems = []
    tables = [catalogue.accelerators, *(table for one in catalogue.provider for table in (one.accelerators, one.parts))]
    meant = [*(pair for table in tables for pair in table.items()), *((name, gpu) for gpu, name in catalogue.asked.items())]
    for name, gpu in meant:
        try:
            gpus.find(gpu)
        except UserError as wrong:
            problems += [Problem(str(path), name, problem.message, problem.nearest) for problem in wrong.problems]
    if problems:
        raise UserError(problems)
    return catalogue


def catalogued_offers(
    text: str,
    provider: CataloguedProvider,
    catalogue: PriceCatalogue,
    gpus: GpuCatalogue,
    *,
    known: Iterable[Offer],
    as_of: str,
    source: str,
) -> CataloguedOffers:
    """Offers in `text`; raises `UnusablePrices` for another table. `known` offers name the GPU of an instance."""
    found = CataloguedOffers()
    rows = list(read_rows(text, found.unusable))
    by_instance = {(offer.instance, offer.gpus): offer for offer in known if offer.provider == provider.provider}
    same: dict[tuple[str, str, int], list[Row]] = defaultdict(list)
    left_out: dict[str, set[str]] = defaultdict(set)
    for row in [*(row for row in rows if row.instance and row.accelerator), *assembled(rows, provider.machines)]:
        spelled, gpu = _part(row, provider, catalogue, by_instance)
        if gpu is None:
            left_out[spelled].add(row.instance)
        else:
            same[row.instance, gpus.find(gpu).name, int(row.gpus)].append(row)
    for row in rows:
        if not row.instance and row.accelerator and _named(row.accelerator, provider, catalogue) is None:
            left_out[row.accelerator].add("")
    found.unknown = Counter({name: len(instances) for name, instances in left_out.items()})
    for (_, name, _), regions in same.items():
        offer = _offer(regions, provider, gpus.find(name), by_instance, as_of, source)
        if offer is not None:
            found.offers.append(offer)
    return found


def _part(
    row: Row, provider: CataloguedProvider, catalogue: PriceCatalogue, by_instance: Mapping[tuple[str, int], Offer]
) -> tuple[str, str | None]:
    """(spelling of the GPU in `row`, the GPU it means); None: not known, or only a share of one."""
    if row.gpus < 1 or row.gpus != int(row.gpus):
        return f"{row.gpus:g} of {row.accelerator}", None
    if provider.parts:
        spelled = _group(row, provider, "part") or row.accelerator
        sized = f"{spelled} {memory}GB" if (memory := _memory_gib(row, provider)) else spelled
        gpu = provider.parts.get(sized) or provider.parts.get(spelled)
        return (spelled if gpu else sized), gpu
    gpu = _named(row.accelerator, provider, catalogue)
    if gpu is None and (offer := by_instance.get((row.instance, int(row.gpus)))):
        gpu = offer.gpu
    return row.accelerator, gpu


def _named(accelerator: str, provider: CataloguedProvider, catalogue: PriceCatalogue) -> str | None:
    return provider.accelerators.get(accelerator) or catalogue.accelerators.get(accelerator)


def _group(row: Row, provider: CataloguedProvider, group: str) -> str | None:
    found = re.match(provider.part, row.instance) if provider.part else None
    return found.groupdict().get(group) if found else None


def _memory_gib(row: Row, provider: CataloguedProvider) -> int | None:
    """Memory of one GPU in whole GiB; GpuInfo is a Python literal or JSON."""
    found = re.search(r"""["']SizeInMiB["']\s*:\s*(\d{1,9})\b""", row.info)
    if found is None:
        return None
    return round(int(found[1]) / (row.gpus if provider.memory_is_total else 1) / 1024)


def _offer(
    rows: list[Row], provider: CataloguedProvider, gpu: Gpu, by_instance: Mapping[tuple[str, int], Offer], as_of: str, source: str
) -> Offer | None:
    """One instance in its home region, else in the cheapest; None if no region has a plausible price."""
    plausible = _plausible(rows, provider)
    priced = {row.region: row for row in sorted(plausible, key=lambda row: -(row.price or 0.0)) if row.price}
    region = _region(plausible, priced, provider.home)
    if region is None:
        return None
    first = priced.get(region) or next(row for row in plausible if row.region == region)
    placeholder = provider.flat_spot_is_placeholder and _flat_spot(plausible)
    spots = [row.spot for row in plausible if row.region == region and row.spot and (row.price is None or row.spot < row.price)]
    spots = [] if placeholder else spots
    if first.price is None and not spots:
        return None
    prices = [row.price for row in priced.values() if row.price]
    count = int(first.gpus)
    shipped = by_instance.get((first.instance, count))
    shipped = shipped if shipped and shipped.gpu == gpu.name else None
    return Offer(
        provider=provider.provider,
        instance=first.instance,
        gpu=gpu.name,
        gpus=count,
        vcpus=first.vcpus or None,
        memory_bytes=round(first.memory_gib * GIB) if first.memory_gib else None,
        region="all" if provider.home is None and len(priced) > 1 and min(prices) == max(prices) else region,
        on_demand_usd_per_h=first.price,
        spot_usd_per_h=round(statistics.median(spots), 6) if spots else None,
        reserved_1y_usd_per_h=shipped.reserved_1y_usd_per_h if shipped else None,
        reserved_3y_usd_per_h=shipped.reserved_3y_usd_per_h if shipped else None,
        tier=provider.tiers.get(_group(first, provider, "tier") or "", "on-demand"),
        nvlink=shipped.nvlink if shipped else _joined(gpu, count),
        regions=len({row.region for row in plausible}),
        on_demand_min_usd_per_h=min(prices, default=None),
        on_demand_max_usd_per_h=max(prices, default=None),
        as_of=as_of,
        source=source,
        note="; ".join(_notes(provider, rows, plausible, len(spots), shipped, placeholder=placeholder)),
    )


def _plausible(rows: list[Row], provider: CataloguedProvider) -> list[Row]:
    """Rows whose list price is not the price of a commitment."""
    dearest = max((row.price for row in rows if row.price), default=0.0)

    def of_a_commitment(row: Row) -> bool:
        least = max((row.spot or 0.0) * provider.least_over_spot, dearest * provider.least_of_dearest)
        return row.price is not None and row.price < least

    return [row for row in rows if not of_a_commitment(row)]


def _flat_spot(rows: list[Row]) -> bool:
    """True if the spot price is the same share of the list price in several regions."""
    shares = {row.region: row.spot / row.price for row in rows if row.spot and row.price}
    return len(shares) > 1 and max(shares.values()) - min(shares.values()) < FLAT


def _region(plausible: list[Row], priced: Mapping[str, Row], home: str | None) -> str | None:
    """Home region if it has a list price, else the cheapest with a list price, else the cheapest on the spot market."""
    if home in priced:
        return home
    if priced:
        return min(priced, key=lambda region: (priced[region].price or 0.0, region))
    spots = [(row.spot, row.region) for row in plausible if row.spot]
    return min(spots)[1] if spots else None


def _joined(gpu: Gpu, count: int) -> bool | None:
    if gpu.nvlink_bytes_per_s is None:
        return False
    return True if count > 1 and on_baseboard(gpu) else None


def _notes(
    provider: CataloguedProvider, rows: list[Row], plausible: list[Row], zones: int, shipped: Offer | None, *, placeholder: bool
) -> Iterator[str]:
    if provider.note:
        yield provider.note
    if dropped := {row.region for row in rows} - {row.region for row in plausible}:
        yield f"{len(dropped)} of {len({row.region for row in rows})} regions left out: their list price is that of a commitment"
    if placeholder:
        yield "the listed spot price, one share of the list in every region, is a placeholder and left out"
    if zones > 1:
        yield f"spot: median of {zones} zones"
    if shipped and (shipped.reserved_1y_usd_per_h or shipped.reserved_3y_usd_per_h):
        yield f"reserved prices as shipped, of {shipped.as_of}"
