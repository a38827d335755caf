"""Latency of a row of a plan against its load, computed with the method of the plan.

The replicas of the row are simulated from nearly idle until requests outrun them. Where clients wait for their answers, formulas of a
closed loop give the latency at each number in flight.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from msgspec.structs import replace

from planner.engine.answers.figure import Figure, Percentiles
from planner.engine.answers.plan import PlanRow
from planner.engine.answers.time import Latency as LatencyName
from planner.engine.answers.time import LoadPoint, TargetEnd, UnderLoad
from planner.engine.columns import Floats, Table, full
from planner.engine.evaluate.replicas import most_sequences
from planner.engine.evaluate.request_rate import MEASURED, SEEDS
from planner.engine.evaluate.task import Supply, Task
from planner.engine.explain.details import evaluated_row
from planner.engine.performance.prefill_decode.generation import ServeColumns, serve_of
from planner.engine.performance.prefill_decode.request_latency import Latency
from planner.engine.performance.simulation.batching_rules import BatchingRules, batching_rules
from planner.engine.performance.simulation.iteration_time import IterationTime, iteration_time
from planner.engine.performance.simulation.load import Load, replica_load
from planner.engine.performance.simulation.replicas import simulate, steady_state
from planner.engine.performance.simulation.summary import Summary
from planner.workload.tasks import Targets

SHARES_OF_FULL = (0.02, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.78, 0.85, 0.9, 0.94, 0.97, 1.0)
"""Loads that are simulated, as shares of the highest rate served: closer together where latencies rise."""
TIMES_ASKED = (0.125, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0)
"""Loads that are simulated where clients wait for their answers, as multiples of the plan's requests in flight."""
OCTAVES, STEPS, TURNS = 24, 48, 3
"""Range around the plan's rate in which the highest rate served is searched for, points of a round, and rounds."""


def under_load(task: Task, row: PlanRow, supply: Supply) -> UnderLoad | None:
    """Latencies of `row` of the plan for `task` against the load; None unless it is a service whose replicas read and decode.

    Every latency has the range of the row's own figure of its kind.
    """
    layout, job = row.answer.layout, task.job_of(row)
    if layout is None or job.task != "serve" or job.workload.disaggregated or row.answer.request_s is None:
        return None
    evaluated = evaluated_row(task, row, supply)
    if evaluated is None:
        return None
    burst = job.workload.targets.burst
    base = replica_load([job], np.array([float(layout.dp)]), surge=burst)
    replica = _Replica(
        iteration_time(evaluated.table),
        batching_rules(evaluated.table, most_sequences(evaluated.table, evaluated.memory.max_sequences)),
        base,
    )
    by_rate = job.request_rate_per_s > 0
    asked = job.request_rate_per_s if by_rate else float(base.concurrency[0] or replica.rules.sequences[0]) * layout.dp
    full = replica.most(asked) if by_rate else None
    loads = _loads(asked, full, layout.dp)
    if by_rate:
        found = replica.at(loads / asked)
        points = [
            _point(row, float(load), found, i, found.utilisation[i]) for i, load in enumerate(loads) if not found.saturated[i]
        ]
    else:
        loop = _loop(evaluated.table, np.ceil(loads / layout.dp), float(replica.rules.sequences[0]))
        points = [_point(row, float(load), loop, i, 1.0) for i, load in enumerate(loads)]
    return UnderLoad(
        by="rate" if by_rate else "in-flight",
        asked=asked,
        points=points,
        full=full,
        ends=_ends(points, job.workload.targets),
        burst=burst if by_rate else 0.0,
        replicas=layout.dp,
        requests=SEEDS * MEASURED if by_rate else 0,
    )


class _Latencies(Protocol):
    """Latencies at several loads, as columns."""

    @property
    def request_s(self) -> Latency: ...
    @property
    def ttft_s(self) -> Latency: ...
    @property
    def tpot_s(self) -> Latency: ...


def _loop(table: Table, clients: Floats, most: float) -> ServeColumns:
    """The one replica of `table` with `clients` [points], of which up to `most` are served at once.

    With c clients, B of them served and X requests per second, the others wait (c - B) ÷ X each (Little's law).
    """
    layout = replace(table.layout, gpus=full(table.layout.gpus, clients.size), sequences=np.minimum(clients, most))
    served = serve_of(replace(table, layout=layout), continuous=True)
    wait_s = np.maximum(clients - most, 0.0) / served.requests_per_s
    ttft_s, request_s = (latency.map(lambda seconds: seconds + wait_s) for latency in (served.ttft_s, served.request_s))
    return replace(served, ttft_s=ttft_s, request_s=request_s)


class _Replica:
    """One replica, and the load it has in the plan."""

    def __init__(self, time: IterationTime, rules: BatchingRules, base: Load) -> None:
        self.time, self.rules, self.base = time, rules, base

    def _load(self, times: Floats) -> Load:
        """Load of the plan times a factor [points]."""
        load = self.base.take(np.zeros(times.size, dtype=np.int64))
        return replace(load, rate_per_s=load.rate_per_s * times, concurrency=np.ceil(load.concurrency * times))

    def at(self, times: Floats) -> Summary:
        """Replica under its load times a factor [points]."""
        same = np.zeros(times.size, dtype=np.int64)
        return simulate(self.time.take(same), self.rules.take(same), self._load(times), seeds=SEEDS, measured=MEASURED)

    def most(self, asked: float) -> float:
        """Highest rate that the replica keeps up with, by Little's law; `asked`: the rate of the plan."""
        same = np.zeros(STEPS, dtype=np.int64)
        low, high = float(2 ** (-OCTAVES / 2)), float(2 ** (OCTAVES / 2))
        for _ in range(TURNS):
            times = np.geomspace(low, high, STEPS)
            _, keeps_up = steady_state(self.time.take(same), self.rules.take(same), self._load(times))
            last = int(np.flatnonzero(keeps_up)[-1]) if keeps_up.any() else 0
            low, high = float(times[last]), float(times[min(last + 1, STEPS - 1)])
        return low * asked


def _loads(asked: float, full: float | None, replicas: int) -> Floats:
    """Loads to simulate, in ascending order, including the load of the plan."""
    if full is None:
        return np.unique(np.maximum(np.ceil(np.array(TIMES_ASKED) * asked), float(replicas)))
    return np.unique(np.array([share * full for share in SHARES_OF_FULL] + [asked] * (asked <= full)))


def _point(row: PlanRow, load: float, found: _Latencies, number: int, busy: float) -> LoadPoint:
    return LoadPoint(
        load=load,
        request_s=_percentiles(row.answer.request_s, found.request_s, number),
        ttft_s=_percentiles(row.answer.ttft_s or row.answer.request_s, found.ttft_s, number),
        tpot_s=_percentiles(row.answer.tpot_s or row.answer.request_s, found.tpot_s, number)
        if np.isfinite(found.tpot_s.mean[number])
        else None,
        busy=float(busy),
    )


def _percentiles(own: Percentiles | None, found: Latency, number: int) -> Percentiles:
    """Figures of `found` at one point, each with the range of the row's `own`."""

    def figure(name: str) -> Figure:
        value = float(getattr(found, name)[number])
        like = (getattr(own, name) or own.mean) if own is not None else None
        return like.scaled(value / like.value) if like is not None and like.value > 0 else Figure.exact(value)

    return Percentiles(mean=figure("mean"), p50=figure("p50"), p95=figure("p95"), p99=figure("p99"))


def _ends(points: Sequence[LoadPoint], targets: Targets) -> list[TargetEnd]:
    """Highest load at which each limit is met."""
    found = []
    for limit in targets.latency_limits():
        latency: LatencyName = "ttft" if limit.latency == "ttft" else "tpot" if limit.latency == "tpot" else "request"
        curve = [(one.load, figure) for one in points if (figure := _of(one, latency, limit.share)) is not None]
        sides = {side: _last_within([(load, getattr(figure, side)) for load, figure in curve], limit.seconds) for side in SIDES}
        value, least, most = (sides[side] for side in SIDES)
        load = Figure(value, min(value, least or 0.0), max(value, most or value), curve[0][1].basis) if value is not None else None
        found.append(TargetEnd(latency=latency, share=limit.share, limit_s=limit.seconds, load=load))
    return found


SIDES = ("value", "high", "low")
"""Sides of a latency's range that give the load at which it reaches a limit, and the low and the high end of that load's range."""


def _of(point: LoadPoint, latency: LatencyName, share: str) -> Figure | None:
    percentiles: Percentiles | None = getattr(point, f"{latency}_s")
    figure: Figure | None = getattr(percentiles, share) if percentiles is not None else None
    return figure


def _last_within(curve: Sequence[tuple[float, float]], limit_s: float) -> float | None:
    """Load at which `curve` first passes the limit, interpolated between two points; its last load where it never does."""
    if not curve or curve[0][1] > limit_s:
        return None
    for (load, seconds), (next_load, next_s) in itertools.pairwise(curve):
        if next_s > limit_s:
            return load + (next_load - load) * (limit_s - seconds) / (next_s - seconds)
    return curve[-1][0]
