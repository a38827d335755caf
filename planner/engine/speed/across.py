"""Collectives that leave their node: over the network as it is taken to be, or as it was measured.

Symbols: n nodes · k ranks of the ring in one node · f rate of the adapters a GPU is taken to have.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from planner.hardware.fabrics import ELSEWHERE_SHARE, FABRIC_EFFICIENCY, FABRIC_LATENCY

if TYPE_CHECKING:
    from planner.engine.columns import ChipColumns, Floats, Table


def across(t: Table, ranks: Floats, per_node: Floats, inside: Floats) -> tuple[Floats, Floats]:
    """(bytes/s, latency over that of as many ranks inside a node) of a ring with `per_node` ranks a node.

    Every GPU brings its own share of the network, so a ring that has several ranks in a node uses all their adapters, k·f·0.8,
    and is not faster than `inside`. What was measured replaces both figures where the ring is over as many nodes. Between two
    counts measured, the logarithms of how far they were off lie on a line in log n; beyond them each doubling halves it.
    """
    c, k = t.chip, np.maximum(per_node, 1.0)
    adapters = t.layout.fabric_bytes_per_s * k
    assumed = np.minimum(inside, adapters * FABRIC_EFFICIENCY)
    if not c.measured_nodes_few.any():
        return assumed, np.full(1, FABRIC_LATENCY)
    place, share = _place(c, np.maximum(np.ceil(ranks / k), 2.0))
    efficiency, latency = (
        _between(place, *(np.log(np.where(c.measured_nodes_few > 0, given, usual) / usual) for given in ends))
        for usual, ends in (
            (FABRIC_EFFICIENCY, (c.fabric_efficiency_few, c.fabric_efficiency_many)),
            (FABRIC_LATENCY, (c.fabric_latency_few, c.fabric_latency_many)),
        )
    )
    seen = t.layout.fabric_bytes_per_s * c.measured_per_node * FABRIC_EFFICIENCY * np.exp(efficiency)
    rate = np.minimum(adapters * FABRIC_EFFICIENCY * np.exp(share * efficiency), np.maximum(inside, seen))
    known = c.measured_nodes_few > 0
    return np.where(known, rate, assumed), np.where(known, FABRIC_LATENCY * np.exp(share * latency), FABRIC_LATENCY)


def _place(c: ChipColumns, nodes: Floats) -> tuple[Floats, Floats]:
    """(0 at the fewest nodes measured to 1 at the most, how much of what was measured holds for `nodes`)."""
    few, many = (np.log2(np.maximum(count, 2.0)) for count in (c.measured_nodes_few, c.measured_nodes_many))
    asked = np.log2(nodes)
    held = np.clip(asked, few, many)
    place = (held - few) / np.where(many > few, many - few, 1.0)
    share: Floats = np.exp(math.log(ELSEWHERE_SHARE) * np.abs(asked - held))
    return place, share


def _between(place: Floats, first: Floats, last: Floats) -> Floats:
    return first + (last - first) * place
