"""Upper envelope of several lines that are straight between the points of a common grid.

Both axes are logarithms, so a straight part is a power law, and a line moved up by `s` is larger by the factor exp(s).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

import msgspec

Line = Sequence[float | None]
"""ln y at every point of the grid; None: no value."""


class Stretch(msgspec.Struct, frozen=True):
    """Part of the axis, from `start` to `end`, on which the line `name` is the highest."""

    name: str
    start: float
    end: float


class Takeover(msgspec.Struct, frozen=True):
    """Change of the highest line from `left` to `right` at `at`; `dropped`: because `left` has no further value, not by crossing."""

    at: float
    left: str
    right: str
    dropped: bool = False


class CrossingRange(msgspec.Struct, frozen=True):
    """Range of a crossing; an end is open where the lines stay too close up to the end of the grid."""

    low: float
    high: float
    low_open: bool
    high_open: bool


def highest(grid: Sequence[float], lines: Mapping[str, Line]) -> tuple[list[Stretch], list[Takeover]]:
    """Stretches of the upper envelope from left to right, and the changes between them.

    Where the highest line ends, the change lies in the middle of the interval in which it ends.
    """
    stretches: list[Stretch] = []
    changes: list[Takeover] = []
    best, since = "", grid[0] if grid else 0.0
    for number, (left, right) in enumerate(pairwise(grid)):
        here = {
            name: (a, b) for name, line in lines.items() if (a := line[number]) is not None and (b := line[number + 1]) is not None
        }
        if best not in here and best:
            at, follower = (left + right) / 2, _best_at(here, 0.5)
            stretches.append(Stretch(best, since, at))
            if follower:
                changes.append(Takeover(at, best, follower, dropped=True))
            best, since, place = follower, at, 0.5
        else:
            best, place = best or _best_at(here, 0.0), 0.0
        while best and (found := _overtaken(here, best, place)) is not None:
            place, follower = found
            at = left + (right - left) * place
            stretches.append(Stretch(best, since, at))
            changes.append(Takeover(at, best, follower))
            best, since = follower, at
    if best and grid:
        stretches.append(Stretch(best, since, grid[-1]))
    return [stretch for stretch in stretches if stretch.end > stretch.start or len(grid) == 1], changes


def crossing_range(grid: Sequence[float], left: Line, right: Line, spreads: Sequence[float], at: float) -> CrossingRange:
    """Range of the crossing of `left` and `right` at `at` when the difference of their logarithms is uncertain by `spreads`.

    `low` is the last point before `at` where `left` is above `right` by the spread, `high` the first where it is below by it.
    """
    known = [
        (x, a - b, spread) for x, a, b, spread in zip(grid, left, right, spreads, strict=True) if a is not None and b is not None
    ]
    if not known:
        return CrossingRange(at, at, low_open=True, high_open=True)
    before = [(x, gap - spread) for x, gap, spread in known]
    after = [(x, gap + spread) for x, gap, spread in known]
    low = _zero([point for point in reversed(before) if point[0] <= at], at, _level(before, at))
    high = _zero([point for point in after if point[0] >= at], at, _level(after, at))
    first, last = known[0][0], known[-1][0]
    return CrossingRange(first if low is None else low, last if high is None else high, low is None, high is None)


def _best_at(here: Mapping[str, tuple[float, float]], place: float) -> str:
    """Highest line at a share of the interval; of equal ones, the one that is higher at its end."""
    return max(here, key=lambda name: (here[name][0] + (here[name][1] - here[name][0]) * place, here[name][1]), default="")


def _overtaken(here: Mapping[str, tuple[float, float]], best: str, place: float) -> tuple[float, str] | None:
    """(share of the interval, name) where `best` is next crossed from below, after `place`."""
    start, end = here[best]
    found: list[tuple[float, float, str]] = []
    for name, (a, b) in here.items():
        steeper = (b - a) - (end - start)
        if name != best and steeper > 0 and (share := (start - a) / steeper) < 1:
            found.append((max(place, share), -steeper, name))
    if not found:
        return None
    share, _, name = min(found)
    return share, name


def _zero(points: Sequence[tuple[float, float]], at: float, level: float) -> float | None:
    """First place after `at` where the value changes its sign; None: nowhere."""
    x0, y0 = at, level
    for x1, y1 in points:
        if math.copysign(1, y1) != math.copysign(1, y0) and y0 != y1:
            return x0 + (x1 - x0) * (0 - y0) / (y1 - y0)
        x0, y0 = x1, y1
    return None


def _level(points: Sequence[tuple[float, float]], at: float) -> float:
    """Value at `at`, interpolated between its neighbours."""
    for (x0, y0), (x1, y1) in pairwise(points):
        if x0 <= at <= x1:
            return y0 + (y1 - y0) * (at - x0) / (x1 - x0)
    return points[-1][1] if at >= points[-1][0] else points[0][1]
