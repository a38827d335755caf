"""Plans of a workload with some of its keys changed, each made once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import msgspec

from planner.engine.answers.plan import Plan, PlanRow
from planner.engine.evaluate.task import Supply, Task
from planner.engine.levers.changes import Change, changes_of
from planner.engine.search.plan import make_plan, solutions
from planner.engine.search.rows.row import plan_rows
from planner.engine.search.selection import Choice, chosen_parts
from planner.errors import UserError
from planner.workload.tasks import Workload

Keys = dict[str, Any]
"""Keys of a workload and their new values."""


def changed(workload: Workload, keys: Keys) -> Workload:
    """`workload` with other values for `keys`."""
    return msgspec.convert(msgspec.to_builtins(workload) | msgspec.to_builtins(keys), Workload)


class ChangedPlans(msgspec.Struct, frozen=True, dict=True):
    """Task as given, and the plans for it with changes."""

    task: Task
    supply: Supply

    @cached_property
    def changes(self) -> list[Change]:
        """Every single change of the task as given."""
        return changes_of(self.task.workload, self.task.models.main.stored_as)

    @cached_property
    def _tasks(self) -> dict[str, Task]:
        return {}

    @cached_property
    def _plans(self) -> dict[str, Plan | None]:
        return {}

    def with_keys(self, keys: Keys) -> Task:
        """Task with `keys` changed; where there are none, the task as it is."""
        if not keys:
            return self.task
        name = _name(keys)
        if name not in self._tasks:
            workload = self.task.workload
            price_of_named = isinstance(workload.price_usd_per_gpu_h, float)
            if (
                price_of_named and keys.get("gpus_considered") and not workload.gpus_considered
            ):  # it does not belong to the GPUs named now
                keys = keys | {"price_usd_per_gpu_h": None}
            self._tasks[name] = self.task.changed(changed(workload, keys))
        return self._tasks[name]

    def plan(self, keys: Keys) -> Plan | None:
        """Plan with `keys` changed, by closed formulas only; None if the workload cannot have such values."""
        name = _name(keys)
        if name not in self._plans:
            try:
                self._plans[name] = make_plan(self.with_keys(keys), self.supply, simulated=False)
            except UserError:
                self._plans[name] = None
        return self._plans[name]

    def whole_plan(self, keys: Keys) -> Plan | None:
        """Plan with `keys` changed as a command makes it, with its best services simulated."""
        try:
            return make_plan(self.with_keys(keys), self.supply)
        except UserError:
            return None

    def solutions(self, keys: Keys, *, simulated: bool = False, below_usd_per_h: float | None = None) -> list[Choice]:
        """Candidates that are solutions with `keys` changed, in order, without this machine; see `search.plan.solutions`."""
        try:
            found = solutions(self.with_keys(keys), self.supply, simulated=simulated, below_usd_per_h=below_usd_per_h)
        except UserError:
            return []
        return [choice for choice in found if not choice.node_type.here]

    def rows(self, choices: Sequence[Choice]) -> list[PlanRow]:
        """Rows of a plan for `choices`."""
        return plan_rows(choices, chosen_parts(choices), self.supply.spec_chip)

    def on_gpus(self, names: list[str]) -> ChangedPlans:
        """Plans of the task restricted to these GPUs."""
        return ChangedPlans(self.with_keys({"gpus_considered": names}), self.supply)


def _name(keys: Keys) -> str:
    return json.dumps(msgspec.to_builtins(keys), sort_keys=True)
