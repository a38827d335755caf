"""Learning of ranges from one's own results: the factor on the half width of a kind of figure.

The ratio of an error to its half width has known shares for published values (`Spreads.quantiles`). One's own ratios are mixed with these as if
they were so many more; the ratio that nine in ten of the mixture stay below is the factor. Few results move it little, results of one model less
than those of several, and a single bad one does not double a range.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from planner.predictions.entries import Pair
from planner.workload.published.spreads import KINDS, NOMINAL, published_spreads

PRIOR = 20.0
"""Number of own results that weigh as much as everything published."""
MOST_OF_ONE = 2.0
"""Results of one model on one GPU count as this many at most, since their errors are alike."""
LEAST, MOST = 0.4, 3.0
"""Bounds of the factor."""


class Learned(NamedTuple):
    """Evidence of one's own results on a kind of figure."""

    factor: float
    """Factor on the half width."""
    results: int


def learned(pairs: Iterable[Pair]) -> Mapping[str, Learned]:
    """Kind -> its learned factor; kinds without results are absent."""
    ratios: dict[str, list[tuple[float, float]]] = defaultdict(list)
    groups: dict[tuple[str, str, str], list[Pair]] = defaultdict(list)
    for one in pairs:
        if one.kind in KINDS and one.predicted.half_width > 0 and one.predicted.value > 0:
            groups[one.kind, one.model, one.gpu].append(one)
    for (kind, _, _), group in groups.items():
        weight = min(1.0, MOST_OF_ONE / len(group))
        ratios[kind] += [(abs(math.log(one.seen / one.predicted.value)) / one.predicted.half_width, weight) for one in group]
    counts = {kind: sum(len(group) for key, group in groups.items() if key[0] == kind) for kind in ratios}
    return {kind: Learned(_factor(found), counts[kind]) for kind, found in ratios.items()}


def _factor(found: list[tuple[float, float]]) -> float:
    """Ratio that `NOMINAL` of the mixture stay below."""
    shares, published = (np.array([0.0, *column]) for column in zip(*published_spreads().quantiles, strict=True))
    grid = np.linspace(0.005, 0.995, 100)
    values = np.concatenate([np.interp(grid, shares, published), [ratio for ratio, _ in found]])
    weights = np.concatenate([np.full(grid.size, PRIOR / grid.size), [weight for _, weight in found]])
    order = np.argsort(values)
    counted = np.cumsum(weights[order]) / weights.sum()
    return float(np.clip(np.interp(NOMINAL, counted, values[order]), LEAST, MOST))
