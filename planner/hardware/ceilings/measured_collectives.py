"""Ceilings of collectives from the measured points of one device.

A collective over messages of several sizes gives both of its figures: t^q = latency^q + (wire bytes ÷ rate)^q is a straight line in
(wire bytes)^q, with q = `COLLECTIVE_KNEE`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, get_args

from planner.hardware.catalogue.interconnects import CollectiveOp, Fabric, fabric_of, usual_fabric, usual_link
from planner.hardware.ceilings.ceilings import COLLECTIVE_KNEE, Collective, NodeCollective, ceiling_from
from planner.hardware.measurements.plausibility import COLLECTIVE_OPS, FEWEST_RANKS

if TYPE_CHECKING:
    from planner.hardware.catalogue.gpus import Gpu
    from planner.hardware.measurements.measurement import Measurement

LATENCY_SPREAD = 0.2
"""90 % half width of the ends of a straight line through a whole series: algorithms change between sizes."""
EFFICIENCY_SPREAD = 0.1
LEAST_LATENCY_SHARE = 0.2
"""Smallest latency, as a share of the smallest message's time: a line with a lower result has too few small messages."""


def collectives_of(points: Iterable[Measurement], gpu: Gpu) -> tuple[Collective, ...]:
    """Latency and efficiency of every collective measured among several of `gpu` in one machine, not over nodes."""
    link, rate = usual_link(gpu)
    timings = [one for one in _timings(points) if one.nodes == 1]
    found = {
        (one.op, one.ranks): Collective(
            link=link,
            op=one.op,
            gpus=one.ranks,
            latency_s=ceiling_from(one.point, one.latency_s, LATENCY_SPREAD),
            efficiency=ceiling_from(one.point, one.bytes_per_s / rate, EFFICIENCY_SPREAD),
        )
        for one in timings
        if one.op != "alltoall" or _is_its_own(one, timings)
    }
    return tuple(found.values())


def with_measured_collectives(known: Sequence[Collective], measured: Sequence[Collective]) -> tuple[Collective, ...]:
    """`known`, where collectives of the same link, operation and count are replaced by measured ones."""
    replaced = {(one.link, one.op, one.gpus) for one in measured}
    return (*measured, *(one for one in known if (one.link, one.op, one.gpus) not in replaced))


def node_collectives_of(points: Iterable[Measurement], gpu: Gpu) -> tuple[NodeCollective, ...]:
    """Latency and rate of every collective measured among `gpu` filling several machines.

    The user's own point without a network counts for the GPU's usual one; an imported one is left out.
    """
    found: dict[tuple[str, int, int, str], NodeCollective] = {}
    for one in _timings(points):
        fabric = _fabric(one.point, gpu)
        if fabric is None or one.nodes < 2 or one.ranks % one.nodes:
            continue
        per_node = one.ranks // one.nodes
        found[one.op, one.nodes, one.ranks, fabric] = NodeCollective(
            op=one.op,
            nodes=one.nodes,
            gpus=one.ranks,
            fabric=fabric,
            latency_s=ceiling_from(one.point, one.latency_s, LATENCY_SPREAD),
            bytes_per_s=ceiling_from(one.point, one.bytes_per_s, EFFICIENCY_SPREAD),
            adapters_bytes_per_s=fabric_of(gpu, fabric, per_node)[1] * per_node,
        )
    return tuple(found.values())


def _is_its_own(exchange: _Timing, timings: Sequence[_Timing]) -> bool:
    """True if an all-to-all's own figures predict its middle messages better than an all-reduce's of the same number of ranks.

    True where there are no middle messages, or no all-reduce; the ends are left out, because the figures are fitted to them.
    """
    ring = next((one for one in timings if one.op == "all_reduce" and one.ranks == exchange.ranks), None)
    between = exchange.point.parameters["series"][1:-1]
    if ring is None or not between:
        return True

    def error(one: _Timing) -> float:
        q, factor = COLLECTIVE_KNEE, (exchange.ranks - 1) / exchange.ranks
        pairs = (((one.latency_s**q + (factor * size / one.bytes_per_s) ** q) ** (1 / q), seconds) for size, seconds in between)
        return sum(abs(math.log(predicted / seconds)) for predicted, seconds in pairs)

    return error(exchange) <= error(ring)


class _Timing(NamedTuple):
    """A collective's latency and rate over the messages of one point."""

    point: Measurement
    op: CollectiveOp
    ranks: int
    nodes: int
    latency_s: float
    bytes_per_s: float


def _timings(points: Iterable[Measurement]) -> Iterator[_Timing]:
    """Collectives among `points` from which both figures follow."""
    for one in points:
        op, ranks, nodes = _operation(one), one.parameters.get("ranks"), one.parameters.get("nodes", 1)
        if op is None or not isinstance(ranks, int) or ranks < FEWEST_RANKS or not isinstance(nodes, int):
            continue
        line = _line(op, ranks, one.parameters["series"])
        if line is not None:
            yield _Timing(one, op, ranks, nodes, *line)


def _operation(one: Measurement) -> CollectiveOp | None:
    """Measured collective; None for other points and unusable ones."""
    if one.kind != "collective" or not one.reliable or not isinstance(one.parameters.get("series"), list):
        return None
    return next((name for name in COLLECTIVE_OPS if name == one.parameters.get("op")), None)


def _fabric(one: Measurement, gpu: Gpu) -> Fabric | None:
    stated = one.parameters.get("fabric")
    if stated is None:
        return usual_fabric(gpu) if one.origin == "own" else None
    return next((kind for kind in get_args(Fabric) if kind == stated), None)


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
