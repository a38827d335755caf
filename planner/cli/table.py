"""A plan as a table: for a terminal, as Markdown, as CSV."""

from __future__ import annotations

import csv
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TextIO

from planner.engine.answers import Answer, Figure, Plan, PlanRow
from planner.units import UNKNOWN, bytes_text, percent_text, si_text, usd_text

if TYPE_CHECKING:
    from rich.console import Console

BASIS_SIGNS = {"measured": "●", "transferred": "◐", "public": "○", "spec": "·"}
"""Shown beside the figure they qualify; strongest first."""
BASIS_WORDS = {
    "measured": "measured here",
    "transferred": "carried over from a part measured here",
    "public": "published measurement",
    "spec": "vendor figures",
}
VERDICT_SIGNS = {"fits": "✓", "misses-target": "~", "does-not-fit": "✗", "not-supported": "✗"}


def throughput(answer: Answer) -> Figure | None:
    """Tokens/s of the whole deployment: output tokens where there are any, else all tokens."""
    return answer.output_tokens_per_s or answer.tokens_per_s or answer.decode_tokens_per_s


def memory_share(answer: Answer) -> float | None:
    """Bytes used on the fullest GPU ÷ usable bytes."""
    memory = answer.memory_bytes
    return memory.total.value / memory.capacity if memory and memory.capacity else None


def half_range(figure: Figure) -> float | None:
    """Half of high - low, as a fraction of the value."""
    return (figure.high - figure.low) / (2 * figure.value) if figure.value else None


def _ranged(figure: Figure | None, show: Callable[[float | None], str]) -> str:
    if figure is None:
        return UNKNOWN
    spread = half_range(figure)
    return f"{show(figure.value)} ±{percent_text(spread)} {BASIS_SIGNS[figure.basis]}"


def _value(figure: Figure | None, show: Callable[[float | None], str]) -> str:
    return UNKNOWN if figure is None else show(figure.value)


def _gpus(row: PlanRow) -> str:
    here = " (here)" if row.here else ""
    count = row.answer.layout.gpus if row.answer.layout else None
    return f"{row.gpu}{here} × {count or UNKNOWN}"


class Column(NamedTuple):
    """One column of the table people read."""

    title: str
    cell: Callable[[PlanRow], str]
    right: bool = True
    least_width: int = 0
    """Columns of the terminal below which it is left out."""


COLUMNS = (
    Column("#", lambda row: str(row.rank) if row.rank else VERDICT_SIGNS[row.verdict]),
    Column("GPU × count", _gpus, right=False),
    Column("layout", lambda row: row.answer.layout.text if row.answer.layout else UNKNOWN, right=False),
    Column("memory", lambda row: percent_text(memory_share(row.answer))),
    Column("tokens/s", lambda row: _ranged(throughput(row.answer), lambda value: si_text(value).replace(" ", ""))),
    Column("$/h", lambda row: _value(row.usd_per_h, usd_text)),
    Column("$/M tok", lambda row: _value(row.answer.usd_per_million_tokens, usd_text)),
    Column("FLOP/$", lambda row: _value(row.answer.flop_per_usd, lambda value: si_text(value, "FLOP")), least_width=110),
    Column("limit", lambda row: row.answer.bottleneck or UNKNOWN, right=False, least_width=90),
    Column("why", lambda row: row.why, right=False, least_width=140),
)


def print_table(plan: Plan, console: Console) -> None:
    """Print the rows as a table fitted to `console`, the meaning of its signs below."""
    from rich.table import Table
    from rich.text import Text

    shown = [column for column in COLUMNS if console.width >= column.least_width]
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold", pad_edge=False)
    for column in shown:
        folds = column.title in {"GPU × count", "why"}
        table.add_column(column.title, justify="right" if column.right else "left", no_wrap=not folds)
    for row in plan.rows:
        style = "bold" if row.rank == 1 else "dim" if row.rank is None else ""
        table.add_row(*(Text(column.cell(row)) for column in shown), style=style)
    console.print(table)
    used = {figure.basis for row in plan.rows if (figure := throughput(row.answer))}
    legend = "   ".join(f"{sign} {BASIS_WORDS[basis]}" for basis, sign in BASIS_SIGNS.items() if basis in used)
    if legend:
        console.print(Text(f"{legend}   ± holds the truth 9 times in 10", style="dim"))


def write_markdown(plan: Plan, out: TextIO) -> None:
    """Write the rows as a GitHub table with every column."""

    def line(cells: list[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"

    out.write(line([column.title for column in COLUMNS]))
    out.write(line(["---:" if column.right else "---" for column in COLUMNS]))
    out.writelines(line([column.cell(row) for column in COLUMNS]) for row in plan.rows)


def _figure_cells(figure: Figure | None) -> list[float | str | None]:
    return [figure.value, figure.low, figure.high, figure.basis] if figure else [None, None, None, None]


FIGURES: dict[str, Callable[[PlanRow], Figure | None]] = {
    "memory_bytes_per_gpu": lambda row: row.answer.memory_bytes.total if row.answer.memory_bytes else None,
    "tokens_per_s": lambda row: throughput(row.answer),
    "usd_per_h": lambda row: row.usd_per_h,
    "usd_per_million_tokens": lambda row: row.answer.usd_per_million_tokens,
    "flop_per_usd": lambda row: row.answer.flop_per_usd,
}
"""Figures of a CSV row; each becomes four columns: value, low, high, basis."""


def write_csv(plan: Plan, out: TextIO) -> None:
    """Write the rows as CSV: SI units in the names, an empty cell for what is unknown or does not apply."""
    writer = csv.writer(out, lineterminator="\n")
    heads = [f"{name}{part}" for name in FIGURES for part in ("", "_low", "_high", "_basis")]
    writer.writerow(["rank", "verdict", "gpu", "gpus", "layout", "provider", "instance", "bottleneck", "why", *heads])
    for row in plan.rows:
        layout, offer = row.answer.layout, row.offer
        names = [row.rank, row.verdict, row.gpu, layout.gpus if layout else None, layout.text if layout else None]
        where = [offer.provider if offer else None, offer.instance if offer else None, row.answer.bottleneck, row.why]
        figures = [cell for read in FIGURES.values() for cell in _figure_cells(read(row))]
        writer.writerow([*names, *where, *figures])


def levers_text(plan: Plan) -> list[str]:
    """One line per lever: what to change, what it saves, what it costs."""
    lines = []
    for lever in plan.levers:
        keys = " ".join(f"--set {key}={value}" for key, value in lever.change.items())
        saves = f", saves {bytes_text(lever.saves_bytes)} a GPU" if lever.saves_bytes else ""
        slower = f", {percent_text(lever.slowdown)} slower" if lever.slowdown else ""
        lines.append(f"{lever.text}{saves}{slower}" + (f"  [{keys}]" if keys else ""))
    return lines
