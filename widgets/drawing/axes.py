"""The axes of a chart: where a value stands between both ends, and which round values are ticks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from planner.units import digits

STEPS = ((1.0, 2.0, 5.0), (1.0, 3.0), (1.0,))
"""Ticks within a decade of a logarithmic axis, the closest set that has room."""
LEAST_BEYOND = 0.06
"""Share of a linear axis that is left free above its highest value."""


@dataclass(frozen=True, slots=True)
class LogAxis:
    """From `low` to `high`, both above 0, at even distances for even ratios."""

    low: float
    high: float
    text: Callable[[float], str] = digits
    """Label of a tick."""

    @classmethod
    def around(cls, values: Sequence[float], text: Callable[[float], str] = digits, margin: float = 0.06) -> LogAxis:
        """An axis with room for every value; a factor of two each way around a single one."""
        known = [value for value in values if value > 0 and math.isfinite(value)] or [1.0]
        low, high = math.log(min(known)), math.log(max(known))
        air = (high - low) * margin or math.log(2)
        return cls(math.exp(low - air), math.exp(high + air), text)

    def place(self, value: float) -> float:
        """0 at `low`, 1 at `high`."""
        return math.log(value / self.low) / math.log(self.high / self.low)

    def ticks(self, most: int) -> list[float]:
        """At most `most` round values inside the axis, but one at least where a decade lies inside."""
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        found: list[float] = []
        for steps in STEPS:
            found = [
                value
                for power in range(first, last + 1)
                for step in steps
                if self.low <= (value := step * 10.0**power) <= self.high
            ]
            if len(found) <= most:
                return found
        return found[:: -(-len(found) // max(1, most))]


@dataclass(frozen=True, slots=True)
class LinearAxis:
    """From `low` to `high` at even distances for even differences."""

    low: float
    high: float
    text: Callable[[float], str] = digits
    """Label of a tick."""
    unit: float = 1.0
    """Ticks are round multiples of this: 12 for months that are read as years."""

    @classmethod
    def from_zero(cls, values: Sequence[float], text: Callable[[float], str] = digits) -> LinearAxis:
        """An axis from 0 with room for every value."""
        return cls(0.0, max([value for value in values if math.isfinite(value)], default=0.0) * (1 + LEAST_BEYOND) or 1.0, text)

    def place(self, value: float) -> float:
        """0 at `low`, 1 at `high`."""
        return (value - self.low) / (self.high - self.low)

    def ticks(self, most: int) -> list[float]:
        """At most `most` round values inside the axis, both ends included."""
        whole = (self.high - self.low) / self.unit
        decade = 10.0 ** math.floor(math.log10(whole / max(1, most)))
        step = next(one * decade for one in (1, 2, 5, 10, 20) if whole / (one * decade) <= max(1, most)) * self.unit
        first = math.ceil(self.low / step - 1e-9)
        return [number * step for number in range(first, math.floor(self.high / step + 1e-9) + 1)]


Axis = LogAxis | LinearAxis
