"""Lines of the ranking as strips of styled cells."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import msgspec
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from widgets.drawing.styles import ThemeStyles
from widgets.drawing.symbols import Symbols
from widgets.drawing.text import shorten_clauses, shorten_end
from widgets.panes.ranking.columns import DrawnColumn, Fitted, Piece
from widgets.panes.ranking.grouping import Key, Line, Order, row_key

if TYPE_CHECKING:
    from textual.app import App

    from planner.engine.answers.plan import PlanRow

HEADER_ROWS = 1
TITLE_INDENT = {"rate": 9, "latency": 2}
"""Cells that a title stands left of its column's end, so that it is above the values."""
SHORTER = (" first", " 1st")
"""Words of a title, and how they are written where they have no room: 'p95 1st'."""
MANY = "9+"
"""Number of folded rows where there is room for one digit."""
LIMITED = "limited by "
"""Begin of the part of a reason that says what limits a row."""
SAID_BY_SIGN = {"misses-target": "misses: ", "does-not-fit": "does not fit: "}
"""Verdict -> how its reasons begin."""
INDENT = "  "
"""Before the layout of a row below another one of its GPU."""


class Painter(msgspec.Struct):
    """Draws headings and rows with the symbols and colours there are."""

    symbols: Symbols
    style: ThemeStyles

    def themed(self, app: App[Any]) -> Painter:
        """Take the colours that the app has now."""
        self.style = self.style.of(app)
        return self

    def header(self, fitted: Fitted, order: Order, ranked_by: str, width: int, ground: Style) -> Strip:
        """Titles; that of the figure the rows are sorted by stands out."""
        base = ground + self.style("header") + self.style.band()
        segments = [Segment(" ", base)]
        for column, cells in fitted.columns:
            is_sorted = column.id == (order.column or ranked_by)
            mark = (self.symbols.descending if order.descending else self.symbols.ascending) if column.id == order.column else ""
            title = column.title if len(column.title) <= cells else column.title.replace(*SHORTER)
            indent = " " * TITLE_INDENT.get(column.id, 0)
            forms = (title + mark + indent[len(mark) :], title + mark, title)
            text = next((form for form in forms if len(form) <= cells), title[:cells])
            text = text.rjust(cells) if column.column.right else text.ljust(cells)
            if column.id == "more" and cells < len(title):  # wider than its figures: it begins in the room of the title before it
                text, before = title, segments.pop()
                segments.append(Segment(before.text[: cells - len(title)], before.style))
            segments.append(Segment(text + " " * fitted.gap, base + self.style("sorted") if is_sorted else base))
        return Strip(segments).adjust_cell_length(width, base)

    def blank(self, text: str, width: int, ground: Style) -> Strip:
        """A line without a row."""
        return Strip([Segment(text.ljust(width)[:width], ground + self.style("quiet"))], width)

    def line(
        self,
        line: Line,
        fitted: Fitted,
        width: int,
        ground: Style,
        *,
        current: bool,
        focused: bool,
        stale: bool,
        marked: Collection[Key],
        in_sight: tuple[int, int],
    ) -> Strip:
        """One row; where it is no solution its reason stands in the cells that are `in_sight`."""
        row, symbols, base = line.row, self.symbols, ground
        if current:
            base += self.style.cursor(focused=focused)
        elif stale:
            base += self.style("stale")
        is_marked = bool(marked) and row_key(row) in marked
        segments = [Segment(symbols.marked if is_marked else symbols.cursor if current else " ", base)]
        used, plain = 1, base.reverse or (stale and not current)
        for column, cells in fitted.columns:
            if row.rank is None and column.solutions_only:
                begin, end = max(used, in_sight[0]), in_sight[1]
                reason = shorten_clauses(without_sign(row), end - begin - 1, symbols.ellipsis)
                segments.append(Segment(" " * (begin - used), base))
                segments.append(Segment(reason, base if base.reverse else base + self.style("reason")))
                break
            pieces = self._pieces(line, column, cells)
            for text, name in pieces:
                segments.append(Segment(text, base if plain else base + self.style(name)))
            segments.append(Segment(" " * fitted.gap, base))
            used += sum(len(text) for text, _ in pieces) + fitted.gap
        else:
            if fitted.why:
                has_limit = any(column.id == "limit" for column, _ in fitted.columns)
                why = shorten_clauses(_without_limit(row.why) if has_limit else row.why, fitted.why - 1, symbols.ellipsis)
                segments.append(Segment(why, base if base.reverse else base + self.style("reason")))
        return Strip(segments).adjust_cell_length(width, base)

    def _pieces(self, line: Line, column: DrawnColumn, cells: int) -> list[Piece]:
        if column.id == "more":
            folded = f"+{line.folded}" if line.folded else ""
            return [((folded if len(folded) <= cells else MANY).rjust(cells), "quiet")]
        if line.inner and column.id == "gpu":
            layout = line.row.answer.layout
            return [(shorten_end(INDENT + (layout.text if layout else ""), cells, self.symbols.ellipsis).ljust(cells), "quiet")]
        return column.pieces(line.row, self.symbols, cells)


def without_sign(row: PlanRow) -> str:
    """Reason of a row that is no solution, without the words that the sign of its verdict stands for."""
    return row.why.removeprefix(SAID_BY_SIGN.get(row.verdict, ""))


def _without_limit(why: str) -> str:
    """Reason without what limits the row, which stands in a column of its own."""
    return "; ".join(part for part in why.split("; ") if not part.startswith(LIMITED))
