"""The difference between two sets of offers: which were added, which are gone, and by how much prices moved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec

from planner.hardware.prices.offers import Offer


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
    """The changes from `before` to `after`, by instance, GPU and tier; the largest relative change of price first."""

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
    """Relative change of the list price; None where one of the two is not known."""
    before, after = change.on_demand_before_usd_per_h, change.on_demand_usd_per_h
    return after / before - 1 if before and after else None
