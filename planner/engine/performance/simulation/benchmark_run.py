"""A benchmark of a replica: a fixed number of requests, from its start with an empty engine to the end of the last one.

Results of a load generator include the ramp at the beginning, where all its clients start together, and the drain at the end. Both
are part of every figure here; the long run is `replicas.simulate`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from msgspec.structs import replace

from planner.engine.columns import Floats, Rows, joined
from planner.engine.performance.prefill_decode.speculative_decoding import rounds_of
from planner.engine.performance.simulation.batching_rules import BatchingRules
from planner.engine.performance.simulation.continuous_batching import Trace, run_batches
from planner.engine.performance.simulation.iteration_time import IterationTime
from planner.engine.performance.simulation.load import Load
from planner.engine.performance.simulation.summary import NO_ROWS, Summary, summarise, with_saturated
from planner.engine.performance.simulation.traffic import Traffic, traffic_of

MOST_REQUESTS = 5_000
"""Requests above which a run counts as endless: ramp and drain are below a hundredth of it for most loads."""
SEEDS = 2
COLD_EXPERTS_S = 1.0
"""Seconds before a mixture of experts answers its first requests, if none came before them: its kernels are compiled or loaded when they are first used. What mean first
tokens of 19 sources of vLLM and SGLang ask for in the median is 1.3 (0.4 to 3.6 of twelve, more of two, none of five), and of 14 sources of dense models 0.1 (2026-11-28)."""
TOGETHER, MOST_AT_ONCE = 1.5, 400_000
"""Largest ratio of the numbers of requests in runs that are simulated together, and the most requests of such runs in total."""


def simulate_benchmark(
    time: IterationTime, rules: BatchingRules, load: Load, requests: Rows, warm: Rows, cold_s: Floats | float = 0.0
) -> Summary:
    """Simulate `requests` [rows] to each replica; the first `warm` of them are not measured, and if there are none, the engine takes none for `cold_s` [rows].

    A closed loop without a number of clients sends all requests at once, as does one with more clients than requests. At a rate, a number of
    clients limits what is in flight: a request is sent when it comes and a client is free, and its latency counts from then on, as load
    generators do (vllm bench serve --max-concurrency; decision 347).
    """
    clients = np.where(load.concurrency > 0, np.minimum(load.concurrency, requests), np.where(load.closed, requests, 0.0))
    open_limit = np.where(load.closed | (load.concurrency <= 0), np.inf, load.concurrency)
    rules = replace(rules, sequences=np.minimum(np.minimum(rules.sequences, open_limit), np.maximum(requests, 1.0)))
    load = replace(load, concurrency=clients)
    order = np.argsort(requests, kind="stable")
    cold_s = np.where(warm > 0, 0.0, cold_s)
    parts = [
        _run(time.take(rows), rules.take(rows), load.take(rows), open_limit[rows], requests[rows], warm[rows], cold_s[rows])
        for rows in _alike(order, requests)
    ]
    return with_saturated(joined(parts or [NO_ROWS]), order, requests.size)


def _alike(order: Rows, requests: Rows) -> Iterator[Rows]:
    """`order` in parts, divided where the numbers of requests differ too much, or their total is too large."""
    begin = 0
    for place in range(1, order.size + 1):
        most = requests[order[min(place, order.size - 1)]]
        full = (place - begin + 1) * most * SEEDS > MOST_AT_ONCE
        if place == order.size or most > TOGETHER * requests[order[begin]] or full:
            yield order[begin:place]
            begin = place


def _run(
    time: IterationTime, rules: BatchingRules, load: Load, limit: Floats, requests: Rows, warm: Rows, cold_s: Floats
) -> Summary:
    """Simulate rows together; their figures are those of the measured requests of all seeds. `limit`: most in flight at a rate."""
    row = np.repeat(np.arange(requests.size), SEEDS)
    seeds = np.tile(np.arange(SEEDS), requests.size)
    time, rules, load, most = time.take(row), rules.take(row), load.take(row), requests[row]
    traffic = traffic_of(load, seeds.tolist(), int(most.max()) + 1, most=most).fitted(rules.capacity)
    cold_s = cold_s[row]
    traffic = replace(traffic, arrival_s=np.maximum(_taken_in(traffic, time.intake_s), cold_s[:, None]))
    if time.draft is not None:
        time = replace(time, draft=time.draft if time.draft.proposed.any() else None)
    if time.draft is not None:
        traffic = replace(traffic, rounds=rounds_of(traffic.decoded_tokens, seeds, time.draft))
    warm = np.minimum(warm[row], most - 1)
    trace = run_batches(time, rules, traffic, warm=warm, measured=most - warm)
    trace = replace(trace, elapsed_s=trace.elapsed_s + cold_s, busy_s=trace.busy_s + cold_s)
    if np.isfinite(limit).any():
        trace = replace(trace, sent_s=_sent(trace, limit[row]))
    late: dict[str, Floats] = {"front_end_s": time.front_end_s, "late_steps": time.late_steps}
    return summarise(trace, warm=warm, measured=most - warm, row=row, **late)


def _taken_in(traffic: Traffic, intake_s: Floats) -> Floats:
    """Times at which requests reach the engine when the requests that the clients of a loop send at once pass its front end one by one."""
    number = np.arange(traffic.arrival_s.shape[1])
    found: Floats = traffic.arrival_s + np.where(number < traffic.clients[:, None], number * intake_s[:, None], 0.0)
    return found


def _sent(trace: Trace, limit: Floats) -> Floats:
    """Times at which requests are sent, of which no more than `limit` [runs] are in flight: number k with the end of number k - limit by time."""
    width = trace.sent_s.shape[1]
    before = np.arange(width) - np.where(np.isfinite(limit), limit, width)[:, None].astype(np.int64)
    ends = np.take_along_axis(np.sort(trace.end_s, axis=1), np.maximum(before, 0), axis=1)
    return np.where(before >= 0, np.fmax(trace.sent_s, ends), trace.sent_s)
