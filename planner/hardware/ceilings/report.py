"""Report of the ceilings in use for one GPU: value, range, basis, source, and what measuring changed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import msgspec

from planner.hardware.catalogue.gpus import Gpu
from planner.hardware.catalogue.interconnects import FABRIC_EFFICIENCY, FABRIC_LATENCY, usual_link
from planner.hardware.ceilings.ceilings import Ceiling, Ceilings
from planner.hardware.ceilings.products import products_of
from planner.hardware.measurements.measurement import Measurement

FEW_POINTS = 3
"""Minimum number of residuals whose median describes the fit."""


class CeilingLine(msgspec.Struct, frozen=True, kw_only=True):
    """One figure that the formulas use."""

    name: str
    """'compute bf16', 'memory bandwidth', 'weights int4', 'kernel latency', 'context'."""
    unit: str
    spec: float | None
    """Vendor's figure, or None."""
    value: float
    low: float
    high: float
    """90 % range."""
    basis: str
    source: str
    before: float | None = None
    """Figure without measurements, where they changed it."""


class Residual(msgspec.Struct, frozen=True, kw_only=True):
    """One measured point with the value of the fitted formula."""

    point: str
    unit: str
    measured: float
    formula: float
    error: float
    """ln(formula ÷ measured), of the rate."""
    status: str
    origin: str


class CeilingReport(msgspec.Struct, frozen=True, kw_only=True):
    """Everything in use for one GPU."""

    gpu: str
    lines: list[CeilingLine]
    knee: float
    """p of the product formula."""
    residuals: list[Residual] = []
    residual_median: float | None = None
    """Median of |error|; None if there are too few."""
    measurements: int = 0
    """Number of points behind the figures."""


def report(gpu: Gpu, used: Ceilings, spec: Ceilings, points: Iterable[Measurement]) -> CeilingReport:
    """`used` compared with `spec` (without measurements); `points`: those of the store, of any GPU."""
    own = [one for one in points if one.device == gpu.name and one.value]
    residuals = _residuals(used, own)
    errors = sorted(abs(one.error) for one in residuals)
    return CeilingReport(
        gpu=gpu.name,
        lines=list(_lines(gpu, used, spec)),
        knee=used.knee,
        residuals=residuals,
        residual_median=errors[len(errors) // 2] if len(errors) >= FEW_POINTS else None,
        measurements=sum(one.reliable for one in own),
    )


def _lines(gpu: Gpu, used: Ceilings, spec: Ceilings) -> Iterable[CeilingLine]:
    bandwidth = gpu.memory_bandwidth_bytes_per_s
    for dtype, ceiling in used.compute_flop_per_s.items():
        yield _line(f"compute {dtype}", "FLOP/s", gpu.compute_flop_per_s.get(dtype), ceiling, spec.compute_flop_per_s.get(dtype))
    yield _line("memory bandwidth", "B/s", bandwidth, used.bandwidth_bytes_per_s, spec.bandwidth_bytes_per_s)
    for stored, ceiling in used.weight_bandwidth_bytes_per_s.items():
        yield _line(f"weights {stored}", "B/s", bandwidth, ceiling, spec.weight_bandwidth_bytes_per_s.get(stored))
    for dtype, ceiling in used.attention_flop_per_s.items():
        before = spec.attention_flop_per_s.get(dtype)
        yield _line(f"attention {dtype}", "FLOP/s", gpu.compute_flop_per_s.get(dtype), ceiling, before)
    yield _line("cache read", "B/s", bandwidth, used.decode_bandwidth_bytes_per_s, spec.decode_bandwidth_bytes_per_s)
    yield _line("quantising", "B/s", bandwidth, used.quantise_bytes_per_s, spec.quantise_bytes_per_s)
    yield _line("kernel latency", "s", None, used.kernel_latency_s, spec.kernel_latency_s)
    yield _line("launch", "s", None, used.launch_s, spec.launch_s)
    yield _line("training factor", "", None, used.train_factor, spec.train_factor)
    yield from _inside_lines(gpu, used, spec)
    yield from _across_lines(gpu, used, spec)
    if used.context_bytes is not None:
        yield _line("context", "B", None, used.context_bytes, None)
    if used.allocator_slack is not None:
        yield _line("allocator slack", "", None, used.allocator_slack, None)


def _inside_lines(gpu: Gpu, used: Ceilings, spec: Ceilings) -> Iterable[CeilingLine]:
    """Lines of collectives measured among several devices of one machine."""
    link, rate = usual_link(gpu)
    known = {(one.link, one.op, one.gpus): one for one in spec.collectives}
    for one in sorted(used.collectives, key=lambda one: (one.op, one.gpus)):
        before = known.get((one.link, one.op, one.gpus))
        if one.link != link or one == before:
            continue
        name = f"{one.op.replace('_', '-')} of {one.gpus} ({link})"
        usual = _times(before.efficiency, rate) if before else None
        yield _line(name, "B/s", rate, _times(one.efficiency, rate), usual)
        yield _line(f"{name}, latency", "s", None, one.latency_s, before.latency_s if before else None)


def _across_lines(gpu: Gpu, used: Ceilings, spec: Ceilings) -> Iterable[CeilingLine]:
    """Lines of collectives measured over several machines, with the assumed network."""
    for one in sorted(used.node_collectives, key=lambda one: (one.op, one.nodes, one.gpus)):
        name = f"{one.op.replace('_', '-')} of {one.gpus} over {one.nodes} nodes ({one.fabric})"
        usual = Ceiling(one.adapters_bytes_per_s * FABRIC_EFFICIENCY, one.bytes_per_s.spread, "spec", "assumed")
        inside = spec.collective(one.op, one.gpus, usual_link(gpu)[0])
        yield _line(name, "B/s", None, one.bytes_per_s, usual)
        yield _line(f"{name}, latency", "s", None, one.latency_s, _times(inside.latency_s, FABRIC_LATENCY) if inside else None)


def _times(ceiling: Ceiling, factor: float) -> Ceiling:
    return msgspec.structs.replace(ceiling, value=ceiling.value * factor)


def _line(name: str, unit: str, spec: float | None, used: Ceiling, before: Ceiling | None) -> CeilingLine:
    changed = before is not None and (before.value, before.basis) != (used.value, used.basis)
    return CeilingLine(
        name=name,
        unit=unit,
        spec=spec,
        value=used.value,
        low=used.low,
        high=used.high,
        basis=used.basis,
        source=used.source,
        before=before.value if before is not None and changed else None,
    )


def _residuals(used: Ceilings, points: Sequence[Measurement]) -> list[Residual]:
    """Residuals of the matrix products and of the memory streams."""
    found = []
    for one in points:
        assert one.value is not None
        rate = None
        ceiling = used.compute_flop_per_s.get(one.dtype or "")
        if one.kind == "gemm" and ceiling is not None and one.flop:
            (product,) = products_of([one])
            memory = used.bandwidth_bytes_per_s.value
            rate = one.value * math.exp(-product.error(ceiling.value, used.kernel_latency_s.value, memory, used.knee))
        elif one.kind in {"copy", "triad", "read", "gemv"} and one.parameters.get("cache") != "warm":
            bandwidth = used.weight_bandwidth(one.dtype) if one.kind == "gemv" and one.dtype else used.bandwidth_bytes_per_s
            rate = bandwidth.value
        if rate is not None:
            error = math.log(rate / one.value)
            found.append(
                Residual(
                    point=one.point,
                    unit=one.unit,
                    measured=one.value,
                    formula=rate,
                    error=error,
                    status=one.status,
                    origin=one.origin,
                )
            )
    return found
