"""Levers: the cheapest changes that make a workload fit somewhere when nothing fits, evaluated by the same engine."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from planner.engine.answers.plan import Lever, Plan, PlanRow
from planner.engine.levers.changed_plans import ChangedPlans
from planner.engine.levers.changes import MOST_GPUS, Change, combined, met_by
from planner.engine.levers.tradeoff import Tradeoff, tradeoff_of_hardware, tradeoffs_of_change
from planner.engine.search.rows.verdict import HOST_SHORT

MOST_COMPARED, MOST_COMBINED = 6, 2
"""Combinations whose costs are compared, and combinations that are shown."""
LEAST_SHARE = 0.01
"""Share of the needed memory: a change that saves less and is not enough is not shown."""
SOLVED, FITS = 0.0, 0.1
"""Values in place of the needed share of the GPU: there is a solution; it fits, but misses a target."""


class _Found(NamedTuple):
    change: Change
    lever: Lever

    @property
    def order(self) -> tuple[bool, bool, float]:
        """Solutions by their cost, then the rest by their saving; in both, changes to other work come last."""
        other = self.lever.costs == "job"
        if self.lever.gpu:
            return False, other, self.change.worth + max(0.0, self.lever.slowdown or 0.0)
        return True, other, -(self.lever.saves_bytes or 0.0)


def levers_for(plans: ChangedPlans, rows: Sequence[PlanRow]) -> list[Lever]:
    """Changes that yield a solution, the cheapest first; then the others by their saving on the closest row, the largest first.

    `rows` are those of the plan as given, none of them a solution. Where no single change of the job on its GPUs in its engine is
    enough, two or three together are tried. Each lever's `change` is complete: applied to the workload as given, it does what its text says.
    """
    near = closest(rows)
    if near is None:
        return _with_other_dtype(plans) if plans.task.workload.dtype is not None else []
    changes = [change for change in plans.changes if not (near.answer.fits and change.group == "sequence")]
    found = [lever for group in _groups(changes) if (lever := _first_enough(plans, group, near)) is not None]
    if (looser := met_by(plans.task.workload, near.answer)) and (enough := _lever(plans, looser, near)):
        found.append(_Found(looser, enough))
    same_engine = [lever for change, lever in found if "engine" not in change.keys]
    enough_elsewhere = any(lever.gpu for change, lever in found if "engine" in change.keys)
    same_job = [change for change in changes if change.costs in {"time", "precision"}]
    same_job = [change for change in same_job if not enough_elsewhere or "engine" not in change.keys]
    if not any(lever.gpu and lever.costs in {"time", "precision"} for lever in same_engine):
        found += _combinations(plans, same_job, near)
    if not any(lever.gpu for _, lever in found):
        found += _combinations(plans, [change for change in changes if "gpus_considered" not in change.keys], near)
    proved = [kept for one in sorted(found, key=lambda one: one.order) if (kept := _proved(plans, one)) is not None]
    return [
        one.lever for number, one in enumerate(proved) if all(one.lever.change != other.lever.change for other in proved[:number])
    ]


def _proved(plans: ChangedPlans, one: _Found) -> _Found | None:
    """`one` as planned by its own command, with simulation of requests at a rate; None if nothing fits there."""
    if one.lever.gpu is None or not plans.task.workload.request_rate_per_s:
        return one
    change = one.change
    row = _rented(plans.whole_plan(change.keys))
    if "max_gpus" in change.keys:
        enough = row or _rented(plans.whole_plan(change.keys | {"max_gpus": MOST_GPUS, "objective": "fewest-gpus"}))
        if enough is None or enough.answer.layout is None:
            return None
        if (count := enough.answer.layout.gpus) != change.keys["max_gpus"]:
            change = _up_to(change, count)
            row = _rented(plans.whole_plan(change.keys))
    if row is None or row.answer.layout is None:
        return None
    count = row.answer.layout.gpus
    text = f"{change.text}: {_result(f'{count:,} × {row.gpu}', row)}"
    return _Found(change, msgspec.structs.replace(one.lever, change=change.keys, text=text, gpu=row.gpu, gpus=count))


def _rented(plan: Plan | None) -> PlanRow | None:
    """First solution on rented GPUs."""
    return next((row for row in plan.rows if row.rank and not row.here), None) if plan else None


def closest(rows: Sequence[PlanRow]) -> PlanRow | None:
    """Row that is closest to a solution: the first that only misses a target, else the one with the smallest excess."""
    known = [row for row in rows if row.answer.memory_bytes is not None]
    known = [row for row in known if not row.here] or known
    return next((row for row in known if row.answer.fits), None) or min(known, key=_share_needed, default=None)


def _share_needed(row: PlanRow) -> float:
    """Bytes needed ÷ bytes the GPU has."""
    memory = row.answer.memory_bytes
    return memory.total.value / memory.capacity if memory else float("inf")


def _groups(changes: Sequence[Change]) -> list[list[Change]]:
    """Changes by their group, in the order of the first of each."""
    groups: dict[str, list[Change]] = {}
    for change in changes:
        groups.setdefault(change.group, []).append(change)
    return list(groups.values())


def _first_enough(plans: ChangedPlans, group: list[Change], near: PlanRow) -> _Found | None:
    """First change of a group that is a solution; else the one that saves most, if any does.

    If the strongest does not save enough memory, the milder ones are not tried.
    """
    best = None
    strongest = plans.plan(group[-1].keys) if len(group) > 1 else None
    if strongest is not None and not any(row.answer.fits and not row.here for row in strongest.rows):
        group = group[-1:]
    for change in group:
        lever = _lever(plans, change, near)
        if lever is not None and lever.gpu:
            return _Found(change, lever)
        if lever is not None and (best is None or (lever.saves_bytes or 0.0) > (best.lever.saves_bytes or 0.0)):
            best = _Found(change, lever)
    return best


def _lever(plans: ChangedPlans, change: Change, near: PlanRow) -> Lever | None:
    """`change` as a lever: where the workload then fits, or what it saves on the closest row; None if it has no effect."""
    if "max_gpus" in change.keys:
        change = _fewest_gpus(plans, change)
    plan = plans.plan(change.keys)
    best = next((row for row in plan.rows if row.answer.fits and not row.here), None) if plan else None
    if plan is None or (best is None and change.costs == "hardware"):
        return None
    tradeoff = _tradeoff(plans, change, best, near)
    solved = best is not None and bool(best.rank)
    if not solved and (near.answer.fits or tradeoff is None or tradeoff.saves_bytes < _least_saving(near)):
        return None
    row = best or near
    place = f"{row.answer.gpus:,} × {row.gpu}"
    result = f"not enough alone on {place}" if best is None else _result(place, best)
    return Lever(
        change=change.keys,
        text=f"{change.text}: {result}",
        gpu=row.gpu if solved else None,
        gpus=row.answer.gpus if solved else None,
        costs=change.costs,
        saves_bytes=tradeoff.saves_bytes if tradeoff else None,
        slowdown=tradeoff.slowdown if tradeoff else None,
    )


def _result(place: str, best: PlanRow) -> str:
    """Result of a change after which the memory of the GPUs of `best` is enough."""
    if not best.rank and best.why.startswith(HOST_SHORT):
        return f"then the memory of {place} is enough, but it {best.why}"
    fits = "may fit" if best.verdict == "may-not-fit" else "fits"
    return f"then {place} {fits}" + ("" if best.rank else f", but {best.why}")


def _least_saving(near: PlanRow) -> float:
    """Bytes below which a saving is not shown."""
    memory = near.answer.memory_bytes
    return LEAST_SHARE * memory.total.value if memory else 0.0


def _tradeoff(plans: ChangedPlans, change: Change, best: PlanRow | None, near: PlanRow) -> Tradeoff | None:
    """Tradeoff of `change` on the row that it makes fit, else on the closest one."""
    after = plans.with_keys(change.keys)
    if change.costs == "hardware":
        return tradeoff_of_hardware(plans.task, after, plans.supply, near, best or near)
    return tradeoffs_of_change(plans.task, after, plans.supply, [best or near], change.keys, as_planned=best is not None)[0]


def _fewest_gpus(plans: ChangedPlans, change: Change) -> Change:
    """A change to more GPUs, reduced to the fewest additional GPUs that are enough."""
    plan = plans.plan(change.keys | {"objective": "fewest-gpus"})
    best = next((row for row in plan.rows if row.rank and not row.here and row.answer.layout), None) if plan else None
    if best is None or best.answer.layout is None:
        return change
    return _up_to(change, best.answer.layout.gpus)


def _up_to(change: Change, gpus: int) -> Change:
    """A change to more GPUs, at most `gpus`."""
    text = change.text.replace(f"{change.keys['max_gpus']:,}", f"{gpus:,}")
    return replace(change, keys=change.keys | {"max_gpus": gpus}, text=text)


def _combinations(plans: ChangedPlans, pool: Sequence[Change], near: PlanRow) -> list[_Found]:
    """Cheapest pairs of changes that are a solution on the closest GPU; where none is, the best pair with a third.

    If that misses a target too, combinations that at least fit.
    """
    on_gpu = plans.on_gpus([near.gpu])
    pairs = [_attempt(on_gpu, pair) for pair in combinations(pool, 2) if _distinct(pair)]
    enough = [pair.change for pair in pairs if pair.needed == SOLVED]
    if pairs and not enough:
        best = min(pairs, key=lambda pair: pair.needed).parts
        threes = [_attempt(on_gpu, (*best, third)) for third in pool if _distinct((*best, third))]
        enough = [three.change for three in threes if three.needed == SOLVED]
        if not enough and not near.answer.fits:
            enough = [pair.change for pair in pairs if pair.needed == FITS] or [
                three.change for three in threes if three.needed == FITS
            ]
    found: list[_Found] = []
    for change in sorted(enough, key=lambda change: change.worth)[:MOST_COMPARED]:
        named = any(change.keys.keys() == other.change.keys.keys() for other in found)
        lever = None if named else _lever(plans, change, near)
        if lever is not None:
            found.append(_Found(change, lever))
    return sorted(found, key=lambda one: one.order)[:MOST_COMBINED]


def _distinct(changes: tuple[Change, ...]) -> bool:
    """True if no two of them change the same setting."""
    keys = [key for change in changes for key in change.keys]
    return len({change.group for change in changes}) == len(changes) and len(set(keys)) == len(keys)


class _Attempt(NamedTuple):
    needed: float
    """Share of the GPU that is needed with all changes, or `SOLVED`, or `FITS`."""
    change: Change
    """All changes as one."""
    parts: tuple[Change, ...]


def _attempt(plans: ChangedPlans, changes: tuple[Change, ...]) -> _Attempt:
    """Several changes together, and their result."""
    ordered = tuple(sorted(changes, key=lambda change: change.worth))
    whole = combined(ordered)
    plan = plans.plan(whole.keys)
    row = closest([row for row in plan.rows if not row.here]) if plan else None
    needed = float("inf") if row is None else SOLVED if row.rank else FITS if row.answer.fits else _share_needed(row)
    return _Attempt(needed, whole, ordered)


def _with_other_dtype(plans: ChangedPlans) -> list[Lever]:
    """A compute dtype that the GPUs have, as the first lever and as the basis of the others."""
    plan = plans.plan({"dtype": None})
    near = closest(plan.rows) if plan else None
    if plan is None or near is None:
        return []
    change = {"dtype": near.answer.assumed.get("dtype", "fp16")}
    result = f"then {near.gpu} fits" if near.rank else f"then {near.gpu} {near.why}"
    first = Lever(change=change, text=f"compute in {change['dtype']}: {result}", gpu=near.gpu if near.rank else None)
    if near.rank:
        return [first]
    rest = levers_for(ChangedPlans(plans.with_keys(change), plans.supply), plan.rows)
    words = f"compute in {change['dtype']} + "
    more = [msgspec.structs.replace(lever, change=change | lever.change, text=words + lever.text) for lever in rest]
    return [*(lever for lever in more if lever.gpu), first, *(lever for lever in more if not lever.gpu)]
