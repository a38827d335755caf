"""The weight of one measured point: its spread, its basis, its source, and whether it replaces the earlier figure.

Spreads are half widths of a 90 % range of the logarithm.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from planner.hardware.ceilings.ceilings import Ceiling

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from planner.hardware.ceilings.ceilings import Basis
    from planner.hardware.measurements.measurement import Measurement

WEAK_SPREADS = {"unstable": 0.35, "throttled": 0.35, "shared": 0.7}
"""Spread of a disturbed point by its status; such a point is used only where less is known without it."""
LEAST_SPREAD = 0.05
"""Difference between two measurements of the same board an hour apart."""
ELSEWHERE_SPREAD = 0.10
"""Spread between boards of a part in different hosts: two published campaigns on six parts differ by a median of 4-9.5 % a shape."""
NORMAL_90, NORMAL_95 = 1.645, 1.960
"""Half widths of the 90 % and 95 % ranges of a normal distribution, in standard deviations."""


def spread_of(point: Measurement) -> float:
    """Half width of the 90 % range of one point, by its 95 % interval and its status."""
    interval = 0.0
    if point.value and point.low and point.high:
        interval = math.log(point.high / point.low) / 2 * NORMAL_90 / NORMAL_95
    board = LEAST_SPREAD if point.origin == "own" else math.hypot(LEAST_SPREAD, ELSEWHERE_SPREAD)
    return math.hypot(max(interval, 0.0), board, WEAK_SPREADS.get(point.status, 0.0))


def basis_of(points: Iterable[Measurement]) -> Basis:
    """'measured' where own points are among them, 'public' where all come from other machines."""
    return "measured" if any(one.origin == "own" for one in points) else "public"


def source_of(points: Sequence[Measurement], what: str) -> str:
    """Evidence of a figure, in words."""
    return f"benchmark: {what}" if basis_of(points) == "measured" else f"benchmark on another machine: {what}"


def ceiling_from(point: Measurement, value: float, spread: float = 0.0) -> Ceiling:
    """`value` as a ceiling that rests on one point; `spread`: the formula's, added to that of the point."""
    return Ceiling(value, math.hypot(spread_of(point), spread), basis_of([point]), source_of([point], point.point))


def undisturbed(points: Sequence[Measurement]) -> Sequence[Measurement]:
    """The undisturbed points, or all if every one was disturbed."""
    return [one for one in points if one.reliable] or points


def replaces(ceiling: Ceiling, prior: Ceiling | None, points: Iterable[Measurement]) -> bool:
    """Whether a measurement replaces `prior`: always when undisturbed, else where less was known without it."""
    return prior is None or any(one.reliable for one in points) or ceiling.spread < prior.spread
