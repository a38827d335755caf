"""The ranked table: drawn line by line, so a new plan or a moved cursor repaints only what it must."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, ClassVar

from rich.segment import Segment
from textual import events
from textual.binding import BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from widgets.actions.action import bindings
from widgets.actions.moves import TABLE
from widgets.drawing.styles import Paint
from widgets.drawing.symbols import UNICODE, Symbols
from widgets.drawing.text import shorten_end
from widgets.panes.ranking.columns import DrawnColumn, Fitted, columns_for, fit_columns

if TYPE_CHECKING:
    from planner.engine.answers.plan import Plan, PlanRow

HEADER_ROWS = 1
TITLE_INDENT = 5
"""Cells that the title of the throughput stands left of the column's end, so that it is above the values."""
FROZEN = ("rank", "gpu")
"""Columns that stay where they are while the others are shifted."""
Key = tuple[str, int, str, str]


def row_key(row: PlanRow) -> Key:
    """What makes a row the same row in the next plan."""
    layout = row.answer.layout
    place = f"{row.offer.provider} {row.offer.instance} {row.offer.region} {row.offer.market}" if row.offer else ""
    return row.gpu, layout.gpus if layout else 0, layout.text if layout else "", place


def matches(row: PlanRow, words: str) -> bool:
    """Whether a row contains every word (and none of the !words) in its GPU, layout, limit, provider or verdict."""
    layout = row.answer.layout
    offer = row.offer
    text = " ".join(
        (
            row.gpu,
            f"x{layout.gpus} {layout.text}" if layout else "",
            row.answer.bottleneck or "",
            f"{offer.provider} {offer.instance} {offer.region} {offer.market}" if offer else "",
            row.verdict,
            row.basis,
            "here" if row.here else "",
        )
    ).casefold()
    terms = words.casefold().split()
    return all((term[1:] not in text) if term.startswith("!") and len(term) > 1 else term in text for term in terms)


@dataclass(frozen=True, slots=True)
class Order:
    """What the table is sorted by; no column: as ranked."""

    column: str | None = None
    descending: bool = False


class Ranking(ScrollView, can_focus=True):
    """Rows of a plan with a cursor, an order and a filter."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(TABLE)]

    @dataclass
    class Highlighted(Message):
        """The cursor is on this row now; None: there is no row."""

        row: PlanRow | None

    @dataclass
    class Opened(Message):
        """The user wants to know why."""

        row: PlanRow

    @dataclass
    class Arranged(Message):
        """Order or filter changed."""

    def __init__(self, *, symbols: Symbols = UNICODE, id: str | None = None) -> None:  # noqa: A002  (Textual's name)
        super().__init__(id=id)
        self._symbols = symbols
        self._plan: Plan | None = None
        self._columns: tuple[DrawnColumn, ...] = ()
        self._fitted = Fitted()
        self._wide = False
        self._hidden = 0
        """Columns behind the frozen ones that are out of sight at the left."""
        self._rows: list[PlanRow] = []
        self._cursor = 0
        self._moved = False
        self._order = Order()
        self._filter = ""
        self._marked: list[Key] = []
        self._stale = False
        self._style = Paint({})

    @property
    def rows(self) -> Sequence[PlanRow]:
        """The rows shown, in the order shown."""
        return self._rows

    @property
    def highlighted(self) -> PlanRow | None:
        """The row under the cursor."""
        return self._rows[self._cursor] if self._rows else None

    @property
    def marked(self) -> list[PlanRow]:
        """The rows marked for comparison that are in the plan, in the order they were marked."""
        by_key = {row_key(row): row for row in (self._plan.rows if self._plan else ())}
        return [by_key[key] for key in self._marked if key in by_key]

    @property
    def order(self) -> Order:
        """What the rows are sorted by."""
        return self._order

    @property
    def order_words(self) -> str:
        """The same in words; empty: as ranked."""
        sorts_by = next((column.column.sorts_by for column in self._columns if column.id == self._order.column), "")
        return f"by {sorts_by}{', high first' if self._order.descending else ''}" if sorts_by else ""

    @property
    def filter_words(self) -> str:
        """The filter as typed."""
        return self._filter

    @property
    def wide(self) -> bool:
        """Whether every column is drawn, some of them out of sight."""
        return self._wide

    def toggle_wide(self) -> None:
        """Draw every column, to be shifted sideways, or those there is room for."""
        self._wide, self._hidden = not self._wide, 0
        self._fit()
        self.refresh()
        self.post_message(self.Arranged())

    def show(self, plan: Plan) -> None:
        """Show another plan; the cursor stays with its row once the user has moved it."""
        task = str(plan.task.get("task", ""))
        if self._plan is None or str(self._plan.task.get("task", "")) != task:
            self._order = Order()
        self._columns = columns_for(plan)
        self._plan, self._stale = plan, False
        self._arrange()

    def set_stale(self, stale: bool) -> None:
        """Dim the rows: they answer an older workload."""
        if stale != self._stale:
            self._stale = stale
            self.refresh()

    def sort_next(self) -> None:
        """Sort by the next column shown; after the last one, as ranked again."""
        names = [column.id for column, _ in self._fitted.columns if column.id != "rank"]
        index = names.index(self._order.column) + 1 if self._order.column in names else 0
        self._order = Order() if index >= len(names) else self._first_order(names[index])
        self._arrange()
        self._bring_into_sight(self._order.column)

    def reverse(self) -> None:
        """Turn the order round."""
        self._order = Order(self._order.column, not self._order.descending)
        self._arrange()

    def filter(self, words: str) -> None:
        """Show only rows that contain every word."""
        self._filter = words
        self._arrange()

    def _first_order(self, name: str) -> Order:
        column = next(column for column in self._columns if column.id == name)
        return Order(name, column.column.best_is_high)

    def _arrange(self) -> None:
        if self._plan is None:
            return
        before = self.highlighted
        rows = [row for row in self._plan.rows if matches(row, self._filter)]
        column = next((column for column in self._columns if column.id == (self._order.column or "rank")), None)
        if column is not None and self._order != Order():
            known = [row for row in rows if column.sort_key(row) is not None]
            known.sort(key=column.sort_key, reverse=self._order.descending)  # type: ignore[arg-type]  # one column, one type
            rows = known + [row for row in rows if column.sort_key(row) is None]
            rows.sort(key=lambda row: row.rank is None)
        self._rows = rows
        keys = [row_key(row) for row in rows]
        if before is not None and self._moved and row_key(before) in keys:
            self._cursor = keys.index(row_key(before))
        else:
            self._cursor = min(self._cursor, max(0, len(rows) - 1)) if self._moved else 0
        self._fit()
        self.virtual_size = Size(self.size.width, len(rows) + HEADER_ROWS)
        self._reveal()
        self.refresh()
        self.post_message(self.Highlighted(self.highlighted))
        self.post_message(self.Arranged())

    def _fit(self) -> None:
        rows = self._plan.rows if self._plan else []
        self._fitted = fit_columns(self._columns, self.size.width - 2, rows, every=self._wide)
        self._hide(self._hidden)

    @property
    def _frozen_cells(self) -> int:
        """Of the cursor's sign and the columns that stay."""
        return 1 + sum(cells + self._fitted.gap for column, cells in self._fitted.columns if column.id in FROZEN)

    @property
    def _ends(self) -> list[int]:
        """Where the columns behind the frozen ones begin, counted from the first of them, and where the last one ends."""
        free = [cells + self._fitted.gap for column, cells in self._fitted.columns if column.id not in FROZEN]
        return [0, *accumulate(free)]

    @property
    def _cells(self) -> int:
        """Of a whole line: what is in sight, and what is not."""
        if not self._wide:
            return self.size.width
        return max(self.size.width, self._frozen_cells + self._ends[-1])

    def _hide(self, count: int) -> None:
        """Take so many columns out of sight at the left, as far as that brings others into sight."""
        ends, room = self._ends, self.size.width - self._frozen_cells
        rest = (number for number, end in enumerate(ends) if ends[-1] - self._fitted.gap - end <= room)
        most = next(rest, len(ends) - 1) if self._wide else 0
        count = min(max(0, count), most)
        if count != self._hidden:
            self._hidden = count
            self.refresh()

    def action_shift(self, step: int) -> None:
        """Shift the columns by one; nothing where all of them are in sight."""
        self._hide(self._hidden + step)

    def _bring_into_sight(self, name: str | None) -> None:
        """Shift so far that the column of this id is whole."""
        names = [column.id for column, _ in self._fitted.columns if column.id not in FROZEN]
        if name not in names or not self._wide:
            return
        index, ends, room = names.index(name), self._ends, self.size.width - self._frozen_cells
        least = next((number for number, end in enumerate(ends) if ends[index + 1] - self._fitted.gap - end <= room), index)
        self._hide(max(least, min(self._hidden, index)))

    def on_resize(self, _event: events.Resize) -> None:
        """Choose the columns there is room for."""
        self._fit()
        self.virtual_size = Size(self.size.width, len(self._rows) + HEADER_ROWS)
        self._reveal()

    def on_focus(self) -> None:
        """Draw the cursor as the active one."""
        self.refresh()

    def on_blur(self) -> None:
        """Draw the cursor as a passive one."""
        self.refresh()

    def action_move(self, step: int) -> None:
        """Move the cursor."""
        self._go_to(self._cursor + step)

    def action_go(self, index: int) -> None:
        """Go to a row; -1 is the last."""
        self._go_to(index if index >= 0 else len(self._rows) - 1)

    def action_page(self, direction: int) -> None:
        """Half a page up or down."""
        self._go_to(self._cursor + direction * max(1, (self.size.height - HEADER_ROWS) // 2))

    def action_mark(self) -> None:
        """Mark the row for comparison, or no longer, and go on to the next."""
        if (row := self.highlighted) is None:
            return
        key = row_key(row)
        if key in self._marked:
            self._marked.remove(key)
        else:
            self._marked.append(key)
        self.refresh_line(self._cursor + HEADER_ROWS)
        self._go_to(self._cursor + 1)
        self.post_message(self.Arranged())

    def _go_to(self, index: int) -> None:
        index = min(max(0, index), len(self._rows) - 1)
        self._moved = True
        if index < 0 or index == self._cursor:
            return
        self.refresh_line(self._cursor + HEADER_ROWS)
        self._cursor = index
        self.refresh_line(index + HEADER_ROWS)
        self._reveal()
        self.post_message(self.Highlighted(self.highlighted))

    def _reveal(self) -> None:
        visible = max(1, self.size.height - HEADER_ROWS)
        top = int(self.scroll_offset.y)
        if self._cursor < top:
            self.scroll_to(y=self._cursor, animate=False)
        elif self._cursor >= top + visible:
            self.scroll_to(y=self._cursor - visible + 1, animate=False)

    def on_click(self, event: events.Click) -> None:
        """A click on a heading sorts, on a row highlights, twice opens."""
        x, y = event.x, event.y
        if y < HEADER_ROWS:
            if (name := self._column_at(x - 1)) and name != "rank":
                self._order = Order(name, not self._order.descending) if self._order.column == name else self._first_order(name)
                self._arrange()
            return
        index = y - HEADER_ROWS + int(self.scroll_offset.y)
        if index < len(self._rows):
            self._go_to(index)
            if event.chain == 2 and (row := self.highlighted):
                self.post_message(self.Opened(row))

    def _column_at(self, x: int) -> str | None:
        position = 0
        x += self._ends[self._hidden] if x >= self._frozen_cells - 1 else 0
        for column, width in self._fitted.columns:
            if position <= x < position + width + self._fitted.gap:
                return column.id
            position += width + self._fitted.gap
        return None

    def render_line(self, y: int) -> Strip:
        """The heading, then the rows from the scroll offset on; of columns that are shifted only whole ones are in sight."""
        strip, width = self._whole_line(y, self._cells), self.size.width
        if not self._wide:
            return strip
        ends, frozen = self._ends, self._frozen_cells
        begin = ends[self._hidden]
        end = max(end for end in ends if end <= begin + width - frozen + self._fitted.gap)
        shown = Strip.join([strip.crop(0, frozen), strip.crop(frozen + begin, frozen + end)])
        return shown.adjust_cell_length(width, next((segment.style for segment in reversed(list(strip))), None))

    def _whole_line(self, y: int, width: int) -> Strip:
        base = self.rich_style
        self._style = self._style.of(self.app)
        if y < HEADER_ROWS:
            return self._header(width)
        index = y - HEADER_ROWS + int(self.scroll_offset.y)
        if index >= len(self._rows):
            text = (
                "  no row contains that; esc shows all"
                if y == HEADER_ROWS and self._filter and self._plan and not self._rows
                else ""
            )
            return Strip([Segment(text.ljust(width)[:width], base + self._style("quiet"))], width)
        return self._line(self._rows[index], width, index == self._cursor)

    def _header(self, width: int) -> Strip:
        base = self.rich_style + self._style("header") + self._style.band()
        segments = [Segment(" ", base)]
        for column, cells in self._fitted.columns:
            is_sorted = column.id == self._order.column
            mark = (self._symbols.descending if self._order.descending else self._symbols.ascending) if is_sorted else ""
            title = (column.column.title if column.id != "rank" else "") + mark
            indent = " " * TITLE_INDENT if column.id == "rate" else ""
            text = (title + indent[len(mark) :]).rjust(cells) if column.column.right else title.ljust(cells)
            segments.append(Segment(text[-cells:] + " " * self._fitted.gap, base + self._style("sorted") if is_sorted else base))
        return Strip(segments).adjust_cell_length(width, base)

    def _line(self, row: PlanRow, width: int, current: bool) -> Strip:
        base = self.rich_style
        if current:
            base += self._style.cursor(focused=self.has_focus)
        elif self._stale:
            base += self._style("stale")
        marked = bool(self._marked) and row_key(row) in self._marked
        segments = [Segment(self._symbols.marked if marked else self._symbols.cursor if current else " ", base)]
        used = 1
        solution = row.rank is not None
        for column, cells in self._fitted.columns:
            if not solution and column.solutions_only:
                segments.append(
                    Segment(shorten_end(row.why, width - used - 1, self._symbols.ellipsis), base + self._style("reason"))
                )
                break
            for text, name in column.pieces(row, self._symbols, cells):
                segments.append(Segment(text, base if self._stale and not current else base + self._style(name)))
            segments.append(Segment(" " * self._fitted.gap, base))
            used += cells + self._fitted.gap
        return Strip(segments).adjust_cell_length(width, base)
