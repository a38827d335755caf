"""One published value with its prediction; weights, quantiles, scores and correlated errors of many."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.workload.published.spreads import ENGINE_OPEN, KINDS, NOMINAL, PROGRAM_OPEN, RELEASE_OPEN

Floats = NDArray[np.float64]
UNSAID = (RELEASE_OPEN, PROGRAM_OPEN, ENGINE_OPEN)
"""Facts that have a slope in each family of kinds: settings that a request leaves open."""
ALIKE = 0.2
"""Correlation within a source of the logarithms of sizes ÷ fitted half widths: between sources 0.08 to 0.45 of the variance, by family
(one-way analysis of variance, 2026-11-26)."""
LEAST = 1e-3
SHARES = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
"""Shares of the truths whose ranges are reported."""
MEMORY_SKEW = 0.25
"""Share of a half width by which ranges of memory reach further up, and less far down: an allocator keeps more than is alive, never less.
From 0 to 0.6, near the lowest interval score of both kinds with each source left out (inference 0.94 at 0, 0.80 from 0.2 to 0.3; training
0.55 at 0.25; 2026-11-24)."""


@dataclass(frozen=True)
class Residual:
    """One published value with its prediction."""

    kind: str
    source: str
    off: float
    """ln(measured ÷ predicted)."""
    facts: Mapping[str, float] = field(default_factory=dict)
    network: float = 0.0
    """Half width added independently of the fit, for an unmeasured network, or for the host under an unnamed engine."""
    lengths: float = 0.0
    """Half width of lengths that may be means, and of prompts that may meet; not part of the fit, because most are as stated."""
    held: Any = None
    """The comparison it comes from."""
    classes: tuple[str, ...] = ("", "", "")
    """Architecture of the GPU, shape of the model, and engine of a service; "": none that matters."""
    further_down: float = 0.0
    further_up: float = 0.0
    """Logarithms by which a formula extends the range, to other meanings of the request."""
    asked: str = ""
    """Part of what its source states that is left out; "": nothing."""

    @property
    def skew(self) -> float:
        """Share of a half width by which ranges of the kind reach further up than down."""
        return MEMORY_SKEW if KINDS[self.kind] == "memory" else 0.0

    @property
    def reach(self) -> float:
        """`off` for comparison with a half width: inside up to that, at either end of the range."""
        if self.off > 0:
            return max(0.0, self.off - self.further_up) / (1 + self.skew)
        return min(0.0, self.off + self.further_down) / (1 - self.skew)

    def size(self) -> float:
        """Size beyond the network's part of the range."""
        return float(np.sqrt(max(LEAST**2, self.reach**2 - self.network**2)))


def weights(residuals: Sequence[Residual]) -> Floats:
    """The weight of each value: together up to one for a source and kind, by the number of independent values that n similar ones are worth.

    n / (1 + (n - 1) · `ALIKE`) of them, at most 1 / `ALIKE` (the design effect of clusters; Kish, Survey Sampling, 1965).
    """
    counts = Counter((one.kind, one.source, one.asked) for one in residuals)
    return np.array([ALIKE / (1 + (counts[one.kind, one.source, one.asked] - 1) * ALIKE) for one in residuals])


def weighted_quantile(values: Floats, weight: Floats, share: float) -> float:
    """The smallest value up to which `share` of the weight lies."""
    order = np.argsort(values)
    counted = np.cumsum(weight[order])
    return float(values[order][min(len(values) - 1, int(np.searchsorted(counted, share * counted[-1] - 1e-12)))])


def widths(residuals: Sequence[Residual], half_widths: Floats) -> Floats:
    """Logarithms of high end ÷ low end, including other meanings of the request."""
    ends = np.array([one.further_down + one.further_up for one in residuals])
    return 2 * half_widths + ends


def interval_scores(residuals: Sequence[Residual], half_widths: Floats) -> Floats:
    """Width plus 2/(1 - `NOMINAL`) times the distance outside (Gneiting and Raftery, 2007); smaller is better."""
    offs = np.abs([one.reach for one in residuals])
    return widths(residuals, half_widths) + 2 / (1 - NOMINAL) * np.maximum(0.0, offs - half_widths)


def mean_of_sources(residuals: Iterable[Residual], values: Floats) -> float:
    """The mean over sources of the mean of `values` in each."""
    found: dict[str, list[float]] = {}
    for one, value in zip(residuals, values, strict=True):
        found.setdefault(one.source, []).append(float(value))
    return float(np.mean([np.mean(group) for group in found.values()]))


MOST_OF_A_GROUP = 60
"""Residuals of one group whose pairs are counted, the first ones."""
LEAST_PAIRS = 3


def correlation(residuals: Sequence[Residual], pairs: Callable[[Residual, Residual], bool]) -> float:
    """Mean over sources and kinds of the mean product of `pairs` of residuals ÷ their mean square; at least 0."""
    groups: dict[tuple[str, str, str, str], list[Residual]] = defaultdict(list)
    for one in residuals:
        groups[one.kind, one.source, one.held.framework, one.held.model].append(one)
    sums: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    for (kind, source, _, _), group in groups.items():
        for one, other in combinations(group[:MOST_OF_A_GROUP], 2):
            if pairs(one, other):
                pair_sums = sums[kind, source]
                pair_sums[0] += one.off * other.off
                pair_sums[1] += (one.off**2 + other.off**2) / 2
                pair_sums[2] += 1
    known = [product / square for product, square, count in sums.values() if count >= LEAST_PAIRS and square > 0]
    return max(0.0, float(np.mean(known))) if known else 0.0


def shared_causes(residuals: Sequence[Residual]) -> tuple[float, float]:
    """(between different GPUs, between other counts of one GPU)."""
    return (
        correlation(residuals, lambda a, b: a.held.gpu != b.held.gpu),
        correlation(residuals, lambda a, b: a.held.gpu == b.held.gpu and a.held.gpus != b.held.gpus),
    )
