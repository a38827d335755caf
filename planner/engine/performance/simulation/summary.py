"""Figures of simulated replicas: latencies as mean and percentiles, how busy replicas are, and whether they keep up."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from planner.engine.columns import Flags, Floats, RowRecord, Rows
from planner.engine.performance.prefill_decode.request_latency import Latency
from planner.engine.performance.simulation.continuous_batching import Trace
from planner.units import digits

SHARES = (0.5, 0.95, 0.99)
MOST_GROWTH = 0.03
"""Growth of a queue, as a share of the arrivals, above which a replica does not keep up."""


class Summary(RowRecord, frozen=True):
    """Figures over all runs of a replica; columns of shape [rows]."""

    ttft_s: Latency
    """Time from sending a request until its first token."""
    tpot_s: Latency
    """Mean time between the tokens of a request; NaN for outputs of one token."""
    request_s: Latency
    wait_s: Latency
    """Time from sending a request until it is admitted."""
    utilisation: Floats
    """Share of time in which an iteration runs."""
    requests_per_s: Floats
    saturated: Flags
    """True if requests come faster than the replica answers them."""
    samples: Floats
    """Requests measured; a percentile q of independent ones has a standard error of sqrt(q·(1 - q) / samples) in rank."""


_NONE = np.zeros(0)
_NO_LATENCY = Latency(_NONE, _NONE, _NONE, _NONE)
NO_ROWS = Summary(_NO_LATENCY, _NO_LATENCY, _NO_LATENCY, _NO_LATENCY, _NONE, _NONE, _NONE > 0, _NONE)


class Queue(RowRecord, frozen=True):
    """Queueing of requests. Shape [rows]; all 0 in rows that were not simulated."""

    wait_s: Latency
    """Time from sending a request until it is admitted."""
    utilisation: Floats
    rate_per_s: Floats
    """Requests to the whole deployment; 0: a closed loop."""
    samples: Floats
    """Requests measured; 0 also where replicas do not keep up."""
    saturated: Flags
    """Requests come faster than the replicas answer them."""

    def measured(self, row: int) -> bool:
        """True if requests of the row were simulated to their ends."""
        return bool(self.samples[row] > 0)

    def endless(self, row: int) -> bool:
        """True if the queue of the row grows without end."""
        return bool(self.saturated[row])

    def words(self, row: int, most_per_s: float) -> str:
        """Origin of the percentiles of a simulated row, or the reason why there are none; `most_per_s`: the highest rate that can be answered."""
        rate = digits(float(self.rate_per_s[row]))
        if self.endless(row):
            return f"none: {rate} requests a second are needed, about {digits(most_per_s)} can be answered"
        load = f" at {rate} a second" if self.rate_per_s[row] > 0 else ""
        return f"simulated, {self.samples[row]:.0f} requests{load}, seed 0"


def queue_of(summary: Summary, rate_per_s: Floats, index: Rows, rows: int) -> Queue:
    """`summary` and `rate_per_s` at the rows `index` out of `rows`."""
    queue = Queue(summary.wait_s, summary.utilisation, rate_per_s, summary.samples, summary.saturated)
    return queue.spread(index, rows, 0.0)


def summarise(
    trace: Trace,
    *,
    warm: Rows,
    measured: Rows | int,
    row: Rows,
    front_end_s: Floats | float = 0.0,
    late_steps: Floats | float = 0.0,
) -> Summary:
    """Summarise the runs of each row; `row` [runs]: the row of each run, counted from 0.

    Every token is delivered `front_end_s` and `late_steps` times the time between tokens after it was made.

    Every run measures requests `warm` [runs] to `warm + measured`, and every row has the same number of runs.
    """
    rows = int(row.max()) + 1
    runs = np.argsort(row, kind="stable")
    count = np.broadcast_to(np.asarray(measured), row.shape)
    place = np.arange(int(count.max()))
    inside = np.minimum(warm[:, None] + place, trace.sent_s.shape[1] - 1)
    sent_s, admitted_s, first_s, end_s, output_tokens = (
        np.take_along_axis(values, inside, axis=1)
        for values in (trace.sent_s, trace.admitted_s, trace.first_s, trace.end_s, trace.output_tokens)
    )
    if (count < place.size).any():
        output_tokens = np.where(place < count[:, None], output_tokens, np.nan)
        sent_s = np.where(place < count[:, None], sent_s, np.nan)
    steps = output_tokens - 1
    tpot_s = np.where(steps > 0, (end_s - first_s) / np.maximum(steps, 1.0), np.nan)

    def total(values: Floats) -> Floats:
        return np.bincount(row, weights=values, minlength=rows).astype(np.float64)

    def latency(values: Floats) -> Latency:
        return _latency(values[runs].reshape(rows, -1))

    late_s = (front_end_s + late_steps * np.nan_to_num(tpot_s).sum(axis=1) / count)[:, None]
    first_s, end_s = first_s + late_s, end_s + late_s
    elapsed_s = np.maximum(total(trace.elapsed_s), 1e-300)
    samples = total(count.astype(np.float64))
    return Summary(
        ttft_s=latency(first_s - sent_s),
        tpot_s=latency(tpot_s),
        request_s=latency(end_s - sent_s),
        wait_s=latency(admitted_s - sent_s),
        utilisation=np.minimum(total(trace.busy_s) / elapsed_s, 1.0),
        requests_per_s=samples / elapsed_s,
        saturated=total(trace.waiting) > np.maximum(MOST_GROWTH * samples, 3 * np.sqrt(samples)),
        samples=samples,
    )


def _latency(values: Floats) -> Latency:
    """Percentiles of each row of `values` [rows, requests], interpolated linearly between order statistics, without NaN."""
    ordered = np.sort(values, axis=1)  # NaN last
    there = np.isfinite(ordered)
    count = there.sum(axis=1)
    row, last = np.arange(count.size), np.maximum(count - 1, 0)
    percentiles = []
    for share in SHARES:
        rank = share * last
        low = np.floor(rank).astype(np.int64)
        below, above = ordered[row, low], ordered[row, np.minimum(low + 1, last)]
        percentiles.append(below + (above - below) * (rank - low))
    mean = np.where(there, ordered, 0.0).sum(axis=1) / np.maximum(count, 1)
    return Latency(np.where(count > 0, mean, np.nan), *percentiles)


def with_saturated(summary: Summary, index: Rows, rows: int) -> Summary:
    """`summary` of the rows `index` out of `rows`; all others are saturated, as are those whose queue grew.

    Saturated rows have infinite latencies, a utilisation of 1, and no measured requests.
    """
    keeps_up = ~summary.saturated
    spread = summary.take(keeps_up).spread(index[keeps_up], rows, np.inf)
    return replace(
        spread,
        utilisation=np.where(spread.saturated, 1.0, spread.utilisation),
        requests_per_s=np.where(spread.saturated, np.nan, spread.requests_per_s),
        samples=np.where(spread.saturated, 0.0, spread.samples),
    )
