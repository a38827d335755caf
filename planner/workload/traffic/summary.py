"""Summary of traffic as a workload: rate by hour, lengths, bursts, and prompts with a common beginning."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import msgspec
import numpy as np

from planner.workload.tasks import Lengths
from planner.workload.traffic.trace import Floats, Trace

MOST_VARIATION = 10.0
"""Upper end of `arrival_variation` of a workload."""
COARSE = 4.0
"""Mean gap between requests, in steps of the recorded times, below which times are too coarse for gaps."""
COUNTED = 20
"""Mean requests per window in which requests are counted instead."""
LEAST_COVERED_S = 900.0
"""Smallest covered time of an hour that may count as the busiest."""
FEWEST = 30
"""Minimum number of requests for bursts and percentiles."""


class TrafficHour(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One hour. `begins_s` counts from the first request."""

    begins_s: float
    clock: str = ""
    """Start of the hour in UTC; empty if the source has no clock."""
    requests: int
    covered_s: float
    """Part of the hour between the first and the last request of the trace."""
    rate_per_s: float
    """Requests per second in that part."""
    input_tokens: float | None = None
    """Mean; None: no request, or not recorded."""
    output_tokens: float | None = None


class Traffic(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Observed requests of a service. None: not in the source."""

    source: str
    requests: int
    begins: str | None = None
    seconds: float | None = None
    rate_per_s: float | None = None
    peak_rate_per_s: float | None = None
    """Rate of the busiest hour."""
    input_tokens: Lengths | None = None
    output_tokens: Lengths | None = None
    prefix_tokens: float | None = None
    """Mean of the leading input tokens that could be found in a cache."""
    prefix_basis: str = ""
    arrival_variation: float | None = None
    """Standard deviation over mean of the time between requests, inside hours."""
    waiting: float | None = None
    """Requests in the engine's queue at the time of the query."""
    hours: list[TrafficHour] = []
    left_out: Mapping[str, int] = {}
    notes: list[str] = []


def summarised(trace: Trace) -> Traffic:
    """Summary of `trace`."""
    hours = _hours(trace) if trace.timed else []
    notes = []
    step_s = _time_step_s(trace.arrival_s)
    if trace.timed and step_s >= 1:
        notes.append(f"times are whole multiples of {step_s:g} s: bursts are told from counts, not from gaps")
    if trace.timed and trace.requests < FEWEST:
        notes.append(f"{trace.requests} requests: too few for percentiles and bursts")
    if not trace.timed:
        notes.append("the source has no arrival times: all requests are there at once")
    rate = _rate(trace.requests, trace.seconds) if trace.timed else None
    long_enough = [hour.rate_per_s for hour in hours if hour.covered_s >= LEAST_COVERED_S]
    return Traffic(
        source=trace.source,
        requests=trace.requests,
        begins=trace.begins.isoformat(timespec="seconds") if trace.begins else None,
        seconds=trace.seconds if trace.timed else None,
        rate_per_s=rate,
        peak_rate_per_s=max(long_enough, default=rate),
        input_tokens=lengths_of(trace.input_tokens),
        output_tokens=lengths_of(trace.output_tokens),
        prefix_tokens=float(trace.prefix_tokens.mean()) if trace.requests and not np.isnan(trace.prefix_tokens).any() else None,
        prefix_basis=trace.prefix_basis,
        arrival_variation=_variation(trace, step_s) if trace.timed else None,
        hours=hours,
        left_out=trace.left_out,
        notes=notes,
    )


def lengths_of(tokens: Floats) -> Lengths | None:
    """Distribution of `tokens`; None if one of them is not recorded."""
    if not tokens.size or np.isnan(tokens).any():
        return None
    p50, p95 = (float(value) for value in np.percentile(tokens, [50, 95]))
    mean = round(float(tokens.mean()), 1)
    if tokens.size < FEWEST:
        return Lengths(mean=mean)
    return Lengths(mean=mean, p50=round(min(p50, 2 * mean), 1), p95=round(min(max(p95, p50), 20 * mean), 1))


def _rate(requests: int, seconds: float) -> float | None:
    return (requests - 1) / seconds if seconds > 0 else None


def _hours(trace: Trace) -> list[TrafficHour]:
    places = np.searchsorted(trace.arrival_s, trace.hour_edges()).tolist()
    found = []
    for (begins_s, clock, covered_s), (begin, end) in zip(trace.hours(), pairwise(places), strict=True):
        found.append(
            TrafficHour(
                begins_s=begins_s,
                clock=clock,
                requests=end - begin,
                covered_s=covered_s,
                rate_per_s=(end - begin) / max(covered_s, 1.0),
                input_tokens=_mean(trace.input_tokens[begin:end]),
                output_tokens=_mean(trace.output_tokens[begin:end]),
            )
        )
    return found


def _mean(tokens: Floats) -> float | None:
    return float(tokens.mean()) if tokens.size and not np.isnan(tokens).any() else None


def _time_step_s(arrival_s: Floats) -> float:
    """The whole number of seconds of which all times are about multiples; 0 if they are finer."""
    if arrival_s.size < FEWEST or arrival_s[-1] <= 0:
        return 0.0
    gaps = np.diff(np.unique(arrival_s))
    least = float(np.percentile(gaps, 5))
    step = round(least)
    return float(step) if step >= 1 and np.mean(np.abs(arrival_s / step - np.round(arrival_s / step)) * step < 0.01) > 0.9 else 0.0


def _variation(trace: Trace, step_s: float) -> float | None:
    """Burstiness inside the hours, without changes over the day; hours are weighted by their requests."""
    if trace.requests < FEWEST:
        return None
    squares, weights = [], []
    for begin, end in pairwise(np.searchsorted(trace.arrival_s, trace.hour_edges()).tolist()):
        own = trace.arrival_s[begin:end]
        if own.size >= FEWEST and own[-1] > own[0]:
            gap = (own[-1] - own[0]) / (own.size - 1)
            by_gaps = float(np.diff(own).var()) / gap**2
            squares.append(min(by_gaps, _dispersion(own, gap)) if step_s * COARSE > gap else by_gaps)
            weights.append(own.size)
    if not squares:
        return None
    return float(min(np.sqrt(np.average(squares, weights=weights)), MOST_VARIATION))


def _dispersion(arrival_s: Floats, gap_s: float) -> float:
    """Variance ÷ mean of the requests in windows of `COUNTED` mean gaps: for a renewal stream the square of its variation."""
    windows = max(2, int((arrival_s[-1] - arrival_s[0]) / (COUNTED * gap_s)))
    counts, _ = np.histogram(arrival_s, bins=windows)
    return float(counts.var() / counts.mean())
