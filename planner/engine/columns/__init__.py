"""Table of candidates, whose attributes are arrays of float64.

Its parts are the records of `engine.records` with an array for every number. Attributes that all rows share (one model, one job)
have length 1 and broadcast. Formulas are written once over these columns; one candidate is a table of one row.
"""

from planner.engine.columns.arrays import (
    Flags,
    Floats,
    RowRecord,
    Rows,
    added,
    distinct,
    full,
    joined,
    numbered,
    positive,
    records,
    soft_maximum,
)
from planner.engine.columns.table import LayoutColumns, Table

__all__ = [
    "Flags", "Floats", "LayoutColumns", "RowRecord", "Rows", "Table", "added", "distinct", "full", "joined", "numbered", "positive",
    "records", "soft_maximum",
]  # fmt: skip
