"""A good placement without a solver: each workload in its cheapest pool, then moved one or two at a time while that saves money."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence

from planner.engine.procurement.portfolio.pool_cost import Mix, pool_cost
from planner.engine.procurement.portfolio.records import Problem

Placement = tuple[int, ...]
"""Pool of each workload."""
MOST_MOVES, MOST_ROUNDS = 3000, 30
"""Moves tried in one round, and rounds."""


class Costs:
    """Cost of pools by the workloads in them, each computed once."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._known: dict[tuple[int, frozenset[int]], Mix] = {}

    def mix(self, pool: int, members: frozenset[int]) -> Mix:
        """Cheapest mix of `pool` for the workloads `members`."""
        key = pool, members
        if key not in self._known:
            p = self._problem
            self._known[key] = pool_cost(p.pools[pool], *summed_needs(p, pool, members), p.weights)
        return self._known[key]

    def total(self, placement: Sequence[int]) -> float:
        """Dollars per month of all pools."""
        return sum(self.mix(pool, members(placement, pool)).usd for pool in set(placement))

    def change(self, placement: Placement, move: dict[int, int]) -> float:
        """Additional dollars per month (negative: savings) after `move` (workload -> pool)."""
        touched = {placement[workload] for workload in move} | set(move.values())
        after = _with(placement, move)
        before = sum(self.mix(pool, members(placement, pool)).usd for pool in touched)
        return sum(self.mix(pool, members(after, pool)).usd for pool in touched) - before


def members(placement: Sequence[int], pool: int) -> frozenset[int]:
    """Workloads in `pool`."""
    return frozenset(workload for workload, place in enumerate(placement) if place == pool)


def summed_needs(problem: Problem, pool: int, members: Iterable[int]) -> tuple[list[int], list[int]]:
    """(lasting GPUs, interruptible GPUs) needed by the workloads `members` of `pool`, in every class of hours."""
    hard, soft = ([0] * len(problem.weights) for _ in range(2))
    for workload in members:
        need = problem.needs[workload, pool]
        into = soft if need.interruptible else hard
        for hour, gpus in enumerate(need.gpus):
            into[hour] += gpus
    return hard, soft


def choices(problem: Problem) -> list[list[int]]:
    """Pools that each workload can run in."""
    return [
        [pool for pool in range(len(problem.pools)) if (workload, pool) in problem.needs] for workload in range(problem.workloads)
    ]


def local_search(problem: Problem) -> Placement | None:
    """A placement that no move of one or two workloads makes cheaper; None if a workload can run nowhere. Nothing is bought."""
    costs, options = Costs(problem), choices(problem)
    alone = [[costs.mix(pool, frozenset({workload})).usd for pool in pools] for workload, pools in enumerate(options)]
    if any(min(prices, default=math.inf) == math.inf for prices in alone):
        return None
    start = [pools[prices.index(min(prices))] for pools, prices in zip(options, alone, strict=True)]
    best, usd = tuple(start), costs.total(start)
    for _ in range(MOST_ROUNDS):
        moves = itertools.islice(_moves(best, options), MOST_MOVES)
        saved, moved = min(((costs.change(best, move), tuple(move.items())) for move in moves), default=(0.0, ()))
        if saved > -1e-9 * usd:
            break
        best = _with(best, dict(moved))
        usd += saved
    return best


def _moves(placement: Placement, options: Sequence[Sequence[int]]) -> Iterator[dict[int, int]]:
    """Moves of one workload elsewhere, then of two into one pool."""
    for workload, pools in enumerate(options):
        yield from ({workload: pool} for pool in pools if pool != placement[workload])
    for first, second in itertools.combinations(range(len(placement)), 2):
        shared = set(options[second])
        yield from ({first: pool, second: pool} for pool in options[first] if pool in shared)


def _with(placement: Placement, moved: dict[int, int]) -> Placement:
    return tuple(moved.get(workload, pool) for workload, pool in enumerate(placement))
