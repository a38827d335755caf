"""Prices of models that are sold by the token: `presets/api_prices/`, and the user's own files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from planner.errors import Problem, UserError, nearest_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

Rate = Annotated[float, Meta(ge=0, le=1e6)]


class ApiPrice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Price of one model at one provider, in dollars per million tokens."""

    name: str
    provider: str
    model: str = ""
    """Catalogue's name of the model; empty for a model that is only sold by the token."""
    input_usd_per_million: Rate
    cached_usd_per_million: Rate | None = None
    """Price of input in the provider's cache; None: billed as other input."""
    output_usd_per_million: Rate
    as_of: str
    """ISO date, or the part of it that the source states."""
    source: str
    note: str = ""

    def request_usd(self, input_tokens: float, cached_tokens: float, output_tokens: float) -> float:
        """Dollars of one request; `cached_tokens` are included in `input_tokens`."""
        cached = self.input_usd_per_million if self.cached_usd_per_million is None else self.cached_usd_per_million
        fresh = max(0.0, input_tokens - cached_tokens)
        return (fresh * self.input_usd_per_million + cached_tokens * cached + output_tokens * self.output_usd_per_million) / 1e6


def load_api_prices(folder: Path, own: Path) -> tuple[ApiPrice, ...]:
    """Prices of the optional folder `own`, then the shipped ones; raises `UserError` with one problem per fault."""
    from planner.hardware.catalogue.entries import catalogue_files, read_catalogue
    from planner.reading import toml_files

    theirs = read_catalogue(toml_files(own), "price", ApiPrice, _given_twice)
    taken = {(price.provider, price.name) for price in theirs}
    shipped = read_catalogue(catalogue_files(folder), "price", ApiPrice, _given_twice)
    return (*theirs, *(price for price in shipped if (price.provider, price.name) not in taken))


def api_price(prices: Sequence[ApiPrice], name: str) -> ApiPrice:
    """Price called `name`, by its own name or 'provider/name', in any letter case; raises `UserError` with the nearest names."""
    for price in prices:
        if name.casefold() in {price.name.casefold(), f"{price.provider}/{price.name}".casefold()}:
            return price
    known = [price.name for price in prices]
    raise UserError(Problem("--api", "", f"{name!r} is not in the table of API prices.", nearest_names(name, known)))


def price_of_model(prices: Sequence[ApiPrice], model: str) -> ApiPrice | None:
    """Cheapest price of the catalogue's `model`, weighing three parts of input and one of output; None where nobody sells it."""
    known = [price for price in prices if price.model == model]
    return min(known, key=lambda price: 3 * price.input_usd_per_million + price.output_usd_per_million, default=None)


def _given_twice(prices: Sequence[ApiPrice], path: Path) -> Iterator[Problem]:
    seen: set[tuple[str, str]] = set()
    for price in prices:
        if (price.provider, price.name) in seen:
            yield Problem(str(path), f"price[{price.name}]", f"is given twice for {price.provider}.")
        seen.add((price.provider, price.name))
