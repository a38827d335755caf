"""`plan --time`: where the time of a row goes, operator by operator, with what each waits for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from planner.cli import listing
from planner.cli.plan_columns import device_name
from planner.cli.text_table import TextColumn, fitted
from planner.engine.answers.plan import PlanRow
from planner.engine.answers.time import BOUND_WORDS, PhaseTime, TimeDetail
from planner.units import bytes_text, digits, duration_text, percent_text, si_text

if TYPE_CHECKING:
    from rich.console import Console

COLUMNS = (
    ("", False, 90),
    ("operator", False, 100),
    ("m·n·k", True, 60),
    ("×", True, 50),
    ("FLOP", True, 55),
    ("bytes", True, 40),
    ("FLOP/B", True, 70),
    ("time", True, 95),
    ("of phase", True, 80),
    ("bound by", False, 75),
)
"""Title, whether its cells stand right, and how long the column stays on a narrow terminal."""


def print_time(row: PlanRow, detail: TimeDetail, console: Console) -> None:
    """Print the phases of one row, its operators as a table fitted to `console`, and the roofs above them."""
    from rich.text import Text

    layout = row.answer.layout
    count = layout.gpus if layout else 1
    place = f"{count:,} × {device_name(row)}{f' as {layout.text}' if layout and count > 1 else ''}"
    console.print(Text(f"\nTime of {detail.work} on {place}: {duration_text(detail.total_s)}", style="bold"))
    if detail.note:
        console.print(Text(f"  {detail.note}"))
    for phase in detail.phases():
        flop = f", {si_text(phase.flop, 'FLOP')} a GPU" if phase.flop else ""
        bound = f"bound by {BOUND_WORDS[phase.bound]} for {percent_text(phase.bound_share)} of it{flop}"
        share = percent_text(phase.seconds / detail.total_s)
        console.print(Text(f"  {phase.name:<10}{duration_text(phase.seconds):>9}{share:>7}  {bound}"), soft_wrap=True)
    lines = [line for phase in detail.phases() for line in _lines(detail, phase)]
    columns = [
        TextColumn(title, [line[place] for line in lines], right=right, keep=keep, least_width=16 if title == "operator" else None)
        for place, (title, right, keep) in enumerate(COLUMNS)
    ]
    table = fitted(columns, console.width)
    listing.print_table(console, table, [""] * len(lines))
    listing.tell_left_out(table.left_out)
    for what, reached, peak, ridge in roofs(detail):
        console.print(Text(f"  {what:<12}{reached:>14}  {peak}{ridge}"), soft_wrap=True)


def _lines(detail: TimeDetail, phase: PhaseTime) -> Iterator[tuple[str, ...]]:
    """The operators of a phase, the longest first; those too short to matter as one."""
    told, short = detail.longest(phase)
    for number, one in enumerate(told):
        yield (
            phase.name if number == 0 else "",
            one.name,
            one.shape_text,
            f"{one.count:,.0f}" if one.count else "",
            si_text(one.flop) if one.flop else "",
            bytes_text(one.bytes) if one.bytes else "",
            digits(one.intensity) if one.intensity else "",
            duration_text(one.seconds),
            percent_text(one.seconds / phase.seconds),
            BOUND_WORDS[one.bound],
        )
    if short:
        seconds = sum(one.seconds for one in short)
        share = percent_text(seconds / phase.seconds)
        yield ("", f"{len(short)} shorter ones", "", "", "", "", "", duration_text(seconds), share, "")


def roofs(detail: TimeDetail) -> list[tuple[str, str, str, str]]:
    """(what, reached, the data sheet's, aside) of compute, bandwidth and the ridge between them."""
    used = detail.flop / detail.total_s / detail.peak_flop_per_s
    aside = f"; {percent_text(used)} of that is used, recomputed FLOPs included"
    return [
        (detail.dtype, si_text(detail.flop_per_s, "FLOP/s"), f"of {si_text(detail.peak_flop_per_s, 'FLOP/s')}", aside),
        ("memory", si_text(detail.bytes_per_s, "B/s"), f"of {si_text(detail.peak_bytes_per_s, 'B/s')}", ""),
        ("ridge point", f"{digits(detail.ridge)} FLOP/B", f"{digits(detail.peak_ridge)} by the data sheet", ""),
    ]
