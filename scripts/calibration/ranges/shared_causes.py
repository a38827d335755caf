"""Correlation of the errors of two candidates of one plan, from residuals of one source that ran one model in one framework."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np

from ranges.residual import Residual

MOST_OF_A_GROUP = 60
"""Residuals of one group whose pairs are counted, the first ones."""
LEAST_PAIRS = 3


def correlation(residuals: Sequence[Residual], pairs: Callable[[Residual, Residual], bool]) -> float:
    """Mean over sources and kinds of the mean product of two residuals over their mean square, over the `pairs` that count; at least 0."""
    groups: dict[tuple[str, str, str, str], list[Residual]] = defaultdict(list)
    for one in residuals:
        groups[one.kind, one.source, one.held.framework, one.held.model].append(one)
    sums: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    for (kind, source, _, _), group in groups.items():
        for one, other in combinations(group[:MOST_OF_A_GROUP], 2):
            if pairs(one, other):
                of = sums[kind, source]
                of[0] += one.off * other.off
                of[1] += (one.off**2 + other.off**2) / 2
                of[2] += 1
    known = [product / square for product, square, count in sums.values() if count >= LEAST_PAIRS and square > 0]
    return max(0.0, float(np.mean(known))) if known else 0.0


def shared_causes(residuals: Sequence[Residual]) -> tuple[float, float]:
    """(between different GPUs, between other counts of one GPU)."""
    return (
        correlation(residuals, lambda a, b: a.held.gpu != b.held.gpu),
        correlation(residuals, lambda a, b: a.held.gpu == b.held.gpu and a.held.gpus != b.held.gpus),
    )
