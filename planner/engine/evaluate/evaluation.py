"""Evaluation of a table of candidates: memory, time and rates as columns."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from planner.engine.columns import LayoutColumns, Rows, Table
from planner.engine.evaluate.candidates import Candidates
from planner.engine.evaluate.ranges import Ranges, ranges_of
from planner.engine.memory import MemoryColumns, memory_of
from planner.engine.performance.disaggregated import pool_demand, pool_times
from planner.engine.performance.prefill_decode.generation import ServeColumns, serve_of
from planner.engine.performance.simulation.summary import Queue
from planner.engine.performance.training import StepColumns, step_of
from planner.workload.tasks import trains


class Evaluated(msgspec.Struct, frozen=True):
    """Candidates with their memory and their times: a training `step`, or a `serve`d request."""

    candidates: Candidates
    table: Table
    memory: MemoryColumns
    step: StepColumns | None
    serve: ServeColumns | None
    ranges: Ranges
    """Spread of the times."""
    queue: Queue | None = None
    """Queue of requests, where they were simulated or replicas have pools."""

    def with_layout(self, layout: LayoutColumns) -> Evaluated:
        """A copy with other layout columns, without computing anything again."""
        return replace(self, candidates=replace(self.candidates, layout=layout), table=replace(self.table, layout=layout))


def evaluate(
    candidates: Candidates, memory: MemoryColumns | None = None, pass_group: Rows | None = None, table: Table | None = None
) -> Evaluated:
    """Memory, times and rates of candidates of one kind of task (all training, all fixed batches, or all continuous serving).

    `memory` and `table` are passed where they are known already. `pass_group`: see `alike` of `training.step_of` and of
    `passes.model_passes`.
    """
    table, first = table or candidates.table(), candidates.jobs[0]
    memory = memory or memory_of(table)
    if trains(first.task):
        step = step_of(table, pass_group)
        return Evaluated(candidates, table, memory, step, None, ranges_of(candidates, table, step))
    serve, queue = serve_of(table, continuous=first.task == "serve", alike=pass_group), None
    if first.workload.disaggregated and table.layout.prefill.any():
        serve, queue = pool_times(table, serve, pool_demand(candidates.jobs, candidates.job_index))
    return Evaluated(candidates, table, memory, None, serve, ranges_of(candidates, table, serve), queue)
