"""Services given in full: the sequences in flight on a replica, and the wait of requests for their admission."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from msgspec.structs import asdict, replace

from planner.engine.columns import Floats, LayoutColumns, Rows, Table, full, joined
from planner.engine.columns.fixed_point import fixed_point
from planner.engine.columns.limits import most_sequences
from planner.engine.evaluate.candidates import Candidates
from planner.engine.evaluate.evaluation import Evaluated
from planner.engine.evaluate.request_rate import LATENCIES, with_simulated
from planner.engine.job.job import Job
from planner.engine.memory import sequences_that_fit
from planner.engine.performance.disaggregated import pool_demand, steady_layout
from planner.engine.performance.prefill_decode.engine_limits import growing_room
from planner.engine.performance.prefill_decode.generation import serve_of
from planner.engine.performance.prefill_decode.request_latency import Latency, blended
from planner.engine.performance.simulation.batching_rules import batching_rules
from planner.engine.performance.simulation.benchmark_run import COLD_EXPERTS_S, MOST_REQUESTS, simulate_benchmark
from planner.engine.performance.simulation.capacity import highest_rate
from planner.engine.performance.simulation.iteration_time import iteration_time
from planner.engine.performance.simulation.load import replica_load
from planner.engine.performance.simulation.replicas import simulate
from planner.engine.performance.simulation.summary import Summary, queue_of
from planner.workload.tasks import varies
from planner.workload.traffic.lengths import drawn_outputs

SEEDS, MEASURED = 4, 100
"""Simulated runs of a candidate, and requests in each; for the error of their percentiles see `planner.engine.evaluate.request_rate`."""
MOST_SEQUENCES = 65536.0
"""Sequences in flight on a replica that keeps no cache."""


def in_flight(candidates: Candidates) -> tuple[Candidates, Table]:
    """`candidates` with the sequences that are really in flight on a replica, and their table.

    The sequences are limited by the request, the cache, or the equilibrium of the rate.

    A rate settles at Little's law, B = rate · time of a request at B; a rate beyond the capacity of the replica fills the cache.
    """
    table = candidates.table()
    most = np.minimum(np.minimum(_cached_sequences(table), most_sequences(table)), _in_all(candidates))
    rate = np.array([job.request_rate_per_s for job in candidates.jobs])[candidates.job_index] / candidates.layout.dp
    layout = replace(candidates.layout, sequences=np.minimum(candidates.layout.sequences, most))
    at_rate = np.flatnonzero(rate)
    if at_rate.size:
        given = replace(table, layout=layout)

        def of_rows(rows: Rows) -> Callable[[Floats], Floats]:
            numbers = at_rate[rows]
            return partial(_arriving, given.take(numbers), rate[numbers], full(most, table.rows)[numbers])

        sequences = full(layout.sequences, table.rows).copy()
        sequences[at_rate] = np.minimum(fixed_point(of_rows, np.ones(at_rate.size)), full(most, table.rows)[at_rate])
        layout = replace(layout, sequences=sequences)
    return replace(candidates, layout=layout), replace(table, layout=layout)


def _arriving(table: Table, rate_per_s: Floats, most: Floats, sequences: Floats) -> Floats:
    """Requests that arrive while one is served among `sequences`, at least one and at most `most`."""
    now = replace(table, layout=replace(table.layout, sequences=sequences))
    return np.clip(rate_per_s * serve_of(now, continuous=True).request_s.mean, 1.0, most)


def _in_all(candidates: Candidates) -> Floats:
    """Total requests that a closed loop sends to a replica; infinite if they never end."""
    given = [job.workload.requests or np.inf if job.concurrency > 0 else np.inf for job in candidates.jobs]
    return np.maximum(1.0, np.ceil(np.array(given)[candidates.job_index] / candidates.layout.dp))


def in_flight_in_pools(candidates: Candidates) -> tuple[Candidates, Table]:
    """Disaggregated `candidates` with the sequences in flight on a decoding replica and the pools that were left open, and their table."""
    table = candidates.table()
    layout = steady_layout(table, _cached_sequences(table), pool_demand(candidates.jobs, candidates.job_index))
    return replace(candidates, layout=layout), replace(table, layout=layout)


def _cached_sequences(table: Table) -> Floats:
    """Sequences that fit in the cache of a replica."""
    return np.minimum(sequences_that_fit(table), MOST_SEQUENCES)


def queued(e: Evaluated, wanted: LayoutColumns) -> Evaluated:
    """`e` with the waits of requests; `wanted` is its layout before the sequences in flight were known.

    Requests that arrive at a rate or differ in length are simulated. Requests of a closed loop that keep in step for some rounds
    (`uniform_loop`) are simulated for the other rounds. A closed loop larger than the cache leaves requests waiting, with B of c in
    flight: each waits (c - B) ÷ the rate of the replica before it is admitted.
    """
    e, in_flight = _with_room(e, wanted)
    assert e.serve is not None
    waiting = np.where(np.isfinite(wanted.sequences), np.maximum(wanted.sequences - in_flight, 0.0), 0.0)
    wait_s = waiting / e.serve.requests_per_s
    ttft_s, request_s = (latency.map(lambda seconds: seconds + wait_s) for latency in (e.serve.ttft_s, e.serve.request_s))
    return _with_simulated(replace(e, serve=replace(e.serve, ttft_s=ttft_s, request_s=request_s)), wanted)


def _with_room(e: Evaluated, wanted: LayoutColumns) -> tuple[Evaluated, Floats]:
    """`e` at the sequences that run at once in closed loops larger than a cache that fills as answers grow (`growing_room`), and these sequences.

    The tokens of B answers at random positions have a standard deviation of sqrt(B) times that of one, a uniform share of its growth;
    requests are not admitted within about one such deviation of the cache's size. Requests in step grow together, so only as many fit as at
    full length.
    """
    t, sequences = e.table, np.broadcast_to(e.candidates.layout.sequences, e.table.rows)
    fills = np.isfinite(e.memory.max_sequences)  # models that store nothing for their requests have no cache
    grows = (t.engine.reserves_output == 0) & np.isfinite(wanted.sequences) & (wanted.sequences > sequences) & fills
    crowded = np.broadcast_to(grows, sequences.shape)
    if not crowded.any():
        return e, sequences
    room = 1 + (growing_room(t) - 1) * (1 - t.job.uniform_loop * t.engine.prompts_first)
    most = np.broadcast_to(e.memory.max_sequences, sequences.shape) * room
    most = np.minimum(most - np.sqrt(most) * (room - 1) / np.sqrt(3), most_sequences(t))
    in_flight = np.where(crowded, np.maximum(sequences, np.minimum(wanted.sequences, most)), sequences)
    serve = serve_of(replace(t, layout=replace(t.layout, sequences=in_flight)), continuous=True)
    return replace(e, serve=serve), in_flight


def _with_simulated(e: Evaluated, wanted: LayoutColumns) -> Evaluated:
    """`e` with simulated figures: of a benchmark where the number of requests is given, else of a long run where closed formulas do not suffice."""
    assert e.serve is not None
    jobs = [e.candidates.jobs[int(number)] for number in e.candidates.job_index]
    replicas = np.broadcast_to(wanted.dp, e.table.rows)
    in_all = np.array([job.workload.requests or np.inf for job in jobs]) / replicas
    ends = (in_all <= MOST_REQUESTS) & e.memory.fits
    endless = np.array([job.uniform_loop < 1 and _varies(job) for job in jobs]) & ~ends & e.memory.fits
    rows = np.concatenate([np.flatnonzero(endless), np.flatnonzero(ends)])
    if not rows.size:
        return e
    simulated, replicas = [jobs[row] for row in rows], replicas[rows]
    load = replica_load(simulated, replicas, surge=np.array([job.workload.targets.burst for job in simulated]))
    table = e.table.take(rows)
    time, rules = iteration_time(table), batching_rules(table, sequences_that_fit(table))  # with a full cache, whatever the load
    of_long_run, of_benchmark = np.arange(endless.sum()), np.arange(endless.sum(), rows.size)
    found, most_per_s = list[Summary](), np.zeros(0)
    if of_long_run.size:
        long_run = time.take(of_long_run), rules.take(of_long_run), load.take(of_long_run)
        most_per_s = highest_rate(*long_run, seeds=SEEDS)
        found.append(simulate(*long_run, seeds=SEEDS, measured=MEASURED, most_per_s=most_per_s))
    if of_benchmark.size:
        own = of_benchmark
        warm = np.array([job.workload.warmup_requests or 0 for job in simulated]) / replicas
        requests, warm = (np.ceil(column[own]).astype(np.int64) for column in (in_all[rows], warm))
        cold_s = np.where(np.broadcast_to(table.model.experts, table.rows)[own] > 0, COLD_EXPERTS_S, 0.0)
        found.append(simulate_benchmark(time.take(own), rules.take(own), load.take(own), requests, warm, cold_s))
    summary = joined(found)
    requests_per_s = e.serve.requests_per_s.copy()
    requests_per_s[rows[of_benchmark]] = summary.requests_per_s[of_benchmark]
    long_rows, all_of_it = rows[of_long_run], np.nextafter(load.rate_per_s[of_long_run], np.inf)
    kept_up = np.maximum(requests_per_s[long_rows], all_of_it)
    requests_per_s[long_rows] = np.where(summary.saturated[of_long_run], most_per_s, kept_up)
    in_step = np.array([job.uniform_loop for job in jobs]) * endless
    served = with_simulated(e.serve, summary, rows)
    ttft, tpot, request = (_partly(in_step, getattr(e.serve, name), getattr(served, name)) for name in LATENCIES)
    serve = replace(served, ttft_s=ttft, tpot_s=tpot, request_s=request, requests_per_s=requests_per_s)
    return replace(e, queue=queue_of(summary, load.rate_per_s * replicas, rows, e.table.rows), serve=serve)


def _varies(job: Job) -> bool:
    """True if requests arrive at a given rate, or have different lengths."""
    return bool(job.request_rate_per_s) or varies(job.workload.input_tokens) or varies(drawn_outputs(job.workload))


def _partly(share: Floats, one: Latency, other: Latency) -> Latency:
    """Mixture of latencies: the share `share` [rows] of `one`, the rest of `other`."""
    return Latency(*(blended(share, own, others) for own, others in zip(asdict(one).values(), asdict(other).values(), strict=True)))
