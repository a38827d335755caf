"""Services under a request rate: the candidates worth showing are simulated, at the fewest replicas that meet their targets.

Every candidate has been screened by closed formulas before (`serving`, `outcome.deployed`). Here the best of them are served
requests by `simulation`, at several numbers of replicas around the screened one at once; the smallest that keeps up and meets
all targets on latency stands. Symbols: λ requests a second of the service · R replicas.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import product

import numpy as np

from planner.engine.columns import Flags, Floats, LayoutColumns, Rows
from planner.engine.evaluate.evaluation import Candidates, Evaluated, evaluate
from planner.engine.memory import memory_of
from planner.engine.performance.simulation.iteration_time import Pace, pace_of
from planner.engine.performance.simulation.queueing import queue_of
from planner.engine.performance.simulation.replicas import Demand, demand_of, rules_of, serve, settled
from planner.engine.performance.simulation.summary import Summary, joined
from planner.engine.performance.simulation.trace import Rules
from planner.workload.tasks import LATENCY_TARGETS, Targets

SEEDS, MEASURED = 8, 40
"""Lanes of a candidate and requests measured in each. Of the default preset, ten other sets of seeds against 19,200 requests: a p95
is off by 3 % (root mean square), a p99 by 4 %, without a bias that could be told from 0."""
SCREENED = 2.0 ** (np.arange(-8, 7) / 4)
"""Multiples of the screened replicas among which Little's law picks where to begin."""
ABOVE_MEAN = {"p50": 1.0, "p95": 1.2, "p99": 1.3}
"""Usual ratio of a percentile of a latency to its mean."""
NEARBY, FURTHER = (0.93, 1.0, 1.07), (1.25, 1.6, 2.0, 3.0)
"""Replicas that are tried, as multiples of those; the second row where none of the first does."""
MOST_HALVINGS, CLOSE = 3, 0.04
"""Further turns that look for fewer replicas, and the share of them below which a difference is not looked into."""
SURELY = 1.35
"""More over a limit than this by Little's law is not looked into: the mean alone is above it."""
HOPELESS = 1.5
"""More over a limit than this with the most replicas Little's law was asked about, no more are tried."""
FEW_REPLICAS = 8
"""Up to so many, one less and one more are tried instead."""
LATENCIES, SHARES = ("ttft", "tpot", "request"), ("", "p50", "p95", "p99")
LATENCY_COLUMNS = tuple("_".join(filter(None, (of, share, "s"))) for of, share in product(LATENCIES, SHARES))
"""Names of the columns of `ServeColumns` that are latencies; without a share, the mean."""


def served(e: Evaluated, targets: Targets) -> tuple[Evaluated, Rows]:
    """The rows of `e` simulated at the fewest replicas that meet `targets`, else where they come closest, and their numbers."""
    one = _One(e, pace_of(e.table), rules_of(e.table, _held(e)), targets.burst)
    begin, too_few, hopeless = _guessed(one, targets)
    row, replicas = _options(begin, NEARBY)
    open_ = replicas > too_few[row]
    row, replicas = row[open_], replicas[open_]
    found = _simulated(one, row, replicas)
    for turn in range(1 + MOST_HALVINGS):
        over = _overshoot(found, targets)
        more, further = _between(row, replicas, over, too_few)
        missing = np.array(sorted(set(np.flatnonzero(~hopeless).tolist()) - set(row[over <= 1].tolist())), dtype=np.int64)
        if turn == 0 and missing.size:
            place, dearer = _options(begin[missing], FURTHER)
            more, further = np.concatenate([more, missing[place]]), np.concatenate([further, dearer])
        if not more.size:
            break
        found = joined([found, _simulated(one, more, further)])
        row, replicas = np.concatenate([row, more]), np.concatenate([replicas, further])
    over = _overshoot(found, targets)
    best = _best(row, replicas, over)
    return _with(e, row[best], replicas[best], found.take(best), targets.burst), row[best]


@dataclass(frozen=True)
class _One:
    """One replica of each candidate: how fast it is, and how its engine forms iterations."""

    e: Evaluated
    pace: Pace
    rules: Rules
    burst: float

    def demand(self, row: Rows, replicas: Floats) -> Demand:
        """Of the rows `row`, which may repeat, at so many replicas each."""
        jobs = [self.e.candidates.jobs[int(job)] for job in self.e.candidates.job_index[row]]
        return demand_of(jobs, replicas, surge=self.burst)


def _guessed(one: _One, targets: Targets) -> tuple[Floats, Floats, Flags]:
    """By Little's law: (replicas that meet the targets, as screened if none do; the most that do not; whether they are far from it)."""
    rows = one.e.table.rows
    row = np.repeat(np.arange(rows), SCREENED.size)
    replicas = np.maximum(1.0, np.round(np.broadcast_to(one.e.table.layout.dp, rows)[row] * np.tile(SCREENED, rows)))
    demand = one.demand(row, replicas)
    in_flight, keeps_up = settled(one.pace.take(row), one.rules.take(row), demand)
    seconds = in_flight / demand.rate_per_s
    over = np.where(keeps_up, 0.0, np.inf)
    for name in LATENCY_TARGETS:
        limit, (share, latency, _) = getattr(targets, name), name.split("_")
        if limit is not None and latency != "ttft":
            tokens = np.array([length.mean for length in demand.outputs]) if latency == "tpot" else 1.0
            over = np.maximum(over, ABOVE_MEAN[share] * seconds / tokens / limit)
    table = over.reshape(rows, -1)
    place = np.where((table <= 1).any(axis=1), np.argmax(table <= 1, axis=1), np.flatnonzero(SCREENED == 1.0)[0])
    asked = replicas.reshape(table.shape)
    begin, hopeless = asked[np.arange(rows), place], table[:, -1] > HOPELESS
    too_few = np.where(table > SURELY, asked, 0.0).max(axis=1)
    return begin, np.where(hopeless, 0.0, np.minimum(too_few, begin - 1)), hopeless


def _between(row: Rows, replicas: Floats, over: Floats, too_few: Floats) -> tuple[Rows, Floats]:
    """(row, replicas) still to try: between the fewest that are enough and the most below them that are not, unless they are close."""
    rows, numbers = list[int](), list[float]()
    for one in sorted(set(row[over <= 1].tolist())):
        own = row == one
        enough = float(replicas[own & (over <= 1)].min())
        short = float(max(replicas[own & (over > 1) & (replicas < enough)], default=too_few[one]))
        if enough - short <= max(1.0, CLOSE * enough):
            continue
        tried = {float(np.floor(short + (enough - short) * share)) for share in (0.5, 0.75)} | {enough - 1}
        for number in sorted(tried - {short, 0.0}):
            rows.append(int(one))
            numbers.append(number)
    return np.array(rows, dtype=np.int64), np.array(numbers)


def _options(screened: Floats, multiples: Sequence[float]) -> tuple[Rows, Floats]:
    """(row, replicas) of every different number to try, fewest first within a row."""
    tried = np.maximum(1.0, np.round(screened[:, None] * np.array(multiples)))
    if multiples is NEARBY:
        beside = np.maximum(1.0, screened[:, None] + np.array([-1.0, 0.0, 1.0]))
        tried = np.where(screened[:, None] <= FEW_REPLICAS, beside, tried)
    tried.sort(axis=1)
    fresh = np.ones(tried.shape, dtype=bool)
    fresh[:, 1:] = tried[:, 1:] != tried[:, :-1]
    row, place = np.nonzero(fresh)
    return row, tried[row, place]


def _held(e: Evaluated) -> Floats:
    """Sequences of mean length that the cache of each row holds when it holds as many; infinite where nothing is kept."""
    most = np.broadcast_to(e.memory.max_sequences, e.table.rows)
    layout = replace(e.table.layout, sequences=np.where(np.isfinite(most), np.maximum(most, 1.0), 1.0))
    return np.minimum(most, memory_of(replace(e.table, layout=layout)).max_sequences)


def _picked(e: Evaluated, row: Rows) -> Candidates:
    """The rows `row`, which may repeat; every layout column as long as they are, also of one candidate alone."""
    layout = {
        item.name: np.broadcast_to(getattr(e.candidates.layout, item.name), e.table.rows)[row] for item in fields(LayoutColumns)
    }
    return replace(e.candidates.take(row), layout=LayoutColumns(**layout))


def _simulated(one: _One, row: Rows, replicas: Floats) -> Summary:
    return serve(one.pace.take(row), one.rules.take(row), one.demand(row, replicas), seeds=SEEDS, measured=MEASURED)


def _overshoot(found: Summary, targets: Targets) -> Floats:
    """Largest ratio of a latency to its limit; infinite where the queue grows, 0 without limits."""
    over = np.where(found.saturated, np.inf, 0.0)
    for name in LATENCY_TARGETS:
        limit = getattr(targets, name)
        if limit is not None:
            share, latency, _ = name.split("_")
            value = getattr(getattr(found, f"{latency}_s"), share)
            over = np.maximum(over, np.nan_to_num(value, nan=0.0, posinf=np.inf) / limit)  # one token has no time between tokens
    return over


def _best(row: Rows, replicas: Floats, over: Floats) -> Rows:
    """Of each row the option with the fewest replicas that is within its limits, else the one that is least over them."""
    within = over <= 1
    order = np.lexsort((np.where(within, replicas, -replicas), np.where(within, 0.0, over), row))
    first = np.ones(order.size, dtype=bool)
    first[1:] = row[order][1:] != row[order][:-1]
    return order[first]


def _with(e: Evaluated, row: Rows, replicas: Floats, found: Summary, burst: float) -> Evaluated:
    """`row` of `e` at `replicas`, with the sequences in flight by Little's law, the latencies found, and the rate they were found at."""
    candidates = _picked(e, row)
    layout = candidates.layout
    rate = np.array([candidates.jobs[int(job)].request_rate_per_s for job in candidates.job_index]) * (1 + burst) / replicas
    inside_s = np.where(found.saturated, 0.0, found.request_s.mean) - np.where(found.saturated, 0.0, found.wait_s.mean)
    in_flight = np.where(found.saturated, layout.sequences, np.maximum(1.0, np.ceil(rate * inside_s)))
    layout = replace(layout, dp=replicas, gpus=layout.tp * layout.pp * replicas, sequences=in_flight)
    again = evaluate(replace(candidates, layout=layout))
    assert again.serve is not None
    served_at = np.nextafter(rate, np.inf)  # so that all replicas together are not a rounding below what is asked
    known = {name: np.where(np.isfinite(value), value, getattr(again.serve, name)) for name, value in latencies(found).items()}
    serve = replace(again.serve, requests_per_s=served_at, **known)  # type: ignore[arg-type]  # the names are those of such columns
    return replace(again, serve=serve, queue=queue_of(found, rate * replicas, np.arange(row.size), row.size))


def latencies(found: Summary) -> dict[str, Floats]:
    """The columns of `ServeColumns` that `found` knows."""
    return {
        name: getattr(getattr(found, f"{of}_s"), share or "mean")
        for name, (of, share) in zip(LATENCY_COLUMNS, product(LATENCIES, SHARES), strict=True)
    }
