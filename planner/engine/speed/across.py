"""Collectives that leave their node: over the network as it is taken to be, or as it was measured.

Symbols: n nodes · k ranks of the ring in one node · f rate of the adapters a GPU is taken to have.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from planner.hardware.fabrics import ELSEWHERE_SHARE, FABRIC_EFFICIENCY, FABRIC_LATENCY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.engine.columns import Flags, Floats, Table


def across(t: Table, ranks: Floats, per_node: Floats, inside: Floats) -> tuple[Floats, Floats]:
    """(bytes/s, latency over that of as many ranks inside a node) of a ring with `per_node` ranks a node.

    Every GPU brings its own share of the network, so a ring that has several ranks in a node uses all their adapters, k·f·0.8,
    and is not faster than `inside`. What was measured replaces both figures where the ring is over as many nodes. Between
    counts measured, the logarithms of how far they were off lie on a line in log n; beyond them each doubling halves it.
    """
    c, k = t.chip, np.maximum(per_node, 1.0)
    adapters = t.layout.fabric_bytes_per_s * k
    assumed = np.minimum(inside, adapters * FABRIC_EFFICIENCY)
    if not c.measured_nodes_few.any():
        return assumed, np.full(1, FABRIC_LATENCY)
    known = c.measured_nodes_few > 0
    nodes = np.log2(np.maximum(np.ceil(ranks / k), 2.0))
    counts = [np.log2(np.maximum(each, 2.0)) for each in (c.measured_nodes_few, c.measured_nodes_mid, c.measured_nodes_many)]
    held = np.clip(nodes, counts[0], counts[-1])
    share = np.exp(math.log(ELSEWHERE_SHARE) * np.abs(nodes - held))
    efficiency = _off(held, counts, (c.fabric_efficiency_few, c.fabric_efficiency_mid, c.fabric_efficiency_many), FABRIC_EFFICIENCY)
    latency = _off(held, counts, (c.fabric_latency_few, c.fabric_latency_mid, c.fabric_latency_many), FABRIC_LATENCY)
    seen = t.layout.fabric_bytes_per_s * c.measured_per_node * FABRIC_EFFICIENCY * np.exp(efficiency)
    rate = np.minimum(adapters * FABRIC_EFFICIENCY * np.exp(share * efficiency), np.maximum(inside, seen))
    return np.where(known, rate, assumed), np.where(known, FABRIC_LATENCY * np.exp(share * latency), FABRIC_LATENCY)


def between_two(t: Table, apart: Flags) -> Floats:
    """Bytes/s from one GPU to another: over the network, each with its own adapter, where they are `apart`, else over the node's link."""
    link = t.layout.link_bytes_per_s
    outside, _ = across(t, np.full(1, 2.0), np.ones(1), link)
    return np.where(apart, outside, link)


def _off(held: Floats, counts: Sequence[Floats], figures: Sequence[Floats], usual: float) -> Floats:
    """ln(measured ÷ usual) at the logarithm `held` of a number of nodes, by lines between three measured ones."""
    few, mid, many = (np.log(np.maximum(each, np.finfo(float).tiny) / usual) for each in figures)
    return np.where(held <= counts[1], _line(held, counts[:2], few, mid), _line(held, counts[1:], mid, many))


def _line(at: Floats, ends: Sequence[Floats], first: Floats, last: Floats) -> Floats:
    width = ends[1] - ends[0]
    return first + (last - first) * (at - ends[0]) / np.where(width > 0, width, 1.0)
