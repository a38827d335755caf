"""Replicas of a table under load: each simulated with several seeds, and what came of it as columns.

Symbols: B requests in flight · i, o input and output tokens · λ requests a second of one replica.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from planner.engine.columns import Flags, Floats, Rows, Table
from planner.engine.job.job import Job
from planner.engine.performance.prefill_decode.passes import at_a_time
from planner.engine.performance.prefill_decode.speculative_decoding import tokens_per_round
from planner.engine.performance.simulation.arrivals import Length, Load, Traffic, traffic_of
from planner.engine.performance.simulation.continuous_batching import run
from planner.engine.performance.simulation.draft_rounds import Drafting, rounds_of
from planner.engine.performance.simulation.iteration_time import Pace, between, pace_of
from planner.engine.performance.simulation.summary import Latency, Summary, joined, summarise
from planner.engine.performance.simulation.trace import Rules
from planner.workload.tasks import Lengths

MOST_AT_ONCE = 512.0
"""Requests an engine takes in at once, whatever its cache would hold."""
SEEDS, MEASURED = 8, 128
"""Lanes of one replica, and requests measured in each."""
LANES_AT_ONCE, REQUESTS_AT_ONCE = 1400, 600_000
"""Simulated together: enough to spread the cost of a step, few enough to be alike and to stay near the processor."""
SETTLING_STEPS = 40
SETTLED_SHARE = 0.5
"""Of the requests in flight: so many more pass before any is measured."""
TAIL, QUEUE_TAIL, WHOLE_TAIL = 16, 1.5, 4.0
"""Requests that go on arriving behind the measured ones: so many, and a multiple of those in flight. Where outputs are alike as
many as may stand before the last one; else, and in closed loops, as many as end while the longest of them is served: with fewer
the p99 of log-normal lengths came out up to 40 % short."""


@dataclass(frozen=True)
class Demand:
    """What each replica is asked; shape [rows]."""

    rate_per_s: Floats
    """0: a closed loop."""
    concurrency: Floats
    """Of a closed loop; else the most at once that is allowed, 0 for no such limit."""
    inputs: Sequence[Length]
    outputs: Sequence[Length]
    prefix_tokens: Floats
    variation: Floats
    """Standard deviation ÷ mean of the time between arrivals; 1: Poisson."""
    window_s: Floats
    """How long a request waits for others before a batch of them is handed to the engine."""

    def take(self, index: Rows) -> Demand:
        """The rows `index`."""
        return Demand(
            self.rate_per_s[index],
            self.concurrency[index],
            [self.inputs[row] for row in index],
            [self.outputs[row] for row in index],
            self.prefix_tokens[index],
            self.variation[index],
            self.window_s[index],
        )


def length_of(given: int | Lengths | None, mean: float) -> Length:
    """The distribution a workload gives; `mean` where it gives a number or none."""
    return Length(mean=given.mean, p50=given.p50, p95=given.p95) if isinstance(given, Lengths) else Length(mean=mean)


def share_of(variation: Floats | float, replicas: Floats) -> Floats:
    """Variation of the arrivals at one of so many replicas among which requests are dealt at random.

    A renewal stream of variation c thinned to 1/n has c² = 1 + (c² - 1)/n: a Poisson stream stays one, bursts thin out.
    """
    thinned: Floats = np.sqrt(1 + (variation**2 - 1) / np.maximum(replicas, 1.0))
    return thinned


def demand_of(jobs: Sequence[Job], replicas: Floats, *, surge: Floats | float = 0.0) -> Demand:
    """Of each job's deployment, what one of `replicas` gets, its rate raised by `surge` (0.2: 20 %)."""
    rate = np.array([job.request_rate_per_s for job in jobs]) * (1 + surge) / replicas
    asked = np.array([job.concurrency for job in jobs])
    variation = [1.0 if job.workload.arrival_variation is None else job.workload.arrival_variation for job in jobs]
    return Demand(
        rate_per_s=rate,
        concurrency=np.where(np.isfinite(asked), np.ceil(asked / replicas), 0.0),
        inputs=[length_of(job.workload.input_tokens, job.input_tokens) for job in jobs],
        outputs=[length_of(job.workload.output_tokens, job.output_tokens) for job in jobs],
        prefix_tokens=np.array([job.prefix_tokens for job in jobs]),
        variation=np.array([float(share_of(c, n)) for c, n in zip(variation, replicas, strict=True)]),
        window_s=np.array([job.workload.batch_window_s or 0.0 for job in jobs]),
    )


def rules_of(table: Table, most: Floats) -> Rules:
    """How the engine of each row forms iterations; `most`: sequences of mean length its cache holds, NaN: no cache."""
    e, j, rows = table.engine, table.job, table.rows
    held = np.where(np.isfinite(most), np.maximum(most, 1.0), np.inf)

    def full(value: Floats) -> Floats:
        return np.broadcast_to(value, (rows,)).astype(np.float64)

    return Rules(
        budget=full(np.where(e.prefill_chunk > 0, e.prefill_chunk, np.inf)),
        sequences=full(np.minimum(held, MOST_AT_ONCE)),
        capacity=full(held * (j.input_tokens + j.output_tokens)),
        reserve=full(e.reserves_output) > 0,
        mixed=full(e.prompts_first) <= 0,
    )


def settled(pace: Pace, rules: Rules, demand: Demand) -> tuple[Floats, Flags]:
    """(requests in flight by Little's law, whether they end below what the replica admits): B = λ·(o·step(B) + B·prompt(B)).

    With a draft o are rounds, and a step is one of them.
    """
    every = np.arange(pace.lanes)
    inputs, outputs = (np.array([length.mean for length in lengths]) for lengths in (demand.inputs, demand.outputs))
    fresh = np.maximum(inputs - demand.prefix_tokens, 1.0)
    attention = pace.prompt_s * fresh + pace.pair_s * fresh * (demand.prefix_tokens + fresh / 2)
    cached = pace.cached_s * (inputs + outputs / 2)
    most = np.minimum(rules.sequences, rules.capacity / (inputs + outputs * np.where(rules.reserve, 1.0, 0.5)))
    mixed, launch_s = pace.mixed_factor, pace.mixed_floor_s
    in_flight, wide, drafted = np.ones(pace.lanes), np.ones(pace.lanes), pace.draft
    if drafted is not None:
        outputs = outputs / tokens_per_round(drafted.proposed, drafted.acceptance)
        attention = attention + between(drafted.prompt_s, fresh * pace.row_share, every)
        wide = drafted.proposed + 1
    for _ in range(SETTLING_STEPS):
        alone = between(pace.rows_s, in_flight * wide, every)
        if drafted is None:
            device = alone + between(pace.head_s, in_flight, every) + (pace.sequence_s + cached) * in_flight
        else:
            device = between(drafted.round_s, in_flight, every) + (pace.sequence_s + cached) * in_flight
        step = np.maximum(device, pace.floor_s) + pace.host_s
        prompt = (between(pace.rows_s, fresh * pace.row_share + in_flight * wide, every) - alone + attention) * mixed
        prompt = np.maximum(prompt, np.maximum(launch_s - device, 0.0) / at_a_time(demand.rate_per_s * step))
        in_flight = np.minimum(demand.rate_per_s * (outputs * step + in_flight * prompt), most)
    return in_flight, in_flight < 0.98 * most


def simulate(
    table: Table,
    most: Floats,
    demand: Demand,
    *,
    seeds: int = SEEDS,
    measured: int = MEASURED,
    count_gaps: bool = False,
) -> Summary:
    """What each replica of `table` does under `demand`; see `serve`. `most`: see `rules_of`."""
    pace, rules = pace_of(table), rules_of(table, most)
    return serve(pace, rules, demand, seeds=seeds, measured=measured, count_gaps=count_gaps)


def serve(pace: Pace, rules: Rules, demand: Demand, *, seeds: int, measured: int, count_gaps: bool = False) -> Summary:
    """What each replica does under `demand`; a row that cannot keep up is `saturated`, its latencies infinite.

    `seeds` lanes a row, numbered from 0; `measured` requests in each, after those that make it steady. Rows with about as
    many requests in flight are simulated together, as they take about as many steps; and those whose outputs are alike, as these
    end in turn (`endings`).
    """
    closed = demand.rate_per_s <= 0
    limit = np.where(demand.concurrency > 0, np.minimum(demand.concurrency, rules.sequences), rules.sequences)
    rules = replace(rules, sequences=limit)
    in_flight, keeps_up = settled(pace, rules, demand)
    in_flight = np.where(closed, limit, in_flight)
    rows = np.flatnonzero(keeps_up | closed)
    if not rows.size:
        return _with_saturated(None, rows, limit.size)
    kind = np.array([length.varies for length in demand.outputs]) * 1
    if pace.draft is not None:
        kind += 2 * (pace.draft.proposed > 0)
    rows = rows[np.lexsort((in_flight[rows], kind[rows]))]
    lane, number = np.repeat(rows, seeds), np.tile(np.arange(seeds), rows.size)
    spans = _spans(demand.take(lane), limit[lane], in_flight[lane], number, measured)
    found = []
    for block in _blocks(spans.requests, kind[lane], seeds):
        here, own, load, span = pace.take(lane[block]), rules.take(lane[block]), demand.take(lane[block]), spans.take(block)
        drawn = traffic_of(_loads(load, own.sequences, span.begun), number[block].tolist(), int(span.requests.max()), span.requests)
        drawn = drawn.fitted(own.capacity)
        if here.draft is not None:
            here, drawn = _drafted(here, here.draft, drawn, number[block])
        trace = run(here, own, drawn, warm=span.warm, measured=span.counted, count_gaps=count_gaps)
        found.append(summarise(trace, warm=span.warm, measured=span.counted, group=np.arange(block.size) // seeds))
    return _with_saturated(joined(found), rows, limit.size)


def _drafted(pace: Pace, draft: Drafting, traffic: Traffic, seeds: Rows) -> tuple[Pace, Traffic]:
    """Of lanes that all have a draft, or none: how many rounds their answers take, or that there are no rounds."""
    if not draft.proposed.any():
        return replace(pace, draft=None), traffic
    return pace, replace(traffic, rounds=rounds_of(traffic.still_to_come, seeds, draft))


@dataclass(frozen=True)
class _Spans:
    """How many requests of a lane are for what; shape [lanes]."""

    begun: Rows
    """That run from the start."""
    warm: Rows
    """Before the measured ones, with those begun."""
    counted: Rows
    requests: Rows
    """In all: some more go on arriving behind the measured ones."""

    def take(self, index: Rows) -> _Spans:
        """The lanes `index`."""
        return _Spans(self.begun[index], self.warm[index], self.counted[index], self.requests[index])


def _blocks(requests: Rows, kind: Rows, seeds: int) -> Iterator[Rows]:
    """Lanes that are simulated together, `seeds` of a row next to each other: some hundred, fewer of many requests each; all of one kind."""
    begin = 0
    while begin < requests.size:
        most = np.maximum.accumulate(requests[begin:])
        held = (np.arange(1, most.size + 1) <= LANES_AT_ONCE) & (np.arange(1, most.size + 1) * most <= REQUESTS_AT_ONCE)
        held &= kind[begin:] == kind[begin]
        count = max(seeds, int(np.count_nonzero(held)) // seeds * seeds)
        yield np.arange(begin, min(begin + count, requests.size))
        begin += count


def _spans(load: Demand, limit: Floats, in_flight: Floats, seed: Rows, measured: int) -> _Spans:
    """As many run from the start as by Little's law, more or fewer by the luck of the seed."""
    closed = load.rate_per_s <= 0
    luck = {one: np.random.default_rng([one // 2, 6]).standard_normal() * (-1) ** one for one in set(seed.tolist())}
    swing = np.sqrt(in_flight) * np.array([luck[one] for one in seed.tolist()])
    begun = np.where(closed, limit, np.clip(np.round(in_flight + swing), 0.0, np.floor(0.95 * limit))).astype(np.int64)
    queued = np.where(closed, np.maximum(load.concurrency - limit, 0.0), 0.0)
    warm = begun + np.ceil(queued + SETTLED_SHARE * in_flight).astype(np.int64) + 8
    unlike = closed | np.array([length.sigma > 0 for length in load.outputs])
    behind = np.ceil(np.where(unlike, WHOLE_TAIL, QUEUE_TAIL) * in_flight + queued).astype(np.int64) + TAIL
    return _Spans(begun, warm, np.full(seed.size, measured), warm + measured + behind)


def _loads(demand: Demand, limit: Floats, begun: Rows) -> list[Load]:
    columns = (demand.rate_per_s, demand.variation, demand.prefix_tokens, demand.concurrency, demand.window_s, limit, begun)
    return [
        Load(
            inputs=inputs,
            outputs=outputs,
            prefix_tokens=prefix,
            arrivals="closed" if rate <= 0 else "fixed" if variation <= 0 else "poisson",
            rate_per_s=rate,
            variation=variation,
            concurrency=int(concurrency or most) if rate <= 0 else 0,
            in_flight=int(start),
            window_s=window_s,
        )
        for inputs, outputs, rate, variation, prefix, concurrency, window_s, most, start in zip(
            demand.inputs, demand.outputs, *(column.tolist() for column in columns), strict=True
        )
    ]


def _with_saturated(found: Summary | None, rows: Rows, count: int) -> Summary:
    """`found` of the rows simulated, and infinite latencies of all others and of those whose queue grew."""
    kept = np.zeros(0, dtype=bool) if found is None else ~found.saturated
    place = rows[kept]

    def spread(values: Floats | None, otherwise: float) -> Floats:
        column = np.full(count, otherwise)
        if values is not None:
            column[place] = values[kept]
        return column

    def latency(of: str) -> Latency:
        one = None if found is None else getattr(found, of)
        return Latency(*(spread(None if one is None else getattr(one, part), np.inf) for part in ("mean", "p50", "p95", "p99")))

    def plain(of: str, otherwise: float) -> Floats:
        return spread(None if found is None else getattr(found, of), otherwise)

    saturated = np.ones(count, dtype=bool)
    saturated[place] = False
    return Summary(
        ttft_s=latency("ttft_s"),
        tpot_s=latency("tpot_s"),
        request_s=latency("request_s"),
        wait_s=latency("wait_s"),
        gap_p95_s=plain("gap_p95_s", np.nan),
        utilisation=plain("utilisation", 1.0),
        requests_per_s=plain("requests_per_s", np.nan),
        output_tokens_per_s=plain("output_tokens_per_s", np.nan),
        in_flight=plain("in_flight", np.nan),
        cached_tokens=plain("cached_tokens", np.nan),
        preempted=plain("preempted", np.nan),
        saturated=saturated,
        samples=plain("samples", 0.0),
    )
