"""Cheapest way to fill the needs of one pool, found exactly: every number of committed units is tried, and the rest follows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from planner.engine.procurement.portfolio.records import Pool, Source

INFINITE = math.inf


class Mix(NamedTuple):
    """Units taken from a pool, and their cost in dollars per month."""

    usd: float
    fixed: int
    bought: int
    hourly: tuple[int, ...]
    spot: tuple[int, ...]
    owned: tuple[int, ...]


def pool_cost(pool: Pool, hard: Sequence[int], soft: Sequence[int], weights: Sequence[float], most_bought: int = 0) -> Mix:
    """Cheapest mix for `hard` GPUs and `soft` ones that may be interrupted, in each class of hours; infinite if none is enough."""
    peak = max((a + b for a, b in zip(hard, soft, strict=True)), default=0)
    shares: dict[tuple[int, int], float] = {}
    for needs, weight in zip(zip(hard, soft, strict=True), weights, strict=True):
        shares[needs] = shares.get(needs, 0.0) + weight
    best = INFINITE, 0, 0
    for bought in range(_units(pool.bought, peak, most_bought) + 1):
        for fixed in range(_units(pool.fixed, peak, None) + 1):
            paid = _price(pool.fixed, fixed) + _price(pool.bought, bought)
            if paid >= best[0]:
                break
            hours = {needs: _hour(pool, *needs, fixed, bought) for needs in shares}
            best = min(best, (paid + sum(hours[needs].usd * share for needs, share in shares.items()), fixed, bought))
    usd, fixed, bought = best
    if usd == INFINITE:
        return Mix(usd, fixed, bought, (), (), ())
    hours = {needs: _hour(pool, *needs, fixed, bought) for needs in shares}
    taken = [hours[needs] for needs in zip(hard, soft, strict=True)]
    return Mix(usd, fixed, bought, *(tuple(getattr(one, kind) for one in taken) for kind in ("hourly", "spot", "owned")))


def _units(source: Source | None, peak: int, most: int | None) -> int:
    units = math.ceil(peak / source.gpus) if source else 0
    return units if most is None else min(units, most)


class _Hour(NamedTuple):
    """Units for an hour in addition to those paid for anyway, and the cost of a month of such hours; infinite if none are enough."""

    usd: float
    hourly: int = 0
    spot: int = 0
    owned: int = 0


def _hour(pool: Pool, firm: int, loose: int, fixed: int, bought: int) -> _Hour:
    """Units that are paid for anyway first, then owned ones, then by the hour, with spot for the interruptible part of `loose`."""
    there = (pool.fixed.gpus * fixed if pool.fixed else 0) + (pool.bought.gpus * bought if pool.bought else 0)
    own = min(pool.owned, max(0, firm + loose - there))
    firm, needed = max(0, firm - there - own), max(0, firm + loose - there - own)
    rented = [
        _Hour(_price(pool.hourly, hourly) + _price(pool.spot, spot) + own * pool.owned_usd_per_month, hourly, spot, own)
        for hourly, spot in _rented(pool, firm, needed)
    ]
    return min(rented, key=lambda one: one.usd, default=_Hour(INFINITE))


def _rented(pool: Pool, firm: int, needed: int) -> Iterator[tuple[int, int]]:
    """Units by the hour and on spot with at least `firm` lasting GPUs and `needed` in total; none if there are none to rent."""
    if needed == 0:
        yield 0, 0
    elif pool.hourly is not None:
        most = math.ceil(needed / pool.hourly.gpus)
        yield most, 0
        if pool.spot is not None:
            for hourly in range(math.ceil(firm / pool.hourly.gpus), most):
                yield hourly, math.ceil(max(0, needed - hourly * pool.hourly.gpus) / pool.spot.gpus)
    elif firm == 0 and pool.spot is not None:
        yield 0, math.ceil(needed / pool.spot.gpus)


def _price(source: Source | None, units: int) -> float:
    return source.usd_per_month * units if source is not None else 0.0
