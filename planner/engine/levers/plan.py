"""A plan with what would help: changes that make the workload fit or cheaper, and a hint on each row that is no solution."""

from __future__ import annotations

import msgspec

from planner.engine.answers.plan import Plan
from planner.engine.evaluate.supply import Supply
from planner.engine.evaluate.task import Task
from planner.engine.levers.changed_plans import ChangedPlans
from planner.engine.levers.hints import with_hints
from planner.engine.levers.levers import levers_for
from planner.engine.levers.savings import savings_for
from planner.engine.search.plan import cut


def with_help(
    plan: Plan, task: Task, supply: Supply, *, top: int | None, each_gpu: bool = False, levers: bool, hints: bool
) -> Plan:
    """The whole `plan` for `task` cut to `top` rows, or GPUs (this machine's stay), and what would help.

    `levers`: when nothing fits, look for changes that help. `hints`: name such a change for every GPU that is no solution, and, where
    something fits, changes that make it cheaper.
    """
    plans = ChangedPlans(task, supply)
    shown = cut(plan, top, each_gpu=each_gpu)
    if hints:
        shown = msgspec.structs.replace(shown, rows=with_hints(plans, shown.rows))
    if levers and not any(row.rank for row in plan.rows):
        return msgspec.structs.replace(shown, levers=levers_for(plans, plan.rows))
    return msgspec.structs.replace(shown, levers=savings_for(plans, plan)) if levers and hints else shown
