"""Evaluates a table of candidates: memory, time and rates as columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from planner.engine.columns import Floats, LayoutColumns, Rows, Table, added
from planner.engine.columns.table import ChipColumns, DraftColumns, EngineColumns, FootprintColumns, JobColumns, ModelColumns
from planner.engine.evaluate.ranges import MODEL_SPREAD, formulas_share, network_spread
from planner.engine.job.job import Job
from planner.engine.memory import MemoryColumns, memory_of
from planner.engine.performance.disaggregated import asked_of, pooled
from planner.engine.performance.operators.chip import Chip
from planner.engine.performance.prefill_decode.generation import ServeColumns, serve_of
from planner.engine.performance.simulation.queueing import Queue
from planner.engine.performance.training import StepColumns, step_of

R = TypeVar("R")


@dataclass(frozen=True)
class Candidates:
    """Candidates before evaluation: records and which of them each row uses (index arrays of shape [rows])."""

    jobs: Sequence[Job]
    job_index: Rows
    chips: Sequence[Chip]
    chip_index: Rows
    layout: LayoutColumns

    def table(self) -> Table:
        """As columns."""
        jobs, job_index = _used(self.jobs, self.job_index)
        chips, chip_index = _used(self.chips, self.chip_index)
        drafting = [job.draft or job for job in jobs] if any(job.draft for job in jobs) else []
        return Table(
            draft_model=ModelColumns.gather([of.architecture for of in drafting], job_index) if drafting else None,
            draft=DraftColumns.gather(drafting, job_index) if drafting else None,
            model=ModelColumns.gather([job.architecture for job in jobs], job_index),
            job=JobColumns.gather(jobs, job_index),
            footprint=FootprintColumns.gather([job.footprint for job in jobs], job_index),
            engine=EngineColumns.gather([job.engine for job in jobs], job_index),
            chip=ChipColumns.gather(chips, chip_index),
            layout=self.layout,
        )

    def take(self, keep: Rows) -> Candidates:
        """The rows `keep`."""
        return Candidates(self.jobs, self.job_index[keep], self.chips, self.chip_index[keep], self.layout.take(keep))


def _used(records: Sequence[R], index: Rows) -> tuple[Sequence[R], Rows]:
    """Those of `records` that a few rows are of, and which of them each is; one that all rows are of stays shared."""
    if index.size >= len(records):
        return records, index
    used = sorted(set(index.tolist()))
    return [records[number] for number in used], np.searchsorted(used, index)


@dataclass(frozen=True)
class Evaluated:
    """Candidates with their memory and, by the kind of task, their times."""

    candidates: Candidates
    table: Table
    memory: MemoryColumns
    step: StepColumns | None
    serve: ServeColumns | None
    spread: Floats
    """Half width of the logarithm of every time."""
    queue: Queue | None = None
    """Where requests were simulated, or replicas have pools."""

    def take(self, keep: Rows) -> Evaluated:
        """The rows `keep`, evaluated again."""
        return evaluate(self.candidates.take(keep))

    @property
    def seconds(self) -> Floats:
        """Of one step or one request."""
        return self.step.step_s if self.step else self.serve.request_s if self.serve else np.empty(0)


def evaluate(candidates: Candidates, memory: MemoryColumns | None = None, alike: Rows | None = None) -> Evaluated:
    """Evaluate candidates of one kind of task (all training, all fixed batches, or all continuous serving).

    `memory`: theirs, where it is known already. `alike`: see `training.step_of`.
    """
    table = candidates.table()
    task = candidates.jobs[0].task
    memory = memory or memory_of(table)
    step = step_of(table, alike) if task in {"train", "finetune"} else None
    serve = None if step else serve_of(table, continuous=task == "serve")
    queue = None
    if serve and candidates.jobs[0].workload.disaggregated and table.layout.prefill.any():
        serve, queue = pooled(table, serve, asked_of(candidates.jobs, candidates.job_index))
    seconds = step.step_s if step else serve.request_s if serve else np.ones(table.rows)
    bound = step.compute_bound if step else serve.compute_bound if serve else np.zeros(table.rows)
    share = np.clip(bound / np.where(seconds > 0, seconds, 1.0), 0, 1)
    own = np.array([formulas_share(chip) for chip in candidates.chips])[candidates.chip_index]
    model = np.array([MODEL_SPREAD[job.task] for job in candidates.jobs])[candidates.job_index] * own
    parts = (
        model,
        share * table.chip.flop_spread,
        (1 - share) * table.chip.bandwidth_spread,
        table.chip.train_spread * table.job.train,
        network_spread(table, step, serve),
    )
    spread = np.sqrt(added(np.broadcast_to(part, (table.rows,)) ** 2 for part in parts))
    return Evaluated(candidates, table, memory, step, serve, spread, queue)
