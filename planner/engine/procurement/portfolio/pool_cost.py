"""The cheapest way to fill the needs of one pool, found exactly: what is committed to is tried in every number, the rest follows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import NamedTuple

from planner.engine.procurement.portfolio.records import Pool, Source

INFINITE = math.inf


class Mix(NamedTuple):
    """Units taken of a pool, and its cost in dollars a month."""

    usd: float
    fixed: int
    bought: int
    hourly: tuple[int, ...]
    spot: tuple[int, ...]
    owned: tuple[int, ...]


def pool_cost(pool: Pool, hard: Sequence[int], soft: Sequence[int], weights: Sequence[float], most_bought: int = 0) -> Mix:
    """The cheapest mix for `hard` GPUs and `soft` ones that may be interrupted, in each class of hours; infinite where none suffices."""
    peak = max((a + b for a, b in zip(hard, soft, strict=True)), default=0)
    rented = cache(partial(_rented, pool))  # most hours need what another one does
    best = Mix(INFINITE, 0, 0, (), (), ())
    for bought in range(_units(pool.bought, peak, most_bought) + 1):
        for fixed in range(_units(pool.fixed, peak, None) + 1):
            if _price(pool.fixed, fixed) + _price(pool.bought, bought) >= best.usd:
                break
            mix = _filled(pool, hard, soft, weights, fixed, bought, rented)
            best = min(best, mix, key=lambda one: one.usd)
    return best


def _units(source: Source | None, peak: int, most: int | None) -> int:
    units = math.ceil(peak / source.gpus) if source else 0
    return units if most is None else min(units, most)


Rented = tuple[int, int, float]
"""Units by the hour, units on spot, and dollars a month of both."""


def _filled(
    pool: Pool,
    hard: Sequence[int],
    soft: Sequence[int],
    weights: Sequence[float],
    fixed: int,
    bought: int,
    rented: Callable[[int, int], Rented | None],
) -> Mix:
    """The mix with so many units that are paid for anyway; then one's own, then by the hour, and on spot what may be interrupted."""
    there = (pool.fixed.gpus * fixed if pool.fixed else 0) + (pool.bought.gpus * bought if pool.bought else 0)
    usd = _price(pool.fixed, fixed) + _price(pool.bought, bought)
    hourly, spot, owned = list[int](), list[int](), list[int]()
    for firm, loose, weight in zip(hard, soft, weights, strict=True):
        own = min(pool.owned, max(0, firm + loose - there))
        found = rented(max(0, firm - there - own), max(0, firm + loose - there - own))
        if found is None:
            return Mix(INFINITE, fixed, bought, (), (), ())
        by_hour, by_spot, paid = found
        usd += weight * (paid + own * pool.owned_usd_per_month)
        hourly.append(by_hour)
        spot.append(by_spot)
        owned.append(own)
    return Mix(usd, fixed, bought, tuple(hourly), tuple(spot), tuple(owned))


def _rented(pool: Pool, firm: int, all_: int) -> Rented | None:
    """The units of `pool` that are rented for `firm` GPUs that stay and `all_` in all; None where there are none to rent."""
    options = []
    if pool.hourly is not None:
        least = math.ceil(firm / pool.hourly.gpus)
        options.append((math.ceil(all_ / pool.hourly.gpus), 0))
        if pool.spot is not None:
            most = math.ceil(all_ / pool.hourly.gpus)
            left = ((units, max(0, all_ - units * pool.hourly.gpus)) for units in range(least, most))
            options += [(units, math.ceil(rest / pool.spot.gpus)) for units, rest in left]
    elif firm == 0 and pool.spot is not None:
        options.append((0, math.ceil(all_ / pool.spot.gpus)))
    if all_ == 0:
        return 0, 0, 0.0
    priced = [(a, b, _price(pool.hourly, a) + _price(pool.spot, b)) for a, b in options]
    return min(priced, key=lambda one: one[2], default=None)


def _price(source: Source | None, units: int) -> float:
    return source.usd_per_month * units if source is not None else 0.0
