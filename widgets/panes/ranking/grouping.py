"""Rows of a plan as lines of a table: in what order, one for each GPU, the others of it folded behind."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from planner.engine.answers.plan import PlanRow
    from widgets.panes.ranking.columns import DrawnColumn

Key = tuple[str, int, str, str]
Group = tuple[str, bool]


class Order(msgspec.Struct, frozen=True):
    """Column the table is sorted by; none: as ranked."""

    column: str | None = None
    descending: bool = False


class Line(msgspec.Struct, frozen=True):
    """A row as it stands in the table."""

    row: PlanRow
    folded: int = 0
    """Rows of the same GPU that are out of sight behind it."""
    inner: bool = False
    """True if it stands below another row of its GPU."""


def row_key(row: PlanRow) -> Key:
    """Identity of a row between plans."""
    layout = row.answer.layout
    place = f"{row.offer.provider} {row.offer.instance} {row.offer.region} {row.offer.market}" if row.offer else ""
    return row.gpu, layout.gpus if layout else 0, layout.text if layout else "", place


def group_of(row: PlanRow) -> Group:
    """The GPU of a row, this machine's apart from rented ones."""
    return row.gpu, row.here


def in_order(rows: Iterable[PlanRow], column: DrawnColumn | None, order: Order) -> list[PlanRow]:
    """`rows` sorted by a column, those without a figure last; solutions before all others. No column: as ranked."""
    found = list(rows)
    if column is None or order == Order():
        return found
    known = [row for row in found if column.sort_key(row) is not None]
    known.sort(key=column.sort_key, reverse=order.descending)  # type: ignore[arg-type]  # one column, one type
    found = known + [row for row in found if column.sort_key(row) is None]
    return sorted(found, key=lambda row: row.rank is None)


def lines_of(rows: Sequence[PlanRow], opened: Collection[Group]) -> list[Line]:
    """First row of each GPU, followed by its others where the GPU was opened."""
    groups: dict[Group, list[PlanRow]] = {}
    for row in rows:
        groups.setdefault(group_of(row), []).append(row)
    lines = []
    for group, (first, *others) in groups.items():
        lines.append(Line(first, 0 if group in opened else len(others)))
        if group in opened:
            lines += [Line(row, inner=True) for row in others]
    return lines
