"""Today's rental prices, fetched from a public catalogue into the user's folder of offers."""

from __future__ import annotations

import contextlib
import datetime as dt
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from planner.durable import WriteResult
from planner.errors import Problem, UserError, nearest_names
from planner.hardware.catalogue.gpus import GpuCatalogue
from planner.hardware.prices.catalogue import CataloguedProvider, PriceCatalogue, catalogued_offers
from planner.hardware.prices.catalogue_rows import UnusablePrices
from planner.hardware.prices.fetch import TIMEOUT_S, TOTAL_S, Fetched, fetch_each
from planner.hardware.prices.offers import Change, Offer, changes, is_refreshed, write_offers
from planner.reading import kind_of, user_path
from planner.web import reason_of

LEAST_SHARE = 0.5
"""Smallest share of the GPUs priced now that new prices have to cover: a file that was cut short does not show the market."""

State = Literal["written", "would be written", "older", "own file", "failed", "not kept"]


class Refreshed(msgspec.Struct, frozen=True, kw_only=True):
    """Outcome for one provider's prices."""

    provider: str
    url: str
    state: State
    detail: str = ""
    """Reason why nothing was written, and which offers stay in use; empty if something was written."""
    as_of: str | None = None
    """ISO date of the prices: of the file where its server states it, else of the day it was read."""
    file: str | None = None
    """Path that they were, or would be, written to."""
    offers: int = 0
    kept: int = 0
    """Number of shipped offers that are kept, for tiers that the catalogue does not list."""
    changes: tuple[Change, ...] = ()
    unknown: dict[str, int] = {}
    """Accelerator without a known part -> number of instances left out."""
    unusable: tuple[str, ...] = ()
    """Lines that could not be read."""


class OfferFolder(msgspec.Struct, frozen=True):
    """Existing offers, and the folder for new ones."""

    shipped: Sequence[Offer]
    current: Sequence[Offer]
    """Offers in use: shipped ones, or the user's in their place."""
    folder: Path
    gpus: GpuCatalogue
    fewer: bool = False
    """Whether to accept prices that leave out most GPUs."""


def chosen_providers(catalogue: PriceCatalogue, names: Sequence[str]) -> tuple[CataloguedProvider, ...]:
    """Providers with these names; without names, all that are regenerated daily. Raises `UserError`."""
    if not names:
        return tuple(one for one in catalogue.provider if not one.kept_by_hand)
    by_name = {name.casefold(): one for one in catalogue.provider for name in (one.cloud, one.provider)}
    known = sorted({one.provider for one in catalogue.provider})
    problems = [
        Problem(
            "--provider", "", f"{name!r} is not in the {catalogue.name}; in it: {', '.join(known)}.", nearest_names(name, known)
        )
        for name in names
        if name.casefold() not in by_name
    ]
    if problems:
        raise UserError(problems)
    chosen = {by_name[name.casefold()].cloud: by_name[name.casefold()] for name in names}
    return tuple(chosen.values())


def base_url(source: str | None, catalogue: PriceCatalogue) -> str:
    """`source` (a URL or a local folder) as the URL of the catalogue's folder; None: the catalogue's own. Raises `UserError`."""
    if source is None:
        return catalogue.base
    with contextlib.suppress(ValueError):  # no address: 'http://['
        if urlsplit(source).scheme in {"http", "https", "file"}:
            return source.rstrip("/")
    folder = user_path(source)
    if kind_of(folder) == stat.S_IFDIR:
        return folder.resolve().as_uri()
    raise UserError(Problem("--source", "", f"{source!r} is neither a folder nor an http://, https:// or file:// URL."))


def refresh(
    providers: Sequence[CataloguedProvider],
    catalogue: PriceCatalogue,
    base: str,
    destination: OfferFolder,
    *,
    today: dt.date,
    dry_run: bool = False,
    timeout_s: float = TIMEOUT_S,
    within_s: float = TOTAL_S,
) -> Iterator[Refreshed]:
    """Fetch and write the offers of `providers`, each when its file arrives; a failure keeps that provider's offers.

    `timeout_s` limits each file, `within_s` all of them together.
    """
    bases = [base, *([catalogue.mirror] if catalogue.mirror and base == catalogue.base else [])]
    addresses = [[f"{one}/{provider.cloud}/vms.csv" for one in bases] for provider in providers]
    for number, fetched in fetch_each(addresses, timeout_s, within_s):
        provider = providers[number]
        try:
            if isinstance(fetched, Exception):
                raise fetched
            yield _refreshed(provider, catalogue, fetched, destination, today=today, dry_run=dry_run)
        except UnusablePrices as wrong:
            in_use = [offer for offer in destination.current if offer.provider == provider.provider]
            yield Refreshed(
                provider=provider.provider, url=addresses[number][0], state="failed", detail=f"{wrong}; {_stays(in_use)}"
            )


def _refreshed(
    provider: CataloguedProvider,
    catalogue: PriceCatalogue,
    fetched: Fetched,
    destination: OfferFolder,
    *,
    today: dt.date,
    dry_run: bool,
) -> Refreshed:
    """Read the fetched file, compare it with the offers in use, and write it unless there is a reason not to."""
    as_of = min(fetched.modified or today, today).isoformat()
    source = f"{catalogue.name}, {fetched.url}, {_date_text(provider, fetched, today)}"
    read = catalogued_offers(
        fetched.text, provider, catalogue, destination.gpus, known=destination.shipped, as_of=as_of, source=source
    )
    path = destination.folder / f"{provider.provider}.toml"
    outcome = Refreshed(
        provider=provider.provider,
        url=fetched.url,
        state="failed",
        as_of=as_of,
        file=str(path),
        offers=len(read.offers),
        unknown=dict(read.unknown.most_common()),
        unusable=tuple(read.unusable),
    )
    in_use = [offer for offer in destination.current if offer.provider == provider.provider]
    if not read.offers:
        return msgspec.structs.replace(outcome, detail=f"holds no offer of a known GPU; {_stays(in_use)}")
    if fetched.modified and any(_later(offer.as_of, as_of) for offer in in_use):
        return msgspec.structs.replace(outcome, state="older", detail=f"is of {as_of}; {_stays(in_use)}")
    if path.exists() and not is_refreshed(path):
        return msgspec.structs.replace(
            outcome, state="own file", detail=f"{path} is your own and stays; move it away to use the catalogue's"
        )
    kept = _other_tiers(provider, destination.shipped, read.offers)
    if not destination.fewer and (missing := _missing(in_use, [*read.offers, *kept])):
        return msgspec.structs.replace(outcome, detail=f"{missing}; --fewer accepts it anyway; {_stays(in_use)}")
    outcome = msgspec.structs.replace(
        outcome,
        state="would be written" if dry_run else "written",
        kept=len(kept),
        changes=tuple(changes(in_use, [*read.offers, *kept])),
    )
    if not dry_run:
        try:
            result = write_offers(path, [*read.offers, *kept], destination.gpus)
        except UserError as error:
            result = WriteResult(path, f"cannot be written: {reason_of(error)}")
        if not result.kept:
            return msgspec.structs.replace(outcome, state="not kept", detail=f"{path} {result.reason}; {_stays(in_use)}")
    return outcome


def _date_text(provider: CataloguedProvider, fetched: Fetched, today: dt.date) -> str:
    if fetched.modified:
        return f"last changed {fetched.modified}, read {today}"
    return f"read {today}" + ("; kept by hand there, its own date is not stated" if provider.kept_by_hand else "")


def _missing(in_use: Iterable[Offer], new: Iterable[Offer]) -> str:
    """Shortfall of `new` offers compared with the market in `in_use`; empty if there is none."""
    before, now = {offer.gpu for offer in in_use}, {offer.gpu for offer in new}
    if len(before & now) >= LEAST_SHARE * len(before):
        return ""
    return f"has offers of {len(before & now)} of the {len(before)} GPUs there are prices of, which looks like part of a file"


def _stays(in_use: Sequence[Offer]) -> str:
    if not in_use:
        return "there are no offers of it"
    return f"its {len(in_use)} offers of {max(offer.as_of for offer in in_use)} stay"


def _later(as_of: str, than: str) -> bool:
    return as_of.count("-") == 2 and as_of > than


def _other_tiers(provider: CataloguedProvider, shipped: Iterable[Offer], read: Iterable[Offer]) -> list[Offer]:
    """Shipped offers of tiers that the provider has but the catalogue does not list today."""
    listed = {offer.tier for offer in read}
    missing = set(provider.tiers.values()) - listed
    return [offer for offer in shipped if offer.provider == provider.provider and offer.tier in missing]
