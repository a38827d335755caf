"""Data of a chart for all ways of drawing: axes with ticks, curves, dots and lines of limits."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import count

import msgspec

from planner.units import digits

STEPS = ((1.0, 1.5, 2.0, 3.0, 5.0, 7.0), (1.0, 2.0, 5.0), (1.0, 3.0), (1.0,))
"""Sets of ticks within a decade, from which the densest one with enough room is used."""
WIDE = 5.0
"""Ratio of the highest to the lowest value from which an axis is logarithmic."""
WHOLE = 3
"""Length of an axis in units from which ticks are only at whole units."""

Text = Callable[[float], str]
NO_NEWS = re.compile(r"\.(\d*?)0+(?!\d)")
"""Trailing zeros of decimals."""


def tick_label(axis: Axis, value: float) -> str:
    """Label of a tick without trailing zeros: '20 s', not '20.0 s'."""
    return NO_NEWS.sub(lambda found: f".{found[1]}" if found[1] else "", axis.text(value))


class LogAxis(msgspec.Struct, frozen=True):
    """A logarithmic axis from `low` to `high`, both above 0."""

    low: float
    high: float
    text: Text = digits
    """Label of a tick."""

    @classmethod
    def around(cls, values: Sequence[float], text: Text = digits, margin: float = 0.06) -> LogAxis:
        """Axis with room for all values; a factor of two in both directions around a single one."""
        known = [value for value in values if value > 0 and math.isfinite(value)] or [1.0]
        low, high = math.log(min(known)), math.log(max(known))
        air = (high - low) * margin or math.log(2)
        return cls(math.exp(low - air), math.exp(high + air), text)

    def place(self, value: float) -> float:
        """Position from 0 at `low` to 1 at `high`."""
        return math.log(value / self.low) / math.log(self.high / self.low)

    def ticks(self, most: int) -> list[float]:
        """Round values inside the axis, at most `most`, but at least one if a power of ten is inside."""
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


class LinearAxis(msgspec.Struct, frozen=True):
    """A linear axis from `low` to `high`."""

    low: float
    high: float
    text: Text = digits
    """Label of a tick."""
    unit: float = 1.0
    """Ticks are round multiples of this: 3 for months, to show quarters and years."""

    def place(self, value: float) -> float:
        """Position from 0 at `low` to 1 at `high`."""
        return (value - self.low) / (self.high - self.low)

    def ticks(self, most: int) -> list[float]:
        """Round values inside the axis, at most `most`, at least two."""
        units = (self.high - self.low) / self.unit
        least = 1.0 if self.unit != 1 and units >= WHOLE else 0.0
        for multiple in (multiple for multiple in _round_steps(units) if multiple >= least):
            step = multiple * self.unit
            first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
            if last - first < max(2, most):
                return [number * step for number in range(first, last + 1)]
        raise AssertionError("unreachable: step time grows without limit")


Axis = LogAxis | LinearAxis


def _round_steps(span: float) -> Iterator[float]:
    """Endless growing steps 1, 2, 5, 10, … times a power of ten far below `span`."""
    for power in count(math.floor(math.log10(span)) - 2):
        for step in (1.0, 2.0, 5.0):
            yield step * 10.0**power


def axis_around(values: Sequence[float], text: Text = digits) -> Axis:
    """Axis with room for all values above 0: logarithmic if they are far apart, otherwise linear."""
    known = [value for value in values if value > 0 and math.isfinite(value)]
    if len(known) < 2 or max(known) >= WIDE * min(known) or min(known) == max(known):
        return LogAxis.around(known, text)
    low, high = min(known), max(known)
    air = (high - low) * 0.08
    return LinearAxis(max(0.0, low - air), high + air, text)


Point = tuple[float, float]


class Curve(msgspec.Struct, frozen=True):
    """A line through points."""

    name: str
    """Name; empty if the curve only joins dots."""
    points: Sequence[Point]
    ranges: Sequence[tuple[float, float]] = ()
    """Low and high end of the shaded range at each point."""


class Dot(msgspec.Struct, frozen=True):
    """One labelled point."""

    x: float
    y: float
    label: str = ""
    """Text next to the dot if there is room; dots without a label are faint."""
    detail: str = ""
    """Tooltip."""


class Limit(msgspec.Struct, frozen=True):
    """A straight line across the chart at one value of an axis."""

    value: float
    label: str
    upright: bool = True
    """True for a vertical line at a value of x; else a horizontal one at a value of y."""
    at_foot: bool = False
    """True if the label of a vertical line is at its lower end because curves are at the upper one."""


class Chart(msgspec.Struct, frozen=True):
    """Curves and dots between two axes."""

    title: str
    x: Axis
    y: Axis
    x_title: str
    y_title: str
    curves: Sequence[Curve] = ()
    dots: Sequence[Dot] = ()
    limits: Sequence[Limit] = ()
    note: str = ""
    """Note on how to read the chart, and on its omissions."""
    unnamed: str = ""
    """Words for dots without a label in the legend."""
