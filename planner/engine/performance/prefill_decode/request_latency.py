"""What requests wait for and how long they take: of a batch that is fixed, and of a replica that always has its sequences in flight.

Symbols: B sequences in flight on one replica · o output tokens of a request · n prompts that share a pass.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.engine.columns import Floats, Table
from planner.engine.columns.rows import RowRecord
from planner.engine.performance.prefill_decode.passes import Load

ROUNDS = 10.0
"""Requests that a load generator sends for each of its concurrent clients, all of which start together; ten is the usual setting."""
NORMAL_TAILS = (1.645, 2.326)
"""Standard deviations to the 95th and the 99th percentile."""


@dataclass(frozen=True)
class Latency(RowRecord):
    """Seconds over the requests of a row. Shape [rows]."""

    mean: Floats
    p50: Floats
    p95: Floats
    p99: Floats

    def known_or(self, other: Latency) -> Latency:
        """Its finite figures, and those of `other` in place of the rest."""
        return Latency(
            *(
                np.where(np.isfinite(own), own, others)
                for own, others in zip(vars(self).values(), vars(other).values(), strict=True)
            )
        )


@dataclass(frozen=True)
class LoopTimes:
    """Seconds, shape [rows]."""

    prefill_s: Floats
    """Of a prompt among those it shares a pass with."""
    alone_s: Floats
    """Of a prompt alone in its pass."""
    step_s: Floats
    """Of a decoding step."""
    read_s: Floats
    """Of attention in it."""


def fixed_batch(load: Load, prefill_s: Floats, step_s: Floats) -> tuple[Latency, Latency, Latency, Floats]:
    """A batch whose prompts are read together and whose sequences all end together; returns the same as `closed_loop`."""
    request_s = prefill_s + load.steps * step_s
    ttft, tpot, request = (Latency(alike, alike, alike, alike) for alike in (prefill_s, step_s, request_s))
    return ttft, tpot, request, load.sequences / request_s


def _first_token(t: Table, load: Load, times: LoopTimes) -> tuple[Floats, Floats, Floats, Floats]:
    """(mean, 95th, 99th percentile, prompts the middle one waits for) of a closed loop of B requests of one length.

    All start together, so in the first round the middle one waits for (B + n)/2 prompts, n of which share a pass. Engines that
    put prompts first keep them in step: running sequences stand still until all have their first token, so all end together and
    every round is like the first. They hand a token over while the next pass runs, so that it appears one pass of n later.
    Where prompts share iterations, sequences drift apart, and later rounds wait for few.
    """
    batch, prompts, prefill_s, alone_s = load.sequences, load.prompts, times.prefill_s, times.alone_s
    first = (batch + prompts) / 2
    few = np.minimum(t.engine.prompts_together, first)
    drifting = first / ROUNDS * prefill_s + (1 - 1 / ROUNDS) * few * alone_s
    in_step = prefill_s * (first + prompts * (1 - prompts / batch))
    waits = t.engine.prompts_first > 0
    # a tenth of the requests are of the first round: its middle is the 95th percentile, nine tenths of it the 99th
    late = np.where(waits, prefill_s * batch, np.maximum(first * prefill_s, few * alone_s))
    last = np.where(waits, prefill_s * batch, np.maximum((0.9 * batch + 0.1 * prompts) * prefill_s, late))
    return np.where(waits, in_step, drifting), late, last, first


def closed_loop(t: Table, load: Load, times: LoopTimes) -> tuple[Latency, Latency, Latency, Floats]:
    """A closed loop of B requests: while one lives, every other is prefilled once, so it lasts B·prefill + o·step.

    Returns the latencies of the first token, of each further token and of a request, and the requests a second.

    Requests of one length at a fixed concurrency start together (`_first_token`); independent ones wait as in a queue with the share of
    time that prefills take. High percentiles take the load seen by an unlucky request: with many independent users the number
    in flight is Poisson, so B + 1.645·sqrt(B) at the 95th; the time that grows with B is the prefills and the reading of the caches.
    They screen candidates; `planner.engine.evaluate.request_rate` simulates those that are shown.
    """
    batch, prefill_s, step_s = load.sequences, times.prefill_s, times.step_s
    output = np.maximum(t.job.output_tokens, 1.0)
    cycle = batch * prefill_s + output * step_s
    share = np.minimum(0.95, batch * prefill_s / cycle)
    queued = prefill_s * (1 + np.minimum(batch / 2, 0.5 * share / (1 - share)))
    together, late, last, first = _first_token(t, load, times)
    lockstep = t.job.uniform_loop > 0
    in_step = lockstep & (t.engine.prompts_first > 0)
    ttft = np.where(lockstep, together, queued) + 0.5 * step_s
    # in step, a sequence waits for the prompts after its own and then decodes undisturbed
    tpot = np.where(in_step, (batch - first) * prefill_s + (output - 1) * step_s, cycle - ttft) / np.maximum(output - 1, 1.0)
    growing = prefill_s + output * times.read_s / batch
    request_p95, request_p99 = (cycle + tail * np.sqrt(batch) * growing for tail in NORMAL_TAILS)
    tails = [prefill_s + np.minimum(batch * prefill_s, factor * (queued - prefill_s)) for factor in (3.0, 4.6)]
    ttft_p95, ttft_p99 = (step_s + np.where(lockstep, of, tail) for of, tail in zip((late, last), tails, strict=True))
    steps = np.maximum(output - 1, 1.0)
    tpot_p95 = np.maximum(tpot, (request_p95 - ttft_p95) / steps)
    tpot_p99 = np.maximum(tpot, np.maximum(request_p95 - ttft_p95, request_p99 - ttft_p99) / steps)
    return (
        Latency(ttft, ttft, ttft_p95, ttft_p99),
        Latency(tpot, tpot, tpot_p95, tpot_p99),
        Latency(cycle, cycle, request_p95, request_p99),
        batch / cycle,
    )
