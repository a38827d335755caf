"""Choice of how much kinds, facts and engines of ranges borrow from each other: constants of `ranges.residuals`.

One constant after the other takes the value with the least interval score (Gneiting and Raftery, 2007) with each source left out, a source in a kind
counted once, of the values as their sources state them; until none changes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ranges import residuals
from ranges.residual import Residual, interval_scores
from ranges.residuals import left_out

TRIED = {
    "RIDGE_KIND": (1.0, 3.0, 6.0, 9.0, 15.0),
    "RIDGE_FACT": (0.3, 1.0, 3.0, 9.0),
    "RIDGE_ENGINE": (0.3, 1.0, 3.0, 9.0),
    "BORROWED": (4.0, 8.0, 16.0, 32.0),
}
ROUNDS = 2


def score(groups: Sequence[Sequence[Residual]]) -> float:
    """Mean interval score of values as stated, with each source left out."""
    scores, weights = list[float](), list[float]()
    for group in groups:
        found = left_out(group)
        own = ~found.less_said
        scores.extend(interval_scores(np.array([one.reach for one in group])[own], found.half_widths()[own]))
        weights.extend(found.weights[own])
    return float(np.average(scores, weights=weights))


def choose(groups: Sequence[Sequence[Residual]]) -> None:
    """Print every value that is tried and those chosen, which are written into `ranges.residuals` by hand."""
    least = score(groups)
    print(f"as it is: {least:.4f}", {name: getattr(residuals, name) for name in TRIED}, flush=True)
    for _ in range(ROUNDS):
        before = least
        for name, values in TRIED.items():
            best = getattr(residuals, name)
            for value in values:
                setattr(residuals, name, value)
                found = score(groups)
                print(f"{name} = {value:g}: {found:.4f}", flush=True)
                if found < least:
                    least, best = found, value
            setattr(residuals, name, best)
        if least == before:
            break
    print(f"chosen: {least:.4f}", {name: getattr(residuals, name) for name in TRIED})
