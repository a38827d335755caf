"""What one GPU of each kind costs an hour now, in each market."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from planner.engine.search.node_types import check_providers
from planner.hardware.prices.offers import Offer
from planner.workload.tasks import Market

FIELDS: Mapping[Market, str] = {
    "on-demand": "on_demand_usd_per_h",
    "spot": "spot_usd_per_h",
    "reserved-1y": "reserved_1y_usd_per_h",
    "reserved-3y": "reserved_3y_usd_per_h",
}


class Quote(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The price of one GPU for an hour."""

    usd_per_h: float
    market: str
    provider: str
    """'you' for a price that was given."""
    instance: str = ""
    region: str = ""
    as_of: str = ""
    source: str = ""
    whole: int = 1
    """GPUs of the instance; more than one: the price is a share, and the instance is rented whole."""

    @property
    def text(self) -> str:
        """'2.35 $/h (vast-ai, on-demand)'."""
        share = f", a share of {self.whole}" if self.whole > 1 else ""
        return f"{self.usd_per_h:.2f} $/h ({self.provider}{'' if self.provider == 'you' else f', {self.market}'}{share})"


def quotes(offers: Iterable[Offer], market: Market = "on-demand", providers: Sequence[str] = ()) -> dict[str, Quote]:
    """GPU -> its cheapest offer of a single GPU, or where there is none the cheapest share of a larger instance.

    `providers` restricts the offers (empty: all); raises `UserError` for one that has none.
    """
    offers = list(offers)
    check_providers(providers, {offer.provider for offer in offers})
    found: dict[str, Quote] = {}
    for offer in offers:
        price = getattr(offer, FIELDS[market])
        if price is None or (providers and offer.provider not in providers):
            continue
        quote = Quote(
            usd_per_h=price / offer.gpus,
            market=market,
            provider=offer.provider,
            instance=offer.instance,
            region=offer.region,
            as_of=offer.as_of,
            source=offer.source,
            whole=offer.gpus,
        )
        known = found.get(offer.gpu)
        if known is None or (quote.whole > 1, quote.usd_per_h) < (known.whole > 1, known.usd_per_h):
            found[offer.gpu] = quote
    return found
