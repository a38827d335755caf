"""A chart as data: curves, dots and the lines of limits, for every way it is drawn."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from planner.present.drawing.axes import Axis

Point = tuple[float, float]


class Curve(msgspec.Struct, frozen=True):
    """A line through points."""

    name: str
    """Empty: it only joins dots."""
    points: Sequence[Point]


class Dot(msgspec.Struct, frozen=True):
    """One point with words of its own."""

    x: float
    y: float
    label: str = ""
    """Written beside it where there is room; dots without are drawn faintly."""
    detail: str = ""
    """Text shown to a reader who points at it."""


class Limit(msgspec.Struct, frozen=True):
    """A straight line across the chart at one value of an axis."""

    value: float
    label: str
    upright: bool = True
    """Whether it stands at a value of x; else it lies at one of y."""


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
    """Note on how to read the chart, and on what it leaves out."""
