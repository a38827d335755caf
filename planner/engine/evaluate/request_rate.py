"""Services under a request rate: candidates simulated at the fewest replicas that meet their targets.

Closed formulas screen every candidate before (`search.plan`). Here the best of them are simulated at several numbers of replicas
around the screened one at once; the smallest number that keeps up and meets all targets on latency is chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace

from planner.engine.columns import Flags, Floats, LayoutColumns, Rows
from planner.engine.columns.rows import joined
from planner.engine.evaluate.candidates import Candidates
from planner.engine.evaluate.evaluation import Evaluated, evaluate
from planner.engine.memory import sequences_that_fit
from planner.engine.performance.prefill_decode.generation import ServeColumns
from planner.engine.performance.prefill_decode.request_latency import NORMAL_TAILS, Latency
from planner.engine.performance.simulation.batching_rules import BatchingRules, batching_rules
from planner.engine.performance.simulation.iteration_time import IterationTime, iteration_time
from planner.engine.performance.simulation.load import Load, replica_load
from planner.engine.performance.simulation.replicas import Steady, request_times, simulate
from planner.engine.performance.simulation.summary import Summary, queue_of
from planner.workload.tasks import Targets

SEEDS, MEASURED = 8, 40
"""Runs of a candidate and requests measured in each. With the default preset, ten other sets of seeds against 19,200 requests: a p95
is off by 3 % (root mean square), a p99 by 4 %, without a bias that differs from 0."""
SCREENED = 2.0 ** (np.arange(-8, 7) / 4)
"""Multiples of the screened replicas among which Little's law picks where to begin."""
FINER = np.array([0.25, 0.5, 0.75])
"""Shares of the way from the last of these that is not enough to the first that is, which are tried then."""
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


def sized(e: Evaluated, targets: Targets) -> tuple[Evaluated, Rows] | None:
    """The rows of `e` at the fewest replicas that meet `targets` by Little's law, and their numbers; None: all are far from it.

    Screening evaluates a few numbers of sequences in flight and rounds the replicas up; here the sequences are those of the replicas,
    and answers that differ in length spread the time of a request.
    """
    replica = _Replica(e, iteration_time(e.table), batching_rules(e.table, most_sequences(e)), targets.burst)
    screened = _screened(replica, targets)
    row = np.flatnonzero(~screened.hopeless)
    if not row.size:
        return None
    replicas = screened.replicas[row]
    load = replica.load(row, replicas)
    steady = request_times(replica.time, replica.rules, load, row)
    again = _at_load(e, row, replicas, np.maximum(1.0, np.ceil(load.rate_per_s * steady.request_s)))
    assert again.serve is not None
    serve = replace(
        again.serve,
        request_s=_latency(steady.request_s, _request_sigma(steady, load)),
        tpot_s=_latency(steady.request_s / np.maximum(load.outputs.mean, 1.0), steady.load_sigma),
        requests_per_s=np.maximum(again.serve.requests_per_s, np.nextafter(load.rate_per_s, np.inf)),
    )
    return replace(again, serve=serve), row


class _Replica(msgspec.Struct, frozen=True):
    """One replica of each candidate: how fast it is, and how its engine forms iterations."""

    e: Evaluated
    time: IterationTime
    rules: BatchingRules
    burst: float

    def load(self, row: Rows, replicas: Floats) -> Load:
        """The load of the rows `row`, which may repeat, at so many replicas each."""
        of = self.e.candidates
        return replica_load(of.jobs, replicas, surge=self.burst, index=of.job_index[row])


class _Screened(NamedTuple):
    """Replicas by Little's law. Shape [rows]."""

    replicas: Floats
    """The fewest that meet the targets; as screened before, if none do."""
    too_few: Floats
    """The most that do not, with `SURELY`."""
    hopeless: Flags
    """Whether even the most that were asked of are far from the targets."""


def _screened(replica: _Replica, targets: Targets) -> _Screened:
    rows = replica.e.table.rows
    row, every = np.repeat(np.arange(rows), SCREENED.size), np.arange(rows)
    before = np.broadcast_to(replica.e.table.layout.dp, rows)
    replicas = np.maximum(1.0, np.round(before[row] * np.tile(SCREENED, rows)))
    over, replicas = _over(replica, row, replicas, targets).reshape(rows, -1), replicas.reshape(rows, -1)
    place = np.where((over <= 1).any(axis=1), np.argmax(over <= 1, axis=1), np.flatnonzero(SCREENED == 1.0)[0])
    enough, hopeless = replicas[every, place], over[:, -1] > HOPELESS
    too_few = np.where(hopeless, 0.0, np.minimum(np.where(over > SURELY, replicas, 0.0).max(axis=1), enough - 1))
    short = np.where(place > 0, replicas[every, np.maximum(place - 1, 0)], enough - 1)
    finer = np.ceil(short[:, None] + (enough - short)[:, None] * FINER)
    within = _over(replica, np.repeat(every, FINER.size), finer.ravel(), targets).reshape(rows, -1) <= 1
    return _Screened(np.where(within, finer, enough[:, None]).min(axis=1), too_few, hopeless)


def _over(replica: _Replica, row: Rows, replicas: Floats, targets: Targets) -> Floats:
    """Largest ratio of a latency to its limit by Little's law, but for first tokens; infinite where the queue grows."""
    load = replica.load(row, replicas)
    steady = request_times(replica.time, replica.rules, load, row)
    over = np.where(steady.keeps_up, 0.0, np.inf)
    for limit in targets.latency_limits():
        if limit.latency == "ttft":
            continue
        by_token = limit.latency == "tpot"
        mean = steady.request_s / (load.outputs.mean if by_token else 1.0)
        latency = _latency(mean, steady.load_sigma if by_token else _request_sigma(steady, load))
        over = np.maximum(over, getattr(latency, limit.share) / limit.seconds)
    return over


def _request_sigma(steady: Steady, load: Load) -> Floats:
    """Standard deviation of the logarithm of the time of a request: a log-normal length of the answer, times a load that varies."""
    sigma: Floats = np.hypot(load.outputs.sigma, steady.load_sigma)
    return sigma


def _latency(mean: Floats, sigma: Floats) -> Latency:
    """A log-normal latency of this `mean`, in seconds, and standard deviation of the logarithm."""
    p50, p95, p99 = (mean * np.exp(sigma * z - sigma**2 / 2) for z in (0.0, *NORMAL_TAILS))
    return Latency(mean, p50, p95, p99)


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


def _at_load(e: Evaluated, row: Rows, replicas: Floats, in_flight: Floats) -> Evaluated:
    """`row` of `e` evaluated at `replicas`, each with `in_flight` sequences."""
    candidates = _picked(e, row)
    layout = candidates.layout
    layout = replace(layout, dp=replicas, gpus=layout.tp * layout.pp * replicas, sequences=in_flight)
    return evaluate(replace(candidates, layout=layout))


def _with(e: Evaluated, row: Rows, replicas: Floats, summary: Summary, burst: float) -> Evaluated:
    """`row` of `e` at `replicas`, with its simulated latencies, their rate, and the sequences in flight by Little's law."""
    of = e.candidates
    rate = np.array([of.jobs[int(job)].request_rate_per_s for job in of.job_index[row]]) * (1 + burst) / replicas
    inside_s = np.where(summary.saturated, 0.0, summary.request_s.mean) - np.where(summary.saturated, 0.0, summary.wait_s.mean)
    as_screened = np.broadcast_to(of.layout.sequences, e.table.rows)[row]
    again = _at_load(e, row, replicas, np.where(summary.saturated, as_screened, np.maximum(1.0, np.ceil(rate * inside_s))))
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
