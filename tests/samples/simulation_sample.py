"""Rules, loads, a simulation and its summary: what tests of the simulation start from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from engine_sample import candidate, chip
from msgspec.structs import replace

from planner.engine.columns import Floats, LayoutColumns, Rows, Table
from planner.engine.performance.simulation import continuous_batching, replicas
from planner.engine.performance.simulation.batching_rules import BatchingRules, batching_rules
from planner.engine.performance.simulation.continuous_batching import Trace, run_batches
from planner.engine.performance.simulation.iteration_time import IterationTime, iteration_time
from planner.engine.performance.simulation.load import Load, token_lengths
from planner.engine.performance.simulation.preemption import preempt
from planner.engine.performance.simulation.replica_state import ReplicaState
from planner.engine.performance.simulation.summary import Summary, summarise
from planner.engine.performance.simulation.traffic import Traffic, traffic_of
from planner.workload.tasks import Lengths

INFINITE = float("inf")


def rules_of(runs: int, **given_: Any) -> BatchingRules:
    plain = {"budget": INFINITE, "sequences": 64.0, "capacity": INFINITE, "reserve": False, "mixed": True} | given_
    return BatchingRules(**{name: np.full(runs, value) for name, value in plain.items()})


def load_of(
    rows: int = 1, *, inputs: float | Lengths = 600, outputs: float | Lengths = 200, variation: float = 1.0, **more: float
) -> Load:
    """The same load in each row: `rate_per_s` or `concurrency`, `prefix_tokens`, `window_s`, else 0."""
    lengths = (
        token_lengths(
            [given_ if isinstance(given_, Lengths) else None] * rows, [0.0 if isinstance(given_, Lengths) else given_] * rows
        )
        for given_ in (inputs, outputs)
    )
    given = {"rate_per_s": 0.0, "concurrency": 0.0, "prefix_tokens": 0.0, "window_s": 0.0, "variation": variation} | more
    return Load(inputs=next(lengths), outputs=next(lengths), **{name: np.full(rows, float(value)) for name, value in given.items()})


def simulate(time: IterationTime, rules: BatchingRules, traffic: Traffic, *, warm: int = 0, measured: int | None = None) -> Trace:
    runs, width = traffic.arrival_s.shape
    count = width - 2 - warm if measured is None else measured
    return run_batches(time, rules, traffic, warm=np.full(runs, warm), measured=np.full(runs, count))


def traced(
    time: IterationTime, rules: BatchingRules, load: Load, *, requests: int, warm: int, tail: int = 2, in_flight: int = 0
) -> tuple[Summary, Trace]:
    """The rows of `load` as runs of one replica, with seeds from 0."""
    runs = load.rate_per_s.size
    traffic = traffic_of(load, range(runs), requests + warm + tail, in_flight=np.full(runs, in_flight))
    trace = simulate(time, rules, traffic, warm=warm, measured=requests)
    return summarise(trace, warm=np.full(runs, warm), measured=requests, row=np.zeros(runs, dtype=np.int64)), trace


def mean_in_flight(trace: Trace, warm: Rows, measured: Rows) -> float:
    """Requests in flight, mean over the measured time of all runs: each request counts from its admission to its end."""
    run = np.arange(warm.size)
    begins, ends = (trace.admitted_s[run, place][:, None] for place in (warm, warm + measured))
    admitted, end = (np.where(np.isnan(times), np.inf, times).clip(begins, ends) for times in (trace.admitted_s, trace.end_s))
    return float((end - admitted).sum() / (ends - begins).sum())


SERVING = {"task": "serve", "engine": "vllm", "input_tokens": 600, "output_tokens": 200}


def table_of(gpu: str = "H100-SXM-80GB", *, sequences: float = 32.0, layout: dict[str, float] | None = None, **more: Any) -> Table:
    asked = {"model": "llama-3.1-8b", "concurrency": 8} | SERVING | more
    return candidate(chip(gpu), {"sequences": sequences} | (layout or {}), **asked).table()


def simulated(table: Table, most: float, load: Load, *, seeds: int = 8, measured: int = 128) -> Summary:
    """Each replica of `table`, whose cache holds `most` sequences, under its load."""
    rules = batching_rules(table, np.full(table.rows, most))
    return replicas.simulate(iteration_time(table), rules, load, seeds=seeds, measured=measured)


@contextmanager
def recorded_traces() -> Iterator[list[tuple[Trace, Rows, Rows]]]:
    """The traces of all blocks of runs simulated inside, with the first measured request of each run and their number."""
    found: list[tuple[Trace, Rows, Rows]] = []

    def recording(*given: Any, warm: Rows, measured: Rows) -> Trace:
        trace = run_batches(*given, warm=warm, measured=measured)
        found.append((trace, warm, measured))
        return trace

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replicas, "run_batches", recording)
        yield found


@contextmanager
def recorded_cache() -> Iterator[list[Floats]]:
    """Tokens in the caches of the runs that are being measured, with those of the next iteration, before each iteration made inside."""
    found: list[Floats] = []

    def recording(s: ReplicaState) -> bool:
        preempted = preempt(s)
        held = s.held + np.where(s.rules.reserve, 0.0, s.growth)
        found.append(held[(s.next_admitted > s.measured_from) & s.goes_on()])
        return preempted

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(continuous_batching, "preempt", recording)
        yield found


def repeated(table: Table, count: int) -> Table:
    """`count` copies of a table of one row."""
    layout = {name: np.repeat(getattr(table.layout, name), count) for name in LayoutColumns.__struct_fields__}
    return replace(table, layout=LayoutColumns(**layout))
