"""Ceilings of one device from vendor figures, published records and measurements, the more specific replacing the others."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from msgspec.structs import replace

from planner.hardware.ceilings.ceilings import NORMAL_90, Ceiling, Ceilings, basis_of, ceiling_from, source_of, spread_of
from planner.hardware.ceilings.measured import MeasuredFigures, figures_of
from planner.hardware.ceilings.measured_collectives import collectives_of, node_collectives_of, with_measured_collectives
from planner.hardware.ceilings.products import products_of, rate_of_products
from planner.hardware.ceilings.unmeasured import overlaid, scaled, unmeasured_ceilings

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from planner.hardware.catalogue.gpus import Gpu
    from planner.hardware.ceilings.records import CeilingRecords
    from planner.hardware.measurements.measurement import Measurement

RELATED_SHARE = 0.5
"""Share of a related device's deviation that is expected of this one: about half is shared within a kind."""
RELATED_NARROWING = 0.8
"""Factor on the spread once a related device was measured."""
BANDWIDTH_PAIR_SPREAD = 0.1
"""Spread of inferring one kernel's bandwidth from another's on the same memory."""
DECODE_SHARE = 0.3
"""Share of the time that reading the cache has to take for a decoding point to show its rate."""
CACHE_SPREAD = 0.1


def ceilings_of(
    gpu: Gpu, records: CeilingRecords, measurements: Sequence[Measurement] = (), related: Iterable[Gpu] = ()
) -> Ceilings:
    """Ceilings of `gpu`; raises `LookupError` without a record for its kind, which `load_ceiling_records` rules out.

    `measurements` of the GPU itself (`device` is its name) replace the published figures. Those of GPUs in `related` shift and
    narrow figures that depend on the kind of GPU. Dtypes with neither a vendor figure nor a measurement stay missing.
    """
    prior = unmeasured_ceilings(gpu, records.of(gpu))
    adjusted = _adjusted_by_related(gpu, prior, records, measurements, related)
    own = [one for one in measurements if one.device == gpu.name]
    if not own:
        return adjusted
    return _with_parts(gpu, _with_measured(gpu, adjusted, figures_of(own, adjusted, on_cpu=gpu.kind == "cpu")), own)


def _with_parts(gpu: Gpu, found: Ceilings, own: Sequence[Measurement]) -> Ceilings:
    """`found` with the measured collectives and grouped products, and on a CPU with measured attention.

    On a GPU torch's attention is not representative: serving engines have their own kernels.
    """
    found = replace(
        found,
        collectives=with_measured_collectives(found.collectives, collectives_of(own, gpu)),
        node_collectives=node_collectives_of(own, gpu),
        grouped_rate=grouped_rate_of(own, found),
    )
    if gpu.kind != "cpu":
        return found
    return replace(
        found,
        attention_flop_per_s=found.attention_flop_per_s | attention_of(own, found),
        decode_bandwidth_bytes_per_s=cache_rate_of(own, found) or found.decode_bandwidth_bytes_per_s,
    )


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


def with_rates_of(found: Ceilings, published: Ceilings) -> Ceilings:
    """`found` with the rates and latencies of `published`; measured steps, memory and collectives stay."""
    return replace(
        published,
        train_points=found.train_points,
        context_bytes=found.context_bytes,
        allocator_slack=found.allocator_slack,
        collectives=found.collectives,
        node_collectives=found.node_collectives,
    )


def _adjusted_by_related(
    gpu: Gpu, prior: Ceilings, records: CeilingRecords, measurements: Sequence[Measurement], related: Iterable[Gpu]
) -> Ceilings:
    """`prior`, where figures that only depend on the kind are moved by half of the deviation of measured GPUs of that kind."""
    kind = records.kind_of(gpu)
    compute: dict[str, list[float]] = {}
    bandwidth: list[float] = []
    names = []
    measured = {one.device for one in measurements if one.reliable} - {gpu.name}
    for other in related if measured and kind else ():
        if other.name not in measured or other.kind != gpu.kind or records.kind_of(other) != kind:
            continue
        points = [one for one in measurements if one.device == other.name and one.reliable]
        expected = unmeasured_ceilings(other, records.of(other))
        seen = figures_of(points, expected, on_cpu=other.kind == "cpu")
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


def attention_of(points: Iterable[Measurement], known: Ceilings) -> dict[str, Ceiling]:
    """Dtype -> rate of prefill attention."""
    found = {}
    prompts = [one for one in points if one.kind == "attention" and one.reliable and one.value and one.flop]
    for dtype in sorted({one.dtype for one in prompts if one.dtype}):
        those = [one for one in prompts if one.dtype == dtype]
        memory, latency = known.attention_bandwidth_bytes_per_s.value, known.attention_latency_s.value
        ceiling = rate_of_products(products_of(those), latency, memory, known.attention_knee, those)
        if ceiling is not None:
            found[dtype] = replace(ceiling, source=source_of(those, those[0].point))
    return found


def cache_rate_of(points: Iterable[Measurement], known: Ceilings) -> Ceiling | None:
    """Bytes per second at which decoding reads its cache."""
    for one in points:
        batch, kv_heads = one.parameters.get("batch"), one.parameters.get("kv_heads")
        if one.kind != "attention-decode" or not one.reliable or not one.value or not one.bytes:
            continue
        if not isinstance(batch, int) or not isinstance(kv_heads, int) or one.parameters.get("cache") == "warm":
            continue
        seconds = one.bytes / one.value
        reading_s = seconds - known.decode_attention_latency_s.value - batch * kv_heads * known.decode_head_s.value
        if reading_s > DECODE_SHARE * seconds:
            return ceiling_from(one, one.bytes / reading_s, CACHE_SPREAD)
    return None


FEWEST_POINTS = 4
"""Numbers of tokens for each expert below which a rate cannot be fitted and checked."""


def grouped_rate_of(points: Iterable[Measurement], known: Ceilings) -> Ceiling | None:
    """Mean of measured ÷ predicted rate, by the formula of `known` for single products.

    None with too few undisturbed points, or where the mean of every other point predicts the rest no better than 1 does.
    """
    found = sorted(
        (
            one
            for one in points
            if one.kind == "grouped" and one.reliable and one.value and one.flop and one.dtype in known.compute_flop_per_s
        ),
        key=lambda one: (one.dtype or "", one.flop or 0.0),
    )
    if len(found) < FEWEST_POINTS:
        return None
    logs = [_error(one, known) for one in found]
    fitted, between = logs[::2], logs[1::2]
    mean = sum(fitted) / len(fitted)
    if _size([one - mean for one in between]) >= _size(between):
        return None
    mean = sum(logs) / len(logs)
    deviation = math.sqrt(sum((one - mean) ** 2 for one in logs) / len(logs))
    spread = math.hypot(max(map(spread_of, found)), NORMAL_90 * deviation)
    return Ceiling(math.exp(mean), spread, basis_of(found), source_of(found, f"{len(found)} grouped products"))


def _error(point: Measurement, known: Ceilings) -> float:
    """ln(measured ÷ predicted rate)."""
    (product,) = products_of([point])
    rate = known.compute_flop_per_s[point.dtype or ""].value
    return product.error(rate, known.kernel_latency_s.value, known.bandwidth_bytes_per_s.value, known.knee)


def _size(errors: Sequence[float]) -> float:
    return sum(map(abs, errors)) / len(errors)
