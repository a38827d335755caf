"""A plan as a table: for a terminal, as Markdown, as CSV."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, TextIO

from planner.cli.plan_columns import (
    LEAST_WHY_WIDTH,
    VERDICT_SIGNS,
    basis_legend,
    columns_for,
    device_name,
    reason,
    throughput,
)
from planner.cli.text_table import TextColumn, TextTable, fitted
from planner.engine.answers.figure import Figure
from planner.engine.answers.plan import Plan, PlanRow

if TYPE_CHECKING:
    from rich.console import Console

MOST_COLUMNS_CUT = 2
"""Where more would have to go, the reasons go below the table instead, and the columns return."""
FIRST_REASONS = 3
OTHER_REASONS = 2


def print_plan(plan: Plan, console: Console) -> None:
    """Print the rows as a table fitted to `console`, the meaning of its signs, and the reasons it has no room for."""
    from rich.text import Text

    from planner.cli import listing

    if not plan.rows:
        return
    table = _fitted(plan, console.width)
    styles = ["bold" if row.rank == 1 else "dim" if row.rank is None else "" for row in plan.rows]
    listing.print_table(console, table, styles)
    if legend := basis_legend(plan.rows):
        console.print(Text(legend, style="dim"))
    listing.tell_left_out([title for title in table.left_out if title != "why"])
    if "why" in table.left_out:
        console.print(Text("\nWhy", style="bold"))
        for line in reasons(plan, limit_shown="limit" not in table.left_out):
            console.print(Text(f"  {line}"))


def _fitted(plan: Plan, width: int) -> TextTable:
    *columns, why = columns_for(plan)
    figures = [TextColumn(column.title, [column.cell(row) for row in plan.rows], column.right, column.keep) for column in columns]

    def with_reasons(texts: list[str]) -> TextTable:
        return fitted([*figures, TextColumn(why.title, texts, why.right, why.keep, LEAST_WHY_WIDTH)], width)

    table = with_reasons([reason(row, limit_shown=True) for row in plan.rows])
    if "limit" in table.left_out:
        table = with_reasons([row.why for row in plan.rows])
    if len(table.left_out) <= MOST_COLUMNS_CUT:
        return table
    bare = fitted(figures, width)
    return replace(bare, left_out=(*bare.left_out, why.title))


def reasons(plan: Plan, *, limit_shown: bool) -> list[str]:
    """Why the first rows are where they are, this machine's, and the nearest that are no solution."""
    solutions = [row for row in plan.rows if row.rank]
    others = [row for row in plan.rows if not row.rank and not row.here]
    told = [*solutions[:FIRST_REASONS], *others[:OTHER_REASONS], *(row for row in plan.rows if row.here)]
    lines = dict.fromkeys(
        f"{row.rank or VERDICT_SIGNS[row.verdict]} {device_name(row)}: {reason(row, limit_shown=limit_shown)}" for row in told
    )
    return list(lines)


def write_markdown(plan: Plan, out: TextIO) -> None:
    """Write the rows as a GitHub table with every column."""
    columns = columns_for(plan)

    def line(cells: list[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"

    out.write(line([column.title for column in columns]))
    out.write(line(["---:" if column.right else "---" for column in columns]))
    out.writelines(line([column.cell(row) for column in columns]) for row in plan.rows)


FIGURES: dict[str, Callable[[PlanRow], Figure | None]] = {
    "memory_bytes_per_gpu": lambda row: row.answer.memory_bytes.total if row.answer.memory_bytes else None,
    "tokens_per_s": lambda row: throughput(row.answer),
    "usd_per_h": lambda row: row.usd_per_h,
    "usd_per_month": lambda row: row.usd_per_month,
    "job_h": lambda row: row.job_h,
    "job_usd": lambda row: row.job_usd,
    "usd_per_million_tokens": lambda row: row.answer.usd_per_million_tokens,
    "flop_per_usd": lambda row: row.answer.flop_per_usd,
}
"""Figures of a CSV row; each becomes four columns: value, low, high, basis."""


def write_csv(plan: Plan, out: TextIO) -> None:
    """Write the rows as CSV: SI units in the names, an empty cell for what is unknown or does not apply."""
    writer = csv.writer(out, lineterminator="\n")
    heads = [f"{name}{part}" for name in FIGURES for part in ("", "_low", "_high", "_basis")]
    writer.writerow(["rank", "verdict", "gpu", "here", "gpus", "layout", "provider", "instance", "bottleneck", "why", *heads])
    for row in plan.rows:
        layout, offer = row.answer.layout, row.offer
        names = [row.rank, row.verdict, row.gpu, int(row.here), layout.gpus if layout else None, layout.text if layout else None]
        where = [offer.provider if offer else None, offer.instance if offer else None, row.answer.bottleneck, row.why]
        figures = [cell for read in FIGURES.values() for cell in _figure_cells(read(row))]
        writer.writerow([*names, *where, *figures])


def _figure_cells(figure: Figure | None) -> list[float | str | None]:
    return [figure.value, figure.low, figure.high, figure.basis] if figure else [None, None, None, None]
