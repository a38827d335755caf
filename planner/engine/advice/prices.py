"""Price of one GPU of each kind for an hour, in each market."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from planner.engine.evaluate.offer_prices import cheapest_single_gpus
from planner.hardware.prices.offers import Offer
from planner.workload.tasks import Term


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


def quotes(offers: Sequence[Offer], market: Term = "on-demand", providers: Sequence[str] = ()) -> dict[str, Quote]:
    """GPU -> its cheapest offer of a single GPU, or where there is none the cheapest share of a larger instance.

    `providers` restricts the offers (empty: all); raises `UserError` for one that has none.
    """
    return {
        gpu: Quote(
            usd_per_h=price,
            market=market,
            provider=offer.provider,
            instance=offer.instance,
            region=offer.region,
            as_of=offer.as_of,
            source=offer.source,
            whole=offer.gpus,
        )
        for gpu, (price, offer) in cheapest_single_gpus(offers, market, providers).items()
    }
