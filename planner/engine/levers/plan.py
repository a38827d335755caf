"""A plan with suggestions: changes that make the workload fit or cheaper, and a hint on each row that is no solution."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from planner.engine.answers.plan import Plan, PlanRow
from planner.engine.evaluate.task import Supply, Task
from planner.engine.levers.changed_plans import ChangedPlans
from planner.engine.levers.changes import Change
from planner.engine.levers.levers import levers_for
from planner.engine.levers.savings import savings_for
from planner.engine.levers.tradeoff import Tradeoff, tradeoffs_of_change
from planner.engine.search.plan import cut
from planner.engine.search.selection import Choice
from planner.units import percent_text
from planner.workload.tasks import Workload

LEAST_SLOWDOWN = 0.005
"""Relative slowdown below which a change is not called slower."""


def with_levers(
    plan: Plan, task: Task, supply: Supply, *, top: int | None, each_gpu: bool = False, levers: bool, hints: bool
) -> Plan:
    """The whole `plan` for `task` cut to `top` rows, or GPUs (this machine's stay), with suggestions.

    `levers`: when nothing fits, search for changes that help. `hints`: name such a change for every GPU that is no solution, and, where
    something fits, changes that make it cheaper.
    """
    plans = ChangedPlans(task, supply)
    shown = cut(plan, top, each_gpu=each_gpu)
    if hints:
        shown = msgspec.structs.replace(shown, rows=_with_hints(plans, shown.rows))
    if levers and not any(row.rank for row in plan.rows):
        return msgspec.structs.replace(shown, levers=levers_for(plans, plan.rows))
    return msgspec.structs.replace(shown, levers=savings_for(plans, plan)) if levers and hints else shown


def _with_hints(plans: ChangedPlans, rows: Sequence[PlanRow]) -> list[PlanRow]:
    """`rows`, where each that is no solution has the change that would make its GPU one, evaluated by the same engine."""
    pending = {_place(row) for row in rows if row.rank is None and not row.here and row.answer.memory_bytes is not None}
    hints: dict[tuple[str, str], str] = {}
    for change in plans.changes:
        if not pending:
            break
        if not _is_hint(change, plans.task.workload):
            continue
        keys = change.keys | {"gpus_considered": sorted({gpu for gpu, _ in pending})}
        solved = {choice.node_type.place: choice for choice in reversed(plans.solutions(keys)) if choice.node_type.place in pending}
        hints |= zip(solved, _hints(plans, change, keys, list(solved.values())), strict=True)
        pending -= solved.keys()
    return [
        msgspec.structs.replace(row, why=f"{row.why} → {hints[_place(row)]}")
        if row.rank is None and _place(row) in hints and not row.here
        else row
        for row in rows
    ]


def _place(row: PlanRow) -> tuple[str, str]:
    """GPU and place of `row`, as `NodeType.place`: hints for rented GPUs do not apply to owned ones."""
    return row.gpu, "" if row.owned is None else "bought" if row.owned.bought else "own"


def _is_hint(change: Change, workload: Workload) -> bool:
    """True if `change` leaves the GPU and the job as they are; adapters count, because most fine-tuning uses them."""
    if "gpus_considered" in change.keys:
        return False
    return change.costs != "job" or (change.group == "adapters" and workload.task == "finetune")


def _hints(plans: ChangedPlans, change: Change, keys: dict[str, object], solved: Sequence[Choice]) -> Iterator[str]:
    """A sentence on each of the `solved` candidates of the plan with `keys` changed: the GPUs it needs, and how much slower `change` makes it."""
    found: list[Tradeoff | None] = [None] * len(solved)
    if change.costs in {"time", "precision"}:
        rows = plans.rows(solved)
        found = tradeoffs_of_change(plans.task, plans.with_keys(keys), plans.supply, rows, change.keys, as_planned=True)
    words = "more GPUs" if "max_gpus" in change.keys else change.text
    words += " may do" if plans.task.workload.request_rate_per_s else " would do"  # a queue is screened here, not simulated
    for choice, tradeoff in zip(solved, found, strict=True):
        count, slower = round(float(choice.deployments.gpus[choice.row])), tradeoff.slowdown if tradeoff else 0.0
        text = f"{words}, on {count:,} GPU{'s' * (count != 1)}"
        yield f"{text}, {percent_text(slower)} slower" if slower >= LEAST_SLOWDOWN else text
