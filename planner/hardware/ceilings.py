"""What a device really reaches: achieved compute, bandwidth and latency, each with a basis and a spread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Basis = Literal["spec", "public", "transferred", "measured"]


@dataclass(frozen=True, slots=True)
class Ceiling:
    """One reachable rate (or latency).

    `spread` is the half width of the 90 % range of its logarithm: low = value·exp(-spread).
    """

    value: float
    spread: float
    basis: Basis
    source: str


@dataclass(frozen=True, slots=True)
class Ceilings:
    """Everything the timing formulas need of one device."""

    compute_flop_per_s: dict[str, Ceiling]
    """Dtype -> sustained GEMM rate; a missing dtype cannot be timed."""
    bandwidth_bytes_per_s: Ceiling
    kernel_latency_s: Ceiling
    """Floor of one kernel on the device."""
    launch_s: Ceiling
    """Host time to launch one operator in eager mode."""
    train_factor: Ceiling
    """Measured ÷ predicted time of a training step (1 when never measured)."""
