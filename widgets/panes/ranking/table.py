"""Ranked table: drawn line by line, so a new plan or a moved cursor repaints only what it must."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from msgspec.structs import replace
from textual import events
from textual.binding import BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from planner.engine.answers.plan import Plan, PlanRow
from planner.present.choice.facets import Facets
from planner.present.choice.ranked_by import ranked_by
from widgets.actions.action import bindings
from widgets.actions.moves import TABLE
from widgets.drawing.styles import ThemeStyles
from widgets.drawing.symbols import UNICODE, Symbols
from widgets.panes.ranking.columns import DrawnColumn, Fitted, columns_for, fit_columns
from widgets.panes.ranking.grouping import Group, Key, Line, Order, group_of, in_order, lines_of, row_key
from widgets.panes.ranking.painter import HEADER_ROWS, Painter
from widgets.panes.ranking.sideways import Sideways

BASIC_CELLS = 60
"""Cells for columns beside form and reason on the narrowest screen that has all three; a narrower one chooses no more of them."""
MARGIN = 2
"""Cells of the cursor's sign and the scroll bar."""


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
        self._painter = Painter(symbols, ThemeStyles({}))
        self._plan: Plan | None = None
        self._ranked_by = ""
        self._columns: tuple[DrawnColumn, ...] = ()
        self._sideways = Sideways(Fitted(), 0)
        self.wide = False
        """True if every column is drawn, some of them out of sight."""
        self._lines: list[Line] = []
        self._opened: set[Group] = set()
        self._cursor = 0
        self._wanted: Key | None = None
        """The row the cursor stays with; None: the first."""
        self.order = Order()
        """Column the rows are sorted by."""
        self._facets = Facets()
        self._marked: list[Key] = []
        self._stale = False

    @property
    def rows(self) -> Sequence[PlanRow]:
        """Rows shown, in the order shown."""
        return [line.row for line in self._lines]

    @property
    def groups(self) -> int:
        """Number of GPUs shown."""
        return sum(not line.inner for line in self._lines)

    @property
    def highlighted(self) -> PlanRow | None:
        """Row under the cursor."""
        return self._lines[self._cursor].row if self._lines else None

    @property
    def marked(self) -> list[PlanRow]:
        """Rows marked for comparison that are in the plan, in the order they were marked."""
        by_key = {row_key(row): row for row in (self._plan.rows if self._plan else ())}
        return [by_key[key] for key in self._marked if key in by_key]

    @property
    def signs_basis(self) -> bool:
        """True if a column in sight has signs of what its figures rest on."""
        first = next((line.row for line in self._lines if line.row.rank), None)
        return first is not None and any(column.signs_basis(first) for column, _ in self._sideways.fitted.columns)

    @property
    def order_words(self) -> str:
        """Order in words; empty: as ranked."""
        sorts_by = next((column.column.sorts_by for column in self._columns if column.id == self.order.column), "")
        return f"by {sorts_by}{', high first' if self.order.descending else ''}" if sorts_by else ""

    @property
    def narrowed(self) -> bool:
        """True if conditions keep rows out of sight."""
        return bool(self._facets.tests)

    @property
    def filtered(self) -> bool:
        """True if the search is narrowed, or its rows."""
        return bool(self._facets.chips)

    @property
    def place(self) -> Mapping[str, Any]:
        """Order, opened GPUs and cursor, for `go_back_to`."""
        return {
            "column": self.order.column or "",
            "descending": self.order.descending,
            "opened": sorted(map(list, self._opened)),
            "row": list(self._wanted or ()),
        }

    def go_back_to(self, place: Mapping[str, Any]) -> None:
        """Take up an order, opened GPUs and a cursor of an earlier time; what cannot be used of it is left."""
        self.order = Order(str(place.get("column") or "") or None, bool(place.get("descending")))
        self._opened = {(str(gpu), bool(here)) for gpu, here in place.get("opened", ())}
        gpu, gpus, layout, at = place.get("row") or ("", 0, "", "")
        self._wanted = (str(gpu), int(gpus), str(layout), str(at)) if gpu else None

    def start_anew(self) -> None:
        """Forget the cursor and what was opened: another workload comes."""
        self._wanted, self._cursor, self._opened = None, 0, set()

    def toggle_wide(self) -> None:
        """Draw every column, to be shifted sideways, or those there is room for."""
        self.wide = not self.wide
        self._fit()
        self.refresh()
        self.post_message(self.Arranged())

    def show(self, plan: Plan) -> None:
        """Show another plan; the cursor stays with its row once the user has moved it."""
        task = str(plan.task.get("task", ""))
        if self._plan is not None and str(self._plan.task.get("task", "")) != task:
            self.order = Order()
        self._columns, self._ranked_by = columns_for(plan), ranked_by(plan).id
        self._plan, self._stale = plan, False
        self._arrange()

    def set_stale(self, stale: bool) -> None:
        """Dim the rows: they answer an older workload."""
        if stale != self._stale:
            self._stale = stale
            self.refresh()

    def sort_next(self) -> None:
        """Sort by the next column shown; after the last one, as ranked again."""
        names = [column.id for column, _ in self._sideways.fitted.columns if column.id not in {"rank", "more"}]
        index = names.index(self.order.column) + 1 if self.order.column in names else 0
        self.order = Order() if index >= len(names) else self._first_order(names[index])
        self._arrange()
        if self.wide:
            self._hide(self._sideways.to_show(self.order.column))

    def reverse(self) -> None:
        """Turn the order round."""
        self.order = Order(self.order.column, not self.order.descending)
        self._arrange()

    def narrow(self, facets: Facets) -> None:
        """Show only rows that meet the conditions."""
        self._facets = facets
        self._arrange()

    def _first_order(self, name: str) -> Order:
        column = next(column for column in self._columns if column.id == name)
        return Order(name, column.column.best_is_high)

    def _arrange(self) -> None:
        if self._plan is None:
            return
        rows = [row for row in self._plan.rows if self._facets.keeps(row)]
        column = next((column for column in self._columns if column.id == (self.order.column or "rank")), None)
        self._lines = lines_of(in_order(rows, column, self.order), self._opened)
        self._cursor = self._place_of(self._wanted)
        self._fit()
        self.virtual_size = Size(0, len(self._lines) + HEADER_ROWS)  # lines are as wide as there is room, whatever that comes to
        self._reveal()
        self.refresh()
        self.post_message(self.Highlighted(self.highlighted))
        self.post_message(self.Arranged())

    def _place_of(self, key: Key | None) -> int:
        """Line of this row, or else of its GPU, or else the first."""
        if key is None:
            return 0
        keys = [row_key(line.row) for line in self._lines]
        if key in keys:
            return keys.index(key)
        gpus = [line.row.gpu for line in self._lines]
        return gpus.index(key[0]) if key[0] in gpus else 0

    def _fit(self) -> None:
        width = self.size.width
        most = BASIC_CELLS if {"-narrow", "-normal"} & self.screen.classes and not self.screen.has_class("-zoomed") else None
        fitted = fit_columns(self._columns, width - MARGIN, every=self.wide, most=most)
        self._sideways = Sideways(fitted, width, self._sideways.hidden)
        self._hide(self._sideways.hidden)

    def _hide(self, count: int) -> None:
        hidden = self._sideways.hide(count) if self.wide else 0
        if hidden != self._sideways.hidden:
            self._sideways = replace(self._sideways, hidden=hidden)
            self.refresh()

    def action_shift(self, step: int) -> None:
        """Shift the columns by one where all of them are drawn; elsewhere open or close the rows of the GPU."""
        if self.wide:
            self._hide(self._sideways.hidden + step)
        elif (row := self.highlighted) is not None:
            (self._opened.add if step > 0 else self._opened.discard)(group_of(row))
            self._wanted = row_key(row)
            self._arrange()
            if step > 0:
                self._reveal_opened()

    def action_open_all(self) -> None:
        """Open the rows of every GPU, or close all of them."""
        every = {group_of(row) for row in (self._plan.rows if self._plan else ())}
        self._opened = set() if self._opened else every
        self._arrange()

    def on_resize(self, _event: events.Resize) -> None:
        """Choose the columns there is room for."""
        self._fit()
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
        self._go_to(index if index >= 0 else len(self._lines) - 1)

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
        index = min(max(0, index), len(self._lines) - 1)
        if index < 0:
            return
        self._wanted = row_key(self._lines[index].row)
        if index == self._cursor:
            return
        self.refresh_line(self._cursor + HEADER_ROWS)
        self._cursor = index
        self.refresh_line(index + HEADER_ROWS)
        self._reveal()
        self.post_message(self.Highlighted(self.highlighted))

    def _reveal(self) -> None:
        visible = self.size.height - HEADER_ROWS
        if visible < 1:  # out of sight; once it is back it reveals the cursor in the room there is then
            return
        top = int(self.scroll_offset.y)
        if self._cursor < top:
            self.scroll_to(y=self._cursor, animate=False)
        elif self._cursor >= top + visible:
            self.scroll_to(y=self._cursor - visible + 1, animate=False)

    def _reveal_opened(self) -> None:
        """Scroll to the last of the rows that were opened below the cursor, as far as the cursor stays in sight."""
        last = (
            next((place for place, line in enumerate(self._lines) if place > self._cursor and not line.inner), len(self._lines)) - 1
        )
        top = min(self._cursor, last - (self.size.height - HEADER_ROWS) + 1)
        if top > int(self.scroll_offset.y):
            self.scroll_to(y=top, animate=False)

    def on_click(self, event: events.Click) -> None:
        """A click on a heading sorts, on a row highlights, twice opens."""
        x, y = event.x, event.y
        if y < HEADER_ROWS:
            if (name := self._sideways.column_at(x - 1)) and name not in {"rank", "more"}:
                self.order = Order(name, not self.order.descending) if self.order.column == name else self._first_order(name)
                self._arrange()
            return
        index = y - HEADER_ROWS + int(self.scroll_offset.y)
        if index < len(self._lines):
            self._go_to(index)
            if self._sideways.column_at(x - 1) == "more":
                self.action_shift(1)
            elif event.chain == 2 and (row := self.highlighted):
                self.post_message(self.Opened(row))

    def render_line(self, y: int) -> Strip:
        """Heading, then the rows from the scroll offset on."""
        if self._sideways.width != self.size.width:  # laid out, and drawn before it is told so
            self._fit()
        strip = self._whole_line(y, self._sideways.cells if self.wide else self.size.width)
        return self._sideways.crop(strip, self._painter.symbols.ellipsis if y < HEADER_ROWS else "") if self.wide else strip

    def _whole_line(self, y: int, width: int) -> Strip:
        painter, ground, fitted = self._painter.themed(self.app), self.rich_style, self._sideways.fitted
        if y < HEADER_ROWS:
            return painter.header(fitted, self.order, self._ranked_by, width, ground)
        index = y - HEADER_ROWS + int(self.scroll_offset.y)
        if index >= len(self._lines):
            nothing = y == HEADER_ROWS and self._plan is not None and not self._lines
            return painter.blank("  no row matches; esc shows all" if nothing else "", width, ground)
        return painter.line(
            self._lines[index],
            fitted,
            width,
            ground,
            current=index == self._cursor,
            focused=self.has_focus,
            stale=self._stale,
            marked=self._marked,
            in_sight=self._sideways.in_sight if self.wide else (0, width),
        )
