"""Rules, loads, a run and its summary: what tests of the simulation start from."""

from __future__ import annotations

from typing import Any

import numpy as np
from engine_sample import candidate, chip

from planner.engine.columns import Table
from planner.engine.performance.simulation.arrivals import Length, Load, Traffic, traffic_of
from planner.engine.performance.simulation.continuous_batching import run
from planner.engine.performance.simulation.iteration_time import Pace
from planner.engine.performance.simulation.replicas import Demand
from planner.engine.performance.simulation.summary import Summary, summarise
from planner.engine.performance.simulation.trace import Rules, Trace

INFINITE = float("inf")


def rules_of(lanes: int, **given_: Any) -> Rules:
    plain = {"budget": INFINITE, "sequences": 64.0, "capacity": INFINITE, "reserve": False, "mixed": True} | given_
    return Rules(**{name: np.full(lanes, value) for name, value in plain.items()})


def simulate(pace: Pace, rules: Rules, traffic: Traffic, *, warm: int = 0, measured: int | None = None) -> Trace:
    lanes, width = traffic.arrival_s.shape
    count = width - 2 - warm if measured is None else measured
    return run(pace, rules, traffic, warm=np.full(lanes, warm), measured=np.full(lanes, count))


def summary(
    pace: Pace, rules: Rules, loads: list[Load], *, requests: int, warm: int, tail: int = 2, seeds: list[int] | None = None
) -> Summary:
    """One group of all lanes."""
    lanes = len(loads)
    traffic = traffic_of(loads, seeds or list(range(lanes)), requests + warm + tail)
    trace = simulate(pace, rules, traffic, warm=warm, measured=requests)
    return summarise(trace, warm=np.full(lanes, warm), measured=np.full(lanes, requests), group=np.zeros(lanes, dtype=np.int64))


SERVING = {"task": "serve", "engine": "vllm", "input_tokens": 600, "output_tokens": 200}


def table_of(gpu: str = "H100-SXM-80GB", *, sequences: float = 32.0, layout: dict[str, float] | None = None, **more: Any) -> Table:
    asked = {"model": "llama-3.1-8b", "concurrency": 8} | SERVING | more
    return candidate(chip(gpu), {"sequences": sequences} | (layout or {}), **asked).table()


def load_of(**more: Any) -> Load:
    return Load(**{"inputs": Length(mean=600), "outputs": Length(mean=200)} | more)


def demand_at(rates: list[float], *, variation: float = 1.0, window_s: float = 0.0) -> Demand:
    rows = len(rates)
    return Demand(
        rate_per_s=np.array(rates),
        concurrency=np.zeros(rows),
        inputs=[Length(mean=600)] * rows,
        outputs=[Length(mean=200)] * rows,
        prefix_tokens=np.zeros(rows),
        variation=np.full(rows, variation),
        window_s=np.full(rows, window_s),
    )
