"""Rows of evaluated candidates that become answers: their jobs, their chips, and their part of each column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from planner.engine.columns import Rows
from planner.engine.evaluate.evaluation import Evaluated
from planner.engine.job.job import Job
from planner.engine.performance.operators.chip import Chip

T = TypeVar("T", bound=np.generic)


class Chosen(NamedTuple):
    """Rows `numbers` of `e`; called with a column of `e` it gives theirs."""

    e: Evaluated
    numbers: Rows
    jobs: list[Job]
    """The job of each row."""
    chips: list[Chip]
    """The chip of each row."""

    @classmethod
    def of(cls, e: Evaluated, rows: Sequence[int]) -> Chosen:
        """The rows `rows` of `e`."""
        c, index = e.candidates, np.array(rows, dtype=np.int64)
        jobs, chips = c.job_index[index].tolist(), c.chip_index[index].tolist()
        return cls(e, index, [c.jobs[number] for number in jobs], [c.chips[number] for number in chips])

    def __call__(self, column: NDArray[T]) -> NDArray[T]:
        """The cells of `column` in these rows; a column of length 1 is shared by all rows."""
        return column[self.numbers] if column.size > 1 else np.full(self.numbers.size, column.item(), dtype=column.dtype)
