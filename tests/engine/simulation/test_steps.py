"""How many steps the simulation takes, and what is left out of them: counts, as times depend on the machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from simulation_sample import INFINITE, load_of, repeated, rules_of, simulate, table_of

from planner.engine.columns import Floats
from planner.engine.performance.simulation import continuous_batching, replicas
from planner.engine.performance.simulation.continuous_batching import Trace
from planner.engine.performance.simulation.iteration_time import constant_time, iteration_time
from planner.engine.performance.simulation.traffic import traffic_of
from planner.workload.tasks import Lengths

RUNS = 16


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], tuple[Trace, int, int]]:
    """Serves one traffic with caches of so many tokens: (its trace, steps, steps in which a cache could have filled)."""
    load = load_of(RUNS, inputs=Lengths(mean=600, p95=1500), outputs=Lengths(mean=100, p95=250), rate_per_s=4.0)
    traffic = traffic_of(load, range(RUNS), 200, in_flight=np.full(RUNS, 5))
    time = constant_time(RUNS, step_s=0.01, prefill_s=2e-5, cached_s=2e-8, sequence_s=1e-5)
    steps = list[bool]()
    iterate = continuous_batching._iterate

    def counting(*state: Any, never_full: bool, preempted: bool) -> None:
        steps.append(never_full)
        iterate(*state, never_full=never_full, preempted=preempted)

    monkeypatch.setattr(continuous_batching, "_iterate", counting)

    def served(capacity: float) -> tuple[Trace, int, int]:
        steps.clear()
        trace = simulate(time, rules_of(RUNS, budget=8192.0, capacity=capacity), traffic, warm=20, measured=100)
        return trace, len(steps), len(steps) - sum(steps)

    return served


def test_a_cache_that_might_fill_but_does_not_takes_no_further_steps(counted: Callable[[float], tuple[Trace, int, int]]) -> None:
    without, steps, never = counted(INFINITE)
    within, as_many, doubtful = counted(10_600.0)
    assert never == 0
    assert doubtful > 3, "the case is one in which a cache might have filled"
    assert within.preemptions.sum() == 0
    assert as_many == steps
    for name in ("admitted_s", "first_s", "end_s"):
        assert np.array_equal(getattr(within, name)[:, 20:120], getattr(without, name)[:, 20:120]), name


def test_a_cache_with_room_for_all_that_is_in_flight_is_not_watched(counted: Callable[[float], tuple[Trace, int, int]]) -> None:
    """Though so many of the longest requests at once would not fit."""
    _, _, doubtful = counted(60_000.0)
    assert doubtful == 0


def test_little_s_law_is_solved_in_far_fewer_steps_than_by_plain_iteration(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also close to saturation, where plain iteration takes hundreds of steps; a row alone has the number that it has among others."""
    rates = np.geomspace(0.01, 60.0, 240)
    table = repeated(table_of(), rates.size)
    time, rules = iteration_time(table), rules_of(rates.size, budget=8192.0)
    of = replicas._request_time(time, rules, replace(load_of(rates.size), rate_per_s=rates), np.arange(rates.size))
    plain = np.ones(rates.size)
    for _ in range(4000):
        plain = np.minimum(of.rate_per_s * of.seconds(time, plain), of.most)
    computed = 0
    seconds = replicas._RequestTime.seconds

    def counting(self: Any, time: Any, in_flight: Floats) -> Floats:
        nonlocal computed
        computed += in_flight.size
        return seconds(self, time, in_flight)

    monkeypatch.setattr(replicas._RequestTime, "seconds", counting)
    found, keeps_up = of.in_flight(time)
    assert computed < 12 * rates.size
    np.testing.assert_allclose(found, plain, rtol=1e-7)
    assert keeps_up.any()
    assert not keeps_up.all()
    assert of.take(np.array([120])).in_flight(time)[0] == found[120]
