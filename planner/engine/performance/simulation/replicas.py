"""Replicas under load, each simulated in several runs with different seeds.

Symbols: B requests in flight · o output tokens, or rounds with a draft · λ requests a second of one replica.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from msgspec.structs import replace

from planner.engine.columns import Flags, Floats, Rows
from planner.engine.columns.rows import RowRecord, joined
from planner.engine.performance.prefill_decode.passes import mean_if_any
from planner.engine.performance.prefill_decode.speculative_decoding import tokens_per_round
from planner.engine.performance.simulation.batching_rules import BatchingRules
from planner.engine.performance.simulation.continuous_batching import run_batches
from planner.engine.performance.simulation.draft_rounds import rounds_of
from planner.engine.performance.simulation.iteration_time import IterationTime, between
from planner.engine.performance.simulation.load import Load
from planner.engine.performance.simulation.summary import NO_ROWS, Summary, summarise, with_saturated
from planner.engine.performance.simulation.traffic import traffic_of

RUNS_AT_ONCE, REQUESTS_AT_ONCE = 1400, 600_000
"""Simulated together: enough to spread the cost of a step, few enough to be alike and to stay near the processor."""
SETTLING_STEPS = 40
SETTLED_SHARE = 0.5
"""Multiple of the requests in flight that pass before any is measured."""
SWING_STREAM = 6
"""Number of a seed's stream of random numbers; see `traffic`."""
TAIL, QUEUE_TAIL, WHOLE_TAIL = 16, 1.5, 4.0
"""Requests that go on arriving behind the measured ones: so many, and a multiple of those in flight. Where outputs are alike as
many as may stand before the last one; else, and in closed loops, as many as end while the longest of them is served: with fewer
the p99 of log-normal lengths came out up to 40 % short."""


def steady_state(time: IterationTime, rules: BatchingRules, load: Load) -> tuple[Floats, Flags]:
    """Requests in flight by Little's law, B = λ·(o·step(B) + B·prompt(B)), and whether they stay below what the replica admits.

    Shape [rows].
    """
    inputs, outputs = load.inputs.mean, load.outputs.mean
    fresh = np.maximum(inputs - load.prefix_tokens, 1.0)
    attention = time.prompt_s * fresh + time.pair_s * fresh * (load.prefix_tokens + fresh / 2)
    cached = time.cached_s * (inputs + outputs / 2)
    most = np.minimum(rules.sequences, rules.capacity / (inputs + outputs * np.where(rules.reserve, 1.0, 0.5)))
    in_flight, tokens_each, draft = np.ones(most.size), np.ones(most.size), time.draft
    if draft is not None:
        outputs = outputs / tokens_per_round(draft.proposed, draft.acceptance)
        attention = attention + between(draft.prompt_s, fresh * time.row_share)
        tokens_each = draft.proposed + 1
    for _ in range(SETTLING_STEPS):
        alone = between(time.rows_s, in_flight * tokens_each)
        rows_s = alone + between(time.head_s, in_flight) if draft is None else between(draft.round_s, in_flight)
        device = rows_s + (time.sequence_s + cached) * in_flight
        step = np.maximum(device, time.floor_s) + time.host_s
        prompt = between(time.rows_s, fresh * time.row_share + in_flight * tokens_each) - alone + attention
        launches = np.maximum(time.mixed_floor_s - device, 0.0) / mean_if_any(load.rate_per_s * step)
        prompt = np.maximum(prompt * time.mixed_factor, launches)
        in_flight = np.minimum(load.rate_per_s * (outputs * step + in_flight * prompt), most)
    return in_flight, in_flight < 0.98 * most


def simulate(time: IterationTime, rules: BatchingRules, load: Load, *, seeds: int, measured: int) -> Summary:
    """Simulate each replica under its `load`; a row that cannot keep up is `saturated`, its latencies infinite.

    Every row has `seeds` runs, numbered from 0, with `measured` requests in each after those that make it steady. Rows with about
    as many requests in flight are simulated together, as they take about as many steps; so are those whose outputs are alike, as
    these end in order (see `completions`).
    """
    closed, rows = load.closed, load.rate_per_s.size
    limit = np.where(load.concurrency > 0, np.minimum(load.concurrency, rules.sequences), rules.sequences)
    rules = replace(rules, sequences=limit)
    in_flight, keeps_up = steady_state(time, rules, load)
    in_flight = np.where(closed, limit, in_flight)
    load = replace(load, concurrency=np.where(load.concurrency > 0, load.concurrency, limit))
    kind = load.outputs.varies * 1
    if time.draft is not None:
        kind += 2 * (time.draft.proposed > 0)
    index = np.lexsort((in_flight, kind))
    index = index[(keeps_up | closed)[index]]
    row, seed = np.repeat(index, seeds), np.tile(np.arange(seeds), index.size)
    spans = _spans(load.take(row), limit[row], in_flight[row], seed, measured)
    parts = [
        _simulate_runs(time.take(row[runs]), rules.take(row[runs]), load.take(row[runs]), spans.take(runs), seed[runs], measured)
        for runs in _blocks(spans.requests, kind[row], seeds)
    ]
    return with_saturated(joined(parts or [NO_ROWS]), index, rows)


class _Spans(RowRecord, frozen=True):
    """Numbers of requests of a run, by what they are for. Shape [runs]."""

    in_flight: Rows
    """Decoding from the start."""
    warm: Rows
    """Before the measured ones, with those in flight from the start."""
    requests: Rows
    """All, with those that go on arriving behind the measured ones."""


def _spans(load: Load, limit: Floats, in_flight: Floats, seed: Rows, measured: int) -> _Spans:
    """Numbers of requests for each run; in flight from the start are as many as by Little's law, more or fewer by the seed."""
    random = {one: np.random.default_rng([one // 2, SWING_STREAM]).standard_normal() * (-1) ** one for one in set(seed.tolist())}
    swing = np.sqrt(in_flight) * np.array([random[one] for one in seed.tolist()])
    begun = np.where(load.closed, limit, np.clip(np.round(in_flight + swing), 0.0, np.floor(0.95 * limit))).astype(np.int64)
    queued = np.where(load.closed, np.maximum(load.concurrency - limit, 0.0), 0.0)
    warm = begun + np.ceil(queued + SETTLED_SHARE * in_flight).astype(np.int64) + 8
    tail = np.where(load.closed | load.outputs.varies, WHOLE_TAIL, QUEUE_TAIL)
    behind = np.ceil(tail * in_flight + queued).astype(np.int64) + TAIL
    return _Spans(begun, warm, warm + measured + behind)


def _blocks(requests: Rows, kind: Rows, seeds: int) -> Iterator[Rows]:
    """Runs that are simulated together: all `seeds` of a row, all of one kind, fewer where there are many `requests` [runs] in each."""
    begin = 0
    while begin < requests.size:
        most = np.maximum.accumulate(requests[begin:])
        count = np.arange(1, most.size + 1)
        together = (count <= RUNS_AT_ONCE) & (count * most <= REQUESTS_AT_ONCE) & (kind[begin:] == kind[begin])
        size = max(seeds, int(np.count_nonzero(together)) // seeds * seeds)
        yield np.arange(begin, min(begin + size, requests.size))
        begin += size


def _simulate_runs(time: IterationTime, rules: BatchingRules, load: Load, spans: _Spans, seeds: Rows, measured: int) -> Summary:
    """Simulate runs side by side; all of them have a draft, or none."""
    most = spans.requests
    traffic = traffic_of(load, seeds.tolist(), int(most.max()), in_flight=spans.in_flight, most=most).fitted(rules.capacity)
    if time.draft is not None and not time.draft.proposed.any():
        time = replace(time, draft=None)
    if time.draft is not None:
        traffic = replace(traffic, rounds=rounds_of(traffic.decoded_tokens, seeds, time.draft))
    trace = run_batches(time, rules, traffic, warm=spans.warm, measured=np.full(seeds.size, measured))
    row = np.cumsum(seeds == 0) - 1
    late = {"front_end_s": time.front_end_s, "late_steps": time.late_steps}
    return summarise(trace, warm=spans.warm, measured=measured, row=row, **late)
