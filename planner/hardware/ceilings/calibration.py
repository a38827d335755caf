"""Ceilings of one device from vendor figures, published records and measurements, the more specific replacing the others."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from planner.hardware.ceilings.ceilings import Ceiling, Ceilings, Collective
from planner.hardware.ceilings.measured import MeasuredFigures, basis_of, figures_of
from planner.hardware.ceilings.measured_attention import attention_of, cache_rate_of
from planner.hardware.ceilings.measured_collectives import collectives_of, node_collectives_of, with_measured_collectives

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from planner.hardware.catalogue.gpus import Gpu
    from planner.hardware.ceilings.records import CeilingRecord, CeilingRecords, Share
    from planner.hardware.measurements.measurement import Measurement

SIXTEEN_BIT = ("bf16", "fp16")
ATTENTION_DTYPES = ("bf16", "fp16", "fp32")
PAIR_SPREADS = {
    frozenset({"bf16", "fp16"}): 0.05,
    frozenset({"tf32", "bf16"}): 0.12,
    frozenset({"tf32", "fp16"}): 0.12,
    frozenset({"fp8", "bf16"}): 0.2,
    frozenset({"fp8", "fp16"}): 0.2,
    frozenset({"int8", "fp8"}): 0.2,
    frozenset({"int8", "bf16"}): 0.3,
    frozenset({"int8", "fp16"}): 0.3,
    frozenset({"fp4", "fp8"}): 0.3,
    frozenset({"fp4", "bf16"}): 0.4,
    frozenset({"tf32", "fp8"}): 0.25,
}
"""Spread of inferring the efficiency of one dtype from another on the same matrix units; half width of the logarithm's 90 %."""
CPU_PAIR_SPREAD = 0.5
"""On a CPU all dtypes share cores, clock and neighbours, though not instructions."""
RELATED_SHARE = 0.5
"""How much of a related device's deviation is expected of this one: about half is shared within a kind."""
RELATED_NARROWING = 0.8
"""Factor on the spread once a related device was measured."""
BANDWIDTH_PAIR_SPREAD = 0.1
"""Spread of inferring one kernel's bandwidth from another's on the same memory."""


def ceilings_of(
    gpu: Gpu, records: CeilingRecords, measurements: Sequence[Measurement] = (), related: Iterable[Gpu] = ()
) -> Ceilings:
    """The ceilings of `gpu`.

    `measurements` of the part itself (`device` is its name) replace what is known of it; those of the parts in `related` shift and
    narrow the figures that only rest on its kind. Dtypes that neither the vendor nor a measurement gives stay missing.
    Raises `LookupError` when no record covers this kind of device, which `load_ceiling_records` rules out.
    """
    prior = unmeasured_ceilings(gpu, records.of(gpu))
    adjusted = _adjusted_by_related(gpu, prior, records, measurements, related)
    own = [one for one in measurements if one.device == gpu.name]
    return _with_parts(gpu, _with_measured(gpu, adjusted, figures_of(own, adjusted)), own) if own else adjusted


def _with_parts(gpu: Gpu, found: Ceilings, own: Sequence[Measurement]) -> Ceilings:
    """`found` with the collectives that were measured, and on a CPU the attention.

    On a GPU, serving engines use attention kernels of their own, so torch's are not representative; a CPU has only torch's.
    """
    found = replace(
        found,
        collectives=with_measured_collectives(found.collectives, collectives_of(own, gpu)),
        node_collectives=node_collectives_of(own, gpu),
    )
    if gpu.kind != "cpu":
        return found
    return replace(
        found,
        attention_flop_per_s=found.attention_flop_per_s | attention_of(own, found),
        decode_bandwidth_bytes_per_s=cache_rate_of(own, found) or found.decode_bandwidth_bytes_per_s,
    )


def unmeasured_ceilings(gpu: Gpu, records: Sequence[CeilingRecord]) -> Ceilings:
    """Ceilings without any measurement of the user; `records`: the most specific first."""
    usual = _compute_shares(gpu, [record for record in records if record.gpu is None])
    public = _compute_shares(gpu, [record for record in records if record.gpu is not None])
    compute = overlaid(gpu, usual, public)
    bandwidth = gpu.memory_bandwidth_bytes_per_s
    attention = _chosen(records, "attention_efficiency")
    return Ceilings(
        device=gpu.name,
        compute_flop_per_s=compute,
        bandwidth_bytes_per_s=_figure(records, "bandwidth_efficiency", bandwidth),
        weight_bandwidth_bytes_per_s=_by_key(records, "weight_bandwidth_efficiency", bandwidth),
        knee=_knee(records, "knee"),
        kernel_latency_s=_figure(records, "kernel_latency_s"),
        launch_s=_figure(records, "launch_s"),
        quantise_bytes_per_s=_figure(records, "quantise_efficiency", bandwidth),
        attention_flop_per_s=_attention(gpu, compute, *attention),
        attention_bandwidth_bytes_per_s=_figure(records, "attention_bandwidth_efficiency", bandwidth),
        attention_knee=_knee(records, "attention_knee"),
        attention_latency_s=_figure(records, "attention_latency_s"),
        decode_bandwidth_bytes_per_s=_figure(records, "decode_attention_efficiency", bandwidth),
        decode_attention_latency_s=_figure(records, "decode_attention_latency_s"),
        decode_head_s=_figure(records, "decode_head_s"),
        collectives=_collectives(records),
        train_factor=_figure(records, "train_factor"),
    )


def overlaid(gpu: Gpu, base: Mapping[str, Ceiling], known: Mapping[str, Ceiling]) -> dict[str, Ceiling]:
    """`base` with the dtypes in `known` replaced and the others scaled as the nearest known dtype turned out."""
    found = dict(base)
    for dtype, ceiling in base.items():
        pairs = [(spread, near) for near in known if near in base and (spread := _pair_spread(gpu, dtype, near)) is not None]
        if dtype in known or not pairs:
            continue
        spread, near = min(pairs)
        value = ceiling.value * known[near].value / base[near].value
        peak = gpu.compute_flop_per_s.get(dtype, math.inf)
        source = f"{ceiling.source}; scaled as {near} ({known[near].source})"
        found[dtype] = Ceiling(min(value, peak), math.hypot(known[near].spread, spread), "transferred", source)
    return found | dict(known)


def scaled(ceiling: Ceiling, ratio: float, spread: float, source: str) -> Ceiling:
    """`ceiling` moved by `ratio`, which was seen elsewhere."""
    return Ceiling(ceiling.value * ratio, spread, "transferred", f"{ceiling.source}; {source}")


def _pair_spread(gpu: Gpu, dtype: str, near: str) -> float | None:
    return CPU_PAIR_SPREAD if gpu.kind == "cpu" else PAIR_SPREADS.get(frozenset({dtype, near}))


def _with_measured(gpu: Gpu, prior: Ceilings, measured: MeasuredFigures) -> Ceilings:
    compute = overlaid(gpu, prior.compute_flop_per_s, measured.compute_flop_per_s)
    attention = {
        dtype: scaled(
            ceiling,
            compute[dtype].value / prior.compute_flop_per_s[dtype].value,
            math.hypot(compute[dtype].spread, ceiling.spread),
            f"scaled as {dtype} products",
        )
        if compute[dtype] != prior.compute_flop_per_s[dtype]
        else ceiling
        for dtype, ceiling in prior.attention_flop_per_s.items()
    }
    found = replace(
        prior,
        compute_flop_per_s=compute,
        attention_flop_per_s=attention,
        knee=measured.knee or prior.knee,
        kernel_latency_s=measured.kernel_latency_s or prior.kernel_latency_s,
        launch_s=measured.launch_s or prior.launch_s,
        train_points=measured.train_points,
        context_bytes=measured.context_bytes,
        allocator_slack=measured.allocator_slack,
    )
    bandwidth = measured.bandwidth_bytes_per_s
    if bandwidth is None:
        return found
    ratio = bandwidth.value / prior.bandwidth_bytes_per_s.value

    def moved(ceiling: Ceiling) -> Ceiling:
        spread = math.hypot(bandwidth.spread, min(ceiling.spread, max(BANDWIDTH_PAIR_SPREAD, ceiling.spread / 2)))
        return scaled(ceiling, ratio, spread, "scaled as the measured memory bandwidth")

    weights = {stored: moved(ceiling) for stored, ceiling in prior.weight_bandwidth_bytes_per_s.items()}
    return replace(
        found,
        bandwidth_bytes_per_s=bandwidth,
        weight_bandwidth_bytes_per_s=weights | measured.weight_bandwidth_bytes_per_s,
        quantise_bytes_per_s=moved(prior.quantise_bytes_per_s),
        attention_bandwidth_bytes_per_s=moved(prior.attention_bandwidth_bytes_per_s),
        decode_bandwidth_bytes_per_s=moved(prior.decode_bandwidth_bytes_per_s),
    )


def _adjusted_by_related(
    gpu: Gpu, prior: Ceilings, records: CeilingRecords, measurements: Sequence[Measurement], related: Iterable[Gpu]
) -> Ceilings:
    """`prior`, with the figures that only rest on the kind moved half as far as measured parts of that kind were off."""
    kind = records.kind_of(gpu)
    compute: dict[str, list[float]] = {}
    bandwidth: list[float] = []
    names = []
    for other in related:
        points = [one for one in measurements if one.device == other.name and one.reliable]
        if other.name == gpu.name or other.kind != gpu.kind or not points or not kind or records.kind_of(other) != kind:
            continue
        expected = unmeasured_ceilings(other, records.of(other))
        seen = figures_of(points, expected)
        for dtype, ceiling in seen.compute_flop_per_s.items():
            if dtype in expected.compute_flop_per_s:
                compute.setdefault(dtype, []).append(math.log(ceiling.value / expected.compute_flop_per_s[dtype].value))
        if seen.bandwidth_bytes_per_s is not None:
            bandwidth.append(math.log(seen.bandwidth_bytes_per_s.value / expected.bandwidth_bytes_per_s.value))
        names.append(f"{other.name}, measured {'here' if basis_of(points) == 'measured' else 'elsewhere'}")
    if not names:
        return prior

    def adjusted(ceiling: Ceiling, logs: list[float] | None) -> Ceiling:
        if not logs or ceiling.basis != "spec":
            return ceiling
        ratio = math.exp(RELATED_SHARE * sum(logs) / len(logs))
        return scaled(ceiling, ratio, ceiling.spread * RELATED_NARROWING, f"half as far off as {'; '.join(names)}")

    moved = {dtype: adjusted(ceiling, compute.get(dtype)) for dtype, ceiling in prior.compute_flop_per_s.items()}
    return replace(prior, compute_flop_per_s=moved, bandwidth_bytes_per_s=adjusted(prior.bandwidth_bytes_per_s, bandwidth))


def _compute_shares(gpu: Gpu, records: Sequence[CeilingRecord]) -> dict[str, Ceiling]:
    found: dict[str, Ceiling] = {}
    for dtype, peak in gpu.compute_flop_per_s.items():
        for record in records:
            if (share := record.compute_efficiency.get(dtype)) is not None:
                found[dtype] = _ceiling(record, share, peak)
                break
    return found


def _attention(gpu: Gpu, compute: Mapping[str, Ceiling], share: Share, record: CeilingRecord) -> dict[str, Ceiling]:
    """Prefill attention: a share of the 16-bit peak; fp32, and CPUs without 16 bits, keep the same proportion to products."""
    found = {}
    for dtype in ATTENTION_DTYPES:
        if dtype not in compute:
            continue
        if dtype in SIXTEEN_BIT or gpu.kind == "cpu":
            found[dtype] = _ceiling(record, share, gpu.compute_flop_per_s[dtype])
        else:
            fused = Ceiling(compute[dtype].value * share.value, compute[dtype].spread + share.spread, "spec", record.label)
            found[dtype] = fused
    return found


def _collectives(records: Sequence[CeilingRecord]) -> tuple[Collective, ...]:
    """One entry per link, operation and count: of the part itself if it has it, else of the widest kind that does."""
    found: dict[tuple[str, str, int], Collective] = {}
    for record in records:
        for one in record.collective:
            entry = Collective(one.link, one.op, one.gpus, _ceiling(record, one.latency_s), _ceiling(record, one.efficiency))
            found.setdefault((one.link, one.op, one.gpus), entry)
    return tuple(found.values())


def _by_key(records: Sequence[CeilingRecord], field: str, unit: float) -> dict[str, Ceiling]:
    found: dict[str, Ceiling] = {}
    for record in records:
        for name, share in getattr(record, field).items():
            found.setdefault(name, _ceiling(record, share, unit))
    return found


def _knee(records: Sequence[CeilingRecord], field: str) -> float:
    return float(next(given for record in records if (given := getattr(record, field)) is not None))


def _figure(records: Sequence[CeilingRecord], field: str, unit: float = 1.0) -> Ceiling:
    share, record = _chosen(records, field)
    return _ceiling(record, share, unit)


def _chosen(records: Sequence[CeilingRecord], field: str) -> tuple[Share, CeilingRecord]:
    for record in records:
        if (given := getattr(record, field)) is not None:
            return given, record
    raise LookupError(f"no record gives {field}")


def _ceiling(record: CeilingRecord, share: Share, unit: float = 1.0) -> Ceiling:
    return Ceiling(share.value * unit, share.spread, record.basis, record.label)
