"""Ceilings of one device without any measurement of the user: vendor figures times the shares of published records."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from planner.hardware.ceilings.ceilings import Ceiling, Ceilings, Collective

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from planner.hardware.catalogue.gpus import Gpu
    from planner.hardware.ceilings.records import CeilingRecord, Share

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
"""Spread between two dtypes of a CPU, which share cores, clock and neighbours, though not instructions."""


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
    """`base` with the dtypes in `known` replaced and the others scaled by the ratio of the nearest known dtype."""
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
    """`ceiling` scaled by `ratio`, which was observed elsewhere."""
    return Ceiling(ceiling.value * ratio, spread, "transferred", f"{ceiling.source}; {source}")


def _pair_spread(gpu: Gpu, dtype: str, near: str) -> float | None:
    return CPU_PAIR_SPREAD if gpu.kind == "cpu" else PAIR_SPREADS.get(frozenset({dtype, near}))


def _compute_shares(gpu: Gpu, records: Sequence[CeilingRecord]) -> dict[str, Ceiling]:
    found: dict[str, Ceiling] = {}
    for dtype, peak in gpu.compute_flop_per_s.items():
        for record in records:
            if (share := record.compute_efficiency.get(dtype)) is not None:
                found[dtype] = record.ceiling(share, peak)
                break
    return found


def _attention(gpu: Gpu, compute: Mapping[str, Ceiling], share: Share, record: CeilingRecord) -> dict[str, Ceiling]:
    """Prefill attention: a share of the 16-bit peak; fp32, and CPUs without 16 bits, keep the same proportion to products."""
    found = {}
    for dtype in ATTENTION_DTYPES:
        if dtype not in compute:
            continue
        if dtype in SIXTEEN_BIT or gpu.kind == "cpu":
            found[dtype] = record.ceiling(share, gpu.compute_flop_per_s[dtype])
        else:
            fused = Ceiling(compute[dtype].value * share.value, compute[dtype].spread + share.spread, "spec", record.label)
            found[dtype] = fused
    return found


def _collectives(records: Sequence[CeilingRecord]) -> tuple[Collective, ...]:
    """One entry per link, operation and count: of the GPU itself if it has one, else of the widest kind with one."""
    found: dict[tuple[str, str, int], Collective] = {}
    for record in records:
        for key, one in record.collectives.items():
            found.setdefault(key, one)
    return tuple(found.values())


def _by_key(records: Sequence[CeilingRecord], field: str, unit: float) -> dict[str, Ceiling]:
    found: dict[str, Ceiling] = {}
    for record in records:
        for name, share in getattr(record, field).items():
            if name not in found:
                found[name] = record.ceiling(share, unit)
    return found


def _knee(records: Sequence[CeilingRecord], field: str) -> float:
    return float(next(given for record in records if (given := getattr(record, field)) is not None))


def _figure(records: Sequence[CeilingRecord], field: str, unit: float = 1.0) -> Ceiling:
    share, record = _chosen(records, field)
    return record.ceiling(share, unit)


def _chosen(records: Sequence[CeilingRecord], field: str) -> tuple[Share, CeilingRecord]:
    for record in records:
        if (given := getattr(record, field)) is not None:
            return given, record
    raise LookupError(f"no record gives {field}")
