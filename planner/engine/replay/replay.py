"""A trace served by replicas of a plan's row, and the resulting figures."""

from __future__ import annotations

import itertools
import math

import msgspec
import numpy as np

import planner
from planner.engine.answers.answer import Answer
from planner.engine.answers.figure import Figure, Percentiles
from planner.engine.answers.plan import PlanRow
from planner.engine.answers.replay import Replay, ReplayHour
from planner.engine.columns import Floats
from planner.engine.evaluate.candidates import candidate_of
from planner.engine.evaluate.evaluation import evaluate
from planner.engine.evaluate.replicas import most_sequences
from planner.engine.evaluate.task import Supply, Task
from planner.engine.performance.simulation.batching_rules import batching_rules
from planner.engine.performance.simulation.iteration_time import iteration_time
from planner.engine.replay.replicas_needed import replicas_needed
from planner.engine.replay.runs import MapChunks, Recorded, Replica, Times, stretch
from planner.errors import Problem, UserError
from planner.units import digits
from planner.workload.tasks import Targets
from planner.workload.traffic.trace import HOUR_S, Trace

LEAD_S, LEAD_REQUESTS = 60.0, 5.0
"""Time before a stretch in which its replicas are filled: seconds, or a multiple of the time of a request."""
RUNS, SHORTEST_LEADS = 64, 5.0
"""Stretches simulated side by side, and the length of the shortest as a multiple of its lead."""
LONGEST_WAIT = 0.25
"""Share of a lead; where no request waits longer, requests before the lead do not affect those after it."""
IN_TURN = "requests go to the replicas in turn; a gateway that considers their queues does better"
FORGETS_NOTHING = "prefixes are found in a cache that never evicts and that all replicas share: this is the most that can be saved"


class Latencies(msgspec.Struct, frozen=True):
    """Ranges of a row's own latencies, for the replayed ones."""

    answer: Answer

    def percentiles(self, name: str, seconds: Floats) -> Percentiles | None:
        """Percentiles of `seconds` (NaN left out), with the ranges of the row's own of that `name`; None without any."""
        found = seconds[~np.isnan(seconds)]
        if not found.size:
            return None
        own = getattr(self.answer, name) or self.answer.request_s
        like = own.mean if own else None

        def figure(value: float) -> Figure:
            if like is None or like.value <= 0:
                return Figure.exact(value)
            return like.scaled(value / like.value)

        p50, p95, p99 = (figure(float(value)) for value in np.percentile(found, [50, 95, 99]))
        return Percentiles(mean=figure(float(found.mean())), p50=p50, p95=p95, p99=p99)


def replay(
    task: Task,
    row: PlanRow,
    supply: Supply,
    trace: Trace,
    *,
    replicas: int | None = None,
    by_hour: bool = True,
    map_chunks: MapChunks = map,
) -> Replay:
    """Serve `trace` by `replicas` of the layout of `row` of the plan for `task`; None: by as many as the most demanding hour needs.

    `map_chunks` serves the chunks of the simulation. Raises `UserError` for a row that cannot serve.
    """
    layout, job, gpu = row.answer.layout, task.job_of(row), supply.gpu_of(row)
    chip = supply.chip(gpu, job.dtype, job.stored)
    if layout is None or chip is None or job.task != "serve" or job.workload.disaggregated:
        raise UserError(
            Problem("", "replay", f"needs a service whose replicas read and decode; {row.gpu}: {row.why or 'it has none'}.")
        )
    alone = candidate_of(job, chip, layout, nvlink=supply.nvlink_of(row))
    evaluated = evaluate(alone)
    replica = Replica(
        iteration_time(evaluated.table),
        batching_rules(evaluated.table, most_sequences(evaluated.table, evaluated.memory.max_sequences)),
    )
    recorded = _recorded(trace)
    edges = trace.hour_edges()
    lead_s = max(LEAD_S, LEAD_REQUESTS * row.answer.request_s.mean.value) if row.answer.request_s else LEAD_S

    def fewest(targets: Targets, per_replica: float) -> list[int | None]:
        return replicas_needed(
            replica,
            recorded,
            edges,
            targets,
            per_replica=per_replica,
            lead_s=lead_s,
            step=layout.ep // layout.tp if layout.ep > layout.tp else 1,
            map_chunks=map_chunks,
        )

    needed = fewest(task.workload.targets, _per_replica(task, row)) if by_hour or replicas is None else []
    enough = needed if None not in needed or replicas else fewest(Targets(), math.inf)
    count = replicas or max((number for number in enough if number), default=1)
    times = _served(replica, recorded, count, lead_s, map_chunks)
    return _answer(task, row, trace, recorded, times, count, needed, longest=replica.longest())


def _served(replica: Replica, recorded: Recorded, count: int, lead_s: float, map_chunks: MapChunks) -> Times:
    """All requests served by `count` replicas: in stretches side by side, or in one where a queue outlasts the lead of a stretch."""
    whole_s = float(np.nextafter(recorded.arrival_s[-1], np.inf))
    parts = min(math.ceil(RUNS / count), int(whole_s / (SHORTEST_LEADS * lead_s)))
    if parts > 1:
        edges = np.linspace(0.0, whole_s, parts + 1).tolist()
        runs = [run for begin, end in itertools.pairwise(edges) for run in stretch(recorded, begin, end, count, lead_s)]
        times = replica.serve(recorded, runs, map_chunks)
        if times.wait_s.max() < LONGEST_WAIT * lead_s:
            return times
    return replica.serve(recorded, stretch(recorded, 0.0, whole_s, count, lead_s), map_chunks)


def _recorded(trace: Trace) -> Recorded:
    inputs, outputs = np.maximum(np.round(trace.input_tokens), 1.0), np.maximum(np.round(trace.output_tokens), 1.0)
    prefix = np.minimum(np.floor(np.nan_to_num(trace.prefix_tokens)), inputs - 1)
    return Recorded(trace.arrival_s, inputs, outputs, prefix)


def _per_replica(task: Task, row: PlanRow) -> float:
    """Requests per second of one replica in the plan."""
    layout, rate = row.answer.layout, task.workload.request_rate_per_s
    assert layout is not None
    return (rate or 1.0) / max(layout.dp, 1)


def _answer(
    task: Task,
    row: PlanRow,
    trace: Trace,
    recorded: Recorded,
    times: Times,
    count: int,
    needed: list[int | None],
    *,
    longest: float,
) -> Replay:
    layout, like = row.answer.layout, Latencies(row.answer)
    assert layout is not None
    per_replica = layout.gpus // max(layout.dp, 1)
    sent = recorded.arrival_s[times.request]
    ends = sent + times.request_s
    seconds = float(ends.max() - sent.min())
    hours = _hours(trace, times, sent, needed, like)
    whole = like.percentiles("ttft_s", times.ttft_s)
    request, wait = like.percentiles("request_s", times.request_s), like.percentiles("ttft_s", times.wait_s)
    assert whole is not None
    assert request is not None
    assert wait is not None
    hour_price = row.usd_per_h.scaled(per_replica / layout.gpus) if row.usd_per_h else None
    hours_long = max(trace.seconds, 1.0) / HOUR_S
    cost_hours = None if None in needed else sum((hour.replicas_needed or 0) * hour.covered_s / HOUR_S for hour in hours)
    cut = int(np.count_nonzero(recorded.input_tokens + recorded.output_tokens > longest))
    return Replay(
        task=msgspec.to_builtins(task.workload),
        source=trace.source,
        gpu=row.gpu,
        layout=msgspec.structs.replace(layout, dp=1).text,
        gpus_per_replica=per_replica,
        replicas=count,
        basis=whole.mean.basis,
        requests=int(times.request.size),
        seconds=seconds,
        ttft_s=whole,
        tpot_s=like.percentiles("tpot_s", times.tpot_s),
        request_s=request,
        wait_s=wait,
        in_flight=float(times.request_s.sum()) / seconds,
        utilisation=min(float(times.busy_s.sum()) / (count * seconds), 1.0),
        preemptions=int(times.preemptions.sum()),
        cut=cut,
        missed=_missed(task.workload.targets, times),
        hours=hours,
        replicas_needed=max((number for number in needed if number), default=None) if None not in needed else None,
        usd_per_replica_h=hour_price,
        usd=hour_price.scaled(count * hours_long) if hour_price else None,
        usd_by_hour=hour_price.scaled(cost_hours) if hour_price and cost_hours and len(needed) > 1 else None,
        notes=_notes(trace, cut),
        version=planner.__version__,
    )


def _hours(trace: Trace, times: Times, sent: Floats, needed: list[int | None], like: Latencies) -> list[ReplayHour]:
    order = np.argsort(sent, kind="stable")
    places = np.searchsorted(sent[order], trace.hour_edges()).tolist()
    found = []
    for number, ((begins_s, clock, covered_s), (begin, end)) in enumerate(
        zip(trace.hours(), itertools.pairwise(places), strict=True)
    ):
        own = order[begin:end]
        found.append(
            ReplayHour(
                begins_s=begins_s,
                clock=clock,
                requests=own.size,
                covered_s=covered_s,
                rate_per_s=own.size / max(covered_s, 1.0),
                ttft_s=like.percentiles("ttft_s", times.ttft_s[own]),
                tpot_s=like.percentiles("tpot_s", times.tpot_s[own]),
                request_s=like.percentiles("request_s", times.request_s[own]),
                replicas_needed=needed[number] if needed else None,
            )
        )
    return found


def _missed(targets: Targets, times: Times) -> list[str]:
    """Limits on latencies that the replayed requests exceed."""
    found = {"ttft": times.ttft_s, "tpot": times.tpot_s[~np.isnan(times.tpot_s)], "request": times.request_s}
    missed = []
    for limit in targets.latency_limits():
        own = found[limit.latency]
        reached = float(np.percentile(own, float(limit.share[1:]))) if own.size else 0.0
        if reached > limit.seconds:
            missed.append(f"{limit.name}: {digits(reached)} s, and {digits(limit.seconds)} s are required")
    return missed


def _notes(trace: Trace, cut: int) -> list[str]:
    notes = [IN_TURN]
    if np.nan_to_num(trace.prefix_tokens).any():
        notes.append(FORGETS_NOTHING)
    if cut:
        notes.append(f"{cut:,} requests are longer than the cache of a replica and were cut to it")
    return notes
