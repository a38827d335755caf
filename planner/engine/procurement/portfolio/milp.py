"""Portfolio as a mixed-integer programme, solved by HiGHS (extra `portfolio`).

minimise    Σ_p [ F_p·f_p + B_p·b_p + Σ_h w_h·(H_p·y_ph + S_p·z_ph + O_p·u_ph) ]
such that   Σ_p x_wp = 1                                             each workload in one pool
            s·f + s·b + s·y + s·z + u ≥ Σ_w n_wph·x_wp                all needs of an hour
            s·f + s·b + s·y + u       ≥ Σ_w n_wph·x_wp, w that stay   without what may be taken away
            u_ph ≤ owned_p,   Σ_p entry_p·b_p ≤ capital
x binary; f (committed), b (bought), y (by the hour), z (spot) whole units of s GPUs; u GPUs of one's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from planner.engine.procurement.portfolio.local_search import Placement, choices
from planner.engine.procurement.portfolio.records import Problem, Source

if TYPE_CHECKING:
    from highspy import Highs

PROCESSOR_LIMIT_S, TIME_LIMIT_S = 4.0, 60.0
"""Limits of a proof: seconds of processor time, so that a busy machine gives the answer of an idle one, and seconds by the clock."""
GAP = 1e-4
"""Share of the optimum that a proof may leave open."""


class Solved(NamedTuple):
    """A placement with the units bought for each pool."""

    placement: Placement
    bought: tuple[int, ...]
    gap: float


def solve(problem: Problem, processor_s: Callable[[], float] | None = None) -> Solved | None:
    """Cheapest placement; None if none is possible. Raises `ImportError` without highspy.

    `processor_s`: reads the processor time of the program in seconds; without it only the clock ends a proof.
    """
    import highspy

    solver = highspy.Highs()
    for name, value in (("output_flag", False), ("time_limit", TIME_LIMIT_S), ("mip_rel_gap", GAP), ("threads", 1)):
        solver.setOptionValue(name, value)
    places = {(workload, pool): _column(solver, 0.0, 1.0) for workload, pools in enumerate(choices(problem)) for pool in pools}
    for workload, pools in enumerate(choices(problem)):
        _row(solver, [(places[workload, pool], 1.0) for pool in pools], 1.0, 1.0)
    bought = [_pool(solver, problem, pool, places) for pool in range(len(problem.pools))]
    if problem.capex_usd is not None:
        pairs = zip(problem.pools, bought, strict=True)
        terms = [(column, pool.bought.entry_usd if pool.bought else 0.0) for pool, column in pairs if column is not None]
        _row(solver, terms, -math.inf, problem.capex_usd)
    if processor_s is not None:
        end_s = processor_s() + PROCESSOR_LIMIT_S
        solver.cbMipInterrupt.subscribe(lambda event: event.interrupt(processor_s() > end_s))
    solver.run()
    info, found = solver.getInfo(), solver.getSolution().col_value
    if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        return None
    placement = tuple(
        next(pool for pool in pools if found[places[workload, pool]] > 0.5) for workload, pools in enumerate(choices(problem))
    )
    units = tuple(0 if column is None else round(found[column]) for column in bought)
    return Solved(placement, units, max(0.0, float(info.mip_gap)))


def _pool(solver: Highs, problem: Problem, number: int, places: dict[tuple[int, int], int]) -> int | None:
    """Add the columns and rows of one pool; returns the column of what is bought."""
    pool = problem.pools[number]
    mine = [(workload, place) for (workload, other), place in places.items() if other == number]
    if not mine:
        return None
    most = max(sum(problem.needs[workload, number].gpus[hour] for workload, _ in mine) for hour in range(len(problem.weights)))
    paid = [(source, _column(solver, source.usd_per_month, _units(source, most))) for source in (pool.fixed, pool.bought) if source]
    for needs, weight in _different_hours(problem, number, [workload for workload, _ in mine]).items():
        need = dict(zip((workload for workload, _ in mine), needs, strict=True))
        firm = [(place, -float(need[workload])) for workload, place in mine if not problem.needs[workload, number].interruptible]
        loose = [(place, -float(need[workload])) for workload, place in mine if problem.needs[workload, number].interruptible]
        there = [(column, float(source.gpus)) for source, column in paid]
        if pool.owned:
            there.append((_column(solver, pool.owned_usd_per_month * weight, float(pool.owned), whole=False), 1.0))
        if pool.hourly:
            column = _column(solver, pool.hourly.usd_per_month * weight, _units(pool.hourly, most))
            there.append((column, float(pool.hourly.gpus)))
        if firm:
            _row(solver, [*there, *firm], 0.0, math.inf)
        if loose:
            if pool.spot:
                column = _column(solver, pool.spot.usd_per_month * weight, _units(pool.spot, most))
                there.append((column, float(pool.spot.gpus)))
            _row(solver, [*there, *firm, *loose], 0.0, math.inf)
    return next((column for source, column in paid if source is pool.bought), None)


def _different_hours(problem: Problem, pool: int, workloads: list[int]) -> dict[tuple[int, ...], float]:
    """GPUs that the workloads need in the pool -> share of the time in which they need them; equal hours are combined."""
    shares: dict[tuple[int, ...], float] = {}
    for hour, weight in enumerate(problem.weights):
        needs = tuple(problem.needs[workload, pool].gpus[hour] for workload in workloads)
        shares[needs] = shares.get(needs, 0.0) + weight
    return shares


def _units(source: Source, gpus: int) -> float:
    return float(math.ceil(gpus / source.gpus))


def _column(solver: Highs, cost: float, upper: float, *, whole: bool = True) -> int:
    """Add a variable from 0 to `upper`; returns its number."""
    number: int = solver.getNumCol()
    solver.addCol(cost, 0.0, upper, 0, [], [])
    if whole:
        from highspy import HighsVarType

        solver.changeColIntegrality(number, HighsVarType.kInteger)
    return number


def _row(solver: Highs, terms: list[tuple[int, float]], low: float, high: float) -> None:
    """Add low ≤ Σ value·column ≤ high."""
    columns = np.array([column for column, _ in terms], dtype=np.int32)
    solver.addRow(low, high, len(terms), columns, np.array([value for _, value in terms]))
