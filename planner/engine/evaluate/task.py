"""A workload with the architectures of its models, resolved once for each compute dtype."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import msgspec

from planner.engine.answers.plan import PlanRow
from planner.engine.job.job import Job
from planner.engine.job.resolve import resolve
from planner.workload.architecture import Models
from planner.workload.tasks import Dtype, Workload

PLAN_HEADROOM = 0.1
"""Share of the usable memory that a plan leaves free for fragmentation when the workload does not say."""


class Task(msgspec.Struct, frozen=True, dict=True):
    """A workload that a plan is made for."""

    workload: Workload
    models: Models

    @cached_property
    def _jobs(self) -> dict[str | None, Job]:
        return {}

    @cached_property
    def searches(self) -> dict[tuple[int, bytes], Any]:
        """Results of the search for this task, kept for tasks that differ from it in little."""
        return {}

    def changed(self, workload: Workload) -> Task:
        """A task for `workload`, a changed copy of this task's, with the same models and the same kept results of the search."""
        task = Task(workload, self.models)
        task.__dict__["searches"] = self.searches
        return task

    def job(self, dtype: Dtype | None = None, where: str = "") -> Job:
        """The job computed in `dtype`; None: as the workload says, or by default.

        Raises `UserError` naming each value that is missing, out of range or contradictory; `where` is what it says they are in.
        """
        chosen = self.workload.dtype or dtype
        if chosen not in self._jobs:
            workload = msgspec.structs.replace(self.workload, dtype=chosen)
            self._jobs[chosen] = resolve(workload, self.models, where, headroom=PLAN_HEADROOM)
        return self._jobs[chosen]

    def job_of(self, row: PlanRow) -> Job:
        """The job of `row`, a row of the plan for this task."""
        return self.job(row.answer.assumed.get("dtype"))
