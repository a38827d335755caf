"""Parameters of the timing formulas from the measured points of one device.

A spread without a source is a judgement of how much a single kind of point can show, not a fit; a wider spread makes ranges wider
and gives other sources more weight.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec

from planner.hardware.catalogue.gpu import DTYPES
from planner.hardware.ceilings.ceilings import WEAK_SPREADS, Ceiling, Ceilings, TrainPoint, ceiling_from, replaces, undisturbed
from planner.hardware.ceilings.products import fitted_knee, products_of, rate_of_products

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from planner.hardware.measurements.measurement import Measurement

COPY_READ_MOST = 1.5
"""Largest ratio of reading to copying: on a CPU a copy also fetches the memory it overwrites."""
LATENCY_MOST = 0.5
"""Largest share of a vector product's time that is attributed to the launch of its kernel."""
ONE_KIND_SPREAD = 0.1
"""Spread of a bandwidth or a latency that only one kind of point shows."""
DISAGREEMENT = 0.25
"""Spread of the bandwidth for each e-fold by which the best vector product and the copy differ."""
CONTEXT_POINT, SLACK_POINT = "memory/context", "memory/slack"
"""Bytes a process takes before its first tensor; bytes the allocator keeps and does not use in a training step."""
SLACK_FLOOR = 1e-3
"""Slack, as a share of allocations, below which an allocator counts as keeping nothing."""
SLACK_SPREAD = 0.3
"""Spread of applying the share kept back in one training step to other jobs."""


class MeasuredFigures(msgspec.Struct, frozen=True):
    """Ceilings that follow from the points of one device; None or missing where none follows."""

    compute_flop_per_s: dict[str, Ceiling] = msgspec.field(default_factory=dict)
    bandwidth_bytes_per_s: Ceiling | None = None
    weight_bandwidth_bytes_per_s: dict[str, Ceiling] = msgspec.field(default_factory=dict)
    kernel_latency_s: Ceiling | None = None
    launch_s: Ceiling | None = None
    knee: float | None = None
    train_points: tuple[TrainPoint, ...] = ()
    context_bytes: Ceiling | None = None
    allocator_slack: Ceiling | None = None


def figures_of(points: Iterable[Measurement], prior: Ceilings, *, on_cpu: bool) -> MeasuredFigures:
    """Figures that follow from `points`, all of one device; `prior` supplies those that a formula needs and no point shows.

    `on_cpu`: the device is a processor, where the smallest operator shows the start-up time of any product, and its launch the
    host's part. On a GPU the former comes from the smallest product, the latter from a training step limited by its host.
    """
    usable = [one for one in points if one.value and (one.reliable or one.status in WEAK_SPREADS)]
    kernel = _latency(usable, "launch/kernel", prior.kernel_latency_s) if on_cpu else _product_latency(usable, prior)
    weights, bandwidth = _bandwidths(usable, kernel or prior.kernel_latency_s, prior)
    latency_s = (kernel or prior.kernel_latency_s).value
    bytes_per_s = (bandwidth or prior.bandwidth_bytes_per_s).value
    gemms = {
        dtype: undisturbed([one for one in usable if one.kind == "gemm" and one.dtype == dtype])
        for dtype in sorted({one.dtype for one in usable if one.kind == "gemm" and one.dtype in DTYPES})
    }
    products = {dtype: products_of(found if on_cpu else _cold(found)) for dtype, found in gemms.items()}
    solid = [products[dtype] for dtype, found in gemms.items() if all(one.reliable for one in found)]
    knee = fitted_knee(max(solid, key=len, default=[]), latency_s, bytes_per_s, prior.knee)
    compute = {}
    for dtype, found in products.items():
        ceiling = rate_of_products(found, latency_s, bytes_per_s, knee or prior.knee, gemms[dtype])
        if ceiling is not None and replaces(ceiling, prior.compute_flop_per_s.get(dtype), gemms[dtype]):
            compute[dtype] = ceiling
    return MeasuredFigures(
        compute_flop_per_s=compute,
        bandwidth_bytes_per_s=bandwidth,
        weight_bandwidth_bytes_per_s=weights,
        kernel_latency_s=kernel,
        launch_s=_latency(usable, "launch/eager", prior.launch_s) if on_cpu else None,
        knee=knee,
        train_points=_train_points([one for one in usable if one.reliable]),
        context_bytes=_context_bytes([one for one in usable if one.reliable]),
        allocator_slack=_allocator_slack([one for one in usable if one.reliable]),
    )


def _bandwidths(points: Sequence[Measurement], latency: Ceiling, prior: Ceilings) -> tuple[dict[str, Ceiling], Ceiling | None]:
    """Rate of matrix-vector products per dtype, and of the memory: the best of those that the measured copy allows.

    A disturbed copy does not limit undisturbed products.
    """
    cold = [one for one in points if one.parameters.get("cache") != "warm" and one.parameters.get("flush", "read") == "read"]
    gemvs = undisturbed([one for one in cold if one.kind == "gemv"])
    copies = undisturbed([one for one in cold if one.kind == "copy"])
    comparable = [one for one in copies if one.reliable or not any(gemv.reliable for gemv in gemvs)]
    copy = max((one for one in comparable if one.value), key=lambda one: one.value or 0.0, default=None)
    most = copy.value * COPY_READ_MOST if copy and copy.value else math.inf
    weights: dict[str, Ceiling] = {}
    for one in gemvs:
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
    return (weights, found) if replaces(found, prior.bandwidth_bytes_per_s, streams) else ({}, None)


def _latency(points: Sequence[Measurement], point: str, prior: Ceiling) -> Ceiling | None:
    for one in undisturbed([one for one in points if one.point == point]):
        if one.value:
            found = ceiling_from(one, one.value, ONE_KIND_SPREAD)
            return found if replaces(found, prior, [one]) else None
    return None


def _cold(products: Sequence[Measurement]) -> Sequence[Measurement]:
    """Products with operands from memory, without slow accumulation where the fast one was measured.

    Operands that stay in the cache make a short product up to 1.6 times faster than a model's.
    """
    fast = {one.dtype for one in products if one.parameters.get("accumulation") == "fast"}
    return [
        one
        for one in products
        if one.parameters.get("cache") != "warm" and (one.dtype not in fast or one.parameters.get("accumulation") == "fast")
    ]


def _product_latency(points: Sequence[Measurement], prior: Ceilings) -> Ceiling | None:
    """Time of the smallest product beyond its work; None where work is a large part of its time."""
    small = _cold(
        [one for one in points if one.reliable and one.kind == "gemm" and one.flop and one.dtype in prior.compute_flop_per_s]
    )
    one = min(small, key=lambda one: one.flop or math.inf, default=None)
    if one is None or not one.value or not one.flop or not one.dtype:
        return None
    seconds = one.flop / one.value
    moved_s = (one.bytes or 0.0) / prior.bandwidth_bytes_per_s.value
    work_s = ((one.flop / prior.compute_flop_per_s[one.dtype].value) ** prior.knee + moved_s**prior.knee) ** (1 / prior.knee)
    return ceiling_from(one, seconds - work_s, ONE_KIND_SPREAD) if work_s <= (1 - LATENCY_MOST) * seconds else None


def _context_bytes(points: Sequence[Measurement]) -> Ceiling | None:
    """Memory of a process before its first tensor."""
    for one in points:
        if one.point == CONTEXT_POINT and one.kind == "memory" and one.value:
            return ceiling_from(one, one.value)
    return None


def _allocator_slack(points: Sequence[Measurement]) -> Ceiling | None:
    """Reserved but unused memory of the allocator, as a share of its allocations."""
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
