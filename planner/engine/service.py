"""Services under a request rate: the candidates worth showing are simulated, at the fewest replicas that meet their targets.

Every candidate has been screened by closed formulas before (`serving`, `outcome.deployed`). Here the best of them are served
requests by `simulation`, at several numbers of replicas around the screened one at once; the smallest that keeps up and meets
all targets on latency stands. Symbols: λ requests a second of the service · R replicas.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from itertools import product

import numpy as np

from planner.engine.columns import Floats, LayoutColumns, Rows
from planner.engine.evaluate import Candidates, Evaluated, evaluate
from planner.engine.memory import memory_of
from planner.engine.queueing import queue_of
from planner.engine.simulation.replica import demand_of, simulate
from planner.engine.simulation.summary import Latency, Summary
from planner.workload.tasks import LATENCY_TARGETS, Targets

SEEDS, MEASURED = 6, 48
"""Lanes of a candidate and requests measured in each: 288, of which a p95 has a standard error of 1.3 % in rank, a p99 of 0.6 %."""
NEARBY, FURTHER = (0.85, 0.93, 1.0, 1.1), (1.25, 1.6, 2.0, 3.0)
"""Replicas that are tried, as multiples of the screened number; the second row where none of the first does."""
FEW_REPLICAS = 8
"""Up to so many, one less and one more are tried instead."""
LATENCIES, SHARES = ("ttft", "tpot", "request"), ("", "p50", "p95", "p99")
LATENCY_COLUMNS = tuple("_".join(filter(None, (of, share, "s"))) for of, share in product(LATENCIES, SHARES))
"""Names of the columns of `ServeColumns` that are latencies; without a share, the mean."""


def served(e: Evaluated, targets: Targets) -> tuple[Evaluated, Rows]:
    """The rows of `e` simulated at the fewest replicas that meet `targets`, else where they come closest, and their numbers.

    A row that keeps up at none of the numbers tried is left out.
    """
    screened = np.broadcast_to(e.table.layout.dp, e.table.rows)
    most = _held(e)
    row, replicas = _options(screened, NEARBY)
    found = _simulated(e, row, replicas, most, targets.burst)
    over = _overshoot(found, targets)
    missing = np.setdiff1d(np.arange(e.table.rows), row[over <= 1])
    if missing.size:
        more, further = _options(screened[missing], FURTHER)
        more = missing[more]
        found = _joined(found, _simulated(e, more, further, most, targets.burst))
        row, replicas, over = np.concatenate([row, more]), np.concatenate([replicas, further]), _overshoot(found, targets)
    best = _best(row, replicas, over)
    return _with(e, row[best], replicas[best], _taken(found, best), targets.burst), row[best]


def _options(screened: Floats, multiples: Sequence[float]) -> tuple[Rows, Floats]:
    """(row, replicas) of every different number to try, fewest first within a row."""
    tried = np.maximum(1.0, np.round(screened[:, None] * np.array(multiples)))
    if multiples is NEARBY:
        beside = np.maximum(1.0, screened[:, None] + np.array([-1.0, 0.0, 0.0, 1.0]))
        tried = np.where(screened[:, None] <= FEW_REPLICAS, beside, tried)
    tried.sort(axis=1)
    fresh = np.ones(tried.shape, dtype=bool)
    fresh[:, 1:] = tried[:, 1:] != tried[:, :-1]
    row, place = np.nonzero(fresh)
    return row, tried[row, place]


def _held(e: Evaluated) -> Floats:
    """Sequences of mean length that the cache of each row holds when it holds as many; infinite where nothing is kept."""
    layout, most = e.candidates.layout, np.broadcast_to(e.memory.max_sequences, e.table.rows)
    full = replace(e.candidates, layout=replace(layout, sequences=np.where(np.isfinite(most), np.maximum(most, 1.0), 1.0)))
    return np.minimum(most, memory_of(full.table()).max_sequences)


def _picked(e: Evaluated, row: Rows) -> Candidates:
    """The rows `row`, which may repeat; every layout column as long as they are, also of one candidate alone."""
    layout = {
        item.name: np.broadcast_to(getattr(e.candidates.layout, item.name), e.table.rows)[row] for item in fields(LayoutColumns)
    }
    return replace(e.candidates.take(row), layout=LayoutColumns(**layout))


def _simulated(e: Evaluated, row: Rows, replicas: Floats, most: Floats, burst: float) -> Summary:
    candidates = _picked(e, row)
    jobs = [candidates.jobs[int(job)] for job in candidates.job_index]
    return simulate(candidates.table(), most[row], demand_of(jobs, replicas, surge=burst), seeds=SEEDS, measured=MEASURED)


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
    place = np.flatnonzero(np.isfinite(over))
    within = over[place] <= 1
    order = place[np.lexsort((np.where(within, replicas[place], over[place]), ~within, row[place]))]
    first = np.ones(order.size, dtype=bool)
    first[1:] = row[order][1:] != row[order][:-1]
    return order[first]


def _taken(found: Summary, index: Rows) -> Summary:
    def of(value: object) -> object:
        if isinstance(value, Latency):
            return Latency(value.mean[index], value.p50[index], value.p95[index], value.p99[index])
        assert isinstance(value, np.ndarray)
        return value[index]

    return Summary(**{item.name: of(getattr(found, item.name)) for item in fields(Summary)})  # type: ignore[arg-type]  # as they were


def _joined(one: Summary, other: Summary) -> Summary:
    def of(a: object, b: object) -> object:
        if isinstance(a, Latency) and isinstance(b, Latency):
            return Latency(*(np.concatenate([getattr(a, item.name), getattr(b, item.name)]) for item in fields(Latency)))
        assert isinstance(a, np.ndarray)
        assert isinstance(b, np.ndarray)
        return np.concatenate([a, b])

    together = {item.name: of(getattr(one, item.name), getattr(other, item.name)) for item in fields(Summary)}
    return Summary(**together)  # type: ignore[arg-type]  # as they were


def _with(e: Evaluated, row: Rows, replicas: Floats, found: Summary, burst: float) -> Evaluated:
    """`row` of `e` at `replicas`, with the sequences in flight by Little's law, the latencies found, and the rate they were found at."""
    candidates = _picked(e, row)
    layout = candidates.layout
    rate = np.array([candidates.jobs[int(job)].request_rate_per_s for job in candidates.job_index]) * (1 + burst) / replicas
    in_flight = np.maximum(1.0, np.ceil(rate * (found.request_s.mean - found.wait_s.mean)))
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
