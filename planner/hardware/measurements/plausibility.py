"""Plausibility of a measured point: no part exceeds its vendor's limits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, get_args

from planner.hardware.catalogue.interconnects import CollectiveOp, Fabric
from planner.units import bytes_text, si_text

if TYPE_CHECKING:
    from planner.hardware.catalogue.gpus import Gpu
    from planner.hardware.measurements.measurement import Measurement

COMPUTE_OVER = 1.05
"""Margin for clocks above the boost clock of the data sheet."""
BANDWIDTH_OVER = 1.02
"""Margin for rounding in data sheets."""
LINK_OVER = 1.10
"""Margin for switches that add up in the network and so exceed the link's rate: 482 of 450 GB/s on 8 × H200 (stas00/ml-engineering)."""
LEAST_LAUNCH_S = 1e-7
"""Shortest plausible launch of an operator: a tenth of the fastest launch observed on CPUs and GPUs."""
SAME_UNITS = {"mxfp8": "fp8"}
"""Format with block scales -> the dtype whose units multiply it."""
SPARSE_GAIN = 2.0
"""Largest gain from leaving out two numbers of four."""
COLLECTIVE_OPS: tuple[CollectiveOp, ...] = get_args(CollectiveOp)
FEWEST_RANKS = 2
_STREAMING = ("copy", "triad", "read", "gemv", "attention-decode", "attention-paged")
"""Kinds whose value is bytes/s of the device's memory."""


def implausibility(point: Measurement, gpu: Gpu) -> str:
    """Reason why `gpu` cannot have reached `point`, with both figures; '' if it can, or its limit is not known."""
    value = point.value
    if value is None:
        return ""
    if point.kind == "launch":
        return f"{si_text(value, 's')} an operator is less than any device takes" if value < LEAST_LAUNCH_S else ""
    if point.kind == "memory":
        over = value > gpu.memory_bytes * BANDWIDTH_OVER
        return f"{bytes_text(value)} is more than its memory, {bytes_text(gpu.memory_bytes)}" if over else ""
    if point.kind in _STREAMING:
        warm = point.parameters.get("cache") == "warm"
        return "" if warm else _above(value, gpu.memory_bandwidth_bytes_per_s, BANDWIDTH_OVER, "its memory's", "B/s")
    if point.kind == "decode":
        moved = value * point.bytes if point.bytes else 0.0
        return _above(moved, gpu.memory_bandwidth_bytes_per_s, BANDWIDTH_OVER, "its memory's", "B/s")
    if point.kind in {"transfer", "collective"}:
        links = [link / 2 for link in (gpu.pcie_bytes_per_s, gpu.nvlink_bytes_per_s) if link]
        return _above(value, max(links, default=None), LINK_OVER, "one direction of its links,", "B/s")
    peak = gpu.compute_flop_per_s.get(SAME_UNITS.get(point.dtype or "", point.dtype or ""))
    if point.kind == "gemm-sparse":
        return _above(value, peak and SPARSE_GAIN * peak, COMPUTE_OVER, f"twice its dense {point.dtype} peak,", "FLOP/s")
    return _above(value, peak, COMPUTE_OVER, f"its dense {point.dtype} peak,", "FLOP/s")


def _above(value: float, most: float | None, over: float, whose: str, unit: str) -> str:
    if most is None or value <= most * over:
        return ""
    return f"{si_text(value, unit)} is {value / most:.2f} times {whose} {si_text(most, unit)}"


def collective_faults(given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(parameter, fault) for the parameters of a collective that has a value."""
    ranks, nodes, series = given.get("ranks"), given.get("nodes", 1), given.get("series")
    if given.get("op") not in COLLECTIVE_OPS:
        yield "op", f"{given.get('op')!r} is not one of {', '.join(COLLECTIVE_OPS)}."
    if not isinstance(ranks, int) or ranks < FEWEST_RANKS:
        yield "ranks", f"{ranks!r} is not a number of ranks from {FEWEST_RANKS}."
    elif not isinstance(nodes, int) or nodes < 1:
        yield "nodes", f"{nodes!r} is not a number of nodes."
    elif ranks % nodes:
        yield "nodes", f"{ranks} ranks do not fill {nodes} nodes."
    if "fabric" in given and given["fabric"] not in get_args(Fabric):
        yield "fabric", f"{given['fabric']!r} is not one of {', '.join(get_args(Fabric))}."
    if not isinstance(series, list) or not series or not all(map(_is_point, series)):
        yield "series", "is not a list of pairs of bytes and seconds, each above 0."


def _is_point(pair: object) -> bool:
    return isinstance(pair, list | tuple) and len(pair) == 2 and all(isinstance(one, int | float) and one > 0 for one in pair)
