"""One row of evaluated candidates: its job, its chip, and the cells of its columns."""

from __future__ import annotations

from typing import NamedTuple

from planner.engine.columns import Floats
from planner.engine.evaluate.evaluation import Evaluated
from planner.engine.job.job import Job
from planner.engine.performance.operators.chip import Chip


class Row(NamedTuple):
    """Row `number` of `e`; called with a column it gives the cell."""

    e: Evaluated
    number: int
    job: Job
    chip: Chip

    @classmethod
    def of(cls, e: Evaluated, number: int) -> Row:
        """Row `number` of `e`."""
        c = e.candidates
        return cls(e, number, c.jobs[int(c.job_index[number])], c.chips[int(c.chip_index[number])])

    def __call__(self, column: Floats) -> float:
        """The cell of `column` in this row; a column of length 1 is shared by all rows."""
        return column.item(self.number if column.size > 1 else 0)
