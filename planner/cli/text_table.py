"""Columns of text fitted to a width: whole columns go, the least telling first; a figure is never cut."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

GAP = "  "
"""Between two columns."""


@dataclass(frozen=True, slots=True)
class TextColumn:
    """One column of a table for people: its title and a cell for every row."""

    title: str
    cells: Sequence[str]
    right: bool = False
    keep: int = 100
    """Columns with the lowest number are left out first; of equals, the rightmost."""
    least_width: int | None = None
    """Width in cells to which it may be folded onto more lines; None: it is never folded."""

    def natural_width(self) -> int:
        """Cells its widest text takes."""
        from rich.cells import cell_len

        return max(map(cell_len, (self.title, *self.cells)))

    def smallest_width(self) -> int:
        """Cells it takes at least."""
        natural = self.natural_width()
        return natural if self.least_width is None else min(natural, max(self.least_width, len(self.title)))


@dataclass(frozen=True, slots=True)
class TextTable:
    """The columns that fit, each with its width, and the titles of those that do not."""

    columns: tuple[TextColumn, ...]
    widths: tuple[int, ...]
    left_out: tuple[str, ...]

    def head(self) -> str:
        """The line of titles."""
        return self._line([column.title for column in self.columns])

    def rows(self) -> list[list[str]]:
        """The lines of every row: one, or more where a text was folded."""
        count = len(self.columns[0].cells) if self.columns else 0
        return [self._row([column.cells[number] for column in self.columns]) for number in range(count)]

    def _row(self, cells: Sequence[str]) -> list[str]:
        folded = [
            textwrap.wrap(cell, width) or [""] if column.least_width is not None else [cell]
            for column, cell, width in zip(self.columns, cells, self.widths, strict=True)
        ]
        height = max(map(len, folded))
        return [self._line([lines[number] if number < len(lines) else "" for lines in folded]) for number in range(height)]

    def _line(self, cells: Sequence[str]) -> str:
        from rich.cells import cell_len

        padded = []
        for column, cell, width in zip(self.columns, cells, self.widths, strict=True):
            space = " " * (width - cell_len(cell))
            padded.append(space + cell if column.right else cell + space)
        return GAP.join(padded).rstrip()


def fitted(columns: Sequence[TextColumn], width: int) -> TextTable:
    """`columns` on lines of at most `width` cells; the last one stays however narrow the terminal is."""
    kept = list(columns)
    smallest = {id(column): column.smallest_width() for column in columns}
    while len(kept) > 1 and _total([smallest[id(column)] for column in kept]) > width:
        lowest = min(column.keep for column in kept)
        kept.remove(next(column for column in reversed(kept) if column.keep == lowest))
    widths = [smallest[id(column)] for column in kept]
    spare = width - _total(widths)
    for number, column in enumerate(kept):
        grown = min(column.natural_width(), widths[number] + max(0, spare))
        spare -= grown - widths[number]
        widths[number] = grown
    return TextTable(tuple(kept), tuple(widths), tuple(column.title for column in columns if column not in kept))


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(GAP) * (len(widths) - 1)
