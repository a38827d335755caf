"""The table of candidates, whose attributes are arrays of float64.

Every attribute is written once, as a field of type `N`: `float` in the record of one thing, an array in the columns of many.
Attributes that all rows share (one model, one job) have length 1 and broadcast. Formulas are written over these columns alone;
one candidate is a table of one row.
"""

from planner.engine.columns.arrays import Flags, Floats, Rows, added
from planner.engine.columns.layout import LayoutColumns
from planner.engine.columns.table import Table

__all__ = ["Flags", "Floats", "LayoutColumns", "Rows", "Table", "added"]
