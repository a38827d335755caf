"""Columns wider than the screen: which of them are in sight, and how far they are shifted."""

from __future__ import annotations

from itertools import accumulate

import msgspec
from rich.segment import Segment
from textual.strip import Strip

from widgets.panes.ranking.columns import Fitted

FROZEN = ("rank", "gpu")
"""Columns that stay where they are while the others are shifted."""
SCROLL_BAR, SIGN = 1, 3
"""Cells beside the columns: of the scroll bar, and of the sign that there are more of them, with the blank before it."""


class Sideways(msgspec.Struct, frozen=True):
    """A table of fixed columns in `width` cells, `hidden` of those that can be shifted out of sight at the left."""

    fitted: Fitted
    width: int
    hidden: int = 0

    @property
    def frozen_cells(self) -> int:
        """Cells of the cursor's sign and of the columns that stay."""
        return 1 + sum(cells + self.fitted.gap for column, cells in self.fitted.columns if column.id in FROZEN)

    @property
    def ends(self) -> list[int]:
        """Start of each column behind the frozen ones, counted from the first of them, and the end of the last one."""
        free = [cells + self.fitted.gap for column, cells in self.fitted.columns if column.id not in FROZEN]
        return [0, *accumulate(free)]

    @property
    def room(self) -> int:
        """Cells behind the frozen columns in which the others have to be whole."""
        return self.width - self.frozen_cells - SCROLL_BAR - SIGN

    @property
    def cells(self) -> int:
        """Cells of a whole line: what is in sight, and what is not."""
        return max(self.width, self.frozen_cells + self.ends[-1])

    def hide(self, count: int) -> int:
        """Number of columns that can be out of sight, as far as that brings others into sight; at most `count`."""
        ends, room = self.ends, self.room
        rest = (number for number, end in enumerate(ends) if ends[-1] - self.fitted.gap - end <= room)
        return min(max(0, count), next(rest, len(ends) - 1))

    def to_show(self, name: str | None) -> int:
        """Number of columns that have to be out of sight for the column of this id to be whole."""
        names = [column.id for column, _ in self.fitted.columns if column.id not in FROZEN]
        if name not in names:
            return self.hidden
        index, ends, room = names.index(name), self.ends, self.room
        least = next((number for number, end in enumerate(ends) if ends[index + 1] - self.fitted.gap - end <= room), index)
        return max(least, min(self.hidden, index))

    @property
    def in_sight(self) -> tuple[int, int]:
        """Cells of a whole line, behind the frozen ones, that are in sight: whole columns, or none where there is no room."""
        ends, frozen = self.ends, self.frozen_cells
        begin = ends[self.hidden]
        end = max((end for end in ends if begin <= end <= begin + self.room + self.fitted.gap), default=begin)
        return frozen + begin, frozen + end

    def crop(self, strip: Strip, sign: str = "") -> Strip:
        """Part of a whole line that is in sight; `sign` stands on the sides at which columns are not."""
        (begin, end), gap, frozen = self.in_sight, self.fitted.gap, self.frozen_cells
        style = next((segment.style for segment in reversed(list(strip))), None)
        parts = [strip.crop(0, frozen), strip.crop(begin, end)]
        if sign and self.hidden:
            parts[0] = Strip([*strip.crop(0, frozen - gap - len(sign)), Segment(sign + " " * gap, style)])
        if sign and end < frozen + self.ends[-1]:
            parts[1] = Strip([*strip.crop(begin, end - gap), Segment(f" {sign}", style)])
        return Strip.join(parts).adjust_cell_length(self.width, style)

    def column_at(self, x: int) -> str | None:
        """Column under a cell behind the cursor's sign."""
        x += self.ends[self.hidden] if x >= self.frozen_cells - 1 else 0
        position = 0
        for column, cells in self.fitted.columns:
            if position <= x < position + cells + self.fitted.gap:
                return column.id
            position += cells + self.fitted.gap
        return None
