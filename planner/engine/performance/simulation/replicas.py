"""Replicas under load, each simulated in several runs with different seeds.

Symbols: B requests in flight · o output tokens, or rounds with a draft · λ requests a second of one replica.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import NormalDist

import numpy as np
from msgspec.structs import replace

from planner.engine.columns import Flags, Floats, RowRecord, Rows, joined
from planner.engine.columns.fixed_point import fixed_point
from planner.engine.performance.prefill_decode.passes import mean_if_any
from planner.engine.performance.prefill_decode.speculative_decoding import rounds_of, tokens_per_round
from planner.engine.performance.simulation.batching_rules import BatchingRules
from planner.engine.performance.simulation.continuous_batching import run_batches
from planner.engine.performance.simulation.iteration_time import KNOTS, IterationTime, place_of
from planner.engine.performance.simulation.load import Load
from planner.engine.performance.simulation.summary import NO_ROWS, Summary, summarise, with_saturated
from planner.engine.performance.simulation.traffic import traffic_of

RUNS_AT_ONCE, REQUESTS_AT_ONCE = 3000, 600_000
"""Limits of what is simulated together: enough to spread the cost of a step, few enough to be similar and to stay in the processor's caches."""
LEAST_SLOPE = 0.1
"""Smallest value of f'·B/f in `_RequestTime.mean_and_variance`: closer to saturation the expansion around the mean no longer holds."""
MOST_BUSY = 0.95
"""Largest share of time that prompts take, for the same reason."""
FULL = 0.98
"""Share of what a replica admits above which it no longer keeps up."""
SETTLED, SETTLED_SHARE, SETTLED_LOOP = 8, 0.1, 0.5
"""Requests that pass before any is measured: a fixed number, and a multiple of those in flight, at a rate and in a closed loop. At a rate the
number in flight has the mean and the variance of a long run from the start: passing half of them brings no percentile closer to a long run's."""
TAIL, QUEUE_TAIL, WHOLE_TAIL = 16, 1.5, 4.0
"""Requests that arrive after the measured ones: a fixed number, and a multiple of those in flight. Where outputs are equal, as many as may
be before the last one; else, and in closed loops, as many as end while the longest of them is served: with fewer the p99 of log-normal
lengths came out up to 40 % short."""


class _RequestTime(RowRecord, frozen=True):
    """Time of a request among others, T(B) = o·step(B) + B·prompt(B). Columns of shape [rows], used with the tables of `time`."""

    first: Rows
    """Start of each row's part of the flat tables."""
    rate_per_s: Floats
    outputs: Floats
    tokens_each: Floats
    """Tokens of a sequence in a pass."""
    most: Floats
    """Maximum number of requests in flight."""
    prompt_rows: Floats
    """Tokens in the generating layers on one GPU, for no prompt and for one; shape [rows, 2]."""
    attention_s: Floats
    """Attention of a prompt, and a draft's pass over it."""
    sequence_s: Floats
    """Attention of one sequence in a decoding step."""
    host_s: Floats
    floor_s: Floats | None
    """None, as below: 0 in every row."""
    mixed_floor_s: Floats | None
    mixed_factor: Floats

    def parts_s(self, time: IterationTime, in_flight: Floats) -> tuple[Floats, Floats]:
        """(time of a step of all in flight, time of a prompt among them)."""
        both, draft = place_of(in_flight * self.tokens_each + self.prompt_rows.T, self.first), time.draft
        alone, beside = both.of(time.rows_s)
        rows_s = alone + both.first.of(time.head_s) if draft is None else place_of(in_flight, self.first).of(draft.round_s)
        device = rows_s + self.sequence_s * in_flight
        step = (device if self.floor_s is None else np.maximum(device, self.floor_s)) + self.host_s
        prompt = (beside - alone + self.attention_s) * self.mixed_factor
        if self.mixed_floor_s is None:
            return step, np.maximum(prompt, 0.0)
        launches = np.maximum(self.mixed_floor_s - device, 0.0)
        if np.count_nonzero(launches):
            launches = launches / mean_if_any(self.rate_per_s * step)
        return step, np.maximum(prompt, launches)

    def seconds(self, time: IterationTime, in_flight: Floats) -> Floats:
        """Seconds of a request."""
        step, prompt = self.parts_s(time, in_flight)
        return self.outputs * step + in_flight * prompt

    def in_flight(self, time: IterationTime) -> tuple[Floats, Flags]:
        """Requests in flight where as many end as come, B = λ·T(B), and whether they stay below what the replica admits."""

        def of_rows(rows: Rows) -> Callable[[Floats], Floats]:
            these = self.take(rows)
            return lambda in_flight: np.minimum(these.rate_per_s * these.seconds(time, in_flight), these.most)

        in_flight = np.minimum(fixed_point(of_rows, np.ones(self.most.size)), self.most)
        return in_flight, in_flight < FULL * self.most

    def mean_and_variance(self, time: IterationTime, in_flight: Floats, variation: Floats) -> tuple[Floats, Floats]:
        """(mean, variance) of the requests in flight around `in_flight`, where as many end as come, for arrivals of a `variation`.

        With f(B) = B/T(B) requests ending per second, B is a birth and death process: its variance is λ·(1 + c²)/2f' with arrivals of
        variation c, and its mean is higher by -f''·variance/2f', because requests are slower where there are more (van Kampen's expansion).
        While prompts are computed, a share ρ of the time, more requests come: as in a busy period, the variance of those that come in an
        iteration is 1/(1 - ρ)² times that of independent ones (Borel and Tanner), and f' holds one of the two factors.
        """
        step = np.minimum(np.sqrt(in_flight), in_flight / 2)
        fewer, ends, further = ((in_flight + k * step) / self.seconds(time, in_flight + k * step) for k in (-1, 0, 1))
        slope = np.maximum((further - fewer) / (2 * step), LEAST_SLOPE * ends / in_flight)
        busy = np.minimum(self.rate_per_s * self.parts_s(time, in_flight)[1], MOST_BUSY)
        variance = self.rate_per_s * (1 + variation**2) / 2 / slope / (1 - busy)
        bend = np.maximum(2 * ends - further - fewer, 0.0) / step**2
        return np.minimum(in_flight + bend * variance / (2 * slope), self.most), variance


def _request_time(time: IterationTime, rules: BatchingRules, load: Load, row: Rows) -> _RequestTime:
    """Request times for the rows `row` of `time` and `rules`; `load`: requests at a rate, whose prompts share iterations with decoding steps."""
    inputs, outputs, draft = load.inputs.mean, load.outputs.mean, time.draft
    fresh = np.maximum(inputs - load.prefix_tokens, 1.0)
    longer = np.exp(load.outputs.sigma**2)  # among requests in flight long answers are more frequent: E[o²]/E[o] = o·exp(σ²)
    prompt_rows = fresh * time.row_share[row]
    attention_s = time.prompt_s[row] * fresh + time.pair_s[row] * fresh * (load.prefix_tokens + fresh / 2)
    kept = inputs + outputs * longer * np.where(rules.reserve[row], 1.0, 0.5)
    tokens_each, steps, first = np.ones(row.size), outputs, row * KNOTS.size
    if time.encoder_s is not None and time.encodes is not None:
        attention_s = attention_s + place_of(fresh, first).of(time.encoder_s)
        prompt_rows = np.where(time.encodes[row] > 0, 1.0, prompt_rows)
    if draft is not None:
        steps = outputs / tokens_per_round(draft.proposed[row], draft.acceptance[row])
        attention_s = attention_s + place_of(prompt_rows, first).of(draft.prompt_s)
        tokens_each = draft.proposed[row] + 1
    return _RequestTime(
        first=first,
        rate_per_s=load.rate_per_s,
        outputs=steps,
        tokens_each=tokens_each,
        most=np.minimum(rules.sequences[row], rules.capacity[row] / kept),
        prompt_rows=np.stack((np.zeros(row.size), prompt_rows), axis=1),
        attention_s=attention_s,
        sequence_s=time.sequence_s[row] + time.cached_s[row] * (inputs + outputs * longer / 2),
        host_s=time.host_s[row],
        floor_s=time.floor_s[row] if time.floor_s.any() else None,
        mixed_floor_s=time.mixed_floor_s[row] if time.mixed_floor_s.any() else None,
        mixed_factor=time.mixed_factor[row],
    )


def steady_state(time: IterationTime, rules: BatchingRules, load: Load) -> tuple[Floats, Flags]:
    """Requests in flight by Little's law, and whether they stay below what the replica admits. Shape [rows]."""
    return _request_time(time, rules, load, np.arange(load.rate_per_s.size)).in_flight(time)


def steady_limit(time: IterationTime, rules: BatchingRules, load: Load) -> Floats:
    """Requests per second below which `steady_state` finds that a replica keeps up. Shape [rows]."""
    request = _request_time(time, rules, load, np.arange(load.rate_per_s.size))
    return FULL * request.most / request.seconds(time, FULL * request.most)


class Steady(RowRecord, frozen=True):
    """Requests at a rate, without a simulation; columns of shape [rows]."""

    keeps_up: Flags
    request_s: Floats
    """Mean time of a request."""
    token_s: Floats
    """Mean time per output token."""
    idle_s: Floats
    """Half a step less that a request waits where the replica is often idle when it comes."""
    load_sigma: Floats
    """Standard deviation of the logarithm of these times as the load varies."""


def request_times(time: IterationTime, rules: BatchingRules, load: Load, row: Rows | None = None) -> Steady:
    """Times of requests at a rate, by an expansion around Little's law; `row`: see `_request_time`, None: row by row.

    To the time of a request among the mean number of others (`_RequestTime.mean_and_variance`) are added the wait for half a step, but for
    the share e^-B of requests that find nothing in flight, and for the previous prompt, and √B for the number of prompts that stop a
    request. The prompts of others stop it between its tokens; its own comes before them, and so does the way through the front end.
    """
    row = np.arange(load.rate_per_s.size) if row is None else row
    request = _request_time(time, rules, load, row)
    in_flight, keeps_up = request.in_flight(time)
    mean, variance = request.mean_and_variance(time, in_flight, load.variation)
    step_s, prompt_s = request.parts_s(time, mean)
    seconds = request.outputs * step_s + mean * prompt_s
    busy = np.minimum(load.rate_per_s * prompt_s, MOST_BUSY)
    idle_s = step_s / 2 * np.exp(-mean)
    wait_s = step_s / 2 - idle_s + busy * prompt_s / (2 * (1 - busy))
    by_load = np.log(request.seconds(time, mean + np.sqrt(variance)) / seconds)
    token_s = (seconds + wait_s) / np.maximum(load.outputs.mean, 1.0)
    before_s = prompt_s + time.front_end_s[row] + time.late_steps[row] * token_s
    return Steady(keeps_up, seconds + wait_s + before_s, token_s, idle_s, np.hypot(by_load, np.sqrt(mean) * prompt_s / seconds))


def limited(rules: BatchingRules, load: Load) -> BatchingRules:
    """`rules` with at most as many requests in flight as `load` has clients, or its engine allows."""
    most = np.where(load.concurrency > 0, np.minimum(load.concurrency, rules.sequences), rules.sequences)
    return replace(rules, sequences=most)


def simulate(
    time: IterationTime, rules: BatchingRules, load: Load, *, seeds: int, measured: int, most_per_s: Floats | None = None
) -> Summary:
    """Simulate each replica under its `load`; a row that cannot keep up is `saturated`, its latencies infinite.

    It keeps up with up to `most_per_s` [rows]; None: as long as its queue does not grow within a run. Every row has `seeds` runs, numbered
    from 0, with `measured` requests in each after those that make it steady. Rows with about as many requests in flight are simulated
    together, because they take about as many steps; so are rows whose outputs are equal, because these end in order (see `completions`).
    """
    closed, rows = load.closed, load.rate_per_s.size
    rules = limited(rules, load)
    limit = rules.sequences
    request = _request_time(time, rules, load, np.arange(rows))
    in_flight, keeps_up = request.in_flight(time)
    in_flight, variance = request.mean_and_variance(time, np.where(closed, limit, in_flight), load.variation)
    if most_per_s is not None:
        keeps_up &= load.rate_per_s <= most_per_s
    in_flight = np.where(closed, limit, in_flight)
    load = replace(load, concurrency=np.where(load.concurrency > 0, load.concurrency, limit))
    kind = load.outputs.varies * 1
    if time.draft is not None:
        kind += 2 * (time.draft.proposed > 0)
    index = np.lexsort((in_flight, kind))
    index = index[(keeps_up | closed)[index]]
    row, seed = np.repeat(index, seeds), np.tile(np.arange(seeds), index.size)
    swing = np.tile(_swings(seeds), index.size) * np.sqrt(variance[row])
    spans = _spans(load.take(row), limit[row], in_flight[row], swing, measured)
    parts = [
        _simulate_runs(time.take(row[runs]), rules.take(row[runs]), load.take(row[runs]), spans.take(runs), seed[runs], measured)
        for runs in _blocks(spans.requests, kind[row], seeds)
    ]
    found = joined(parts or [NO_ROWS])
    if most_per_s is not None:
        found = replace(found, saturated=np.zeros(index.size, dtype=bool))
    return with_saturated(found, index, rows)


class _Spans(RowRecord, frozen=True):
    """Numbers of requests of a run, by their purpose. Shape [runs]."""

    in_flight: Rows
    """Requests that decode from the start."""
    warm: Rows
    """Requests before the measured ones, including those in flight from the start."""
    requests: Rows
    """All requests, including those that arrive after the measured ones."""


def _swings(seeds: int) -> Floats:
    """Deviation of the requests in flight at the start of each run, in standard deviations: mean 0 and, for an even number, variance 1.

    They are quantiles of a normal distribution instead of random numbers, because chance would shift the mean of a few runs.
    """
    pairs = seeds // 2
    above = np.array([NormalDist().inv_cdf(0.5 + (pair + 0.5) / (2 * pairs)) for pair in range(pairs)])
    above /= np.sqrt((above**2).mean()) if pairs else 1.0
    return np.append(np.stack([above, -above], axis=1).ravel(), np.zeros(seeds % 2))


def _spans(load: Load, limit: Floats, in_flight: Floats, swing: Floats, measured: int) -> _Spans:
    """Numbers of requests for each run, which begins with `in_flight` requests and its `swing` more."""
    begun = np.where(load.closed, limit, np.clip(np.round(in_flight + swing), 0.0, np.floor(0.95 * limit))).astype(np.int64)
    queued = np.where(load.closed, np.maximum(load.concurrency - limit, 0.0), 0.0)
    settled = SETTLED + np.where(load.closed, SETTLED_LOOP, SETTLED_SHARE) * in_flight
    warm = begun + np.ceil(queued + settled).astype(np.int64)
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
    """Simulate runs together; all of them have a draft, or none."""
    row = np.cumsum(seeds == 0) - 1
    counts = {"in_flight": spans.in_flight, "most": spans.requests, "row": row}
    traffic = traffic_of(load, seeds.tolist(), int(spans.requests.max()), **counts).fitted(rules.capacity)
    if time.draft is not None and not time.draft.proposed.any():
        time = replace(time, draft=None)
    if time.draft is not None:
        traffic = replace(traffic, rounds=rounds_of(traffic.decoded_tokens, seeds, time.draft))
    trace = run_batches(time, rules, traffic, warm=spans.warm, measured=np.full(seeds.size, measured))
    late = {"front_end_s": time.front_end_s, "late_steps": time.late_steps}
    found = summarise(trace, warm=spans.warm, measured=measured, row=row, **late)
    return replace(found, saturated=found.saturated & ~load.closed[seeds == 0])  # waiting clients send nothing more
