"""A canvas for charts in terminal cells: axes, lines, marks and labelled ticks.

Braille has two by four dots per cell; with ASCII one character is drawn per cell. Later drawing covers earlier.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from planner.present.drawing.chart import Axis, Point, tick_label

BRAILLE = 0x2800
DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""Bit of a braille cell by row and column of its dot."""
GUIDES = frozenset("┈┊")
"""Characters of straight lines across the chart, which curves overwrite."""
TICK_GAP = 2
"""Blank cells between two labels of the x axis."""

Run = tuple[str, str]
"""Text and its style."""


class Plot:
    """A chart of `width` by `height` cells including labels. Styles are names that the caller maps to colours."""

    def __init__(self, width: int, height: int, x: Axis, y: Axis, *, ascii_only: bool = False, quiet: str = "$quiet") -> None:
        self.x, self.y = x, y
        self._ascii, self._quiet = ascii_only, quiet
        self._y_ticks = y.ticks(max(3, (height - 2) // 2))
        self._margin = max((len(tick_label(y, tick)) for tick in self._y_ticks), default=0) + 1
        self.columns, self.rows = max(1, width - self._margin - 1), max(1, height - 2)
        self._dots = [[0] * self.columns for _ in range(self.rows)]
        self._signs = [[""] * self.columns for _ in range(self.rows)]
        self._styles = [[""] * self.columns for _ in range(self.rows)]

    def line(self, points: Sequence[Point], style: str, *, every: int = 1, sign: str = ".") -> None:
        """Draw straight lines between the points, with only `every` second, third … dot; `sign` is the character with ASCII."""
        across, down = (1, 1) if self._ascii else (2, 4)
        step = 0
        for (x0, y0), (x1, y1) in pairwise(points):
            from_column, to_column = self.x.place(x0) * self.columns * across, self.x.place(x1) * self.columns * across
            from_row, to_row = (1 - self.y.place(y0)) * self.rows * down, (1 - self.y.place(y1)) * self.rows * down
            count = max(1, math.ceil(max(abs(to_column - from_column), abs(to_row - from_row))))
            for number in range(count):
                share = number / count
                step += 1
                if step % every == 0:
                    column, row = from_column + (to_column - from_column) * share, from_row + (to_row - from_row) * share
                    self._dot(_inside(column, self.columns * across), _inside(row, self.rows * down), style, sign)

    def mark(self, x: float, y: float, sign: str, style: str) -> None:
        """Draw one character at a point."""
        column, row = self._cell(x, y)
        if 0 <= column < self.columns and 0 <= row < self.rows:
            self._signs[row][column], self._styles[row][column] = sign, style

    def level(self, y: float, label: str, style: str) -> None:
        """Draw a horizontal line with its label above its right end."""
        row = _inside((1 - self.y.place(y)) * self.rows, self.rows)
        if not 0 <= row < self.rows:
            return
        for column in range(self.columns):
            if not self._signs[row][column]:
                self._signs[row][column], self._styles[row][column] = "-" if self._ascii else "┈", style
        self.write(max(0, self.columns - len(label)), max(0, row - 1), label, style)

    def vertical(self, x: float, label: str, style: str, *, at_foot: bool = False) -> None:
        """Draw a vertical line with its label next to its upper or lower end."""
        column = math.floor(self.x.place(x) * self.columns)
        if not 0 <= column < self.columns:
            return
        for row in range(self.rows):
            if not self._signs[row][column]:
                self._signs[row][column], self._styles[row][column] = "|" if self._ascii else "┊", style
        start = column + 1 if column + 1 + len(label) <= self.columns else max(0, column - len(label))
        self.write(start, self.rows - 1 if at_foot else 0, label, style)

    def write(self, column: int, row: int, text: str, style: str) -> None:
        """Write text from a cell on; a part that does not fit is cut."""
        for place, sign in enumerate(text[: max(0, self.columns - column)]):
            self._signs[row][column + place], self._styles[row][column + place] = sign, style

    def runs(self) -> list[list[Run]]:
        """Rows from top to bottom; the ticks of x are last."""
        labels = {self._cell(self.x.low, tick)[1]: tick_label(self.y, tick) for tick in self._y_ticks}
        corner, down, tick = ("+", "|", "+") if self._ascii else ("└", "│", "┤")
        drawn = []
        for row in range(self.rows):
            label = labels.get(row, "")
            drawn.append([(f"{label:>{self._margin}}{tick if label else down}", self._quiet), *self._runs(row)])
        drawn.append([(" " * self._margin + corner + self._floor(), self._quiet)])
        drawn.append([(" " * (self._margin + 1) + self._x_labels(), self._quiet)])
        return drawn

    def _runs(self, row: int) -> list[Run]:
        """Cells of a row, grouped by style."""
        runs: list[Run] = []
        for column in range(self.columns):
            dots = self._dots[row][column]
            cell = self._signs[row][column] or (chr(BRAILLE + dots) if dots else " ")
            style = self._styles[row][column]
            if runs and runs[-1][1] == style:
                runs[-1] = (runs[-1][0] + cell, style)
            else:
                runs.append((cell, style))
        return runs

    def _dot(self, column: int, row: int, style: str, sign: str) -> None:
        across, down = (1, 1) if self._ascii else (2, 4)
        cell, line = column // across, row // down
        if not (0 <= cell < self.columns and 0 <= line < self.rows):
            return
        if self._ascii:
            self._signs[line][cell] = sign
        else:
            self._dots[line][cell] |= DOTS[row % down][column % across]
            if self._signs[line][cell] in GUIDES:
                self._signs[line][cell] = ""
            if self._signs[line][cell]:  # a label keeps its colour
                return
        self._styles[line][cell] = style

    def _cell(self, x: float, y: float) -> tuple[int, int]:
        return _inside(self.x.place(x) * self.columns, self.columns), _inside((1 - self.y.place(y)) * self.rows, self.rows)

    def _x_ticks(self) -> list[tuple[int, int, str]]:
        """Column, column of the label, and label of ticks with room; a label starts at its tick or ends with the axis."""
        for most in range(max(2, self.columns // 4), 1, -1):
            found = []
            for tick in self.x.ticks(most):
                column, label = _inside(self.x.place(tick) * self.columns, self.columns), tick_label(self.x, tick)
                found.append((column, max(0, min(column, self.columns - len(label))), label))
            if found[-1][0] != found[-1][1] and not _apart(found):  # there is no room for the last label
                found.pop()
            if _apart(found):
                return found
        return found[:1]

    def _floor(self) -> str:
        cells = ["-" if self._ascii else "─"] * self.columns
        for column, *_ in self._x_ticks():
            cells[column] = "+" if self._ascii else "┬"
        return "".join(cells)

    def _x_labels(self) -> str:
        text = ""
        for _, begin, label in self._x_ticks():
            text += " " * (begin - len(text)) + label
        return text


def _apart(ticks: Sequence[tuple[int, int, str]]) -> bool:
    """True if there is a gap between the labels of ticks."""
    return all(begin + len(label) + TICK_GAP <= after for (_, begin, label), (_, after, _) in pairwise(ticks))


def _inside(place: float, cells: int) -> int:
    """Number of the cell at `place`; the end belongs to the last cell."""
    return cells - 1 if cells <= place <= cells + 1e-6 else math.floor(place)
