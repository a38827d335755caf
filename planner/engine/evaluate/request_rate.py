"""Services under a request rate: candidates simulated at the fewest replicas that meet their targets.

Closed formulas screen every candidate before (`search.plan`). Here the best of them are simulated at several numbers of replicas
around the screened one at once; the smallest number that keeps up and meets all targets on latency is chosen.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from msgspec.structs import replace

from planner.engine.columns import Flags, Floats, LayoutColumns, Rows
from planner.engine.columns.rows import joined
from planner.engine.evaluate.candidates import Candidates
from planner.engine.evaluate.evaluation import Evaluated, evaluate
from planner.engine.memory import sequences_that_fit
from planner.engine.performance.prefill_decode.generation import ServeColumns
from planner.engine.performance.simulation.batching_rules import BatchingRules, batching_rules
from planner.engine.performance.simulation.iteration_time import IterationTime, iteration_time
from planner.engine.performance.simulation.load import Load, replica_load
from planner.engine.performance.simulation.replicas import simulate, steady_state
from planner.engine.performance.simulation.summary import Summary, queue_of
from planner.workload.tasks import Targets

SEEDS, MEASURED = 8, 40
"""Runs of a candidate and requests measured in each. With the default preset, ten other sets of seeds against 19,200 requests: a p95
is off by 3 % (root mean square), a p99 by 4 %, without a bias that differs from 0."""
SCREENED = 2.0 ** (np.arange(-8, 7) / 4)
"""Multiples of the screened replicas among which Little's law picks where to begin."""
ABOVE_MEAN = {"p50": 1.0, "p95": 1.2, "p99": 1.3}
"""Usual ratio of a percentile of a latency to its mean."""
NEARBY, FURTHER = (0.93, 1.0, 1.07), (1.25, 1.6, 2.0, 3.0)
"""Multiples of these replicas that are simulated; the second row where none of the first is enough."""
MOST_HALVINGS, CLOSE = 3, 0.04
"""Further turns that look for fewer replicas, and the share of them below which a difference is not looked into."""
SURELY = 1.35
"""Above this ratio to a limit by Little's law a number of replicas is not simulated: the mean alone is above the limit."""
HOPELESS = 1.5
"""Above this ratio to a limit with the most replicas asked of Little's law, no more replicas are simulated."""
FEW_REPLICAS = 8
"""Up to this many, one less and one more are simulated instead."""
LATENCIES = ("ttft_s", "tpot_s", "request_s")
"""Figures of requests that `ServeColumns` and `Summary` share."""


def served(e: Evaluated, targets: Targets) -> tuple[Evaluated, Rows]:
    """The rows of `e` simulated at the fewest replicas that meet `targets`, else where they come closest, and their numbers."""
    replica = _Replica(e, iteration_time(e.table), batching_rules(e.table, most_sequences(e)), targets.burst)
    begin, too_few, hopeless = _screened(replica, targets)
    streams = np.broadcast_to(e.table.layout.expert_streams, e.table.rows)
    row, replicas = _options(begin, NEARBY, streams)
    possible = replicas > too_few[row]
    row, replicas = row[possible], replicas[possible]
    summary = _simulated(replica, row, replicas)
    for turn in range(1 + MOST_HALVINGS):
        over = _overshoot(summary, targets)
        more, further = _between(row, replicas, over, too_few, streams)
        missing = np.array(sorted(set(np.flatnonzero(~hopeless).tolist()) - set(row[over <= 1].tolist())), dtype=np.int64)
        if turn == 0 and missing.size:
            index, dearer = _options(begin[missing], FURTHER, streams[missing])
            more, further = np.concatenate([more, missing[index]]), np.concatenate([further, dearer])
        if not more.size:
            break
        summary = joined([summary, _simulated(replica, more, further)])
        row, replicas = np.concatenate([row, more]), np.concatenate([replicas, further])
    best = _best(row, replicas, _overshoot(summary, targets))
    return _with(e, row[best], replicas[best], summary.take(best), targets.burst), row[best]


class _Replica(msgspec.Struct, frozen=True):
    """One replica of each candidate: how fast it is, and how its engine forms iterations."""

    e: Evaluated
    time: IterationTime
    rules: BatchingRules
    burst: float

    def load(self, row: Rows, replicas: Floats) -> Load:
        """The load of the rows `row`, which may repeat, at so many replicas each."""
        jobs = [self.e.candidates.jobs[int(job)] for job in self.e.candidates.job_index[row]]
        return replica_load(jobs, replicas, surge=self.burst)


def _screened(replica: _Replica, targets: Targets) -> tuple[Floats, Floats, Flags]:
    """By Little's law: (replicas that meet the targets, as screened if none do; the most that do not; whether they are far from it)."""
    rows = replica.e.table.rows
    row = np.repeat(np.arange(rows), SCREENED.size)
    replicas = np.maximum(1.0, np.round(np.broadcast_to(replica.e.table.layout.dp, rows)[row] * np.tile(SCREENED, rows)))
    load = replica.load(row, replicas)
    in_flight, keeps_up = steady_state(replica.time.take(row), replica.rules.take(row), load)
    seconds = in_flight / load.rate_per_s
    over = np.where(keeps_up, 0.0, np.inf)
    for limit in targets.latency_limits():
        if limit.latency != "ttft":
            tokens = load.outputs.mean if limit.latency == "tpot" else 1.0
            over = np.maximum(over, ABOVE_MEAN[limit.share] * seconds / tokens / limit.seconds)
    over, replicas = over.reshape(rows, -1), replicas.reshape(rows, -1)
    place = np.where((over <= 1).any(axis=1), np.argmax(over <= 1, axis=1), np.flatnonzero(SCREENED == 1.0)[0])
    begin, hopeless = replicas[np.arange(rows), place], over[:, -1] > HOPELESS
    too_few = np.where(over > SURELY, replicas, 0.0).max(axis=1)
    return begin, np.where(hopeless, 0.0, np.minimum(too_few, begin - 1)), hopeless


def _between(row: Rows, replicas: Floats, over: Floats, too_few: Floats, streams: Floats) -> tuple[Rows, Floats]:
    """(row, replicas) still to try: between the fewest that are enough and the most below them that are not, unless they are close."""
    rows, numbers = list[int](), list[float]()
    for one in sorted(set(row[over <= 1].tolist())):
        own = row == one
        enough = float(replicas[own & (over <= 1)].min())
        short = float(max(replicas[own & (over > 1) & (replicas < enough)], default=too_few[one]))
        if enough - short <= max(1.0, CLOSE * enough):
            continue
        tried = {float(np.floor(short + (enough - short) * share)) for share in (0.5, 0.75)} | {enough - 1}
        tried = {float(number) for number in np.ceil(np.array(sorted(tried)) / streams[one]) * streams[one]} - {enough}
        for number in sorted(tried - {short, 0.0}):
            rows.append(int(one))
            numbers.append(number)
    return np.array(rows, dtype=np.int64), np.array(numbers)


def _options(begin: Floats, multiples: Sequence[float], streams: Floats) -> tuple[Rows, Floats]:
    """(row, replicas) of every different number to try around `begin` [rows], fewest first within a row: whole groups that share experts."""
    tried = np.maximum(1.0, np.round(begin[:, None] * np.array(multiples)))
    if multiples is NEARBY:
        beside = np.maximum(1.0, begin[:, None] + np.array([-1.0, 0.0, 1.0]))
        tried = np.where(begin[:, None] <= FEW_REPLICAS, beside, tried)
    tried = np.ceil(tried / streams[:, None]) * streams[:, None]
    tried.sort(axis=1)
    fresh = np.ones(tried.shape, dtype=bool)
    fresh[:, 1:] = tried[:, 1:] != tried[:, :-1]
    row, place = np.nonzero(fresh)
    return row, tried[row, place]


def most_sequences(e: Evaluated) -> Floats:
    """Sequences of mean length that the cache of each row holds when it holds as many; infinite where nothing is kept."""
    return np.minimum(np.broadcast_to(e.memory.max_sequences, e.table.rows), sequences_that_fit(e.table))


def _simulated(replica: _Replica, row: Rows, replicas: Floats) -> Summary:
    return simulate(replica.time.take(row), replica.rules.take(row), replica.load(row, replicas), seeds=SEEDS, measured=MEASURED)


def _overshoot(summary: Summary, targets: Targets) -> Floats:
    """Largest ratio of a latency to its limit; infinite where the queue grows, 0 without limits."""
    over = np.where(summary.saturated, np.inf, 0.0)
    for limit in targets.latency_limits():
        seconds = np.nan_to_num(limit.of(summary), nan=0.0, posinf=np.inf)
        over = np.maximum(over, seconds / limit.seconds)  # one token has no time between tokens
    return over


def _best(row: Rows, replicas: Floats, over: Floats) -> Rows:
    """For each row the option with the fewest replicas that is within its limits, else the one that is least over them."""
    within = over <= 1
    order = np.lexsort((np.where(within, replicas, -replicas), np.where(within, 0.0, over), row))
    first = np.ones(order.size, dtype=bool)
    first[1:] = row[order][1:] != row[order][:-1]
    return order[first]


def _picked(e: Evaluated, row: Rows) -> Candidates:
    """The rows `row`, which may repeat; every layout column as long as they are, also of one candidate alone."""
    layout = {
        name: np.broadcast_to(getattr(e.candidates.layout, name), e.table.rows)[row] for name in LayoutColumns.__struct_fields__
    }
    return replace(e.candidates.take(row), layout=LayoutColumns(**layout))


def _with(e: Evaluated, row: Rows, replicas: Floats, summary: Summary, burst: float) -> Evaluated:
    """`row` of `e` at `replicas`, with its simulated latencies, their rate, and the sequences in flight by Little's law."""
    candidates = _picked(e, row)
    layout = candidates.layout
    rate = np.array([candidates.jobs[int(job)].request_rate_per_s for job in candidates.job_index]) * (1 + burst) / replicas
    inside_s = np.where(summary.saturated, 0.0, summary.request_s.mean) - np.where(summary.saturated, 0.0, summary.wait_s.mean)
    in_flight = np.where(summary.saturated, layout.sequences, np.maximum(1.0, np.ceil(rate * inside_s)))
    layout = replace(layout, dp=replicas, gpus=layout.tp * layout.pp * replicas, sequences=in_flight)
    again = evaluate(replace(candidates, layout=layout))
    assert again.serve is not None
    served_at = np.nextafter(rate, np.inf)  # so that all replicas together are not a rounding below the rate asked for
    every = np.arange(row.size)
    serve = replace(with_simulated(again.serve, summary, every), requests_per_s=served_at)
    return replace(again, serve=serve, queue=queue_of(summary, rate * replicas, every, row.size))


def with_simulated(serve: ServeColumns, summary: Summary, index: Rows) -> ServeColumns:
    """`serve` with the latencies of `summary`, where they are known, in its rows `index`."""
    rows = serve.requests_per_s.size
    known = {name: getattr(summary, name).spread(index, rows, np.nan).known_or(getattr(serve, name)) for name in LATENCIES}
    return replace(serve, **known)
