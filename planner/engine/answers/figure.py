"""An estimated number: its value, a range that should hold the truth nine times in ten, and the basis it rests on."""

from __future__ import annotations

from typing import Literal

import msgspec

Basis = Literal["spec", "public", "transferred", "measured"]
"""Weakest to strongest: vendor figures with a class prior; a published measurement of this part; a measurement made
here of a related part; a measurement made here of this part."""


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
