"""Rental offers: `presets/offers/` (one file per provider), replaced by the user's own files provider by provider; and changes between two sets."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from planner.durable import NotStoredError, WriteResult, refused, write_whole
from planner.errors import Problem, UserError
from planner.hardware.catalogue.gpus import GpuCatalogue
from planner.numbers import Gpus, Name, Positive
from planner.reading import open_file

Price = Positive | None
"""Price of the whole instance in US dollars an hour; None: not offered, or not known."""
MARK = "# Written by gpu-planner offers refresh"
"""First words of a file that may be replaced; a file without them was written by the user."""


class Offer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One instance type of one provider. Prices are of the whole instance."""

    provider: str
    instance: str
    gpu: str
    """Canonical GPU name."""
    gpus: Gpus
    gpus_max: Gpus | None = None
    """Priced per GPU and scalable up to this many in one host (pods, serverless); None: fixed size."""
    vcpus: Positive | None = None
    memory_bytes: Positive | None = None
    region: str
    on_demand_usd_per_h: Price = None
    spot_usd_per_h: Price = None
    reserved_1y_usd_per_h: Price = None
    reserved_3y_usd_per_h: Price = None
    tier: str = "on-demand"
    nvlink: bool | None = None
    """True if the GPUs of one instance are joined by NVLink or its equivalent; None: not stated."""
    regions: Gpus | None = None
    """Number of regions that offer it."""
    on_demand_min_usd_per_h: Price = None
    """Cheapest region."""
    on_demand_max_usd_per_h: Price = None
    fabric: Name | None = None
    """Network between nodes, where it is not that of the provider's record; see `providers.NodeNetwork`."""
    node_bytes_per_s: Price = None
    """Rate of all adapters of a node together, one direction."""
    most_nodes: Gpus | None = None
    """Nodes that can be had at once, where the number differs from the provider's record."""
    by_discount: list[Name] = []
    """Prices above that are calculated from the provider's advertised discount, instead of from a price list."""
    as_of: str
    """ISO date, or the year alone where the source states no more."""
    source: str
    note: str = ""

    @property
    def usd_per_gpu_h(self) -> float:
        """Price of one GPU for an hour, on demand or else on spot; infinite without one."""
        price = self.on_demand_usd_per_h or self.spot_usd_per_h
        return price / self.gpus if price else math.inf


def load_offers(folder: Path, gpus: GpuCatalogue) -> tuple[Offer, ...]:
    """Every offer of `folder/*.toml`, its GPU under the canonical name.

    Raises `UserError` with one problem per fault, over all files: unusable keys, unknown GPUs, an offer given twice.
    """
    from planner.hardware.catalogue.entries import catalogue_files

    return _offers_of(catalogue_files(folder), gpus)


def load_own_offers(folder: Path, gpus: GpuCatalogue) -> tuple[Offer, ...]:
    """Every offer of the user's folder, which may be absent or empty; see `load_offers`."""
    return _offers_of(sorted(folder.glob("*.toml")), gpus)


def with_own(shipped: tuple[Offer, ...], own: tuple[Offer, ...]) -> tuple[Offer, ...]:
    """Shipped offers, where those of every provider in `own` are replaced."""
    replaced = {offer.provider for offer in own}
    return (*(offer for offer in shipped if offer.provider not in replaced), *own)


def _offers_of(files: list[Path], gpus: GpuCatalogue) -> tuple[Offer, ...]:
    from planner.hardware.catalogue.entries import read_catalogue

    offers = read_catalogue(files, "offer", Offer, lambda read, path: _faults_of_offers(read, path, gpus))
    return tuple(_completed(offer, gpus) for offer in offers)


def _completed(offer: Offer, gpus: GpuCatalogue) -> Offer:
    """`offer` with the canonical GPU name, and no NVLink where the GPU has none."""
    gpu = gpus.find(offer.gpu)
    nvlink = False if gpu.nvlink_bytes_per_s is None else offer.nvlink
    if (gpu.name, nvlink) == (offer.gpu, offer.nvlink):
        return offer
    return msgspec.structs.replace(offer, gpu=gpu.name, nvlink=nvlink)


def _faults_of_offers(offers: Sequence[Offer], path: Path, gpus: GpuCatalogue) -> Iterator[Problem]:
    seen: set[tuple[str, ...]] = set()
    for offer in offers:
        where, key = str(path), f"offer[{offer.instance}]"
        try:
            gpu = gpus.find(offer.gpu)
        except UserError as error:
            yield from (Problem(where, f"{key}.gpu", problem.message, problem.nearest) for problem in error.problems)
            continue
        identity = (offer.provider, offer.instance, gpu.name, offer.region, offer.tier)
        if identity in seen:
            yield Problem(where, key, f"is given twice for {gpu.name} in {offer.region!r}, tier {offer.tier!r}.")
        seen.add(identity)
        if offer.gpus_max is not None and offer.gpus_max < offer.gpus:
            yield Problem(where, f"{key}.gpus_max", f"{offer.gpus_max} is less than gpus ({offer.gpus}).")


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One offer that was added, is gone or has another price. Prices are of the whole instance, in US dollars an hour."""

    kind: Literal["added", "gone", "changed"]
    instance: str
    gpu: str
    gpus: int
    tier: str
    on_demand_before_usd_per_h: float | None = None
    on_demand_usd_per_h: float | None = None
    spot_before_usd_per_h: float | None = None
    spot_usd_per_h: float | None = None


def changes(before: Iterable[Offer], after: Iterable[Offer]) -> Iterator[Change]:
    """Changes from `before` to `after`, by instance, GPU and tier; the largest relative change of price first."""

    def by_identity(offers: Iterable[Offer]) -> dict[tuple[str, str, int, str], Offer]:
        cheapest_last = sorted(offers, key=lambda offer: -(offer.on_demand_usd_per_h or 0.0))
        return {(offer.instance, offer.gpu, offer.gpus, offer.tier): offer for offer in cheapest_last}

    old, new = by_identity(before), by_identity(after)
    found = []
    for identity in sorted({*old, *new}):
        was, now = old.get(identity), new.get(identity)
        instance, gpu, gpus, tier = identity
        change = Change(
            kind="added" if was is None else "gone" if now is None else "changed",
            instance=instance,
            gpu=gpu,
            gpus=gpus,
            tier=tier,
            on_demand_before_usd_per_h=was.on_demand_usd_per_h if was else None,
            on_demand_usd_per_h=now.on_demand_usd_per_h if now else None,
            spot_before_usd_per_h=was.spot_usd_per_h if was else None,
            spot_usd_per_h=now.spot_usd_per_h if now else None,
        )
        if was is None or now is None or _prices(was) != _prices(now):
            found.append(change)
    yield from sorted(found, key=lambda change: (change.kind != "changed", change.kind, -abs(share_of_change(change) or 0.0)))


def _prices(offer: Offer) -> tuple[float | None, float | None]:
    return offer.on_demand_usd_per_h, offer.spot_usd_per_h


def share_of_change(change: Change) -> float | None:
    """Relative change of the list price; None if one of the two is not known."""
    before, after = change.on_demand_before_usd_per_h, change.on_demand_usd_per_h
    return after / before - 1 if before and after else None


def is_refreshed(path: Path) -> bool:
    """True if the file was written by `write_offers` and still has its mark."""
    try:
        with open_file(path) as file:
            return file.readline(len(MARK)) == MARK.encode()
    except (UserError, OSError):
        return False


def write_offers(path: Path, offers: Sequence[Offer], gpus: GpuCatalogue) -> WriteResult:
    """Replace the file, keeping the previous one as `.bak`. Raises `UserError` and changes nothing for unreadable offers."""
    try:
        before = path.read_bytes()
    except FileNotFoundError:
        before = b""
    except OSError as error:
        return refused(path, error)

    def accept(fresh: Path) -> None:
        _offers_of([fresh], gpus)
        if before:
            write_whole(path.with_suffix(".toml.bak"), before).require()

    try:
        return write_whole(path, as_toml(offers), accept)
    except NotStoredError as lost:
        return WriteResult(path, lost.problems[0].message.rstrip("."))


def as_toml(offers: Sequence[Offer]) -> str:
    """Offers as TOML, with keys that all of them share under [defaults]."""
    import tomlkit

    tables = [msgspec.to_builtins(offer) for offer in offers]
    tables = [{key: value for key, value in table.items() if value not in (None, [])} for table in tables]
    shared = ("provider", "region", "tier", "as_of", "source", "note")
    common = {key: Counter(table.get(key) for table in tables).most_common(1)[0] for key in shared}
    defaults = {key: value for key, (value, times) in common.items() if value and times == len(tables)}

    def lines(table: dict[str, object]) -> list[str]:
        return [f"{key} = {tomlkit.item(value).as_string()}" for key, value in table.items() if value != ""]

    text = [f"{MARK}; the next one replaces it. Remove these words to keep it as your own.", ""]
    text += ["[defaults]", *lines(defaults)]
    for table in tables:
        text += ["", "[[offer]]", *lines({key: value for key, value in table.items() if key not in defaults})]
    return "\n".join(text) + "\n"
