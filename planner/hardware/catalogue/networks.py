"""The network between nodes: what a part is taken to have where nobody measured it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from planner.hardware.catalogue.gpus import Gpu

Fabric = Literal["infiniband", "ethernet"]
"""'infiniband': adapters of the GPUs' own; 'ethernet': a port that the GPUs of a node share."""
FABRIC_EFFICIENCY = 0.8
"""Share of the adapters' rate that a ring across nodes reaches: an assumption, no public table of it has been fitted."""
FABRIC_LATENCY = 2.0
"""Latency of a collective that leaves its node, over one of as many ranks inside: an assumption."""
ELSEWHERE_SHARE = 0.5
"""What a measurement over some nodes says of twice, or half, as many: half of what it was off; of four times as many a quarter."""
HOPPER_YEAR = 2022
_BASEBOARDS = ("SXM", "OAM", "SUPERCHIP")


def usual_fabric(gpu: Gpu) -> Fabric:
    """The kind between nodes of `gpu`: baseboards come with adapters of their own."""
    return "infiniband" if (gpu.form_factor or "").upper().startswith(_BASEBOARDS) else "ethernet"


def fabric_of(gpu: Gpu, asked: str | float | None, gpus_per_node: int) -> tuple[str, float]:
    """(name, bytes/s per GPU and direction) between nodes; `asked`: a kind, a rate in bytes/s, or None for the usual.

    Baseboards: one 400 Gb/s adapter a GPU since Hopper (AWS p5, Azure ND H100 v5), 200 Gb/s before (Azure ND A100 v4).
    Other hosts: one 100 Gb/s port shared by the node.
    """
    if isinstance(asked, (int, float)):
        return "given", float(asked)
    modern = (gpu.release_year or 0) >= HOPPER_YEAR or gpu.architecture.startswith(("CDNA", "Gaudi"))
    if (asked or usual_fabric(gpu)) == "infiniband":
        return ("infiniband 400 Gb/s a GPU", 50e9) if modern else ("infiniband 200 Gb/s a GPU", 25e9)
    return "ethernet 100 Gb/s a node", 12.5e9 / gpus_per_node
