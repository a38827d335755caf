"""Rows of the ranking side by side: every figure with its range, the best of each line, and how far the others are from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, ClassVar

import msgspec
from textual.binding import Binding, BindingType
from textual.content import Content

from planner.engine.answers.figure import Figure
from planner.engine.answers.plan import Plan, PlanRow
from planner.present.cells import Cell, range_cell
from planner.present.names import VERDICT_WORDS, device_name
from planner.present.plan import memory_share
from planner.present.row_figures import RowFigure, row_figures
from planner.units import UNKNOWN, bytes_text, change_text, percent_text
from widgets.base_app import BaseApp
from widgets.drawing.symbols import Symbols
from widgets.drawing.text import fold, shorten_end
from widgets.screens.overlay import SCROLLS, TextOverlay

LABEL, LEAST, MOST, GAP = 24, 22, 36, 2
"""Cells of the names, of each row at least and at most, and between two rows."""
EDGES = 8
"""Cells of the border, the blanks inside it and the scroll bar."""
LEAST_COMPARED = 2
HINT = f"{SCROLLS}space marks rows · ≈ the ranges overlap · esc back"
ALIKE = 0.005
"""Difference, as a share, below which two figures are shown as the same."""


def open_screen(app: BaseApp) -> None:
    """Set the marked rows side by side; without two of them, the highlighted row beside the first."""
    row, rows = app.table.highlighted, app.table.marked
    if app.plan is None or row is None:
        return
    if len(rows) < LEAST_COMPARED:
        first = next(iter(rows), app.plan.rows[0])
        rows = [first, row] if first is not row else app.plan.rows[:LEAST_COMPARED]
    app.push_screen(CompareScreen(rows, app.plan, app.symbols))


class CompareScreen(TextOverlay):
    """A few rows, a column each."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter,c", "dismiss", "back", show=False)]

    def __init__(self, rows: Sequence[PlanRow], plan: Plan, symbols: Symbols) -> None:
        super().__init__("Compare", HINT)
        self._rows, self._plan, self._symbols = rows, plan, symbols
        self.WIDTH = LABEL + MOST * len(rows) + EDGES

    def lines(self, width: int) -> list[Content]:
        """Columns, as many as there is room for; the title says how many there are."""
        shown = self._rows[: most_columns(width)]
        left_out = len(shown) < len(self._rows)
        rows = f"{len(shown)} of {len(self._rows)} rows, a wider terminal shows more" if left_out else f"{len(self._rows)} rows"
        self.entitle(f"Compare · {rows}", HINT)
        return compare(shown, self._plan, self._symbols, width)


def most_columns(room: int) -> int:
    """Rows for which there is room, one at least."""
    return max(1, (room - LABEL) // LEAST)


def compare(rows: Sequence[PlanRow], plan: Plan, symbols: Symbols, room: int) -> list[Content]:
    """Lines of rows for which there is room, a column each."""
    return list(_Table(rows, plan.task, symbols, min(MOST, (room - LABEL) // len(rows))).lines())


class _Table(msgspec.Struct, frozen=True):
    rows: Sequence[PlanRow]
    task: Mapping[str, Any]
    symbols: Symbols
    width: int

    def lines(self) -> Iterator[Content]:
        yield self._plain("", self._names(), "bold $accent")
        yield self._plain("rank", [str(row.rank) if row.rank else VERDICT_WORDS[row.verdict] for row in self.rows])
        yield self._plain("provider", [row.offer.provider if row.offer else "here" if row.here else UNKNOWN for row in self.rows])
        yield self._plain("market", [row.offer.market if row.offer else UNKNOWN for row in self.rows])
        yield from self._folded("layout", [row.answer.layout.text if row.answer.layout else UNKNOWN for row in self.rows])
        yield self._plain("memory", self._memory())
        yield self._plain("limit", [row.answer.bottleneck or UNKNOWN for row in self.rows])
        known = row_figures(self.task)
        columns = self._columns(known)
        p95 = any(one.percentile == "p95" and one.figure(row) is not None for one in known for row in self.rows)
        wanted = [one for one in known if one.percentile in {"", "p95" if p95 else "mean"}]
        for group in ({"speed", "latency"}, {"money"}):
            yield Content("")
            for one in wanted:
                if one.group in group:
                    yield from self._figure(one, columns)

    def _names(self) -> list[str]:
        return [f"{row.answer.gpus:,} × {device_name(row.gpu)}" for row in self.rows]

    def _memory(self) -> list[str]:
        """Memory of every row, in the same form: the short one where one of them needs it."""
        known = [(row.answer.memory_bytes, percent_text(memory_share(row.answer))) for row in self.rows]
        parts = [
            (bytes_text(memory.total.value, unit=False), bytes_text(memory.capacity), share) if memory is not None else None
            for memory, share in known
        ]
        long, short = (
            [form.format(*part) if part is not None else UNKNOWN for part in parts] for form in ("{} of {}, {}", "{}/{} {}")
        )
        return long if max(map(len, long)) <= self.width - GAP else short

    def _plain(self, label: str, cells: Sequence[str], style: str = "") -> Content:
        texts = [shorten_end(cell, self.width - GAP, self.symbols.ellipsis).ljust(self.width) for cell in cells]
        return Content.assemble((f"{label:<{LABEL}}", "$quiet"), ("".join(texts).rstrip(), style))

    def _folded(self, label: str, cells: Sequence[str]) -> Iterator[Content]:
        for number, parts in enumerate(zip_longest(*(fold(cell, self.width - GAP) for cell in cells), fillvalue="")):
            yield self._plain("" if number else label, parts)

    def _columns(self, known: Sequence[RowFigure]) -> tuple[int, int]:
        """Cells of the widest figure and of the widest range: below each other they compare at a glance."""
        found = [
            range_cell(figure, one.text)
            for one in known
            for row in self.rows
            if row.answer.fits and (figure := one.figure(row)) is not None
        ]
        return max((len(cell.text) for cell in found), default=0), max((len(self._range(cell)) for cell in found), default=0)

    def _range(self, cell: Cell) -> str:
        return f" {cell.spread} {self.symbols.basis[cell.basis]}" if cell.spread and cell.basis else ""

    def _figure(self, one: RowFigure, columns: tuple[int, int]) -> Iterator[Content]:
        """A line of figures of the rows that can run; none if no row has one. `columns`: cells of a figure and of a range."""
        figures = [one.figure(row) if row.answer.fits else None for row in self.rows]
        known = [figure for figure in figures if figure is not None]
        if not known:
            return
        best = (max if one.best_is_high else min)(known, key=lambda figure: figure.value)
        parts: list[tuple[str, str]] = [(f"{one.label_with_unit:<{LABEL}}", "$quiet")]
        for figure in figures:
            cell = range_cell(figure, one.text)
            apart = self._apart(figure, best) if figure is not None else ""
            before, spread = " " * (columns[0] - len(cell.text)), self._range(cell)
            rest = f"{spread:<{columns[1]}} {apart}".rstrip()
            if columns[0] + len(rest) > self.width - GAP:
                rest = f" {apart}" if apart else spread
            first = figure is not None and not apart and len(known) > 1 and any(self._apart(other, best) for other in known)
            style = "bold $text-success" if first else "" if figure is not None else "$quiet"
            parts += [(before, ""), (cell.text, style), (rest.ljust(self.width - columns[0]), "$quiet")]
        yield Content.assemble(*parts)

    def _apart(self, figure: Figure, best: Figure) -> str:
        """Distance of a figure from the best; with a sign where their ranges overlap, so that it may be none."""
        if not best.value or abs(figure.value / best.value - 1) < ALIKE:
            return ""
        overlap = figure is not best and figure.low <= best.high and best.low <= figure.high
        return f"{'≈' if overlap else ''}{change_text(figure.value / best.value - 1)}"
