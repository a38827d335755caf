"""The columns of the ranking as they are drawn: in what order, how wide, in which style, and which go first when there is no room."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from planner.present import plan as present
from planner.present.cells import Cell
from planner.present.names import device_name
from planner.units import UNKNOWN
from widgets.drawing.symbols import Symbols
from widgets.drawing.text import bar_text, shorten_end, shorten_middle

if TYPE_CHECKING:
    from planner.engine.answers.plan import Plan, PlanRow

Piece = tuple[str, str]
"""Text and the name of its style."""

ROOM: dict[str, tuple[int, int]] = {
    "rank": (3, 12),
    "gpu": (14, 12),
    "gpus": (3, 11),
    "layout": (11, 5),
    "memory": (9, 10),
    "rate": (14, 10),
    "job-usd": (7, 9),
    "usd-per-million": (7, 9),
    "usd-per-h": (7, 8),
    "provider": (10, 7),
    "job-h": (9, 6),
    "mfu": (6, 2),
    "usd-per-month": (8, 3),
    "ttft": (8, 2),
    "request": (8, 2),
    "flop-per-usd": (8, 4),
    "limit": (9, 7),
}
"""Column -> its least cells, and how much it is wanted: those wanted least are left out first."""
FIXED, IDENTITY, WANTED = 12, 10, 7
"""Wanted this much: never left out; there even where no row fills it; makes the gaps narrow before it goes."""
JOB_WANTS = {"usd-per-million": 1}
"""What of that is otherwise for a job that ends: dollars of the job say more."""
STYLES = {"layout": "quiet", "provider": "quiet", "limit": "limit"}
SPREAD_WIDTH, SHARE_WIDTH = 6, 5
GAP_WIDE, GAP_TIGHT = 2, 1
TIGHT_SHARE = 0.95
"""Share of the memory from which it is tight."""


@dataclass(frozen=True, slots=True)
class DrawnColumn:
    """A column of the ranking with its room on the screen."""

    column: present.PlanColumn
    width: int
    wanted: int

    @property
    def id(self) -> str:
        """Name of the column."""
        return self.column.id

    @property
    def solutions_only(self) -> bool:
        """Whether rows that are no solution show their reason instead."""
        return self.id not in present.IDENTITY

    def sort_key(self, row: PlanRow) -> float | str | None:
        """What `row` is sorted by; None where it has no such figure, and goes last."""
        return self.column.sort(row) if self.column.sort is not None else None

    def pieces(self, row: PlanRow, symbols: Symbols, width: int) -> list[Piece]:
        """The cell of `row` in `width` cells."""
        found = self.column.cell(row)
        cell = found if isinstance(found, Cell) else Cell(found)
        if self.id == "rank":
            return [((cell.text if row.rank else symbols.verdict[row.verdict]).rjust(width), "quiet" if row.rank else row.verdict)]
        if self.id == "gpu":
            style = "here" if row.here else "name" if row.rank else "quiet"
            return [(shorten_middle(device_name(row.gpu), width, symbols.ellipsis).ljust(width), style)]
        if cell.text == UNKNOWN and self.column.right:
            return [(UNKNOWN.rjust(width), "quiet")]
        if self.id == "memory" and cell.share is not None:
            style = "does-not-fit" if cell.share > 1 else "tight" if cell.share > TIGHT_SHARE else "fits"
            text = f" {cell.text}".rjust(SHARE_WIDTH)
            return [(bar_text(cell.share, width - len(text), symbols.filled, symbols.empty), style), (text, "figure")]
        if cell.basis is not None:
            return [
                (cell.text.rjust(width - SPREAD_WIDTH - 2), "figure"),
                (cell.spread.rjust(SPREAD_WIDTH), "quiet"),
                (f" {symbols.basis[cell.basis]}", cell.basis),
            ]
        if self.column.right:
            return [(cell.text.rjust(width), "figure")]
        return [(shorten_end(cell.text, width, symbols.ellipsis).ljust(width), STYLES[self.id])]


def columns_for(plan: Plan) -> tuple[DrawnColumn, ...]:
    """The columns that mean something for the task of `plan` and that some row fills, in the order they stand."""
    wants = JOB_WANTS if plan.task.get("task") in present.TRAINING else {}
    known = {column.id: column for column in present.columns_for(plan)}
    columns = [DrawnColumn(known[name], cells, wants.get(name, wanted)) for name, (cells, wanted) in ROOM.items() if name in known]
    return tuple(
        replace(one, width=_longest(one, plan.rows, one.width)) if one.id == "gpus" else one
        for one in columns
        if one.wanted >= IDENTITY or any(one.sort_key(row) is not None for row in plan.rows)
    )


@dataclass(frozen=True, slots=True)
class Fitted:
    """The columns there is room for."""

    columns: tuple[tuple[DrawnColumn, int], ...] = ()
    """Each with its width."""
    gap: int = GAP_WIDE


def fit_columns(columns: Sequence[DrawnColumn], width: int, rows: Sequence[PlanRow], *, every: bool = False) -> Fitted:
    """Choose columns for `width` cells; cells that are left over go to words that were cut.

    `every`: keep all of them and cut no word, however wide that is, except names of GPUs at a quarter of the width.
    """
    words = {one.id: _longest(one, rows) for one in columns if one.id in {"provider", "layout", "gpu", "limit"}}
    if every:
        words["gpu"] = min(words["gpu"], width // 4)
        return Fitted(tuple((one, max(one.width, words.get(one.id, 0))) for one in columns), GAP_WIDE)
    kept, gap = _chosen(columns, width)
    spare = max(0, width - _width(kept, gap))
    widths = {one.id: one.width for one in kept}
    for name in ("provider", "layout", "gpu", "limit"):
        if name in widths:
            more = min(spare, max(0, words[name] - widths[name]))
            widths[name] += more
            spare -= more
    return Fitted(tuple((one, widths[one.id]) for one in kept), gap)


def _longest(one: DrawnColumn, rows: Sequence[PlanRow], least: int = 0) -> int:
    """Cells of the longest text of a column, at least `least`."""
    texts = (device_name(row.gpu) if one.id == "gpu" else one.column.text(row) for row in rows)
    return max([least, *(len(text) for text in texts)])


def _chosen(columns: Sequence[DrawnColumn], width: int) -> tuple[list[DrawnColumn], int]:
    """The columns kept and the gap between them: a narrow one where that saves one of those that are wanted."""
    wide = _kept(columns, width, GAP_WIDE)
    if all(one in wide for one in columns if one.wanted >= WANTED):
        return wide, GAP_WIDE
    return _kept(columns, width, GAP_TIGHT), GAP_TIGHT


def _kept(columns: Sequence[DrawnColumn], width: int, gap: int) -> list[DrawnColumn]:
    """The most wanted columns that fit, in the order they stand."""
    kept: list[DrawnColumn] = []
    for one in sorted(columns, key=lambda one: -one.wanted):
        if _width([*kept, one], gap) <= width or one.wanted >= FIXED:
            kept.append(one)
    return [one for one in columns if one in kept]


def _width(columns: Sequence[DrawnColumn], gap: int) -> int:
    return sum(one.width + gap for one in columns) - gap
