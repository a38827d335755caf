"""An estimated number: its value, a range that should hold the truth nine times in ten, and the basis it rests on."""

from __future__ import annotations

import msgspec

from planner.hardware.ceilings.ceilings import Basis

__all__ = ["Basis", "Figure", "Percentiles"]


class Figure(msgspec.Struct, frozen=True):
    """An estimate. `low`–`high` should hold the truth 9 times in 10."""

    value: float
    low: float
    high: float
    basis: Basis


class Percentiles(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A latency over requests."""

    mean: Figure
    p50: Figure | None = None
    p95: Figure | None = None
    p99: Figure | None = None
