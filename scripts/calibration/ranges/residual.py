"""One published value beside its prediction, and the weights, quantiles and scores of many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.workload.published.spreads import ENGINE_OPEN, NOMINAL, PROGRAM_OPEN, RELEASE_OPEN

Floats = NDArray[np.float64]
UNSAID = (RELEASE_OPEN, PROGRAM_OPEN, ENGINE_OPEN)
"""Facts that have a factor in each family of kinds besides their slope."""
WHOLE_SOURCE = 3
"""Values from which a source counts in full."""
LEAST = 1e-3


@dataclass(frozen=True)
class Residual:
    """One published value beside its prediction."""

    kind: str
    source: str
    off: float
    """ln(measured ÷ predicted)."""
    facts: Mapping[str, float] = field(default_factory=dict)
    network: float = 0.0
    """Half width that stands beside that of the formulas, whatever is fitted."""
    lengths: float = 0.0
    """Half width of lengths that may be means, and of prompts that may meet, which counts for nothing in the fit: most of them are what they seem."""
    held: Any = None
    """The comparison it comes from."""
    classes: frozenset[str] = frozenset()
    """Architecture of the GPU and shape of the model."""
    asked: str = ""
    """Part of what its source states that is not said; "": nothing is left out."""

    def size(self) -> float:
        """Size beyond what the network's part of the range covers."""
        return float(np.sqrt(max(LEAST**2, self.off**2 - self.network**2)))


def weights(residuals: Sequence[Residual]) -> Floats:
    """The weight of each value: one for a source and kind, less below `WHOLE_SOURCE` values."""
    counts = Counter((one.kind, one.source, one.asked) for one in residuals)
    return np.array([min(1.0, n / WHOLE_SOURCE) / n for one in residuals for n in (counts[one.kind, one.source, one.asked],)])


def open_of(one: Residual) -> str:
    """The member of `UNSAID` that the question of a value leaves open; "" where it leaves nothing open."""
    return next((name for name in reversed(UNSAID) if one.facts.get(name, 0.0) > 0), "")


def weighted_quantile(values: Floats, weight: Floats, share: float) -> float:
    """The smallest value up to which `share` of the weight lies."""
    order = np.argsort(values)
    counted = np.cumsum(weight[order])
    return float(values[order][min(len(values) - 1, int(np.searchsorted(counted, share * counted[-1] - 1e-12)))])


def interval_scores(offs: Floats, half_widths: Floats, share: float = NOMINAL) -> Floats:
    """Width plus 2/(1 - share) times what a value is outside (Gneiting and Raftery, 2007); smaller is better."""
    scores: Floats = 2 * half_widths + 2 / (1 - share) * np.maximum(0.0, np.abs(offs) - half_widths)
    return scores


def mean_of_sources(residuals: Iterable[Residual], values: Floats) -> float:
    """The mean over sources of the mean of `values` in each."""
    found: dict[str, list[float]] = {}
    for one, value in zip(residuals, values, strict=True):
        found.setdefault(one.source, []).append(float(value))
    return float(np.mean([np.mean(group) for group in found.values()]))
