"""A few short runs against a long one: they begin as a long run goes on, and have its percentiles."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from msgspec.structs import replace
from simulation_sample import load_of, repeated, rules_of, simulate, table_of

from planner.engine.columns import Floats
from planner.engine.evaluate.sizing import _latency
from planner.engine.performance.simulation import replicas
from planner.engine.performance.simulation.batching_rules import BatchingRules
from planner.engine.performance.simulation.iteration_time import IterationTime, iteration_time
from planner.engine.performance.simulation.load import Load
from planner.engine.performance.simulation.traffic import traffic_of

RATES = np.array([1.0, 2.0, 4.0, 6.0, 8.0, 9.0])
"""Requests a second of a replica, with which 0.7 to 11 are in flight, and prompts take up to four tenths of the time."""


def served(inputs: int, outputs: int, rates: Floats) -> tuple[IterationTime, BatchingRules, Load]:
    time = iteration_time(repeated(table_of(input_tokens=inputs, output_tokens=outputs), rates.size))
    load = replace(load_of(rates.size, inputs=inputs, outputs=outputs), rate_per_s=rates)
    return time, rules_of(rates.size, sequences=400.0, budget=8192.0, capacity=8e5), load


@pytest.fixture(scope="module")
def service() -> tuple[IterationTime, BatchingRules, Load]:
    return served(2000, 100, RATES)


def test_their_percentiles_are_those_of_a_long_run(service: tuple[IterationTime, BatchingRules, Load]) -> None:
    long, short = (replicas.simulate(*service, seeds=seeds, measured=measured) for seeds, measured in ((16, 1000), (8, 40)))
    np.testing.assert_allclose(short.request_s.mean, long.request_s.mean, rtol=0.03)
    np.testing.assert_allclose(short.request_s.p95, long.request_s.p95, rtol=0.05)
    np.testing.assert_allclose(short.ttft_s.mean, long.ttft_s.mean, rtol=0.05)
    np.testing.assert_allclose(short.ttft_s.p95, long.ttft_s.p95, rtol=0.15)


@pytest.mark.parametrize(("inputs", "outputs", "rates"), [(200, 600, (3.0, 6.0, 9.0, 15.0)), (2000, 100, (8.0, 10.0))])
def test_littles_law_has_their_percentiles_too(inputs: int, outputs: int, rates: Sequence[float]) -> None:
    """Also where prompts, which vary more than requests in flight, take up to four tenths of the time."""
    time, rules, load = served(inputs, outputs, np.array(rates))
    long, steady = replicas.simulate(time, rules, load, seeds=16, measured=1000), replicas.request_times(time, rules, load)
    p95 = _latency(steady.token_s, steady.load_sigma).p95
    np.testing.assert_allclose(steady.token_s, long.tpot_s.mean, rtol=0.02)
    np.testing.assert_allclose(p95, long.tpot_s.p95, rtol=0.05)


def test_they_begin_with_as_many_in_flight_as_a_long_run_has(service: tuple[IterationTime, BatchingRules, Load]) -> None:
    """Mean and variance by the expansion, and of a long run that is looked at 4,000 times."""
    time, rules, load = service
    request = replicas._request_time(time, rules, load, np.arange(RATES.size))
    mean, variance = request.mean_and_variance(time, request.in_flight(time)[0], load.variation)
    traffic = traffic_of(load, [0] * RATES.size, 6000, in_flight=mean.astype(np.int64))
    trace = simulate(time, rules, traffic, warm=500, measured=5000)
    for row in range(RATES.size):
        begins, ends = trace.admitted_s[row, 500], trace.admitted_s[row, 5500]
        looks = np.linspace(begins, ends, 4000)
        in_flight = sum(
            sign * np.searchsorted(np.sort(times), looks) for sign, times in ((1, trace.admitted_s[row]), (-1, trace.end_s[row]))
        )
        assert mean[row] == pytest.approx(np.mean(in_flight), rel=0.04)
        assert variance[row] == pytest.approx(np.var(in_flight), rel=0.25)


@pytest.mark.parametrize("seeds", [1, 2, 4, 5, 8])
def test_swings_have_no_mean_and_the_variance_of_one(seeds: int) -> None:
    swings = replicas._swings(seeds)
    assert swings.shape == (seeds,)
    assert swings.sum() == pytest.approx(0.0, abs=1e-12)
    assert (swings**2).sum() == pytest.approx(seeds - seeds % 2)
    assert len({*np.abs(swings).round(9).tolist()}) == seeds // 2 + seeds % 2


def last_arrivals_s(row: np.ndarray[tuple[int], np.dtype[np.int64]] | None) -> Floats:
    """Arrival of the last of 50 requests at 5 a second, in two runs of each of three replicas."""
    load = load_of(6, rate_per_s=5.0)
    traffic = traffic_of(load, [0, 1] * 3, 60, most=np.full(6, 50), row=row)
    return traffic.arrival_s[:, 49]


def test_the_rate_is_exact_over_all_runs_of_a_replica() -> None:
    alone, together = last_arrivals_s(None), last_arrivals_s(np.repeat(np.arange(3), 2))
    np.testing.assert_allclose(alone, 10.0)
    np.testing.assert_allclose(together.reshape(3, 2).mean(axis=1), 10.0)
    assert (np.abs(together - 10.0) > 0.1).all(), "one run is busier than the other"
