"""Parameters of the timing formulas from the measured points of one device.

Spreads are half widths of a 90 % range of the logarithm. A spread without a source is a judgement of how much a
single kind of point can show, not a fit; a wider spread makes ranges wider and gives other sources more weight.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from planner.hardware.ceilings.ceilings import Ceiling, TrainPoint

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from planner.hardware.ceilings.ceilings import Basis, Ceilings
    from planner.hardware.measurements.measurement import Measurement

WEAK_SPREADS = {"unstable": 0.35, "throttled": 0.35, "shared": 0.7}
"""Spread of a disturbed point by its status; such a point is used only where less is known without it."""
LEAST_SPREAD = 0.05
"""Difference between two measurements of the same board an hour apart."""
ELSEWHERE_SPREAD = 0.10
"""Difference between two boards of the same part in different hosts: two published campaigns on the same six parts differ by a median of 4-9.5 % a shape."""
NORMAL_90, NORMAL_95 = 1.645, 1.960
"""Half widths of the 90 % and 95 % ranges of a normal distribution, in standard deviations."""
COMPUTE_BOUND = 0.5
"""A product shows the compute rate when arithmetic is at least this share of its time (to the power p)."""
COPY_READ_MOST = 1.5
"""Reading alone may beat a copy by this much: on a CPU a copy also fetches what it overwrites."""
NONE_LARGE_SPREAD = 0.3
"""Spread of a compute rate where arithmetic dominates in no product: the fastest product is used, and may be far below."""
LATENCY_MOST = 0.5
"""Largest share of a vector product's time that is attributed to the launch of its kernel."""
ONE_KIND_SPREAD = 0.1
"""Spread of a bandwidth or a latency that only one kind of point shows."""
DISAGREEMENT = 0.25
"""Spread of the bandwidth for each e-fold by which the best vector product and the copy differ."""
KNEE_PRIOR_SPREAD = 0.35
KNEE_FIT_POINTS = 5
"""Fewer products do not show how compute and memory times add up."""
KNEE_STEPS = tuple(index / 20 for index in range(-14, 15))
"""Logarithms of knee ÷ usual knee that are tried: two prior spreads to either side."""
CONTEXT_POINT, SLACK_POINT = "memory/context", "memory/slack"
"""Bytes a process takes before its first tensor; bytes the allocator keeps and does not use in a training step."""
SLACK_FLOOR = 1e-3
"""Share of what is allocated that stands for an allocator that keeps nothing back."""
SLACK_SPREAD = 0.3
"""Spread of applying the share kept back in one training step to other jobs."""
MODEL_ERROR = 0.08
"""Error of the formula for one product."""


@dataclass(frozen=True, slots=True)
class MeasuredFigures:
    """Ceilings that the points of one device show; None or missing where they show nothing."""

    compute_flop_per_s: dict[str, Ceiling] = field(default_factory=dict)
    bandwidth_bytes_per_s: Ceiling | None = None
    weight_bandwidth_bytes_per_s: dict[str, Ceiling] = field(default_factory=dict)
    kernel_latency_s: Ceiling | None = None
    launch_s: Ceiling | None = None
    knee: float | None = None
    train_points: tuple[TrainPoint, ...] = ()
    context_bytes: Ceiling | None = None
    allocator_slack: Ceiling | None = None


@dataclass(frozen=True, slots=True)
class Product:
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


def figures_of(points: Iterable[Measurement], prior: Ceilings) -> MeasuredFigures:
    """The figures that `points`, all of one device, show; `prior` gives what a formula needs and no point shows."""
    usable = [one for one in points if one.value and (one.reliable or one.status in WEAK_SPREADS)]
    kernel = _latency(usable, "launch/kernel", prior.kernel_latency_s)
    weights, bandwidth = _bandwidths(usable, kernel or prior.kernel_latency_s, prior)
    latency_s = (kernel or prior.kernel_latency_s).value
    bytes_per_s = (bandwidth or prior.bandwidth_bytes_per_s).value
    gemms = {
        dtype: _preferred([one for one in usable if one.kind == "gemm" and one.dtype == dtype])
        for dtype in sorted({one.dtype for one in usable if one.kind == "gemm" and one.dtype})
    }
    products = {dtype: products_of(found) for dtype, found in gemms.items()}
    knee = _fitted_knee(max(products.values(), key=len, default=[]), latency_s, bytes_per_s, prior.knee)
    compute = {}
    for dtype, found in products.items():
        ceiling = rate_of_products(found, latency_s, bytes_per_s, knee or prior.knee, gemms[dtype])
        if ceiling is not None and _counts(ceiling, prior.compute_flop_per_s.get(dtype), gemms[dtype]):
            compute[dtype] = ceiling
    return MeasuredFigures(
        compute_flop_per_s=compute,
        bandwidth_bytes_per_s=bandwidth,
        weight_bandwidth_bytes_per_s=weights,
        kernel_latency_s=kernel,
        launch_s=_latency(usable, "launch/eager", prior.launch_s),
        knee=knee,
        train_points=_train_points(usable),
        context_bytes=_context_bytes(usable),
        allocator_slack=_allocator_slack(usable),
    )


def spread_of(point: Measurement) -> float:
    """Half width of the 90 % range of one point, by its 95 % interval and its status."""
    interval = 0.0
    if point.value and point.low and point.high:
        interval = math.log(point.high / point.low) / 2 * NORMAL_90 / NORMAL_95
    board = LEAST_SPREAD if point.origin == "own" else math.hypot(LEAST_SPREAD, ELSEWHERE_SPREAD)
    return math.hypot(max(interval, 0.0), board, WEAK_SPREADS.get(point.status, 0.0))


def basis_of(points: Iterable[Measurement]) -> Basis:
    """'measured' where own points are among them, 'public' where all come from other machines."""
    return "measured" if any(one.origin == "own" for one in points) else "public"


def source_of(points: Sequence[Measurement], what: str) -> str:
    """What a figure rests on, in words."""
    return f"benchmark: {what}" if basis_of(points) == "measured" else f"benchmark on another machine: {what}"


def ceiling_from(point: Measurement, value: float, spread: float = 0.0) -> Ceiling:
    """`value` as a ceiling that rests on one point; `spread` is what the formula adds to that of the point."""
    return Ceiling(value, math.hypot(spread_of(point), spread), basis_of([point]), source_of([point], point.point))


def products_of(points: Iterable[Measurement]) -> list[Product]:
    """The points that say their FLOP, as products."""
    return [Product(one.flop, one.bytes or 0.0, one.flop / one.value, spread_of(one)) for one in points if one.flop and one.value]


def _preferred(points: Sequence[Measurement]) -> Sequence[Measurement]:
    """The undisturbed points, or all when there are none."""
    return [one for one in points if one.reliable] or points


def _counts(ceiling: Ceiling, prior: Ceiling | None, points: Iterable[Measurement]) -> bool:
    """Whether a measurement replaces `prior`: always when undisturbed, else where less was known without it."""
    return prior is None or any(one.reliable for one in points) or ceiling.spread < prior.spread


def rate_of_products(
    products: Sequence[Product], latency_s: float, bandwidth_bytes_per_s: float, knee: float, points: Sequence[Measurement] = ()
) -> Ceiling | None:
    """FLOP/s: geometric mean over the products that arithmetic dominates, weighted by FLOP, so that the most sustained ones lead.

    `points`: the measurements that the products are of. None without products.
    """
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


def _fitted_knee(products: Sequence[Product], latency_s: float, bandwidth_bytes_per_s: float, usual: float) -> float | None:
    """The p that fits the products best, held near the usual one; None when they are too few to say."""
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


def _bandwidths(points: Sequence[Measurement], latency: Ceiling, prior: Ceilings) -> tuple[dict[str, Ceiling], Ceiling | None]:
    """Rate per dtype of matrix-vector products, and the memory's: the best of those within what the copy allows."""
    copies = _preferred([one for one in points if one.kind == "copy" and one.parameters.get("cache") != "warm"])
    copy = max((one for one in copies if one.value), key=lambda one: one.value or 0.0, default=None)
    most = copy.value * COPY_READ_MOST if copy and copy.value else math.inf
    weights: dict[str, Ceiling] = {}
    for one in _preferred([one for one in points if one.kind == "gemv" and one.parameters.get("cache") != "warm"]):
        if not one.value or not one.bytes or not one.dtype:
            continue
        seconds = max(one.bytes / one.value - latency.value, (1 - LATENCY_MOST) * one.bytes / one.value)
        weights[one.dtype] = ceiling_from(one, min(one.bytes / seconds, most))
    if weights:
        best = max(weights.values(), key=lambda one: one.value)
        apart = DISAGREEMENT * abs(math.log(best.value / copy.value)) if copy and copy.value else ONE_KIND_SPREAD
        found = Ceiling(best.value, math.hypot(best.spread, apart), best.basis, best.source)
    elif copy and copy.value:
        found = ceiling_from(copy, copy.value, ONE_KIND_SPREAD)
    else:
        return {}, None
    streams = [one for one in points if one.kind in {"copy", "gemv"}]
    return (weights, found) if _counts(found, prior.bandwidth_bytes_per_s, streams) else ({}, None)


def _latency(points: Sequence[Measurement], point: str, prior: Ceiling) -> Ceiling | None:
    for one in _preferred([one for one in points if one.point == point]):
        if one.value:
            found = ceiling_from(one, one.value, ONE_KIND_SPREAD)
            return found if _counts(found, prior, [one]) else None
    return None


def _context_bytes(points: Sequence[Measurement]) -> Ceiling | None:
    """Memory of a process before its first tensor."""
    for one in points:
        if one.point == CONTEXT_POINT and one.kind == "memory" and one.value:
            return ceiling_from(one, one.value)
    return None


def _allocator_slack(points: Sequence[Measurement]) -> Ceiling | None:
    """What the allocator kept and did not use, as a share of what was allocated."""
    for one in points:
        allocated = one.parameters.get("allocated_bytes")
        if (
            one.point == SLACK_POINT
            and one.kind == "memory"
            and one.value
            and isinstance(allocated, (int, float))
            and allocated > 0
        ):
            return ceiling_from(one, max(one.value / allocated, SLACK_FLOOR), SLACK_SPREAD)
    return None


def _train_points(points: Sequence[Measurement]) -> tuple[TrainPoint, ...]:
    return tuple(
        TrainPoint(
            point=one.point,
            dtype=one.dtype or "",
            parameters=dict(one.parameters),
            flop_per_s=ceiling_from(one, one.value),
            step_s=one.flop / one.value if one.flop else None,
        )
        for one in points
        if one.kind == "train" and one.value
    )
