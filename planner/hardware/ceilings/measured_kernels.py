"""Ceilings of attention and of grouped products of experts, from the measured points of one device."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from msgspec.structs import replace

from planner.hardware.ceilings.ceilings import NORMAL_90, Ceiling, basis_of, ceiling_from, source_of, spread_of
from planner.hardware.ceilings.products import products_of, rate_of_products

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from planner.hardware.ceilings.ceilings import Ceilings
    from planner.hardware.measurements.measurement import Measurement

DECODE_SHARE = 0.3
"""Share of the time that reading the cache has to take for a decoding point to show its rate."""
CACHE_SPREAD = 0.1


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
