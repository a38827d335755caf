"""Replicas of a table under load: each simulated with several seeds, and what came of it as columns.

Symbols: B requests in flight · i, o input and output tokens · λ requests a second of one replica.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from planner.engine.columns import Flags, Floats, Rows, Table
from planner.engine.job.jobs import Job
from planner.engine.speed.simulation.batching import run
from planner.engine.speed.simulation.pace import Pace, between, pace_of
from planner.engine.speed.simulation.summary import Latency, Summary, summarise
from planner.engine.speed.simulation.trace import Rules
from planner.engine.speed.simulation.traffic import Length, Load, traffic_of
from planner.workload.tasks import Lengths

MOST_AT_ONCE = 512.0
"""Requests an engine takes in at once, whatever its cache would hold."""
SEEDS, MEASURED = 8, 128
"""Lanes of one replica, and requests measured in each."""
SETTLING_STEPS = 40
SETTLED_SHARE = 0.5
"""Of the requests in flight: so many more pass before any is measured."""
TAIL = 16
"""Requests that go on arriving behind the measured ones, beside those in flight."""


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


def share_of(variation: float, replicas: Floats) -> Floats:
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
    """(requests in flight by Little's law, whether they end below what the replica admits): B = λ·(o·step(B) + B·prompt(B))."""
    every = np.arange(pace.lanes)
    inputs, outputs = (np.array([length.mean for length in lengths]) for lengths in (demand.inputs, demand.outputs))
    fresh = np.maximum(inputs - demand.prefix_tokens, 1.0)
    attention = pace.prompt_s * fresh + pace.pair_s * fresh * (demand.prefix_tokens + fresh / 2)
    cached = pace.cached_s * (inputs + outputs / 2)
    most = np.minimum(rules.sequences, rules.capacity / (inputs + outputs * np.where(rules.reserve, 1.0, 0.5)))
    in_flight = np.ones(pace.lanes)
    for _ in range(SETTLING_STEPS):
        alone = between(pace.rows_s, in_flight, every)
        device = alone + between(pace.head_s, in_flight, every) + (pace.sequence_s + cached) * in_flight
        step = np.maximum(device, pace.floor_s) + pace.host_s
        prompt = between(pace.rows_s, fresh * pace.row_share + in_flight, every) - alone + attention
        in_flight = np.minimum(demand.rate_per_s * (outputs * step + in_flight * prompt), most)
    return in_flight, in_flight < 0.98 * most


def simulate(
    table: Table,
    most: Floats,
    demand: Demand,
    *,
    seeds: int = SEEDS,
    measured: int = MEASURED,
    seed: int = 0,
    count_gaps: bool = False,
) -> Summary:
    """What each replica of `table` does under `demand`; a row that cannot keep up is `saturated`, its latencies infinite.

    `seeds` lanes a row, numbered from `seed`; `measured` requests in each, after those that make it steady.
    """
    pace, rules = pace_of(table), rules_of(table, most)
    closed = demand.rate_per_s <= 0
    limit = np.where(demand.concurrency > 0, np.minimum(demand.concurrency, rules.sequences), rules.sequences)
    rules = Rules(rules.budget, limit, rules.capacity, rules.reserve, rules.mixed)
    in_flight, keeps_up = settled(pace, rules, demand)
    in_flight = np.where(closed, limit, in_flight)
    rows = np.flatnonzero(keeps_up | closed)
    if not rows.size:
        return _with_saturated(None, rows, table.rows)
    lane = np.repeat(rows, seeds)
    number = np.tile(np.arange(seed, seed + seeds), rows.size)
    turns = range(seed, seed + seeds)
    luck = np.array([np.random.default_rng([one // 2, 6]).standard_normal() * (-1) ** one for one in turns])
    swing = np.sqrt(in_flight[lane]) * np.tile(luck, rows.size)
    begun = np.where(closed[lane], limit[lane], np.clip(np.round(in_flight[lane] + swing), 0.0, np.floor(0.95 * limit[lane])))
    begun = begun.astype(np.int64)
    queued = np.where(closed[lane], np.maximum(demand.concurrency[lane] - limit[lane], 0.0), 0.0)
    warm = begun + np.ceil(queued + SETTLED_SHARE * in_flight[lane]).astype(np.int64) + 8
    counted = np.full(lane.size, measured)
    behind = np.ceil(1.5 * in_flight[lane] + queued).astype(np.int64) + TAIL
    loads = [_load(demand, int(row), int(start), float(limit[row])) for row, start in zip(lane, begun, strict=True)]
    traffic = traffic_of(loads, [int(one) for one in number], int((warm + counted + behind).max()), (warm + counted + behind))
    laned = Rules(rules.budget[lane], rules.sequences[lane], rules.capacity[lane], rules.reserve[lane], rules.mixed[lane])
    trace = run(pace.take(lane), laned, traffic.fitted(laned.capacity), warm=warm, measured=counted, count_gaps=count_gaps)
    found = summarise(trace, warm=warm, measured=counted, group=np.repeat(np.arange(rows.size), seeds))
    return _with_saturated(found, rows, table.rows)


def _load(demand: Demand, row: int, begun: int, limit: float) -> Load:
    rate = float(demand.rate_per_s[row])
    variation = float(demand.variation[row])
    return Load(
        inputs=demand.inputs[row],
        outputs=demand.outputs[row],
        prefix_tokens=float(demand.prefix_tokens[row]),
        arrivals="closed" if rate <= 0 else "fixed" if variation <= 0 else "poisson",
        rate_per_s=rate,
        variation=variation,
        concurrency=int(demand.concurrency[row] or limit) if rate <= 0 else 0,
        in_flight=begun,
        window_s=float(demand.window_s[row]),
    )


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
