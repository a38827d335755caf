"""Candidates before evaluation: jobs, chips and layouts, and which of them each row of a table has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from planner.engine.columns import LayoutColumns, Rows, Table
from planner.engine.columns.table import ChipColumns, DraftColumns, EngineColumns, FootprintColumns, JobColumns, ModelColumns
from planner.engine.job.job import Job
from planner.engine.performance.operators.chip import Chip

R = TypeVar("R")


@dataclass(frozen=True)
class Candidates:
    """Records and which of them each row uses (index arrays of shape [rows])."""

    jobs: Sequence[Job]
    job_index: Rows
    chips: Sequence[Chip]
    chip_index: Rows
    layout: LayoutColumns

    def table(self) -> Table:
        """The candidates as columns; a record that all rows use stays shared."""
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
    """(the records in use, which of them each row uses); all records where there are no fewer rows."""
    if index.size >= len(records):
        return records, index
    used = sorted(set(index.tolist()))
    return [records[number] for number in used], np.searchsorted(used, index)
