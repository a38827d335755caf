"""Fixed points of many rows at once: loads that a replica settles at, because its speed depends on them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from planner.engine.columns.arrays import Floats, Rows

MOST_STEPS = 40
"""Steps after which the rows that have not settled are left at their last value: loads that grow slowly towards their limit."""
SETTLED = 1e-9
"""Relative change by a step below which a row has settled."""
STEEPEST, GROWING = 0.97, 0.5
"""Largest slope that a secant may have, and the slope that is assumed where it is 1 or more, so that no fixed point is ahead on it."""
FEW = 0.7
"""Share of rows still moving at which the others are left out of the further steps."""


def fixed_point(of_rows: Callable[[Rows], Callable[[Floats], Floats]], begin: Floats) -> Floats:
    """Solutions x = f(x) ≥ 0 of every row, from `begin` [rows] on.

    `of_rows` returns the function f of some rows, which maps their values to the next ones of the plain iteration. Each step follows the
    secant through the last two values, x + (f(x) - x) / (1 - slope). A row that has settled keeps its value, so that no row depends on
    the others.
    """
    found, going = begin.copy(), np.arange(begin.size)
    function = of_rows(going)
    before, after_before = begin, function(begin)
    now = after_before
    for _ in range(MOST_STEPS):
        after = function(now)
        moves = np.abs(after - now) > SETTLED * now
        moving = np.count_nonzero(moves)
        if not moving:
            break
        change = now - before
        slope = (after - after_before) / np.where(change == 0, 1.0, change)
        slope = np.where(slope < 1, np.clip(slope, 0.0, STEEPEST), GROWING)
        following = np.where(moves, np.maximum(now + (after - now) / (1 - slope), 0.0), now)
        if moving <= FEW * going.size:
            found[going] = following
            going, now, after, following = going[moves], now[moves], after[moves], following[moves]
            function = of_rows(going)
        before, after_before, now = now, after, following
    found[going] = now
    return found
