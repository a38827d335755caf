"""An estimated number: its value, a range that should contain the truth nine times in ten, and its basis."""

from __future__ import annotations

from typing import get_args

import msgspec

from planner.hardware.ceilings.ceilings import Basis

__all__ = ["BASES", "Basis", "Figure", "Percentiles", "weakest"]

BASES: tuple[Basis, ...] = get_args(Basis)
"""Bases of evidence from the weakest to the strongest."""


class Figure(msgspec.Struct, frozen=True):
    """An estimate. The range from `low` to `high` should contain the truth 9 times in 10."""

    value: float
    low: float
    high: float
    basis: Basis

    @classmethod
    def exact(cls, value: float, basis: Basis = "spec") -> Figure:
        """A figure without a range."""
        return cls(value, value, value, basis)

    def scaled(self, factor: float) -> Figure:
        """Figure times `factor`."""
        return Figure(self.value * factor, self.low * factor, self.high * factor, self.basis)

    def inverse(self, numerator: float) -> Figure:
        """`numerator` divided by the figure; the ends of the range are exchanged."""
        return Figure(numerator / self.value, numerator / self.high, numerator / self.low, self.basis)

    def capped(self, most: float) -> Figure:
        """Figure, with value and range limited to at most `most`."""
        return Figure(min(self.value, most), min(self.low, most), min(self.high, most), self.basis)


def value_of(figure: Figure | None) -> float | None:
    """Value of a figure, or None without a figure."""
    return figure.value if figure is not None else None


class Percentiles(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A latency over requests."""

    mean: Figure
    p50: Figure | None = None
    p95: Figure | None = None
    p99: Figure | None = None


def weakest(*bases: Basis) -> Basis:
    """Weakest of `bases`; 'spec' where there are none."""
    return min(bases, key=BASES.index, default="spec")
