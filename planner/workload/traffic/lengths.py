"""Lengths of requests that are given as one number: a load generator's setting, or the mean of lengths that differ."""

from __future__ import annotations

import math

from planner.workload.tasks import Lengths, Workload, varies

CONVERSATIONS_SIGMA = 0.8
"""Standard deviation of the logarithm of lengths in conversations as load generators cut them (ShareGPT up to 1,024 tokens in, 2,048 in all): a standard
deviation of 0.9 means. An assumption, chosen on one source (docs/decisions/067-lengths-that-nobody-sets.md)."""
SETTING_DIGITS, SETTING_STEP = 2, 32
NEAR = 0.001
"""Share by which a length may miss a setting: tokenisers add or drop a token of a thousand."""


def is_setting(tokens: float) -> bool:
    """Whether somebody may have set all requests to this length: at most two digits before zeros (100, 250, 1,500), or a multiple of 32."""
    if tokens <= 0:
        return True
    step = 10.0 ** max(0, math.floor(math.log10(tokens)) + 1 - SETTING_DIGITS)
    return any(abs(tokens - unit * round(tokens / unit)) <= NEAR * tokens for unit in (step, SETTING_STEP))


def as_conversations(mean: float) -> Lengths:
    """Lengths of that mean that spread as those of conversations do."""
    return Lengths(mean=mean, p50=mean * math.exp(-(CONVERSATIONS_SIGMA**2) / 2))


def drawn_outputs(workload: Workload) -> int | Lengths | None:
    """Output lengths as a simulation draws them: as given, but a mean that nobody sets spreads where clients send so many requests in all.

    Such a load ends with a drain, in which the longest answers run almost alone. A load that goes on, or comes at a rate, hardly depends on how
    lengths spread, so that a number and a mean are the same there.
    """
    given = workload.output_tokens
    mean = given.mean if isinstance(given, Lengths) and not varies(given) else given
    if not workload.requests or workload.request_rate_per_s or mean is None or isinstance(mean, Lengths) or is_setting(mean):
        return given
    return as_conversations(mean)
