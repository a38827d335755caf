"""What a simulated lane says: latencies as mean and percentiles, rates, use, and whether it keeps up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from planner.engine.columns import Flags, Floats, Rows
from planner.engine.performance.simulation.trace import Trace

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

    def take(self, index: Rows) -> Latency:
        """The groups `index`."""
        return Latency(self.mean[index], self.p50[index], self.p95[index], self.p99[index])


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
    """NaN, as below, where it was not counted."""
    cached_tokens: Floats
    preempted: Floats
    """Times a request lost its place, per request."""
    saturated: Flags
    samples: Floats
    """Requests measured; a percentile q of independent ones has a standard error of sqrt(q·(1 - q) / samples) in rank."""

    def take(self, index: Rows) -> Summary:
        """The groups `index`."""
        values = {item.name: getattr(self, item.name) for item in fields(Summary)}
        return Summary(**{name: value.take(index) for name, value in values.items()})


def joined(parts: Sequence[Summary]) -> Summary:
    """All groups of `parts`, one part after the other."""

    def of(values: Sequence[Any]) -> Any:
        if isinstance(values[0], Latency):
            return Latency(*(np.concatenate([getattr(value, item.name) for value in values]) for item in fields(Latency)))
        return np.concatenate(values)

    return Summary(**{item.name: of([getattr(part, item.name) for part in parts]) for item in fields(Summary)})


def _latency(values: Floats) -> Latency:
    """Of each row of `values`; percentiles by linear interpolation between order statistics, NaN left out."""
    ordered = np.sort(values, axis=1)  # NaN last
    count = np.isfinite(ordered).sum(axis=1)
    every, last = np.arange(count.size), np.maximum(count - 1, 0)
    found = []
    for share in SHARES:
        rank = share * last
        low = np.floor(rank).astype(np.int64)
        below, above = ordered[every, low], ordered[every, np.minimum(low + 1, last)]
        found.append(below + (above - below) * (rank - low))
    mean = np.where(np.isfinite(ordered), ordered, 0.0).sum(axis=1) / np.maximum(count, 1)
    return Latency(np.where(count > 0, mean, np.nan), *found)


def summarise(trace: Trace, *, warm: Rows, measured: Rows, group: Rows) -> Summary:
    """Figures of every group of lanes; `group` is the number of each lane's, from 0.

    Every lane measures the same number of requests, and every group is of the same number of lanes.
    """
    groups = int(group.max()) + 1
    lanes = np.argsort(group, kind="stable")
    inside = warm[:, None] + np.arange(measured[0])
    steps = trace.output_tokens - 1
    tpot = np.where(steps > 0, (trace.end_s - trace.first_s) / np.maximum(steps, 1.0), np.nan)

    def total(values: Floats) -> Floats:
        return np.bincount(group, weights=values, minlength=groups).astype(np.float64)

    def latency(values: Floats) -> Latency:
        return _latency(np.take_along_axis(values, inside, axis=1)[lanes].reshape(groups, -1))

    elapsed = np.maximum(total(trace.elapsed_s), 1e-300)
    samples = total(measured.astype(np.float64))
    weight = trace.elapsed_s
    tokens = total(np.take_along_axis(trace.output_tokens, inside, axis=1).sum(axis=1))
    return Summary(
        ttft_s=latency(trace.first_s - trace.sent_s),
        tpot_s=latency(tpot),
        request_s=latency(trace.end_s - trace.sent_s),
        wait_s=latency(trace.admitted_s - trace.sent_s),
        gap_p95_s=_gap(trace, group, groups, 0.95),
        utilisation=np.minimum(total(trace.busy_s) / elapsed, 1.0),
        requests_per_s=samples / elapsed,
        output_tokens_per_s=tokens / elapsed,
        in_flight=total(np.where(weight > 0, trace.in_flight * weight, 0.0)) / elapsed,
        cached_tokens=total(np.where(weight > 0, trace.cached_tokens * weight, 0.0)) / elapsed,
        preempted=total(trace.preempted) / samples,
        saturated=total(trace.waiting) > np.maximum(KEEPS_UP * samples, 3 * np.sqrt(samples)),
        samples=samples,
    )


def _gap(trace: Trace, group: Rows, groups: int, share: float) -> Floats:
    """A percentile of the counted times between tokens: the middle of the bin it falls in, weighted over the group's lanes."""
    found = np.full(groups, np.nan)
    for number in range(groups) if trace.gaps.any() else ():
        lanes = group == number
        gaps, counts = trace.gap_s[lanes].ravel(), trace.gaps[lanes].ravel()
        if counts.sum() <= 0:
            continue
        order = np.argsort(gaps, kind="stable")
        found[number] = gaps[order][np.searchsorted(np.cumsum(counts[order]), share * counts.sum())]
    return found
