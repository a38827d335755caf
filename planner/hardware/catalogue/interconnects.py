"""Links inside a node and networks between nodes that are assumed for a GPU without a measurement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from planner.hardware.catalogue.gpus import Gpu

Link = Literal["nvlink", "pcie"]
"""Link between the devices of one node; 'nvlink' also stands for its equivalents of other vendors."""
Fabric = Literal["infiniband", "ethernet"]
"""Network between nodes. 'infiniband': each GPU has its own adapter; 'ethernet': the GPUs of a node share a port."""
CollectiveOp = Literal["all_reduce", "all_gather", "reduce_scatter", "alltoall"]

PCIE_BYTES_PER_S = 32e9
"""Rate of both directions of a slot where it is not stated: PCIe 3.0 x16."""
FABRIC_EFFICIENCY = 0.8
"""Share of the adapters' rate that a ring across nodes reaches: an assumption, not fitted to any public table."""
FABRIC_LATENCY = 5.0
"""Latency of a collective across nodes ÷ one of the same number of ranks inside a node: of 2 to 6 the whole number that fits both services
over two nodes, DeepSeek V3 and R1 over 16 GPUs in SGLang of 2025-07 (H100, one request at a time; H200, eight, sgl-project/sglang#7687),
each within 3 % by the other's. Published training hardly depends on it."""
ELSEWHERE_SHARE = 0.5
"""Share of the deviation measured over some nodes that is assumed at twice or half as many; a quarter at four times as many."""
AMPERE_YEAR, HOPPER = 2020, 9
"""First year of Ampere, and compute capability of Hopper."""
NODE_GPUS, RACK_GPUS = 8, 72
"""GPUs that one link joins: on the boards of a host (HGX, OAM, cards in slots), and in a rack with switches for it (NVL72, Helios)."""
_BASEBOARDS = ("SXM", "OAM", "SUPERCHIP")
_RACKS = ("NVL72", "Helios")


def on_baseboard(gpu: Gpu) -> bool:
    """True if `gpu` is mounted on a board that links it with its neighbours, instead of a card in a slot."""
    return (gpu.form_factor or "").upper().startswith(_BASEBOARDS)


def most_in_host(gpu: Gpu) -> int:
    """Maximum number of GPUs of type `gpu` in one host: 1 for those that are a whole computer (GB10, GH200)."""
    form = (gpu.form_factor or "").casefold()
    return 1 if form == "soc" or (form.startswith("superchip") and "nvl" not in form) else NODE_GPUS


def linked_gpus(gpu: Gpu, gpus: int) -> int:
    """GPUs that one link joins in a node, for a job on `gpus`: by the form of the GPU, as many of a rack as divide them evenly."""
    most = RACK_GPUS if any(rack in (gpu.form_factor or "") for rack in _RACKS) else NODE_GPUS
    return min(gpus, most) if most == NODE_GPUS else max(size for size in range(1, most + 1) if gpus % size == 0)


def link_of(gpu: Gpu, asked: str | float | None = None, *, nvlink: bool | None = None) -> tuple[str, float]:
    """(name, bytes/s per GPU and direction) of the connection inside a node.

    `asked`: a kind of link, a rate in bytes/s, or None for the usual one. `nvlink`: what the offer states, if anything. NVLink is
    assumed on a baseboard, or where the offer states it; cards with a bridge between pairs count as PCIe. Vendor figures add both
    directions.
    """
    if isinstance(asked, (int, float)):
        return "given", float(asked)
    joined = on_baseboard(gpu) if nvlink is None else nvlink
    if gpu.nvlink_bytes_per_s and (asked == "nvlink" or (asked is None and joined)):
        return "nvlink", gpu.nvlink_bytes_per_s / 2
    return "pcie", (gpu.pcie_bytes_per_s or PCIE_BYTES_PER_S) / 2


def usual_link(gpu: Gpu) -> tuple[Link, float]:
    """(kind, bytes/s of one direction) of the link on the baseboard or in the slot of `gpu`."""
    name, bytes_per_s = link_of(gpu)
    return ("nvlink" if name == "nvlink" else "pcie"), bytes_per_s


def usual_fabric(gpu: Gpu) -> Fabric:
    """Kind of network between nodes of `gpu`: baseboards, and servers of cards with HBM since Hopper, have their own adapters."""
    return "infiniband" if on_baseboard(gpu) or ((gpu.memory_type or "").startswith("HBM") and _modern(gpu)) else "ethernet"


def fabric_kind(name: str) -> Fabric:
    """Kind of a network by its name: Ethernet is a port shared by the GPUs of a node, others have an adapter for each."""
    return "ethernet" if name.casefold().startswith(("ethernet", "none")) else "infiniband"


def _modern(gpu: Gpu) -> bool:
    """True if the part is Hopper or later by compute capability (old architectures have new names), or AMD's or Intel's with HBM."""
    major, _, _ = (gpu.compute_capability or "").partition(".")
    return (major.isdigit() and int(major) >= HOPPER) or gpu.architecture.startswith(("CDNA", "Gaudi"))


def fabric_of(gpu: Gpu, asked: str | float | None, gpus_per_node: int) -> tuple[str, float]:
    """(name, bytes/s per GPU and direction) between nodes; `asked`: a kind, a rate in bytes/s, or None for the usual one.

    Baseboards: one 400 Gb/s adapter per GPU since Hopper (AWS p5, Azure ND H100 v5), 200 Gb/s for Ampere (Azure ND A100 v4), four of
    100 Gb/s for eight GPUs before (DGX-1). Servers of cards with HBM since Hopper: 200 Gb/s per GPU (NVIDIA's reference 2-8-5-200).
    Other hosts: one 100 Gb/s port shared by the node.
    """
    if isinstance(asked, (int, float)):
        return "given", float(asked)
    if (asked or usual_fabric(gpu)) == "infiniband":
        if (gpu.release_year or AMPERE_YEAR) < AMPERE_YEAR:
            return "infiniband 4 × 100 Gb/s a node", 6.25e9
        return ("infiniband 400 Gb/s a GPU", 50e9) if _modern(gpu) and on_baseboard(gpu) else ("infiniband 200 Gb/s a GPU", 25e9)
    return "ethernet 100 Gb/s a node", 12.5e9 / gpus_per_node
