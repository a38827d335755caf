"""A table as lines of plain text that fit a number of cells.

If it is too wide, whole columns are left out, the least important first; a figure is never cut.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

import msgspec

from planner.present.cells import Column, Table
from planner.text import one_line

GAP = "  "
"""Space between two columns."""


class TextColumn(msgspec.Struct, frozen=True):
    """A column with the texts of its cells."""

    column: Column[Any]
    cells: Sequence[str]
    natural_width: int
    """Width of its widest text."""

    @property
    def smallest_width(self) -> int:
        """Minimum width: its natural width, or less if its words may be folded."""
        least = self.column.least_width
        return self.natural_width if least is None else min(self.natural_width, max(least, len(self.column.title)))


class TextTable(msgspec.Struct, frozen=True):
    """Columns that fit, with their widths, and columns that were left out."""

    columns: tuple[TextColumn, ...]
    widths: tuple[int, ...]
    left_out: tuple[Column[Any], ...]

    def head(self) -> str:
        """Line of titles."""
        return self._line([one_line(column.column.title) for column in self.columns])

    def rows(self) -> list[list[str]]:
        """Lines of every row; several if a text was folded."""
        return [self._row(cells) for cells in zip(*(column.cells for column in self.columns), strict=True)]

    def _row(self, cells: Sequence[str]) -> list[str]:
        folded = [
            textwrap.wrap(cell, width, break_on_hyphens=" " not in cell) or [""]
            if column.column.least_width is not None
            else [cell]
            for column, cell, width in zip(self.columns, cells, self.widths, strict=True)
        ]
        height = max(map(len, folded))
        return [self._line([lines[number] if number < len(lines) else "" for lines in folded]) for number in range(height)]

    def _line(self, cells: Sequence[str]) -> str:
        from rich.cells import cell_len

        padded = []
        for column, cell, width in zip(self.columns, cells, self.widths, strict=True):
            space = " " * (width - cell_len(cell))
            padded.append(space + cell if column.column.right else cell + space)
        return GAP.join(padded).rstrip()


def fitted(table: Table[Any], width: int) -> TextTable:
    """`table` on lines of at most `width` characters; the last remaining column is never left out."""
    every = [_measured(column, table.items) for column in table.columns]
    kept = list(every)
    while len(kept) > 1 and _total([column.smallest_width for column in kept]) > width:
        lowest = min(column.column.priority for column in kept)
        kept.remove(next(column for column in reversed(kept) if column.column.priority == lowest))
    widths = [column.smallest_width for column in kept]
    spare = width - _total(widths)
    for number, column in enumerate(kept):
        grown = min(column.natural_width, widths[number] + max(0, spare))
        spare -= grown - widths[number]
        widths[number] = grown
    ids = {column.column.id for column in kept}
    return TextTable(tuple(kept), tuple(widths), tuple(column for column in table.columns if column.id not in ids))


def _measured(column: Column[Any], items: Sequence[Any]) -> TextColumn:
    from rich.cells import cell_len

    cells = [column.text(item) for item in items]
    return TextColumn(column, cells, max(map(cell_len, (one_line(column.title), *cells))))


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(GAP) * (len(widths) - 1)
