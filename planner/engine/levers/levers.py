"""When nothing fits: the cheapest changes of the workload that make it fit somewhere, judged by the same engine."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import msgspec

from planner.engine.answers.lever import Lever
from planner.engine.answers.plan import Plan, PlanRow
from planner.engine.levers.changes import MOST_GPUS, Change, changed, changes_of, together
from planner.engine.levers.tradeoff import Weighed, weigh, weigh_hardware
from planner.engine.search.rows import HOST_SHORT
from planner.errors import UserError
from planner.units import percent_text
from planner.workload.architecture import Architecture
from planner.workload.tasks import Workload

if TYPE_CHECKING:
    from planner.engine.search.plan import Sources

MOST_WEIGHED, MOST_COMBINED = 6, 2
"""Combinations that are weighed against each other, and that are named."""
LEAST_SHARE = 0.01
"""Of what is needed: a change that saves less and is not enough is not named."""
SOLVED, FITS = 0.0, 0.1
"""In place of the share of the GPU that is needed: there is a solution; it fits, but misses a target."""


@dataclass(frozen=True)
class _Asked:
    """The workload nothing fits, and its plans with changes, each made once."""

    workload: Workload
    architecture: Architecture
    sources: Sources
    make_plan: Callable[..., Plan]
    made: dict[str, Plan | None] = field(default_factory=dict)

    def plan(self, keys: dict[str, Any]) -> Plan | None:
        """With `keys` changed; None where the workload cannot be asked like that."""
        name = json.dumps(msgspec.to_builtins(keys), sort_keys=True)
        if name not in self.made:
            try:
                made = self.make_plan(changed(self.workload, keys), self.architecture, self.sources, levers=False, simulated=False)
            except UserError:
                made = None
            self.made[name] = made
        return self.made[name]

    def with_keys(self, keys: dict[str, Any]) -> _Asked:
        """The same question of a changed workload."""
        return _Asked(changed(self.workload, keys), self.architecture, self.sources, self.make_plan)


def levers_for(
    workload: Workload, architecture: Architecture, sources: Sources, rows: list[PlanRow], make_plan: Callable[..., Plan]
) -> list[Lever]:
    """Changes that yield a solution, the cheapest first; then what the others save on the closest row, the most first.

    Where no single change of the job on its GPUs is enough, two or three together are tried. Each lever's `change` is
    complete: applied to the workload as given, it does what its text says.
    """
    asked = _Asked(workload, architecture, sources, make_plan)
    near = closest(rows)
    if near is None and workload.dtype is not None:
        return _with_other_dtype(asked)
    if near is None:
        return []
    changes = [change for change in changes_of(workload) if not (near.answer.fits and change.group == "sequence")]
    found = [lever for group in _groups(changes) if (lever := _first_enough(asked, group, near)) is not None]
    own = [change for change in changes if change.costs in {"time", "precision"}]
    if not any(lever.gpu and lever.costs in {"time", "precision"} for _, lever in found):
        found += _combined(asked, own, near)
    if not any(lever.gpu for _, lever in found):
        found += _combined(asked, [change for change in changes if "gpus_considered" not in change.keys], near)
    return [lever for _, lever in sorted(found, key=_dearness)]


def _dearness(found: tuple[Change, Lever]) -> tuple[bool, float]:
    """Solutions by what they cost, then the rest by what they save."""
    change, lever = found
    return (False, change.worth + max(0.0, lever.slowdown or 0.0)) if lever.gpu else (True, -(lever.saves_bytes or 0.0))


def closest(rows: list[PlanRow]) -> PlanRow | None:
    """The row that is nearest to a solution: the first that only misses a target, else the one with the least too much."""
    known = [row for row in rows if row.answer.memory_bytes is not None]
    known = [row for row in known if not row.here] or known
    return next((row for row in known if row.answer.fits), None) or min(known, key=_excess, default=None)


def _excess(row: PlanRow) -> float:
    memory = row.answer.memory_bytes
    return memory.total.value / memory.capacity if memory else float("inf")


def _groups(changes: list[Change]) -> list[list[Change]]:
    """Changes by their group, in the order of the first of each."""
    groups: dict[str, list[Change]] = {}
    for change in changes:
        groups.setdefault(change.group, []).append(change)
    return list(groups.values())


def _first_enough(asked: _Asked, group: list[Change], near: PlanRow) -> tuple[Change, Lever] | None:
    """The first change of a group that is a solution; else the one that saves most, if any does.

    Where the strongest leaves the job without the memory, the milder ones are not asked.
    """
    found = None
    strongest = asked.plan(group[-1].keys) if len(group) > 1 else None
    if strongest is not None and not any(row.answer.fits and not row.here for row in strongest.rows):
        group = group[-1:]
    for change in group:
        lever = _lever(asked, change, near)
        if lever is not None and lever.gpu:
            return change, lever
        if lever is not None and (found is None or (lever.saves_bytes or 0.0) > (found[1].saves_bytes or 0.0)):
            found = change, lever
    return found


def _lever(asked: _Asked, change: Change, near: PlanRow) -> Lever | None:
    """What `change` does: where the workload fits then, or what it saves on the closest row; None where it does nothing."""
    if "max_gpus" in change.keys:
        change = _fewest_gpus(asked, change)
    plan = asked.plan(change.keys)
    best = next((row for row in plan.rows if row.answer.fits and not row.here), None) if plan else None
    if plan is None or (best is None and change.costs == "hardware"):
        return None
    weighed = _weighed(asked, change, best or near, near, fits=best is not None)
    if (best is None or not best.rank) and (near.answer.fits or weighed is None or weighed.saves_bytes < _least_saving(near)):
        return None
    row = best or near
    count = row.answer.layout.gpus if row.answer.layout else 1
    place = f"{count:,} × {row.gpu}"
    result = f"not enough alone on {place}" if best is None else _result(place, best)
    return Lever(
        change=change.keys,
        text=f"{change.text}: {result}",
        gpu=row.gpu if best and best.rank else None,
        gpus=count if best and best.rank else None,
        costs=change.costs,
        saves_bytes=weighed.saves_bytes if weighed else None,
        slowdown=weighed.slowdown if weighed else None,
    )


def _result(place: str, best: PlanRow) -> str:
    """What comes of a change after which the GPUs of `best` have the memory."""
    if not best.rank and best.why.startswith(HOST_SHORT):
        return f"then the memory of {place} is enough, but it {best.why}"
    return f"then {place} fits" + ("" if best.rank else f", but {best.why}")


def _least_saving(near: PlanRow) -> float:
    """Bytes below which what is saved is not worth saying."""
    memory = near.answer.memory_bytes
    return LEAST_SHARE * memory.total.value if memory else 0.0


def _weighed(asked: _Asked, change: Change, row: PlanRow, near: PlanRow, *, fits: bool) -> Weighed | None:
    whole = changed(asked.workload, change.keys)
    if change.costs == "hardware":
        return weigh_hardware(asked.workload, whole, asked.architecture, asked.sources, near, row)
    return weigh(asked.workload, whole, asked.architecture, asked.sources, row, change.keys, as_planned=fits)


def _fewest_gpus(asked: _Asked, change: Change) -> Change:
    """A change to more GPUs, to as few more as do."""
    searched = asked.plan(change.keys | {"objective": "fewest-gpus"})
    best = next((row for row in searched.rows if row.rank and not row.here and row.answer.layout), None) if searched else None
    if best is None or best.answer.layout is None:
        return change
    count = best.answer.layout.gpus
    return replace(change, keys=change.keys | {"max_gpus": count}, text=change.text.replace(f"{MOST_GPUS:,}", f"{count:,}"))


def _combined(asked: _Asked, pool: list[Change], near: PlanRow) -> list[tuple[Change, Lever]]:
    """The cheapest pairs of changes that are a solution on the closest GPU; where none is, the best pair with a third.

    Where that misses a target too, what at least fits.
    """
    only = asked.with_keys({"gpus_considered": [near.gpu]})
    pairs = [_reached(only, pair) for pair in combinations(pool, 2) if _distinct(pair)]
    enough = [whole for needed, whole, _ in pairs if needed == SOLVED]
    if pairs and not enough:
        _, _, best = min(pairs, key=lambda pair: pair[0])
        threes = [_reached(only, (*best, third)) for third in pool if _distinct((*best, third))]
        enough = [whole for needed, whole, _ in threes if needed == SOLVED]
        if not enough and not near.answer.fits:
            enough = [whole for needed, whole, _ in pairs if needed == FITS] or [
                whole for needed, whole, _ in threes if needed == FITS
            ]
    told: list[tuple[Change, Lever]] = []
    for whole in sorted(enough, key=lambda whole: whole.worth)[:MOST_WEIGHED]:
        lever = None if any(whole.keys.keys() == other.keys.keys() for other, _ in told) else _lever(asked, whole, near)
        if lever is not None:
            told.append((whole, lever))
    return sorted(told, key=_dearness)[:MOST_COMBINED]


def _distinct(changes: tuple[Change, ...]) -> bool:
    """Whether no two of them change the same."""
    keys = [key for change in changes for key in change.keys]
    return len({change.group for change in changes}) == len(changes) and len(set(keys)) == len(keys)


def _reached(only: _Asked, changes: tuple[Change, ...]) -> tuple[float, Change, tuple[Change, ...]]:
    """Share of the GPU that is needed with all of `changes`, or `SOLVED`, or `FITS`; them as one; and each."""
    ordered = tuple(sorted(changes, key=lambda change: change.worth))
    whole = together(ordered)
    plan = only.plan(whole.keys)
    row = closest([row for row in plan.rows if not row.here]) if plan else None
    needed = float("inf") if row is None else SOLVED if row.rank else FITS if row.answer.fits else _excess(row)
    return needed, whole, ordered


def _with_other_dtype(asked: _Asked) -> list[Lever]:
    """A compute dtype the GPUs have, as the first lever and as the basis of the others."""
    plan = asked.plan({"dtype": None})
    near = closest(plan.rows) if plan else None
    if plan is None or near is None:
        return []
    change = {"dtype": near.answer.assumed.get("dtype", "fp16")}
    result = f"then {near.gpu} fits" if near.rank else f"then {near.gpu} {near.why}"
    first = Lever(change=change, text=f"compute in {change['dtype']}: {result}", gpu=near.gpu if near.rank else None)
    if near.rank:
        return [first]
    rest = levers_for(changed(asked.workload, change), asked.architecture, asked.sources, plan.rows, asked.make_plan)
    words = f"compute in {change['dtype']} + "
    more = [msgspec.structs.replace(lever, change=change | lever.change, text=words + lever.text) for lever in rest]
    return [*(lever for lever in more if lever.gpu), first, *(lever for lever in more if not lever.gpu)]


def with_hints(
    workload: Workload, architecture: Architecture, sources: Sources, rows: list[PlanRow], make_plan: Callable[..., Plan]
) -> list[PlanRow]:
    """`rows` with the cheapest single change that would make each unsolved GPU a solution, judged by the same engine."""
    pending = {row.gpu for row in rows if row.rank is None and not row.here and row.answer.memory_bytes is not None}
    asked = _Asked(workload, architecture, sources, make_plan)
    hints: dict[str, str] = {}
    for change in changes_of(workload):
        if not pending:
            break
        if "gpus_considered" in change.keys or (
            change.costs == "job" and not (change.group == "adapters" and workload.task == "finetune")
        ):
            continue
        plan = asked.plan(change.keys | {"gpus_considered": sorted(pending)})
        for row in plan.rows if plan else ():
            if row.rank and row.gpu in pending and not row.here:
                hints[row.gpu] = _hint(asked, change, row)
                pending.discard(row.gpu)
    return [
        msgspec.structs.replace(row, why=f"{row.why} → {hints[row.gpu]}")
        if row.rank is None and row.gpu in hints and not row.here
        else row
        for row in rows
    ]


def _hint(asked: _Asked, change: Change, row: PlanRow) -> str:
    count = row.answer.layout.gpus if row.answer.layout else 1
    text = f"{'more GPUs' if 'max_gpus' in change.keys else change.text} would do, on {count:,}"
    if change.costs not in {"time", "precision"}:
        return text
    weighed = weigh(
        asked.workload, changed(asked.workload, change.keys), asked.architecture, asked.sources, row, change.keys, as_planned=True
    )
    slower = weighed.slowdown if weighed and weighed.slowdown else 0.0
    return f"{text}, {percent_text(slower)} slower" if slower >= 0.005 else text
