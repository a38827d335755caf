"""Compute rates from measured matrix products, by the product formula of `planner.hardware.ceilings.ceilings`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec

from planner.hardware.ceilings.ceilings import NORMAL_90, Ceiling, basis_of, source_of, spread_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from planner.hardware.measurements.measurement import Measurement

COMPUTE_BOUND = 0.5
"""Share of a product's time (to the power p) that arithmetic needs for the product to show the compute rate."""
NONE_LARGE_SPREAD = 0.3
"""Spread of a compute rate where arithmetic dominates in no product: the fastest product is used, and may be far below."""
KNEE_PRIOR_SPREAD = 0.35
KNEE_FIT_POINTS = 5
"""Products below which the knee cannot be fitted."""
KNEE_STEPS = tuple(index / 20 for index in range(-14, 15))
"""Logarithms of knee ÷ usual knee that are tried: two prior spreads in either direction."""
MODEL_ERROR = 0.08
"""Error of the formula for one product."""


class Product(msgspec.Struct, frozen=True):
    """One measured matrix product."""

    flop: float
    moved_bytes: float
    seconds: float
    spread: float

    def flop_per_s(self, latency_s: float, bandwidth_bytes_per_s: float, knee: float) -> float | None:
        """F that makes the formula give the measured time; None where memory or latency dominates the time."""
        work_s = self.seconds - latency_s
        if work_s <= 0:
            return None
        rest = work_s**knee - (self.moved_bytes / bandwidth_bytes_per_s) ** knee
        return self.flop / rest ** (1 / knee) if rest >= COMPUTE_BOUND * work_s**knee else None

    def error(self, flop_per_s: float, latency_s: float, bandwidth_bytes_per_s: float, knee: float) -> float:
        """ln(formula ÷ measured)."""
        work_s = ((self.flop / flop_per_s) ** knee + (self.moved_bytes / bandwidth_bytes_per_s) ** knee) ** (1 / knee)
        return math.log((latency_s + work_s) / self.seconds)


def products_of(points: Iterable[Measurement]) -> list[Product]:
    """Points that state their FLOP, as products."""
    return [Product(one.flop, one.bytes or 0.0, one.flop / one.value, spread_of(one)) for one in points if one.flop and one.value]


def rate_of_products(
    products: Sequence[Product], latency_s: float, bandwidth_bytes_per_s: float, knee: float, points: Sequence[Measurement] = ()
) -> Ceiling | None:
    """FLOP/s: geometric mean of the products limited by arithmetic, weighted by FLOP; None without any. `points`: measured ones."""
    rated = [(one, rate) for one in products if (rate := one.flop_per_s(latency_s, bandwidth_bytes_per_s, knee)) is not None]
    if not rated:
        best = max(products, key=lambda one: one.flop / one.seconds, default=None)
        if best is None:
            return None
        source = source_of(points, "fastest product (none large)")
        return Ceiling(best.flop / best.seconds, math.hypot(best.spread, NONE_LARGE_SPREAD), basis_of(points), source)
    total = sum(one.flop for one, _ in rated)
    mean = sum(one.flop * math.log(rate) for one, rate in rated) / total
    variance = sum(one.flop * (math.log(rate) - mean) ** 2 for one, rate in rated) / total
    own = sum(one.flop * one.spread for one, _ in rated) / total
    count = f"{len(rated)} large product" + ("s" if len(rated) > 1 else "")
    return Ceiling(math.exp(mean), math.hypot(own, NORMAL_90 * math.sqrt(variance)), basis_of(points), source_of(points, count))


def fitted_knee(products: Sequence[Product], latency_s: float, bandwidth_bytes_per_s: float, usual: float) -> float | None:
    """P that fits the products best, kept close to the usual one; None if there are too few products."""
    if len(products) < KNEE_FIT_POINTS:
        return None

    def misfit(step: float) -> float:
        knee = usual * math.exp(step)
        ceiling = rate_of_products(products, latency_s, bandwidth_bytes_per_s, knee)
        if ceiling is None:
            return math.inf
        errors = [one.error(ceiling.value, latency_s, bandwidth_bytes_per_s, knee) / MODEL_ERROR for one in products]
        return sum(abs(error) for error in errors) + (step / KNEE_PRIOR_SPREAD) ** 2 / 2

    return usual * math.exp(min(KNEE_STEPS, key=misfit))
