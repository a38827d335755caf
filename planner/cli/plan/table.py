"""Ranking on a terminal: its table, the legend, and reasons that do not fit into the table."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec.structs import replace
from rich.console import Console
from rich.text import Text

from planner.cli.terminal.sections import STYLES, print_fitted, print_left_out
from planner.engine.answers.plan import Plan, PlanRow
from planner.present.cells import Table
from planner.present.choice.certainty import sensitivity, simulated_rows, standing
from planner.present.choice.chosen import chosen_text
from planner.present.lines.text_table import TextTable, fitted
from planner.present.plan import legend, plan_table, reason, reasons
from planner.text import one_line

MOST_COLUMNS_CUT = 2
"""Maximum number of columns that are left out to make room for reasons; beyond it, reasons are printed below the table."""


def print_plan(plan: Plan, out: Console, *, each_gpu: bool, doubt: str) -> None:
    """Print the rows as a table fitted to `out`, its legend, the `doubt` about the first row, and reasons without room; `each_gpu`: as in `cut`."""
    if not plan.rows:
        return
    table = plan_table(plan)
    fit = _fitted(table, out.width)
    print_fitted(fit, [STYLES[table.style(row)] for row in plan.rows], out)
    if signs := legend(plan.rows):
        out.print(Text(signs, style="dim"))
    if chosen := chosen_text(plan):
        out.print(Text(chosen, style="dim"))
    if each_gpu and plan.counts.shown < plan.counts.considered:
        out.print(Text("showing the best row of each GPU; --top 50 lists the 50 best rows", style="dim"))
    if words := simulated_rows(plan):
        out.print(Text(words, style="dim"))
    for words in filter(None, (doubt, standing(plan))):
        out.print(Text(words, style="dim"))
    if lines := sensitivity(plan):
        out.print(Text(f"another GPU would rank first: {'; '.join(lines)}", style="dim"))
    left_out = {column.id: column.title for column in fit.left_out}
    print_left_out([title for name, title in left_out.items() if name != "why"])
    if "why" in left_out:
        out.print(Text("\nWhy", style="bold"))
        for line in reasons(plan, limit_shown="limit" not in left_out):
            out.print(Text(f"  {one_line(line)}"))


def _fitted(table: Table[PlanRow], width: int) -> TextTable:
    """Table with reasons, which name the limit only if no column does; without reasons if they need the room of too many columns."""
    *figures, why = table.columns

    def with_reasons(text: Callable[[PlanRow], str]) -> TextTable:
        return fitted(replace(table, columns=[*figures, replace(why, cell=text)]), width)

    fit = with_reasons(lambda row: reason(row, limit_shown=True))
    if any(column.id == "limit" for column in fit.left_out):
        fit = with_reasons(lambda row: row.why)
    if len(fit.left_out) <= MOST_COLUMNS_CUT:
        return fit
    bare = fitted(replace(table, columns=figures), width)
    return msgspec.structs.replace(bare, left_out=(*bare.left_out, why))
