"""Lengths of a training set's documents, cut at the sequence.

Lengths are log-normal, or all alike. With mu and s the mean and the standard deviation of their logarithm, S the sequence and l = min(x, S),
E[l^k] = exp(k·mu + k²s²/2)·F((ln S - mu - k·s²)/s) + S^k·(1 - F((ln S - mu)/s)), F the normal distribution.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from planner.workload.tasks import Lengths
from planner.workload.traffic.lengths import sigma_of


class Documents(NamedTuple):
    """Lengths of documents in tokens."""

    log_mean: float
    log_spread: float
    mean: float
    """Of what is kept of a document."""
    context: float
    """Tokens that come before a token in its own document, the mean over all tokens: E[l²] ÷ 2E[l]."""


def documents_of(given: int | Lengths, sequence: int) -> Documents:
    """The documents of `given` lengths, cut at `sequence` tokens."""
    spread = sigma_of(given)
    mean = given.mean if isinstance(given, Lengths) else float(given)
    log_mean = math.log(mean) - spread**2 / 2
    kept, square = (_moment(power, log_mean, spread, sequence) for power in (1, 2))
    return Documents(log_mean, spread, kept, square / (2 * kept))


def _moment(power: int, log_mean: float, spread: float, sequence: int) -> float:
    """E[min(x, sequence)^power]."""
    if spread == 0:
        return float(min(math.exp(log_mean), sequence) ** power)
    below = (math.log(sequence) - log_mean) / spread
    whole = math.exp(power * log_mean + (power * spread) ** 2 / 2) * _normal(below - power * spread)
    return whole + float(sequence) ** power * (1 - _normal(below))


def _normal(deviations: float) -> float:
    """Share of the standard normal distribution below `deviations`."""
    return math.erfc(-deviations / math.sqrt(2)) / 2
