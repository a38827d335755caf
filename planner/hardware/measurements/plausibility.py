"""Whether a result can be true of the part it names: what the vendor says the hardware can do at most."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.units import bytes_text, si_text

if TYPE_CHECKING:
    from planner.hardware.catalogue.gpus import Gpu
    from planner.hardware.measurements.measurement import Measurement

COMPUTE_OVER = 1.05
"""Clocks above the boost clock of the data sheet."""
BANDWIDTH_OVER = 1.02
"""Figures of a data sheet are rounded."""
LINK_OVER = 1.10
"""Switches that add up themselves carry more than the link's rate: 482 of 450 GB/s on 8 × H200 (stas00/ml-engineering)."""
LEAST_LAUNCH_S = 1e-7
"""No operator is launched faster: a tenth of the fastest seen on CPUs and GPUs alike."""
_STREAMING = ("copy", "triad", "read", "gemv", "attention-decode")
"""Kinds whose value is bytes/s of the device's memory."""


def beyond_physics(point: Measurement, gpu: Gpu) -> str:
    """Why `point` cannot be true of `gpu`, with both figures; '' where it can, or nothing is known to hold it against."""
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
    return _above(value, gpu.compute_flop_per_s.get(point.dtype or ""), COMPUTE_OVER, f"its dense {point.dtype} peak,", "FLOP/s")


def _above(value: float, most: float | None, over: float, whose: str, unit: str) -> str:
    if most is None or value <= most * over:
        return ""
    return f"{si_text(value, unit)} is {value / most:.2f} times {whose} {si_text(most, unit)}"
