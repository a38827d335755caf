"""Disaggregated serving: some replicas only read prompts, the others only decode, and the cache of each prompt is sent between them.

Both pools have the same GPU and layout. Symbols: x replicas that read prompts, y that decode · S seconds of a prompt alone ·
K seconds to send its cache · D seconds of a step of B sequences with no prompt between · o output tokens · λ requests a second.

    prompts a second       x ÷ max(S, K)
    answers a second       y · min(B ÷ ((o - 1)·D), 1 ÷ K)
    requests a second      the smaller of both, or the rate of requests
    time to first token    wait + S + K
    time per token         D

The first token is made by the pass over the prompt, the other o - 1 by decoding (DistServe, Zhong et al., OSDI 2024: TTFT is of
the prefill phase, TPOT of the decoding phase). K = bytes of the prompt's cache on one GPU ÷ its rate to its peer counts in the
first token, because it is the decoding replica that answers (vLLM's and Dynamo's disaggregated serving). Caches are sent beside
the passes of other prompts (Mooncake, Qin et al. 2024), so that sending limits the rate of a replica only where K exceeds S.
Requests are dealt to replicas at random; their wait is that of M/D/1, ρS ÷ 2(1 - ρ) at ρ = λ·max(S, K)/x (DistServe, section
3.1), times (c² + s²) for arrivals of variation c and prompts of variation s (Allen and Cunneen; c = 1 and s = 0 is M/D/1), and
its tail is taken as exponential: of the share ρ that waits, on average W ÷ ρ (of M/D/1 the 95th and 99th percentiles are met or
up to a third too high at ρ = 0.3, a tenth at 0.85).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import msgspec
import numpy as np
from msgspec.structs import replace

from planner.engine.columns import Floats, LayoutColumns, RowRecord, Rows, Table, full
from planner.engine.columns.fixed_point import fixed_point
from planner.engine.job.job import Job
from planner.engine.memory.inference import kv_bytes_per_sequence
from planner.engine.performance.operators.communication import peer_bytes_per_s
from planner.engine.performance.prefill_decode.generation import ServeColumns, serve_of
from planner.engine.performance.prefill_decode.passes import micro_batches
from planner.engine.performance.prefill_decode.request_latency import NORMAL_TAILS, Latency
from planner.engine.performance.simulation.load import thinned_variation
from planner.engine.performance.simulation.summary import Queue
from planner.workload.traffic.lengths import sigma_of

SHARES = ((0.5, 0.0), (0.95, NORMAL_TAILS[0]), (0.99, NORMAL_TAILS[1]))
"""Percentiles as shares, and the standard deviations to each."""
KEEPS_UP = 1 - 1e-6
"""Share of the requests that decoding replicas have to answer to keep up: all, apart from rounding."""


class PoolDemand(RowRecord, frozen=True):
    """Requests to the whole deployment, shape [rows]."""

    rate_per_s: Floats
    """Requests per second, including bursts; 0: a closed loop."""
    concurrency: Floats
    """Concurrent requests of a closed loop; infinite: as many as keep the slower pool busy, arriving evenly."""
    variation: Floats
    """Standard deviation ÷ mean of the time between requests."""
    input_sigma: Floats
    """Standard deviation of the logarithm of prompt lengths; 0: all of one length. `output_sigma`: of answers."""
    output_sigma: Floats


class PoolRates(msgspec.Struct, frozen=True):
    """Seconds of one request and rates of one replica, shape [rows]."""

    prompt_s: Floats
    """One prompt through all stages, though it occupies only one of them at a time."""
    transfer_s: Floats
    decode_s: Floats
    """(o - 1)·D."""
    prompts_per_s: Floats
    answers_per_s: Floats
    """Answers per second; infinite if an answer is one token."""

    @property
    def alone_s(self) -> Floats:
        """Seconds of a request without any wait."""
        return self.prompt_s + self.transfer_s + self.decode_s


def pool_demand(jobs: Sequence[Job], job_index: Rows) -> PoolDemand:
    """Demand of each row."""
    variation = [1.0 if job.workload.arrival_variation is None else job.workload.arrival_variation for job in jobs]
    columns = {
        "rate_per_s": [job.request_rate_per_s * (1 + job.workload.targets.burst) for job in jobs],
        "concurrency": [job.concurrency or np.inf for job in jobs],
        "variation": variation,
        "input_sigma": [sigma_of(job.workload.input_tokens) for job in jobs],
        "output_sigma": [sigma_of(job.workload.output_tokens) for job in jobs],
    }
    return PoolDemand(**{name: np.array(values, dtype=np.float64)[job_index] for name, values in columns.items()})


def rates_of(t: Table, s: ServeColumns) -> PoolRates:
    """Times and rates with `t.layout.sequences` in flight; the cache is sent over the node's link if the deployment is one node."""
    layout = t.layout
    link = peer_bytes_per_s(t, layout.gpus > layout.gpus_per_node)
    transfer_s = np.broadcast_to(kv_bytes_per_sequence(t, t.job.input_tokens) / link, (t.rows,))
    decode_s = np.maximum(t.job.output_tokens - 1, 0.0) * s.step_s
    with np.errstate(divide="ignore"):
        answers = np.minimum(np.maximum(layout.sequences, 1.0) / decode_s, 1 / transfer_s)
    streams = np.minimum(micro_batches(t), np.maximum(layout.sequences, 1.0))
    return PoolRates(s.prefill_s * streams, transfer_s, decode_s, 1 / np.maximum(s.prefill_s, transfer_s), answers)


def pool_times(t: Table, s: ServeColumns, demand: PoolDemand) -> tuple[ServeColumns, Queue]:
    """Times and queue where `t.layout.prefill` of the dp replicas read prompts and the others decode; `s`: for replicas that do both."""
    prefill, replicas = t.layout.prefill, t.layout.dp
    r = rates_of(t, s)
    prompts, answers = prefill * r.prompts_per_s, (replicas - prefill) * r.answers_per_s
    open_loop, closed = demand.rate_per_s > 0, np.isfinite(demand.concurrency) & (demand.rate_per_s <= 0)
    late = open_loop & ((demand.rate_per_s >= prompts) | (KEEPS_UP * demand.rate_per_s > answers))
    capacity = np.minimum(prompts, answers)
    served = np.where(open_loop & ~late, demand.rate_per_s, capacity)
    served = np.where(closed, np.minimum(answers, _closed_loop_prompts_per_s(demand, prefill, r)), served)
    busy = np.minimum(served / prompts, 1 - 1e-9)
    dealt = np.where(open_loop | closed, busy / (1 - busy) * _queue_factor(demand, prefill) / r.prompts_per_s, 0.0)
    for_room = np.where(closed, np.maximum(0.0, np.where(closed, demand.concurrency, 0.0) / served - r.alone_s - dealt), 0.0)
    wait = dealt + for_room
    per_sequence = s.phases["decode"].one.attention * t.layout.pp / np.maximum(t.layout.sequences, 1.0)
    first = r.prompt_s + r.transfer_s + wait
    times = [(first, s.step_s, first + r.decode_s)]
    for share, tail in SHARES:
        waits = np.maximum(0.0, dealt / busy * np.log(busy / (1 - share))) + for_room
        ttft = r.prompt_s * _quantile(demand.input_sigma, tail) + r.transfer_s + waits
        tpot = s.step_s + tail * np.sqrt(t.layout.sequences) * per_sequence
        request = ttft + r.decode_s * (tpot / s.step_s) * _quantile(demand.output_sigma, tail)
        times.append((ttft, tpot, request))
    by_class = s.by_class | {"communication": s.by_class["communication"] + r.transfer_s}

    ttft_s, tpot_s, request_s = (Latency(*(full(figure, t.rows) for figure in figures)) for figures in zip(*times, strict=True))
    rate_per_s, none = full(served / replicas, t.rows), np.zeros(t.rows)  # nothing was simulated
    serve = replace(s, ttft_s=ttft_s, tpot_s=tpot_s, request_s=request_s, requests_per_s=rate_per_s, by_class=by_class)
    queue = Queue(Latency(none, none, none, none), none, full(demand.rate_per_s, t.rows), none, np.broadcast_to(late, (t.rows,)))
    return serve, queue


def _queue_factor(demand: PoolDemand, prefill: Floats) -> Floats:
    """(c² + s²) ÷ 2 at one of `prefill` replicas: 0.5 for equal prompts that arrive at random."""
    return (thinned_variation(demand.variation, prefill) ** 2 + np.expm1(demand.input_sigma**2)) / 2


def _closed_loop_prompts_per_s(demand: PoolDemand, prefill: Floats, r: PoolRates) -> Floats:
    """Prompts per second of a closed loop of c clients: λ·(alone + wait(λ)) = c, a quadratic in ρ; the maximum for c = ∞."""
    prompts = prefill * r.prompts_per_s
    clients = np.where(np.isfinite(demand.concurrency), demand.concurrency, 1.0)
    reading = prompts * r.alone_s
    both = reading + clients
    busy = 2 * clients / (both + np.sqrt(both**2 + 4 * clients * (prefill * _queue_factor(demand, prefill) - reading)))
    return np.where(np.isfinite(demand.concurrency), busy, 1.0) * prompts


def _quantile(sigma: Floats, tail: float) -> Floats:
    """A log-normal length ÷ its mean, `tail` standard deviations above its median."""
    return np.exp(tail * sigma - sigma**2 / 2)


def best_split(replicas: Floats, r: PoolRates) -> Floats:
    """Number of `replicas` that should read prompts for the most requests per second: at least one and not all."""
    even = replicas / (1 + r.prompts_per_s / r.answers_per_s)
    fewer, more = (np.clip(whole, 1.0, replicas - 1) for whole in (np.floor(even), np.ceil(even)))
    rate = [np.minimum(prefill * r.prompts_per_s, (replicas - prefill) * r.answers_per_s) for prefill in (fewer, more)]
    return np.where(rate[1] > rate[0], more, fewer)


def steady_layout(t: Table, most: Floats, demand: PoolDemand) -> LayoutColumns:
    """Layouts with the sequences in flight on a decoding replica, at most `most`, and with the pools that were left open.

    Pools that are left open (`prefill` is 0) are those that serve the most with full caches. By Little's law the sequences in flight
    are the requests that arrive in a second, or the prompts that are read in it, times the seconds of decoding one.
    """
    layout = replace(t.layout, sequences=np.where(np.isfinite(demand.concurrency), np.minimum(most, demand.concurrency), most))
    given = replace(t, layout=layout)
    split = best_split(layout.dp, rates_of(given, serve_of(given, continuous=True)))
    prefill = np.where(layout.prefill > 0, layout.prefill, split)
    pools, at_most = replace(t, layout=replace(layout, prefill=prefill)), full(most, t.rows)

    def of_rows(rows: Rows) -> Callable[[Floats], Floats]:
        return partial(_decoded_at_once, pools.take(rows), at_most[rows], demand.take(rows))

    sequences = np.minimum(fixed_point(of_rows, np.ones(t.rows)), at_most)
    return replace(layout, prefill=prefill, sequences=sequences)


def _decoded_at_once(t: Table, most: Floats, demand: PoolDemand, sequences: Floats) -> Floats:
    """Sequences that come to a decoding replica while it decodes one among `sequences`, at least one and at most `most`."""
    layout = replace(t.layout, sequences=sequences)
    r = rates_of(now := replace(t, layout=layout), serve_of(now, continuous=True))
    arriving = np.where(
        demand.rate_per_s > 0,
        np.minimum(demand.rate_per_s, layout.prefill * r.prompts_per_s),
        _closed_loop_prompts_per_s(demand, layout.prefill, r),
    )
    return np.clip(arriving * r.decode_s / (layout.dp - layout.prefill), 1.0, most)
