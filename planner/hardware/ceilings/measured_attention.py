"""Ceilings of attention, in prefill and in decoding, from the measured points of one CPU."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from planner.hardware.ceilings.evidence import ceiling_from, source_of
from planner.hardware.ceilings.products import products_of, rate_of_products

if TYPE_CHECKING:
    from planner.hardware.ceilings.ceilings import Ceiling, Ceilings
    from planner.hardware.measurements.measurement import Measurement

DECODE_SHARE = 0.3
"""Reading the cache has to be this much of the time for a decoding point to show its rate."""
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
