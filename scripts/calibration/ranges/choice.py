"""Choice of the ridges of kinds, facts and engines (`ranges.residuals.RIDGES`) by nested cross-validation over sources.

The ridges for a source are those with which the ranges of all other sources score best, each of these left out in turn. The score of the sources under
ridges that were chosen without them is what choosing is worth.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np

from planner.workload.published.spreads import KINDS
from ranges.residual import Floats, Residual, interval_scores, mean_of_sources
from ranges.residuals import RIDGES
from ranges.unseen import sources_left_out

TRIED = {"kind": (2.0, 6.0), "fact": (2.0, 6.0), "engine": (0.1, 0.3)}


def score(residuals: Sequence[Residual], half_widths: Floats) -> float:
    """Mean over kinds of the logarithm of the interval score of values as their sources state them, a source counted once."""
    scores = []
    for kind in KINDS:
        own = [number for number, one in enumerate(residuals) if one.kind == kind and not one.asked]
        if own:
            of_kind = [residuals[number] for number in own]
            scores.append(np.log(mean_of_sources(of_kind, interval_scores(of_kind, half_widths[own]))))
    return float(np.mean(scores))


def half_widths(residuals: Sequence[Residual], ridges: Mapping[str, float]) -> Floats:
    """The half widths of `residuals` by other sources alone, with these `ridges`."""
    before = dict(RIDGES)
    RIDGES.update(ridges)
    try:
        return sources_left_out(residuals).half_widths()
    finally:
        RIDGES.update(before)


def choose(residuals: Sequence[Residual]) -> None:
    """Print the score of every combination, and that of choices that did not see the source they are for."""
    combinations = [dict(zip(TRIED, values, strict=True)) for values in product(*TRIED.values())]
    found = [half_widths(residuals, ridges) for ridges in combinations]
    for ridges, half in zip(combinations, found, strict=True):
        print(f"{ridges}: {score(residuals, half):.4f}", flush=True)
    nested, chosen = np.zeros(len(residuals)), Counter[int]()
    for source in sorted({one.source for one in residuals}):
        others = [one for one in residuals if one.source != source]
        best = int(np.argmin([score(others, half_widths(others, ridges)) for ridges in combinations]))
        own = np.array([one.source == source for one in residuals])
        nested[own] = found[best][own]
        chosen[best] += 1
    print(f"chosen without the source: {score(residuals, nested):.4f}", {str(combinations[at]): n for at, n in chosen.items()})
