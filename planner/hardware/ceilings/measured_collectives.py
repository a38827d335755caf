"""Collectives and attention as the points of one device show them.

A collective over messages of several sizes gives both of its figures: t^q = latency^q + (wire bytes ÷ rate)^q is a straight line in
(wire bytes)^q, with q = `COLLECTIVE_KNEE`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, get_args

from planner.hardware.catalogue.interconnects import CollectiveOp, Fabric, fabric_of, usual_fabric, usual_link
from planner.hardware.ceilings.ceilings import COLLECTIVE_KNEE, Ceiling, Collective, NodeCollective
from planner.hardware.ceilings.measured import Product, basis_of, rate_of_products, source_of, spread_of
from planner.hardware.measurements.plausibility import COLLECTIVE_OPS, FEWEST_RANKS

if TYPE_CHECKING:
    from planner.hardware.catalogue.gpus import Gpu
    from planner.hardware.ceilings.ceilings import Ceilings
    from planner.hardware.measurements.measurement import Measurement

LATENCY_SPREAD = 0.2
"""90 % half width that a straight line through a whole series leaves on its ends: algorithms change between sizes."""
EFFICIENCY_SPREAD = 0.1
LEAST_LATENCY_SHARE = 0.2
"""Of the smallest message's time: a line whose latency comes out below has too few small messages to tell."""
DECODE_SHARE = 0.3
"""Reading has to be this much of the time for a decoding point to tell its rate."""


def collectives_of(points: Iterable[Measurement], gpu: Gpu) -> tuple[Collective, ...]:
    """Latency and efficiency of every collective measured among several of `gpu` in one machine.

    What nodes do together tells of their network, not of the link inside one.
    """
    link, rate = usual_link(gpu)
    found: dict[tuple[str, int], Collective] = {}
    for one in points:
        op, ranks = _operation(one), one.parameters.get("ranks")
        if op is None or not isinstance(ranks, int) or ranks < FEWEST_RANKS or one.parameters.get("nodes", 1) != 1:
            continue
        line = _line(op, ranks, one.parameters["series"])
        if line is None:
            continue
        latency, per_second = line
        own = spread_of(one)
        found[op, ranks] = Collective(
            link,
            op,
            ranks,
            Ceiling(latency, math.hypot(own, LATENCY_SPREAD), basis_of([one]), source_of([one], one.point)),
            Ceiling(per_second / rate, math.hypot(own, EFFICIENCY_SPREAD), basis_of([one]), source_of([one], one.point)),
        )
    return tuple(found.values())


def with_measured_collectives(known: Sequence[Collective], measured: Sequence[Collective]) -> tuple[Collective, ...]:
    """`known` with those of the same link, operation and count replaced."""
    told = {(one.link, one.op, one.gpus) for one in measured}
    return (*measured, *(one for one in known if (one.link, one.op, one.gpus) not in told))


def node_collectives_of(points: Iterable[Measurement], gpu: Gpu) -> tuple[NodeCollective, ...]:
    """Latency and rate of every collective measured among `gpu` filling several machines.

    A point that does not say over which network it was taken holds for the usual one of the part where it is the user's own, and
    for none where it came from elsewhere.
    """
    found: dict[tuple[str, int, int, str], NodeCollective] = {}
    for one in points:
        op, ranks, nodes = _operation(one), one.parameters.get("ranks"), one.parameters.get("nodes", 1)
        fabric = _fabric(one, gpu)
        if op is None or fabric is None or not isinstance(ranks, int) or not isinstance(nodes, int) or nodes < 2 or ranks % nodes:
            continue
        line = _line(op, ranks, one.parameters["series"])
        if line is None:
            continue
        latency, per_second = line
        own, basis, source = spread_of(one), basis_of([one]), source_of([one], one.point)
        found[op, nodes, ranks, fabric] = NodeCollective(
            op=op,
            nodes=nodes,
            gpus=ranks,
            fabric=fabric,
            latency_s=Ceiling(latency, math.hypot(own, LATENCY_SPREAD), basis, source),
            bytes_per_s=Ceiling(per_second, math.hypot(own, EFFICIENCY_SPREAD), basis, source),
            adapters_bytes_per_s=fabric_of(gpu, fabric, ranks // nodes)[1] * (ranks // nodes),
        )
    return tuple(found.values())


def _operation(one: Measurement) -> CollectiveOp | None:
    """What was measured; None where the point is no collective, or cannot be planned with."""
    if one.kind != "collective" or not one.reliable or not isinstance(one.parameters.get("series"), list):
        return None
    return next((name for name in COLLECTIVE_OPS if name == one.parameters.get("op")), None)


def _fabric(one: Measurement, gpu: Gpu) -> Fabric | None:
    told = one.parameters.get("fabric")
    if told is None:
        return usual_fabric(gpu) if one.origin == "own" else None
    return next((kind for kind in get_args(Fabric) if kind == told), None)


def _line(op: object, ranks: int, series: Sequence[Sequence[float]]) -> tuple[float, float] | None:
    """(latency in s, wire bytes/s) through the smallest and the largest message."""
    factor = (2.0 if op == "all_reduce" else 1.0) * (ranks - 1) / ranks
    (small, first_s), (large, last_s) = series[0], series[-1]
    if large <= small or last_s <= first_s or first_s <= 0:
        return None
    q = COLLECTIVE_KNEE
    slope = (last_s**q - first_s**q) / ((factor * large) ** q - (factor * small) ** q)
    rest = first_s**q - slope * (factor * small) ** q
    latency = max(rest, (LEAST_LATENCY_SHARE * first_s) ** q) ** (1 / q)
    return latency, slope ** (-1 / q)


def attention_of(points: Iterable[Measurement], known: Ceilings) -> dict[str, Ceiling]:
    """Dtype -> rate of prefill attention."""
    found = {}
    prompts = [one for one in points if one.kind == "attention" and one.reliable and one.value and one.flop]
    for dtype in sorted({one.dtype for one in prompts if one.dtype}):
        those = [one for one in prompts if one.dtype == dtype]
        products = [
            Product(one.flop, one.bytes or 0.0, one.flop / one.value, spread_of(one)) for one in those if one.flop and one.value
        ]
        memory, latency = known.attention_bandwidth_bytes_per_s.value, known.attention_latency_s.value
        ceiling = rate_of_products(products, latency, memory, known.attention_knee, those)
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
        reading = seconds - known.decode_attention_latency_s.value - batch * kv_heads * known.decode_head_s.value
        if reading > DECODE_SHARE * seconds:
            return Ceiling(one.bytes / reading, math.hypot(spread_of(one), 0.1), basis_of([one]), source_of([one], one.point))
    return None
