"""Lengths of answers for which only a mean is given, and of documents of a training set, cut at the sequence."""

from __future__ import annotations

import math
from typing import NamedTuple

from planner.workload.tasks import Lengths, Request, Workload, varies

CONVERSATIONS_SIGMA = 0.8
"""Standard deviation of the logarithm of lengths in conversations as load generators cut them (ShareGPT up to 1,024 tokens in, 2,048
total): a standard deviation of 0.9 means. An assumption, chosen on one source (docs/decisions/077-answers-differ-in-runs-that-end.md)."""

NORMAL_P95 = 1.6448536269514722
"""95th percentile of the standard normal distribution."""
ROUNDS = 10
"""Requests that a load generator sends for each of its concurrent clients, which start together; ten is the usual setting."""


def as_conversations(mean: float) -> Lengths:
    """Lengths with that mean and the spread of conversations."""
    return Lengths(mean=mean, p50=mean * math.exp(-(CONVERSATIONS_SIGMA**2) / 2))


def drawn_outputs(workload: Workload) -> int | Lengths | None:
    """Output lengths for a simulation: as given, but a mean without a distribution spreads where the number of requests is limited.

    Such a load ends with a drain, in which the longest answers run almost alone. A load that continues, or arrives at a rate, hardly
    depends on the spread of lengths, nor does the rate of a job in a search. The same `p50` and mean state that all answers are equal.
    """
    given = workload.output_tokens
    mean = given.mean if isinstance(given, Lengths) and not varies(given) else given
    ends = isinstance(workload, Request) and workload.requests and not workload.request_rate_per_s
    if not ends or mean is None or isinstance(mean, Lengths):
        return given
    return as_conversations(mean)


def sigma_of(given: int | Lengths | None) -> float:
    """Standard deviation of the logarithm of the lengths in a workload; 0 if all are equal."""
    if not isinstance(given, Lengths):
        return 0.0
    p50 = None if given.p50 is None else max(given.p50, 0.5)  # less would round to no token
    if p50 and given.p95:
        return math.log(max(given.p95 / p50, 1.0)) / NORMAL_P95
    if p50 and given.mean > p50:
        return math.sqrt(2 * math.log(given.mean / p50))
    if given.p95:  # mean = exp(mu + s²/2) and p95 = exp(mu + 1.645 s), the narrower solution
        ratio = math.log(given.p95 / given.mean)
        return NORMAL_P95 - math.sqrt(max(0.0, NORMAL_P95**2 - 2 * ratio))
    return 0.0


def in_step(workload: Workload) -> float:
    """Share of the rounds of a closed loop in which requests that started together still come together: 1 for equal lengths, 0 at a rate.

    Lengths that spread by sigma (of their logarithm) move the clients of a loop apart, after k rounds by sigma·sqrt(k) of one. That leaves
    exp(-(2 pi sigma)^2 k / 2) of their common rhythm; the answer is its mean over the rounds of a load generator.
    """
    if workload.request_rate_per_s:
        return 0.0
    sigma = math.hypot(sigma_of(workload.input_tokens), sigma_of(drawn_outputs(workload)))
    return sum(math.exp(-((2 * math.pi * sigma) ** 2) * k / 2) for k in range(1, ROUNDS + 1)) / ROUNDS


class Documents(NamedTuple):
    """Lengths of documents in tokens."""

    log_mean: float
    log_spread: float
    mean: float
    """Mean number of tokens of a document that the sequence keeps."""
    context: float
    """Mean number of tokens that precede a token in its own document: E[l²] ÷ 2E[l]."""


def documents_of(given: int | Lengths, sequence: int) -> Documents:
    """Documents of `given` lengths, which are log-normal or all equal, cut at `sequence` tokens.

    With mu and s the mean and the standard deviation of their logarithm, S the sequence and l = min(x, S),
    E[l^k] = exp(k·mu + k²s²/2)·F((ln S - mu - k·s²)/s) + S^k·(1 - F((ln S - mu)/s)), F the normal distribution.
    """
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
