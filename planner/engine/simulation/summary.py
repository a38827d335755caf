"""What a simulated lane says: latencies as mean and percentiles, rates, use, and whether it keeps up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.engine.columns import Flags, Floats, Rows
from planner.engine.simulation.batching import Trace

SHARES = (0.5, 0.95, 0.99)
KEEPS_UP = 0.03
"""A lane whose queue grows by more than this share of what arrives is saturated."""


@dataclass(frozen=True)
class Latency:
    """Over requests; shape [groups]."""

    mean: Floats
    p50: Floats
    p95: Floats
    p99: Floats


@dataclass(frozen=True)
class Summary:
    """Shape [groups]: lanes of the same group (seeds of one replica under one load) count as one."""

    ttft_s: Latency
    """From sending a request until its first token."""
    tpot_s: Latency
    """Time between the tokens of a request, its mean; NaN for outputs of one token."""
    request_s: Latency
    wait_s: Latency
    """From sending a request until it is admitted."""
    gap_p95_s: Floats
    """95th percentile of the time between two tokens, over tokens."""
    utilisation: Floats
    """Share of time in which an iteration runs."""
    requests_per_s: Floats
    output_tokens_per_s: Floats
    in_flight: Floats
    cached_tokens: Floats
    preempted: Floats
    """Times a request lost its place, per request."""
    saturated: Flags
    samples: Floats
    """Requests measured; a percentile q of independent ones has a standard error of sqrt(q·(1 - q) / samples) in rank."""


def _latency(values: Floats, inside: Flags, group: Rows, groups: int) -> Latency:
    """Percentiles of each group over the requests marked `inside`, by linear interpolation between order statistics."""
    kept = inside & np.isfinite(values)
    owner = np.broadcast_to(group[:, None], values.shape)[kept]
    sample = values[kept]
    order = np.lexsort((sample, owner))
    sample = sample[order]
    count = np.bincount(owner, minlength=groups)
    start = np.cumsum(count) - count
    total = np.bincount(owner, weights=values[kept], minlength=groups)
    found = []
    for share in SHARES:
        rank = share * np.maximum(count - 1, 0)
        low = np.floor(rank).astype(np.int64)
        first = np.minimum(start + low, max(sample.size - 1, 0))
        second = np.minimum(start + np.minimum(low + 1, np.maximum(count - 1, 0)), max(sample.size - 1, 0))
        value = sample[first] + (sample[second] - sample[first]) * (rank - low) if sample.size else np.zeros(groups)
        found.append(np.where(count > 0, value, np.nan))
    return Latency(np.where(count > 0, total / np.maximum(count, 1), np.nan), *found)


def summarise(trace: Trace, *, warm: Rows, measured: Rows, group: Rows) -> Summary:
    """Figures of every group of lanes; `group` is the number of each lane's, from 0."""
    groups = int(group.max()) + 1
    number = np.arange(trace.end_s.shape[1])
    inside = (number >= warm[:, None]) & (number < (warm + measured)[:, None])
    steps = trace.output_tokens - 1
    tpot = np.where(steps > 0, (trace.end_s - trace.first_s) / np.maximum(steps, 1.0), np.nan)

    def total(values: Floats) -> Floats:
        return np.bincount(group, weights=values, minlength=groups).astype(np.float64)

    def latency(values: Floats) -> Latency:
        return _latency(values, inside, group, groups)

    elapsed = np.maximum(total(trace.elapsed_s), 1e-300)
    samples = total(measured.astype(np.float64))
    weight = trace.elapsed_s
    tokens = total(np.where(inside, trace.output_tokens, 0.0).sum(axis=1))
    return Summary(
        ttft_s=latency(trace.first_s - trace.sent_s),
        tpot_s=latency(tpot),
        request_s=latency(trace.end_s - trace.sent_s),
        wait_s=latency(trace.admitted_s - trace.sent_s),
        gap_p95_s=_gap(trace, group, groups, 0.95),
        utilisation=np.minimum(total(trace.busy_s) / elapsed, 1.0),
        requests_per_s=samples / elapsed,
        output_tokens_per_s=tokens / elapsed,
        in_flight=total(np.nan_to_num(trace.in_flight) * weight) / elapsed,
        cached_tokens=total(np.nan_to_num(trace.cached_tokens) * weight) / elapsed,
        preempted=total(trace.preempted) / samples,
        saturated=total(trace.waiting) > np.maximum(KEEPS_UP * samples, 3 * np.sqrt(samples)),
        samples=samples,
    )


def _gap(trace: Trace, group: Rows, groups: int, share: float) -> Floats:
    """A percentile of the counted times between tokens: the middle of the bin it falls in, weighted over the group's lanes."""
    found = np.full(groups, np.nan)
    for number in range(groups):
        lanes = group == number
        gaps, counts = trace.gap_s[lanes].ravel(), trace.gaps[lanes].ravel()
        if counts.sum() <= 0:
            continue
        order = np.argsort(gaps, kind="stable")
        found[number] = gaps[order][np.searchsorted(np.cumsum(counts[order]), share * counts.sum())]
    return found
