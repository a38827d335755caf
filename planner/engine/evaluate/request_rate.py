"""Services under a request rate: candidates simulated at the fewest replicas that meet their targets.

Closed formulas screen every candidate first (`search.plan`). Here the best of them are simulated at several numbers of replicas
around the screened number at once. The smallest number that keeps up and meets all targets on latency is chosen.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from planner.engine.columns import Floats, Rows, joined
from planner.engine.evaluate.evaluation import Evaluated
from planner.engine.evaluate.replicas import Replicas
from planner.engine.evaluate.sizing import screened, whole_groups
from planner.engine.performance.prefill_decode.generation import ServeColumns
from planner.engine.performance.simulation.replicas import simulate
from planner.engine.performance.simulation.summary import Summary, queue_of
from planner.workload.tasks import Targets

SEEDS, MEASURED = 10, 24
"""Runs of a candidate, and requests measured in each. Compared with 16,000 requests to each of 1,114 replicas of random services, the p95 of a
request is off by 2 % (median), its p99 by 4 %, the p95 of a first token by 3 %, where a replica is nearly full by far more. Eight runs of 40
requests, which take a fifth more steps, are no closer."""
NEARBY, FURTHER = (0.93, 1.0, 1.07), (1.25, 1.6, 2.0, 3.0)
"""Multiples of the screened replicas that are simulated; the second row where none of the first is enough."""
MOST_HALVINGS, CLOSE = 3, 0.04
"""Further rounds that look for fewer replicas, and the relative difference in replicas below which no further round is made."""
EASILY = 0.8
"""Ratio of a latency to its limit by Little's law up to which no more replicas than screened are simulated, unless these are not enough: of
240 random services 4 % of the numbers with a lower ratio are not enough, and 21 % of those from there to 1."""
FEW_REPLICAS = 8
"""Number of replicas up to which one less and one more are simulated instead."""
LATENCIES = ("ttft_s", "tpot_s", "request_s")
"""Figures of requests that `ServeColumns` and `Summary` share."""


def served(replica: Replicas, targets: Targets, *, share: float = 1.0) -> tuple[Evaluated, Rows]:
    """Rows of `replica` simulated at the fewest replicas that meet `targets`, else at those that come closest, and their numbers.

    After these come the rows again at the larger numbers of replicas that were simulated besides, fewest first. The first row, the best
    candidate, is also simulated at a number with which Little's law expects `share` of its limits.
    """
    begin, screened_over, too_few, hopeless, surely, _ = screened(replica, targets, share=share)
    streams = np.broadcast_to(replica.candidates.layout.expert_streams, replica.rows)
    row, replicas = _options(begin, NEARBY, streams)
    useful = (replicas > too_few[row]) & ((replicas <= begin[row]) | (screened_over[row] > EASILY))
    row, replicas = row[useful], replicas[useful]
    if np.isfinite(surely[0]) and surely[0] > replicas[row == 0].max(initial=0.0):
        row, replicas = np.append(row, 0), np.append(replicas, surely[0])
    summary = _simulated(replica, row, replicas)
    for turn in range(1 + MOST_HALVINGS):
        over = _overshoot(summary, targets)
        more, further = _between(row, replicas, over, too_few, streams)
        missing = np.array(sorted(set(np.flatnonzero(~hopeless).tolist()) - set(row[over <= 1].tolist())), dtype=np.int64)
        if turn == 0 and missing.size:
            index, dearer = _options(begin[missing], FURTHER, streams[missing])
            known = set(zip(row.tolist(), replicas.tolist(), strict=True))  # groups that share experts have few possible sizes
            fresh = np.array([pair not in known for pair in zip(missing[index].tolist(), dearer.tolist(), strict=True)])
            more, further = np.concatenate([more, missing[index[fresh]]]), np.concatenate([further, dearer[fresh]])
        if not more.size:
            break
        summary = joined([summary, _simulated(replica, more, further)])
        row, replicas = np.concatenate([row, more]), np.concatenate([replicas, further])
    chosen = _best_and_larger(row, replicas, _overshoot(summary, targets))
    return _with(replica, row[chosen], replicas[chosen], summary.take(chosen)), row[chosen]


def _between(row: Rows, replicas: Floats, over: Floats, too_few: Floats, streams: Floats) -> tuple[Rows, Floats]:
    """(row, replicas) still to try: between the fewest that are enough and the most below them that are not, unless the two are close."""
    rows, numbers = list[int](), list[float]()
    for one in sorted(set(row[over <= 1].tolist())):
        own = row == one
        enough = float(replicas[own & (over <= 1)].min())
        short = float(max(replicas[own & (over > 1) & (replicas < enough)], default=too_few[one]))
        if enough - short <= max(1.0, CLOSE * enough):
            continue
        tried = {float(np.floor(short + (enough - short) * share)) for share in (0.5, 0.75)} | {enough - 1}
        tried = {float(number) for number in whole_groups(np.array(sorted(tried)), streams[one])} - {enough}
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
    tried = whole_groups(tried, streams[:, None])
    tried.sort(axis=1)
    fresh = np.ones(tried.shape, dtype=bool)
    fresh[:, 1:] = tried[:, 1:] != tried[:, :-1]
    row, place = np.nonzero(fresh)
    return row, tried[row, place]


def _simulated(replica: Replicas, row: Rows, replicas: Floats) -> Summary:
    return simulate(replica.time.take(row), replica.rules.take(row), replica.load(row, replicas), seeds=SEEDS, measured=MEASURED)


def _overshoot(summary: Summary, targets: Targets) -> Floats:
    """Largest ratio of a latency to its limit; infinite if the queue grows, 0 without limits."""
    over = np.where(summary.saturated, np.inf, 0.0)
    for limit in targets.latency_limits():
        seconds = np.nan_to_num(limit.of(summary), nan=0.0, posinf=np.inf)
        over = np.maximum(over, seconds / limit.seconds)  # one token has no time between tokens
    return over


def _best(row: Rows, replicas: Floats, over: Floats) -> Rows:
    """Option of each row with the fewest replicas within its limits, else the option that exceeds them least."""
    within = over <= 1
    order = np.lexsort((np.where(within, replicas, -replicas), np.where(within, 0.0, over), row))
    first = np.ones(order.size, dtype=bool)
    first[1:] = row[order][1:] != row[order][:-1]
    return order[first]


def _best_and_larger(row: Rows, replicas: Floats, over: Floats) -> Rows:
    """Best option of each row, then the options with more replicas that are within its limits too, fewest first."""
    best = _best(row, replicas, over)
    fewest = np.full(row.max() + 1, np.inf)
    fewest[row[best]] = np.where(over[best] <= 1, replicas[best], np.inf)
    larger = np.flatnonzero((over <= 1) & (replicas > fewest[row]))
    return np.concatenate([best, larger[np.argsort(replicas[larger], kind="stable")]])


def _with(replica: Replicas, row: Rows, replicas: Floats, summary: Summary) -> Evaluated:
    """`row` of `replica` at `replicas`, with its simulated latencies, the rate it serves, and the sequences in flight by Little's law."""
    rate = replica.load(row, replicas).rate_per_s
    inside_s = np.where(summary.saturated, 0.0, summary.request_s.mean) - np.where(summary.saturated, 0.0, summary.wait_s.mean)
    in_flight = np.where(summary.saturated, replica.layout("sequences")[row], np.maximum(1.0, np.ceil(rate * inside_s)))
    again = replica.evaluated(row, replicas, in_flight)
    assert again.serve is not None
    served_at = np.nextafter(rate, np.inf)  # so that rounding does not leave all replicas together below the required rate
    every = np.arange(row.size)
    serve = replace(with_simulated(again.serve, summary, every), requests_per_s=served_at)
    return replace(again, serve=serve, queue=queue_of(summary, rate * replicas, every, row.size))


def with_simulated(serve: ServeColumns, summary: Summary, index: Rows) -> ServeColumns:
    """`serve` with the latencies of `summary`, where they are known, in its rows `index`."""
    rows = serve.requests_per_s.size
    known = {name: getattr(summary, name).spread(index, rows, np.nan).known_or(getattr(serve, name)) for name in LATENCIES}
    return replace(serve, **known)
