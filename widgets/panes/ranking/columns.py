"""Columns of the ranking as they are drawn: which a task has, how wide, in which style, and which go first when there is no room."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from planner.engine.answers.plan import SURE, Plan, PlanRow
from planner.present import plan as present
from planner.present.cells import Cell, Column
from planner.present.choice.ranked_by import deciding_columns, ends, latency_of, ranked_by
from planner.present.names import device_name
from planner.units import UNKNOWN
from widgets.drawing.symbols import Symbols
from widgets.drawing.text import bar_text, shorten_end, shorten_name, shorten_parts

Piece = tuple[str, str]
"""Text and the name of its style."""

WIDTHS = {
    "rank": 3,
    "gpu": 18,
    "more": 3,
    "gpus": 3,
    "usd-per-month": 9,
    "job-usd": 9,
    "job-h": 9,
    "usd-per-million": 8,
    "latency": 9,
    "sure": 5,
    "provider": 12,
    "memory": 9,
    "limit": 9,
    "rate": 18,
    "layout": 17,
    "usd-per-h": 8,
    "ttft": 8,
    "request": 8,
    "mfu": 6,
    "flop-per-usd": 8,
}
"""Column -> its cells, in the order in which columns stand; names and layouts alone have those of the plan, so that little moves while one types."""
NARROW = {"provider": 10, "latency": 8, "sure": 4, "layout": 11, "gpu": 14, "usd-per-month": 8, "job-usd": 8, "job-h": 8, "more": 2}
"""Cells of columns that have to do where the usual ones would leave a column out; the first get what is left over."""
LONGEST_NAME, LONGEST_PROVIDER = 30, 17
"""Cells to which names of providers, and after them of GPUs, grow where the columns leave some over: 'RTX PRO 6000 Blackwell Server', 'digitalocean spot'."""
IDENTITY = ("rank", "gpu", "more", "gpus")
"""Columns that are never left out, and filled for rows that are no solution as well."""
SERVICE = ("usd-per-month", "latency", "sure", "provider", "memory", "limit", "layout")
ENDLESS = ("usd-per-million", "rate", "sure", "provider", "memory", "limit", "layout")
JOB = ("job-usd", "job-h", "sure", "provider", "memory", "rate", "limit", "layout", "mfu")
LATER = ("usd-per-h", "usd-per-million", "ttft", "request", "flop-per-usd", "rate")
"""Columns of each kind of task, most wanted first, and those that any of them has where there is room."""
SAME_AS_LATENCY = {"p95": "request", "p95 first": "ttft"}
"""Latency a service is chosen by -> the column that would say the same again."""
TITLES = {"rank": "", "job-h": "takes"}
"""Titles that are not those of the tables on paper, for want of room."""
STYLES = {"layout": "quiet", "provider": "quiet", "limit": "limit"}
SPREAD_WIDTH, SHARE_WIDTH = 10, 5
GAP_WIDE, GAP_TIGHT = 2, 1
CROWDED = 8
"""More columns than this stand apart by the wide gap, or are left out."""
TIGHT_SHARE = 0.95
"""Share of the memory from which it is tight."""
LIKELY = 0.5
LEAST_WHY = 24
"""Cells below which no reason is begun at the end of a line."""


class DrawnColumn(msgspec.Struct, frozen=True):
    """A column of the ranking with its room on the screen."""

    column: present.PlanColumn
    width: int

    @property
    def id(self) -> str:
        """Name of the column."""
        return self.column.id

    @property
    def title(self) -> str:
        """Heading of the column."""
        return TITLES.get(self.id, self.column.title)

    @property
    def solutions_only(self) -> bool:
        """True if rows that are no solution show their reason instead."""
        return self.id not in IDENTITY

    def sort_key(self, row: PlanRow) -> float | str | None:
        """Sort key of `row`; None if it has no such figure, and goes last."""
        return self.column.sort(row) if self.column.sort is not None else None

    def signs_basis(self, row: PlanRow) -> bool:
        """True if the cell of `row` has a sign of what it rests on."""
        found = self.column.cell(row)
        return isinstance(found, Cell) and found.basis is not None

    def pieces(self, row: PlanRow, symbols: Symbols, width: int) -> list[Piece]:
        """Cell of `row` in `width` cells."""
        found = self.column.cell(row)
        cell = found if isinstance(found, Cell) else Cell(found)
        if self.id == "rank":
            return [((cell.text if row.rank else symbols.verdict[row.verdict]).rjust(width), "quiet" if row.rank else row.verdict)]
        if self.id == "gpu":
            style = "here" if row.here else "name" if row.rank else "quiet"
            return [(shorten_name(device_name(row.gpu), width, symbols.ellipsis).ljust(width), style)]
        if self.id == "gpus" and len(cell.text) > width:
            return [(cell.text, "quiet")]  # a loser's, which moves its reason alone
        if cell.text == UNKNOWN and self.column.right:
            return [(UNKNOWN.rjust(width), "quiet")]
        if self.id == "memory" and cell.share is not None:
            style = "does-not-fit" if cell.share > 1 else "tight" if cell.share > TIGHT_SHARE else "fits"
            text = f" {cell.text}".rjust(SHARE_WIDTH)
            return [(bar_text(cell.share, width - len(text), symbols.filled, symbols.empty), style), (text, "figure")]
        if self.id == "sure" and cell.share is not None:
            share = round(cell.share, 2)  # as it reads: equal figures have one colour
            style = "fits" if share >= SURE else "figure" if share >= LIKELY else "tight"
            text = cell.text if len(cell.text) <= width else cell.text.replace(" ", "")
            return [(text.rjust(width), style)]
        if cell.basis is not None and len(cell.text) + 2 <= width:
            spread = cell.spread.rjust(SPREAD_WIDTH) if self.id == "rate" else ""
            return [
                (cell.text.rjust(width - len(spread) - 2), "figure"),
                (spread, "quiet"),
                (f" {symbols.basis[cell.basis]}", cell.basis),
            ]
        if self.column.right:
            return [(cell.text.rjust(width), "figure")]
        shorten = shorten_parts if self.id == "layout" else shorten_end
        return [(shorten(cell.text, width, symbols.ellipsis).ljust(width), STYLES[self.id])]


def columns_for(plan: Plan) -> tuple[DrawnColumn, ...]:
    """Columns that mean something for the task of `plan`, most wanted first."""
    job = present.job_columns() if ends(plan) else []
    known = {column.id: column for column in (*present.columns_for(plan), *job, *deciding_columns(plan), MORE)}
    by = ranked_by(plan).id
    kind = JOB if job else SERVICE if plan.task.get("request_rate_per_s") else ENDLESS
    wanted = dict.fromkeys((*IDENTITY, by, *kind, *LATER))
    if (latency := latency_of(plan.task)) is not None:
        wanted.pop(SAME_AS_LATENCY.get(latency.title, ""), None)
    solutions = [row for row in plan.rows if row.rank]
    name = max((len(device_name(row.gpu)) for row in solutions), default=0)
    counts, layout, provider = (_longest(known.get(one), solutions) for one in ("gpus", "layout", "provider"))
    widths = {
        **WIDTHS,
        "gpus": max(WIDTHS["gpus"], counts),
        "gpu": max(WIDTHS["gpu"], min(LONGEST_NAME, name)),
        "provider": max(WIDTHS["provider"], min(LONGEST_PROVIDER, provider)),
        "layout": max(NARROW["layout"], min(WIDTHS["layout"], layout)),
    }
    shown = [name for name in wanted if name in known and (name in {*IDENTITY, by} or _is_known(known[name], solutions))]
    return tuple(DrawnColumn(known[name], widths[name]) for name in shown)


def _longest(column: present.PlanColumn | None, rows: Sequence[PlanRow]) -> int:
    return max((len(column.text(row)) for row in rows), default=0) if column else 0


def _is_known(column: present.PlanColumn, solutions: Sequence[PlanRow]) -> bool:
    """True if any solution has a value in this column; without solutions every column stays."""
    return not solutions or any(column.text(row) != UNKNOWN for row in solutions)


MORE: present.PlanColumn = Column("more", "more", lambda _: "", right=True)
"""Number of rows of the same GPU folded behind one; the table fills it in."""


class Fitted(msgspec.Struct, frozen=True):
    """The columns there is room for, in the order they stand."""

    columns: tuple[tuple[DrawnColumn, int], ...] = ()
    """Each with its width."""
    gap: int = GAP_WIDE
    why: int = 0
    """Cells left for the reason of a row; 0: too few."""


def fit_columns(columns: Sequence[DrawnColumn], width: int, *, every: bool = False, most: int | None = None) -> Fitted:
    """Most wanted columns that `width` cells hold; more cells never hold fewer of them.

    `every`: keep all of them, however wide that is, names of GPUs in a quarter of the cells. `most`: cells to choose by where a wider screen has fewer.
    """
    if every:
        names = next((one.width for one in columns if one.id == "gpu"), 0)
        return Fitted(_in_order(columns, {"more": len(MORE.title), "gpu": min(names, max(WIDTHS["gpu"], width // 4))}), GAP_WIDE)
    room = min(width, most) if most is not None else width
    kept = list(columns)
    while len(kept) > len(IDENTITY) and _width(kept, GAP_WIDE if len(kept) > CROWDED else GAP_TIGHT, NARROW) > room:
        kept.pop()
    widths = dict(NARROW)
    wanted = {one.id: one.width for one in kept}
    for name in (name for name in NARROW if name in wanted):
        widths[name] += max(0, min(wanted[name] - widths[name], width - _width(kept, GAP_TIGHT, widths)))
    gap = GAP_WIDE if _width(kept, GAP_WIDE, widths) <= width else GAP_TIGHT
    left = width - _width(kept, gap, widths) - gap
    return Fitted(_in_order(kept, widths), gap, left if left >= LEAST_WHY else 0)


def _in_order(columns: Sequence[DrawnColumn], widths: dict[str, int]) -> tuple[tuple[DrawnColumn, int], ...]:
    order = list(WIDTHS)
    return tuple((one, widths.get(one.id, one.width)) for one in sorted(columns, key=lambda one: order.index(one.id)))


def _width(columns: Sequence[DrawnColumn], gap: int, widths: dict[str, int]) -> int:
    return sum(widths.get(one.id, one.width) + gap for one in columns) - gap
