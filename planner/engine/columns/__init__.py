"""The table of candidates, whose attributes are arrays of float64.

Its parts are the records of `engine.records` with an array for every number. Attributes that all rows share (one model, one job)
have length 1 and broadcast. Formulas are written once over these columns; one candidate is a table of one row.
"""

from planner.engine.columns.arrays import Flags, Floats, Rows, added, distinct, full, numbered
from planner.engine.columns.table import LayoutColumns, Table

__all__ = ["Flags", "Floats", "LayoutColumns", "Rows", "Table", "added", "distinct", "full", "numbered"]
