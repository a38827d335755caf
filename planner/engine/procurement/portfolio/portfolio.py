"""Cheapest mix for a portfolio: by HiGHS where it is installed, else by local search, with the same computation of costs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import msgspec

import planner
from planner.engine.evaluate.task import Supply
from planner.engine.procurement.portfolio.local_search import local_search, members, summed_needs
from planner.engine.procurement.portfolio.options import Built, PlannedWorkload, build
from planner.engine.procurement.portfolio.pool_cost import Mix, pool_cost
from planner.engine.procurement.portfolio.records import Need, Placed, PoolUse, Portfolio, PortfolioFile, Problem
from planner.units import HOURS_PER_MONTH

ON_SHARES = (
    "a share of a GPU was checked with its part of the memory and of the time while its neighbours are busy: give each engine its part "
    "(1/2 of vLLM's 0.9 is --gpu-memory-utilization 0.45); neighbours are not isolated, and losses by their turns are assumed to be none."
)
LEAST_GAIN = 0.995
"""Cost of a split ÷ the cost of the whole above which it is not worth two kinds of GPU."""
WITHOUT_HIGHS = "HiGHS is not installed (pip install 'gpu-planner[portfolio]'): a local search without proof; nothing is bought."


def portfolio_of(
    asked: Sequence[PlannedWorkload], file: PortfolioFile, supply: Supply, processor_s: Callable[[], float] | None = None
) -> Portfolio:
    """Cheapest mix for the workloads of `file`; without placements where one of them can run nowhere.

    Services that may use two kinds of GPU are tried as a base and the load above it, and stay whole where that saves nothing.
    `processor_s` limits the proof; see `solve`.
    """
    whole = _placed_as(asked, file, supply, processor_s)
    parts = [part for one in asked for part in one.split()]
    if len(parts) == len(asked):
        return whole
    split = _placed_as(parts, file, supply, processor_s)
    if not split.workloads or (whole.workloads and split.usd_per_month > whole.usd_per_month * LEAST_GAIN):
        return whole
    saved = f"; on one kind each: {whole.usd_per_month:,.0f} $ a month" if whole.workloads else ""
    note = f"services on two kinds of GPU: {split.usd_per_month:,.0f} $ a month{saved}"
    return msgspec.structs.replace(split, alone_usd_per_month=whole.alone_usd_per_month, notes=[*split.notes, note])


def _placed_as(
    asked: Sequence[PlannedWorkload], file: PortfolioFile, supply: Supply, processor_s: Callable[[], float] | None
) -> Portfolio:
    """Cheapest mix for `asked`, each in one pool."""
    built = build(asked, file, supply)
    problem = built.problem
    stuck = [one.entry.name for number, one in enumerate(asked) if not any(number == key[0] for key in problem.needs)]
    if stuck:
        notes = [f"{name}: nothing that is owned or offered runs it" for name in stuck]
        return Portfolio(workloads=[], pools=[], usd_per_month=0.0, months=file.months, solver="none", notes=notes)
    try:
        from planner.engine.procurement.portfolio.milp import solve

        solved = solve(problem, processor_s)
    except ImportError:
        placement = local_search(problem)
        bought: tuple[int, ...] = (0,) * len(problem.pools)
        solver, gap, notes = "local search", None, [WITHOUT_HIGHS]
    else:
        placement = solved.placement if solved else None
        bought = solved.bought if solved else ()
        solver, gap, notes = "HiGHS", solved.gap if solved else None, []
    if placement is None:
        notes.append("stock and offers are not enough for all workloads at once")
        return Portfolio(workloads=[], pools=[], usd_per_month=0.0, months=file.months, solver=solver, notes=notes)
    if any(built.ways[number, place].divisor > 1 for number, place in enumerate(placement)):
        notes.append(ON_SHARES)
    pools = [
        use for number in sorted(set(placement)) if (use := _use(problem, placement, number, bought[number])).usd_per_month >= 0
    ]
    placed = [_placed(asked[number], built, number, place) for number, place in enumerate(placement)]
    alone = [one.alone_usd_per_month for one in placed]
    return Portfolio(
        workloads=placed,
        pools=pools,
        usd_per_month=sum(use.usd_per_month for use in pools),
        alone_usd_per_month=None if None in alone else sum(one for one in alone if one is not None),
        months=file.months,
        solver=solver,
        gap=gap,
        notes=notes,
        version=planner.__version__,
    )


def _use(problem: Problem, placement: Sequence[int], number: int, bought: int) -> PoolUse:
    pool, parts = problem.pools[number], problem.parts
    hard, soft = summed_needs(problem, number, members(placement, number))
    pool_now = pool if bought else msgspec.structs.replace(pool, bought=None)
    mix = pool_cost(pool_now, hard, soft, problem.weights, bought)
    whole = [a + b for a, b in zip(hard, soft, strict=True)]
    hourly, spot = (_hours(problem, units) for units in (mix.hourly, mix.spot))
    return PoolUse(
        gpu=pool.gpu,
        gpus_at_most=-(-max(whole) // parts),
        gpus_at_least=-(-min(whole) // parts),
        owned=-(-max(mix.owned, default=0) // parts),
        bought=mix.bought * pool.bought.gpus // parts if pool.bought else 0,
        bought_usd_per_month=mix.bought * pool.bought.usd_per_month if pool.bought else 0.0,
        committed=mix.fixed * pool.fixed.gpus // parts if pool.fixed else 0,
        committed_on=f"{pool.fixed.kind}, {pool.fixed.who}" if pool.fixed and mix.fixed else "",
        committed_usd_per_month=mix.fixed * pool.fixed.usd_per_month if pool.fixed else 0.0,
        hourly_gpu_h=hourly * pool.hourly.gpus / parts * HOURS_PER_MONTH if pool.hourly else 0.0,
        hourly_from=pool.hourly.who if pool.hourly and hourly else "",
        hourly_usd_per_month=hourly * pool.hourly.usd_per_month if pool.hourly else 0.0,
        spot_gpu_h=spot * pool.spot.gpus / parts * HOURS_PER_MONTH if pool.spot else 0.0,
        spot_from=pool.spot.who if pool.spot and spot else "",
        spot_usd_per_month=spot * pool.spot.usd_per_month if pool.spot else 0.0,
        owned_usd_per_month=_hours(problem, mix.owned) * pool.owned_usd_per_month,
        usd_per_month=mix.usd,
    )


def _hours(problem: Problem, units: Sequence[int]) -> float:
    """Mean number of units over the month."""
    return sum(share * count for share, count in zip(problem.weights, units, strict=True)) if units else 0.0


def _placed(asked: PlannedWorkload, built: Built, number: int, place: int) -> Placed:
    problem, way = built.problem, built.ways[number, place]
    need, layout, each = problem.needs[number, place], way.row.answer.layout, max(1, problem.parts // way.divisor)
    alone = min((_alone(problem, one, pool) for (other, pool), one in problem.needs.items() if other == number), default=math.inf)
    return Placed(
        name=asked.entry.name,
        gpu=problem.pools[place].gpu,
        layout=layout.text if layout else "",
        gpus_at_most=max(need.gpus) // each,
        gpus_at_least=min(need.gpus) // each,
        share=way.divisor,
        interruptible=need.interruptible,
        alone_usd_per_month=alone if math.isfinite(alone) else None,
    )


def _alone(problem: Problem, need: Need, number: int) -> float:
    """Dollars per month of one workload on what is rented only for it."""
    pool = msgspec.structs.replace(problem.pools[number], owned=0, bought=None)
    none = [0] * len(problem.weights)
    hard, soft = (none, need.gpus) if need.interruptible else (need.gpus, none)
    mix: Mix = pool_cost(pool, hard, soft, problem.weights)
    return mix.usd
