"""`plan --memory`: what fills the fullest GPU of a row, item by item, with the candidate's numbers in every formula."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import msgspec

from planner.cli import listing
from planner.cli.plan_columns import device_name, spread_text
from planner.cli.text_table import TextColumn, fitted
from planner.engine.answers.memory import MemoryDetail
from planner.engine.answers.plan import Plan, PlanRow
from planner.units import bytes_text, percent_text

if TYPE_CHECKING:
    from rich.console import Console

    from planner.engine.answers.time import TimeDetail
    from planner.workload.tasks import Workload

FORMULA_WIDTH, SOURCE_WIDTH = 30, 18
"""Cells to which formulas and sources are folded at least."""


def detailed(
    found: Plan, workload: Workload, tell: Callable[[PlanRow], Mapping[str, MemoryDetail | TimeDetail | None]], *, each: bool
) -> Plan:
    """`found` with what `tell` says of `each` row, or of the best row of every GPU asked for; of the first row where none was."""
    named = bool(workload.gpus_considered)
    rows: list[PlanRow] = []
    seen: set[str] = set()
    for row in found.rows:
        if each or (row.gpu not in seen and not row.here and (named or not seen)):
            row = msgspec.structs.replace(row, **tell(row))  # noqa: PLW2901  (the same row, told in full)
            seen.add(row.gpu)
        rows.append(row)
    return msgspec.structs.replace(found, rows=rows)


def print_memory(row: PlanRow, detail: MemoryDetail, console: Console) -> None:
    """Print the items of one row as a table fitted to `console`, and below it what is left of the GPU."""
    from rich.text import Text

    layout = row.answer.layout
    count = layout.gpus if layout else 1
    which = "the fullest GPU at its peak" if count > 1 else "at its peak"
    place = f"{count:,} × {device_name(row)}{f' as {layout.text}' if layout and count > 1 else ''}"
    console.print(Text(f"\nMemory of {place}, {which}", style="bold"))
    items = detail.items
    component = [
        item.component if number == 0 or items[number - 1].component != item.component else "" for number, item in enumerate(items)
    ]
    columns = [
        TextColumn("", [name.replace("_", " ") for name in component], keep=90),
        TextColumn("bytes", [bytes_text(item.bytes) for item in items], right=True),
        TextColumn("share", [percent_text(item.bytes / detail.total_bytes) for item in items], right=True, keep=80),
        TextColumn("what", [item.name for item in items], keep=100, least_width=16),
        TextColumn("worked out", [item.formula for item in items], keep=70, least_width=FORMULA_WIDTH),
        TextColumn("source", [item.source for item in items], keep=60, least_width=SOURCE_WIDTH),
    ]
    table = fitted(columns, console.width)
    listing.print_table(console, table, [""] * len(items))
    listing.tell_left_out(table.left_out)
    total = row.answer.memory_bytes.total if row.answer.memory_bytes else None
    for what, size, why in detail.ledger():
        aside = " ".join(part for part in (why, spread_text(total) if total and what == "needed" else "") if part)
        console.print(Text(f"  {what:<18}{bytes_text(size):>12}  {aside}".rstrip()))
